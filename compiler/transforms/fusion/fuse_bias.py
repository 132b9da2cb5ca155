"""`--fuse-bias`: additions after a computing operation become its bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.nn import AddOp, BiasAddOp, NNOp, SubOp, WeightedOp
from ...dialects.nn.shapes import shape_of, text
from ...rewriting import Folded, FusionPattern, Remarks, Roots, layer_of
from .amct_rules import BATCH_MATMULS, CONVOLUTIONS, SUMS, amct, apart, type_of, unlisted
from .computing import ChainConditions, chain_bias, folded_parameters, rebuilt, summed, weight_of
from .fusion_pass import FusionPass, Patterns, report_unmatched
from .parameter import ParameterConditions, operand_along, parameter_of

_SHIFTED = (*CONVOLUTIONS, "Conv2DBackpropInput", "MatMul", *BATCH_MATMULS)


def _is_shape_of_amct(shape: tuple[int, ...], kind: str, channels: int) -> bool:
    """Whether AMCT makes a summand of this shape the bias of a layer of this type with so many output channels."""
    if not shape:
        return kind != "MatMul"
    if shape[-1] == channels and all(size == 1 for size in shape[:-1]):
        return True
    return kind != "MatMul" and (len(shape) == 1) == (kind in BATCH_MATMULS)


@dataclass(frozen=True)
class ComputeAdd:
    """A convolution or matrix product, and a parameter added to its result, or subtracted from it."""

    compute: WeightedOp
    between: tuple[NNOp, ...]
    arithmetic: BiasAddOp | AddOp | SubOp
    parameter: SSAValue


class FuseComputeAdd(ChainConditions, ParameterConditions, FusionPattern[ComputeAdd]):
    """op(x, w, b) + c = op(x, w, b + c), c per output channel; op is conv, conv_transpose or matmul; operations that move
    elements may be between, as the squeeze with which TensorFlow writes Conv1D (AMCT's OP+Add, PPQ)
    """

    name = "compute-add"
    roots: ClassVar[Roots] = (BiasAddOp, AddOp, SubOp)

    @amct
    def add_of_amct(self, m: ComputeAdd) -> str | None:
        """BiasAdd, or Add or AddV2, right after Conv2D, Conv3D, DepthwiseConv2dNative, Conv2DBackpropInput, MatMul or
        BatchMatMul, which have no BiasAdd then
        """
        if isinstance(m.arithmetic, BiasAddOp):
            return apart(m.between)
        if m.compute.bias is not None or any(isinstance(op, BiasAddOp) for op in m.between):
            return f"{layer_of(m.compute)} has a bias already"
        return unlisted(SUMS, m.arithmetic) or unlisted(_SHIFTED, m.compute) or apart(m.between)

    @amct
    def shape_of_amct(self, m: ComputeAdd) -> str | None:
        """a summand of Add is a scalar, except for MatMul, or has the output channels as its last axis: alone, or after axes of
        one element; more axes also otherwise for convolutions, one axis in any case for BatchMatMul
        """
        shape, kind = shape_of(m.parameter), type_of(m.compute)
        if isinstance(m.arithmetic, BiasAddOp) or _is_shape_of_amct(shape, kind, m.compute.output_channels):
            return None
        return f"the summand has the shape {text(shape)}, which AMCT does not make the bias of {kind}"

    def match(self, op: Operation) -> ComputeAdd | None:
        if not isinstance(op, BiasAddOp | AddOp | SubOp) or (found := parameter_of(op)) is None:
            return None
        return ComputeAdd(found.compute, found.between, op, found.parameter)

    def fold(self, m: ComputeAdd) -> Sequence[Folded]:
        added = -operand_along(m) if isinstance(m.arithmetic, SubOp) else operand_along(m)
        return folded_parameters(m.compute, m.arithmetic, None, summed([chain_bias(m), added]))

    def rewrite(self, m: ComputeAdd, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        return rebuilt(m, weight_of(m.compute), folded[0], m.arithmetic.result.type)


@dataclass(frozen=True)
class FuseBiasPass(FusionPass):
    """Turns an addition after a convolution or matrix product (BiasAdd, Add, Sub of a constant) into its bias."""

    name = "fuse-bias"

    PATTERNS: ClassVar[Patterns] = (FuseComputeAdd,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, BiasAddOp, AddOp, SubOp)
