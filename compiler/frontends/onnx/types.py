"""Types of values: ONNX's declarations as ranked tensors."""

from __future__ import annotations

from onnx import TypeProto
from xdsl.dialects.builtin import TensorType

from ...diagnostics import CompileError
from ...dialects.nn.shapes import DYNAMIC
from ...dtypes import Tensor, element_type
from .tensors import dtype_of


def tensor_type(type_: TypeProto, what: str, where: str) -> Tensor:
    """The tensor type that a declaration means. Raises CompileError for what is no tensor, and for one of unknown rank."""
    kind = type_.WhichOneof("value")
    if kind is None:
        raise CompileError(f"{what} is declared without a type", where=where)
    if kind != "tensor_type":
        raise CompileError(f"{what} is of a {kind.replace('_', ' ')}, only tensors are read", where=where)
    tensor = type_.tensor_type
    element = element_type(dtype_of(tensor.elem_type, f"{where}: {what}"))
    if not tensor.HasField("shape"):
        raise CompileError(
            f"the rank of {what} is unknown",
            where=where,
            hint="declare its shape, with named dimensions where sizes vary",
        )
    sizes = [d.dim_value if d.HasField("dim_value") else DYNAMIC for d in tensor.shape.dim]
    return TensorType(element, sizes)


def is_tensor(type_: TypeProto) -> bool:
    """Whether a declaration is of a tensor, and not of a sequence, a map or an optional value."""
    return type_.WhichOneof("value") == "tensor_type"


def is_ranked(type_: TypeProto) -> bool:
    """Whether a declaration is of a tensor of known element type and rank."""
    return type_.tensor_type.elem_type != 0 and type_.tensor_type.HasField("shape")


def dimension_names(type_: TypeProto) -> list[str]:
    """The names that a declaration gives to dimensions, empty for those of fixed or unnamed size."""
    dims = type_.tensor_type.shape.dim
    return [d.dim_param if not d.HasField("dim_value") else "" for d in dims]
