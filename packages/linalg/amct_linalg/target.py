"""Upstream MLIR: linalg, tensor, arith and math on tensors, as IREE and mlir-opt read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseResourceAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    result_def,
)
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint, Rewriter

from amct_opt.dialects.nn import ConstantOp
from amct_opt.dialects.nn.base import ANY_TENSOR, NNOp, Result
from amct_opt.ir.dtypes import Tensor, as_stored
from amct_opt.ir.text import module_text
from amct_opt.ir.weights import side_file_of, write_arrays
from amct_opt.session import Session
from amct_opt.support.diagnostics import op_error
from amct_opt.support.files import replacing, replacing_all
from amct_opt.targets import Target

from .lowering import lower
from .lowering.build import Builder

SCOPE = "model"
"""The scope of the parameters: `iree-run-module --parameters=model=FILE.safetensors`."""


@dataclass(frozen=True)
class LinalgTarget(Target):
    """linalg on tensors. `nn` and `ascend` are lowered first; an operation without a form is an error.

    `weights` says where arrays of more than 16 elements are: `parameters`, for IREE, in the safetensors file next to the text;
    `resources`, for mlir-opt and others, as hexadecimal resources at the end of the text.
    """

    name = "linalg"
    ending = ".mlir"

    weights: Literal["parameters", "resources"] = "parameters"

    def files(self, path: Path) -> list[Path]:
        return [path, side_file_of(path)] if self.weights == "parameters" else [path]

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        module = lowered(module, session, Builder)
        constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
        names = _unique(op.key for op in constants)
        arrays = {name: op.array for op, name in zip(constants, names, strict=True)}
        if self.weights == "resources":
            return write_with_resources(module, path)
        block = module.body.block
        for op, name in zip(constants, names, strict=True):
            Rewriter.insert_op(GlobalOp.of(name, _type(op)), InsertPoint.at_start(block))
            _replace(op, GlobalLoadOp.of(name, _type(op)))
        if not arrays:
            with replacing(path) as stream:
                stream.write(module_text(module).encode())
            return [path]
        side = side_file_of(path)
        with replacing_all(side, path) as (weights, stream):
            write_arrays(weights, arrays)
            stream.write(module_text(module).encode())
        return [path, side]


def lowered(module: ModuleOp, session: Session, builder: type[Builder]) -> ModuleOp:
    """A copy without operations of `nn` and `ascend`. Raises CompileError at the first one that has no form."""
    module = module.clone()
    lower(session, module, builder)
    if left := [op for op in module.walk() if not _is_of(op, builder.DIALECTS)]:
        first = next((op for op in left if isinstance(op, NNOp)), left[0])
        foreign = not isinstance(first, NNOp | UnrealizedConversionCastOp)
        raise op_error(first, "has no form in linalg", hint=_FOREIGN if foreign else _MISSED)
    _drop_own_attributes(module)
    return module


_MISSED = "--remarks=missed says why, for all operations"
_FOREIGN = "register a pattern that lowers it: session.register_pattern('convert-to-linalg', PATTERN)"


def _is_of(op: Operation, dialects: frozenset[str]) -> bool:
    if isinstance(op, ConstantOp):
        return True
    name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
    return name.partition(".")[0] in dialects and not isinstance(op, UnrealizedConversionCastOp)


def write_with_resources(module: ModuleOp, path: Path) -> list[Path]:
    """Writes a lowered module with its arrays in hexadecimal at its end."""
    constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
    arrays: dict[str, bytes] = {}
    for op, name in zip(constants, _unique(op.key for op in constants), strict=True):
        arrays[name] = as_stored(op.array).tobytes()
        _replace(op, arith.ConstantOp(DenseResourceAttr(StringAttr(name), _type(op))))
    with replacing(path) as stream:
        stream.write(module_text(module).encode())
        if arrays:
            stream.write(_resources(arrays).encode())
    return [path]


def _drop_own_attributes(module: ModuleOp) -> None:
    """Removes attributes of `nn`, which other tools do not know: names of inputs and outputs, and the source of the module."""
    for op in module.walk():
        for name in [n for n in op.attributes if n.startswith("nn.")]:
            del op.attributes[name]
        if isinstance(op, FuncOp):
            op.arg_attrs = None
            op.res_attrs = None


_PLAIN = "".join(chr(c) for c in range(0x20, 0x7F) if chr(c) not in '"\\%')


def _unique(keys: Iterable[str]) -> list[str]:
    """Makes keys unique by numbers, in characters that neither JSON nor MLIR escapes: IREE compares names as they are written."""
    seen: dict[str, int] = {}
    names: list[str] = []
    for key in (quote(key, safe=_PLAIN) for key in keys):
        count = seen.get(key, 0)
        seen[key] = count + 1
        names.append(key if not count else f"{key}.{count}")
    return names


def _replace(op: ConstantOp, new: Operation) -> None:
    new.location = op.location
    new.results[0].name_hint = op.result.name_hint
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.result.replace_all_uses_with(new.results[0])
    op.detach()
    op.erase()


def _type(op: ConstantOp) -> Tensor:
    return op.result.type


def _resources(blobs: dict[str, bytes]) -> str:
    """The resources at the end of a text: an alignment of 64 as 4 bytes, then the bytes."""
    rows = ",\n".join(f'      {_quoted(name)}: "0x40000000{blob.hex().upper()}"' for name, blob in blobs.items())
    return "\n{-#\n  dialect_resources: {\n    builtin: {\n" + rows + "\n    }\n  }\n#-}\n"


def _quoted(name: str) -> str:
    return name if name.replace("_", "a").replace(".", "a").isalnum() and not name[0].isdigit() else f'"{name}"'


# -- what IREE calls a parameter ---------------------------------------------------------------------------------------


@irdl_attr_definition
class ParameterAttr(ParametrizedAttribute):
    """`#flow.parameter.named<"scope"::"key">`: an array of a parameter archive."""

    name = "flow.parameter.named"

    key: StringAttr
    type: TensorType

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_string_literal(SCOPE)
        printer.print_string("::")
        printer.print_string_literal(self.key.data)
        printer.print_string("> : ")
        printer.print_attribute(self.type)


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """`util.global private @name = ...`: a value that a module has once."""

    name = "util.global"

    sym_name: StringAttr = prop_def(StringAttr)
    initial: ParameterAttr = prop_def(ParameterAttr)

    @staticmethod
    def of(key: str, type_: Tensor) -> GlobalOp:
        return GlobalOp(properties={"sym_name": StringAttr(key), "initial": ParameterAttr(StringAttr(key), type_)})

    def print(self, printer: Printer) -> None:
        printer.print_string(" private ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" = ")
        printer.print_attribute(self.initial)


@irdl_op_definition
class GlobalLoadOp(IRDLOperation):
    """`util.global.load @name`: reads it."""

    name = "util.global.load"

    sym_name: StringAttr = prop_def(StringAttr)
    result: Result = result_def(ANY_TENSOR)

    @staticmethod
    def of(key: str, type_: Tensor) -> GlobalLoadOp:
        return GlobalLoadOp(properties={"sym_name": StringAttr(key)}, result_types=[type_])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
