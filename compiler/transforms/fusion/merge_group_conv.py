"""`--merge-group-conv`: merges Split, convolutions and Concat into a grouped convolution. Not part of `--fuse-all`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from ...dialects.nn import BiasAddOp, ConcatOp, ConvOp, SplitOp, constant_of
from ...dialects.nn.base import integer
from ...dialects.nn.shapes import axis_of, shape_of, text
from ...rewriting import Folded, FusionPattern, Remarks, Roots, condition, layer_of, other_uses
from .computing import chain_bias, chain_of, constant_numbers, folded_parameters
from .fusion_pass import FusionPass, Patterns


@dataclass(frozen=True)
class ConvBranch:
    """A convolution that is joined with others."""

    compute: ConvOp
    bias_add: BiasAddOp | None

    @property
    def between(self) -> list[BiasAddOp]:
        return [] if self.bias_add is None else [self.bias_add]


@dataclass(frozen=True)
class SplitConvs:
    """Convolutions of the parts of a tensor, whose results are joined."""

    split: SplitOp
    convs: tuple[ConvOp, ...]
    bias_adds: tuple[BiasAddOp, ...]
    concat: ConcatOp
    branches: tuple[ConvBranch, ...]

    @property
    def first(self) -> ConvOp:
        return self.convs[0]


class MergeGroupConv(FusionPattern[SplitConvs]):
    """concat(conv(x1, w1, b1), conv(x2, w2, b2), ...) of the parts of one split is the convolution of the whole with groups,
    its weights and biases those of the branches one after the other (beyond AMCT, which only folds batch norm into the branches)
    """

    name = "split-conv-concat"
    roots: ClassVar[Roots] = (ConcatOp,)

    @condition
    def parts_in_order(self, m: SplitConvs) -> str | None:
        """branch i takes part i of the split, and every part is taken"""
        if [conv.input for conv in m.convs] == list(m.split.parts):
            return None
        return f"its branches do not take the {len(m.split.parts)} parts of {layer_of(m.split)} in order"

    @condition
    def used_once(self, m: SplitConvs) -> str | None:
        """the results of the branches and the parts of the split are used once (a graph output is a use)"""
        for op in (m.split, *m.convs, *m.bias_adds):
            for result in op.results:
                if (reason := other_uses(result, layer_of(op))) is not None:
                    return reason
        return None

    @condition
    def on_channels(self, m: SplitConvs) -> str | None:
        """split, concat and every BiasAdd work on the channels"""
        rank = len(shape_of(m.first.input))
        channels = m.first.output_axis
        axes: list[tuple[Operation, int]] = [
            (m.split, axis_of(m.split.axis.value.data, rank)),
            (m.concat, axis_of(m.concat.axis.value.data, rank)),
            *((op, op.channel_axis(rank)) for op in m.bias_adds),
        ]
        for op, axis in axes:
            if axis != channels:
                return f"{layer_of(op)} works on axis {axis}, the channels are axis {channels}"
        return None

    @condition
    def equal_parts(self, m: SplitConvs) -> str | None:
        """the parts of the split are equal"""
        sizes = list(m.split.sizes.get_values())
        return None if len(set(sizes)) == 1 else f"the split makes parts of {sizes}"

    @condition
    def same_attributes(self, m: SplitConvs) -> str | None:
        """the convolutions agree in strides, pads, dilations, groups and layout"""
        expected = _attributes(m.first)
        other = next((conv for conv in m.convs if _attributes(conv) != expected), None)
        return None if other is None else f"{layer_of(other)} has other attributes than {layer_of(m.first)}"

    @condition
    def equal_weights(self, m: SplitConvs) -> str | None:
        """the weights are constant, of one shape"""
        expected = shape_of(m.first.weight)
        for conv in m.convs:
            if constant_of(conv.weight) is None:
                return f"the weight of {layer_of(conv)} is computed at run time"
            if (shape := shape_of(conv.weight)) != expected:
                return f"the weight of {layer_of(conv)} is {text(shape)}, that of {layer_of(m.first)} {text(expected)}"
        return None

    @condition
    def biases_constant(self, m: SplitConvs) -> str | None:
        """the biases, where there are any, are constant; a branch without one adds zeros"""
        for b in m.branches:
            for value in (b.compute.bias, None if b.bias_add is None else b.bias_add.bias):
                if value is not None and constant_of(value) is None:
                    return f"the bias of {layer_of(b.compute)} is computed at run time"
        return None

    def match(self, op: Operation) -> SplitConvs | None:
        if not isinstance(op, ConcatOp) or len(op.inputs) < 2:
            return None
        branches: list[ConvBranch] = []
        for value in op.inputs:
            if (chain := chain_of(value)) is None or not isinstance(conv := chain[0], ConvOp):
                return None
            branches.append(ConvBranch(conv, chain[1]))
        match branches[0].compute.input:
            case OpResult(op=SplitOp() as split):
                convs = tuple(b.compute for b in branches)
                bias_adds = tuple(b.bias_add for b in branches if b.bias_add is not None)
                return SplitConvs(split, convs, bias_adds, op, tuple(branches))
            case _:
                return None

    def fold(self, m: SplitConvs) -> Sequence[Folded]:
        weight = np.concatenate([constant_numbers(conv.weight) for conv in m.convs])
        biases = [chain_bias(b) for b in m.branches]
        if all(b is None for b in biases):
            return folded_parameters(m.first, m.first, weight, None)
        zeros = np.zeros(m.first.output_channels)
        return folded_parameters(m.first, m.first, weight, np.concatenate([zeros if b is None else b for b in biases]))

    def rewrite(self, m: SplitConvs, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, *bias = folded
        merged = m.first.with_operands(
            input=m.split.input, weight=weight, bias=bias[0] if bias else None, result_type=m.concat.result.type
        )
        merged.groups = integer(m.first.group_count * len(m.convs))
        return [merged]


def _attributes(conv: ConvOp) -> tuple[object, ...]:
    return conv.stride_list, conv.pad_list, conv.auto_pad, conv.dilation_list, conv.group_count, conv.layout


@dataclass(frozen=True)
class MergeGroupConvPass(FusionPass):
    """Merges the convolutions between a Split and a Concat of channels into one grouped convolution."""

    name = "merge-group-conv"

    PATTERNS: ClassVar[Patterns] = (MergeGroupConv,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        """Does nothing: the pattern itself has a remark for every Concat of convolutions after a Split."""
