"""`--infer-shapes`: refines result types from operand types, in one forward walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ..dialects.nn import FusedOp, NNOp, set_type
from ..dialects.nn.shapes import DYNAMIC, Shape, compatible, known, merge_dim, merge_shape, tensor, tensor_of
from ..ir.dtypes import Tensor
from ..ir.functions import input_dimensions, input_names, main_function
from ..pipelines.options import shapes, shapes_of
from ..support.diagnostics import CompileError, describe, op_error


@dataclass(frozen=True)
class InferShapesPass(ModulePass):
    """An analysis: each dimension gets the more exact of the declared size and the one that the operands imply.

    `input_shape` sets sizes of inputs first: `data:1x3x224x224;ids:?x16` (`?` leaves a size open). A dimension with a name
    gets its size in every input that has it. Raises CompileError, located, for an unknown input and for sizes that
    contradict each other.
    """

    name = "infer-shapes"

    input_shape: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.input_shape:
            set_input_shapes(main_function(op), parse_input_shapes(self.input_shape))
        infer_shapes(op)


def parse_input_shapes(text: str) -> dict[str, Shape]:
    """`data:1x3x?;flag:` -> `{"data": (1, 3, DYNAMIC), "flag": ()}`. Raises CompileError for malformed text."""
    given = shapes(text, "x", "--infer-shapes: input-shape")
    return {name: tuple(DYNAMIC if d < 0 else d for d in sizes) for name, sizes in given.items()}


def set_input_shapes(function: FuncOp, given: dict[str, Shape]) -> None:
    """Gives inputs, by name, these sizes; dimensions with the same name have the same size. Result types are left to
    `infer_shapes`.

    Raises CompileError, located at the function, for an unknown input and for a size that contradicts another.
    """
    names, where = input_names(function), describe(function.location)
    given = shapes_of(names, given, where)
    arguments = list(zip(names, function.body.block.args, input_dimensions(function), strict=True))
    merged: list[Shape] = []
    sizes: dict[str, int] = {}
    for name, argument, dims in arguments:
        declared = tensor_of(argument).get_shape()
        try:
            shape = merge_shape(declared, given.get(name, declared), "declared and given sizes")
            for dim, d in zip(dims, shape, strict=False):
                if dim:
                    sizes[dim] = merge_dim(sizes.get(dim, DYNAMIC), d, f"sizes of dimension '{dim}'")
        except VerifyException as e:
            raise CompileError(f"input '{name}': {e}", where=where) from None
        merged.append(shape)
    for (_, argument, dims), shape in zip(arguments, merged, strict=True):
        padded = [*dims, *[""] * (len(shape) - len(dims))]
        final = [d if known(d) else sizes.get(dim, DYNAMIC) for d, dim in zip(shape, padded, strict=True)]
        set_type(argument, tensor(tensor_of(argument).element_type, final))


def infer_shapes(module: ModuleOp) -> None:
    """Refines all result types and the functions' types. Raises CompileError at a contradicting operation."""
    for function in [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]:
        _infer_block(function.body.block)
        function.update_function_type()


def _infer_block(block: Block) -> None:
    for op in block.ops:
        if isinstance(op, NNOp | FusedOp):
            refine(op)


def refine(op: NNOp | FusedOp) -> bool:
    """Merges the inferred result types into the declared ones; True if a type changed. Raises CompileError, located."""
    try:
        inferred = _inferred(op)
    except VerifyException as e:
        raise op_error(op, str(e)) from None
    changed = False
    for result, type_ in zip(op.results, inferred, strict=True):
        declared = tensor_of(result)
        if not compatible(declared, type_):
            raise op_error(op, f"result is declared {declared}, operands and properties give {type_}")
        shape = merge_shape(declared.get_shape(), type_.get_shape())
        if shape != declared.get_shape():
            set_type(result, tensor(declared.element_type, shape))
            changed = True
    return changed


def _inferred(op: NNOp | FusedOp) -> Sequence[Tensor]:
    if isinstance(op, FusedOp):
        for argument, value in zip(op.body.block.args, op.inputs, strict=True):
            set_type(argument, value.type)
        _infer_block(op.body.block)
    return op.infer()
