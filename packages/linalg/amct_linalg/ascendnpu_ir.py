"""AscendNPU-IR: upstream MLIR and hfusion in the forms that Huawei's `bishengir-opt` lowers to hivm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer

from amct_opt.session import Session
from amct_opt.targets import Target

from .lowering import WholeBuilder
from .target import lowered, write_with_resources


@dataclass(frozen=True)
class AscendNpuIrTarget(Target):
    """AscendNPU-IR: operations on whole tensors, convolutions as im2col and matmul, functions as entries of the device.

    `nn` and `ascend` are lowered first; an operation without a form, or of unknown sizes, is an error. Arrays of more than 16
    elements are hexadecimal resources at the end of the text.
    """

    name = "ascendnpu-ir"
    ending = ".mlir"

    def files(self, path: Path) -> list[Path]:
        return [path]

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        module = lowered(module, session, WholeBuilder)
        for function in [op for op in module.ops if isinstance(op, FuncOp)]:
            function.attributes |= {"hacc.entry": UnitAttr(), "hacc.function_kind": FunctionKindAttr()}
            _erase_unused(function)
        return write_with_resources(module, path)


def _erase_unused(function: FuncOp) -> None:
    """Erases operations without readers: results of rules are not always needed as tensors."""
    for op in reversed(list(function.body.block.ops)):
        if op.results and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


@irdl_attr_definition
class FunctionKindAttr(ParametrizedAttribute):
    """`#hacc.function_kind<DEVICE>`: the function runs on the device."""

    name = "hacc.function_kind"

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<DEVICE>")
