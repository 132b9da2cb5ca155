"""A compiler in one file for a device that adds int8 values of two scales: dialect, profile, lowering and assembler.

python examples/embedding/device.py MODEL DATA OUT

OUT gets the program of the device, an instruction a line. It computes what quantization simulated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

import amct_opt
from amct_opt import Executable, Row, Session, Target, expands, kernel
from amct_opt.dialects import nn
from amct_opt.dialects.nn.elementwise import BinaryOp
from amct_opt.dialects.nn.expansions import Steps
from amct_opt.dialects.nn.shapes import shape_of, tensor
from amct_opt.rewriting import rewrite
from amct_opt.support.files import replacing
from amct_opt.transforms.quantization.profiles import QDQ

Array = np.ndarray[Any, np.dtype[Any]]


@irdl_op_definition
class SumOp(BinaryOp):
    """`lhs + rhs`, float32 tensors of one shape."""

    name = "device.sum"


@irdl_op_definition
class SumInt8Op(BinaryOp):
    """`(lhs - zero_l) * scale_l + (rhs - zero_r) * scale_r`, int8 tensors of one shape to float32."""

    name = "device.sum_int8"

    of_lhs: nn.QParamsAttr = prop_def(nn.QParamsAttr)
    of_rhs: nn.QParamsAttr = prop_def(nn.QParamsAttr)

    def infer(self) -> Sequence[TensorType[Attribute]]:
        return [tensor(f32, shape_of(self.lhs))]


@kernel(SumOp)
def run_sum(op: SumOp) -> Callable[[Array, Array], Array]:
    """How the interpreter computes it: made once per operation, then called with arrays."""
    return lambda a, b: a + b


@kernel(SumInt8Op)
def run_sum_int8(op: SumInt8Op) -> Callable[[Array, Array], Array]:
    def reals(x: Array, of: nn.QParamsAttr) -> Array:
        return (x.astype(np.float32) - of.data.zero_points()) * of.data.scales()

    return lambda a, b: reals(a, op.of_lhs) + reals(b, op.of_rhs)


@expands(SumOp)
def steps(b: Steps, x: SSAValue, y: SSAValue) -> SSAValue:
    """For targets that do not know the device, such as ONNX."""
    return b.add(x, y)


class ToDevice(RewritePattern):
    """Sums of two computed values of one shape."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.AddOp, rewriter: PatternRewriter, /) -> None:
        if op.lhs.type == op.rhs.type and None is nn.constant_of(op.lhs) is nn.constant_of(op.rhs):
            rewriter.replace(op, [SumOp.make(op.lhs, op.rhs, origin=op.origin)])


class ToIntegers(RewritePattern):
    """Sums whose operands are int8."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SumOp, rewriter: PatternRewriter, /) -> None:
        a, b = nn.dequantize_of(op.lhs), nn.dequantize_of(op.rhs)
        if a is not None and b is not None:
            made = SumInt8Op.make(a.input, b.input, of_lhs=a.qparams, of_rhs=b.qparams, origin=op.origin)
            rewriter.replace(op, [made])


PROFILE = replace(QDQ, name="device", rows={**QDQ.rows, SumOp: Row(two_inputs=True, symmetric=True)})
"""What the device computes in integers: what onnxruntime does, and sums."""


@dataclass(frozen=True)
class Assembler(Target):
    """A line for each operation: its name, operands and type."""

    name = "device-assembler"
    ending = ".s"

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        numbers: dict[SSAValue, str] = {}
        lines: list[str] = []
        for op in module.walk():
            for value in op.results:
                numbers[value] = f"r{len(numbers)}"
                operands = ", ".join(numbers.get(operand, "in") for operand in op.operands)
                lines.append(f"{numbers[value]} = {op.name} {operands} : {value.type}\n")
        with replacing(path) as stream:  # all of it or nothing
            stream.write("".join(lines).encode())
        return [path]


def main(model: Path, data: Path, out: Path) -> int:
    """Writes the program; returns how many of its outputs for the first samples differ from the simulation."""
    session = amct_opt.new_session()
    session.register_dialect("device", lambda: Dialect("device", [SumOp, SumInt8Op]))
    session.register_profile(PROFILE)
    session.register_target(Assembler)
    session.profile = PROFILE.name
    module, _ = amct_opt.load(model, session)
    amct_opt.run_pipeline(module, "fuse-bn", session)
    rewrite(module, ToDevice())
    amct_opt.quantize(module, session, data=data)
    samples = {name: np.load(data)[name][:8] for name in Executable(module).inputs}
    simulated = Executable(module).run(samples)
    rewrite(module, ToIntegers())
    computed = Executable(module).run(samples)
    print(*amct_opt.save(module, out, session, Assembler.name))
    return sum(int((computed[name] != array).sum()) for name, array in simulated.items())


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])) > 0)
