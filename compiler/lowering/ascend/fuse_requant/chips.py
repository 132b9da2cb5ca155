"""Requantization on each chip as the graph engine of CANN does it: which AscendDequants and AscendQuants it merges, and how.

Its conditions are those of the open passes `V100RequantFusionPass`, `V200RequantFusionPass` and of the fixpipe fusions. Steps
between integers and integers are a `Chain`: AscendDequants, an activation after each or none, perhaps a Concat of them with an
activation after it, and AscendQuants.

* *merged* (V200): each AscendDequant becomes AscendRequant, a Relu its flag.
* *scaled* (V100; on V200 where Relu6 or LeakyRelu is between): deq_scale is multiplied by AscendQuant's scale, which becomes 1,
  and Relu6 becomes Relu6D. On V100 deq_scale is float16, a square root where it would be too small.
* *fixpipe* (310B, A2, 950): the matrix engine gives the integers, by scales without their last 13 bits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.ascend import (
    AscendDequantOp,
    AscendQuantOp,
    AscendRequantOp,
    AvgPoolOp,
    AvgPoolV2Op,
    ConcatV2Op,
    Conv2DOp,
    CubeOp,
    LeakyReluOp,
    Relu6DOp,
    Relu6Op,
    ReluOp,
)
from ....dialects.ascend.base import FormatOp, i8
from ....dialects.ascend.quantization import DEFAULT_MODE
from ....dialects.ascend.shape import one_index
from ....dialects.nn import array_of, constant_of
from ....dialects.nn.base import real
from ....dialects.nn.shapes import known, shape_of, static
from ....ir.functions import producer_of
from ....ir.precision import shortened
from ....rewriting import Array, Folded, FusionPattern, Remarks, Roots, condition, layer_of, other_uses
from ....runtime.affine import are_normal
from .requant import DequantQuant, DequantRelu, FuseReluFlag, FuseRequant

Chip = Literal["v100", "v200", "310b", "a2", "950"]
"""Ascend 310 and 910; 310P; 310B; 910B and 910C (Atlas A2 and A3); 950."""

_NEAR = 1e-5
"""The engine takes scales of AscendQuants as equal up to this difference, and a slope below it as 0."""
_SMALLEST, _LARGEST = 2.0**-14, 65504.0
"""The least deq_scale that V100 takes as it is, and the largest float16."""
_ALIGNED = {8: 32, 4: 64}
"""The multiple of channels that a Concat along channels needs, by bits of the integers; 16 for other types."""

_Activation = ReluOp | LeakyReluOp | Relu6Op


@dataclass(frozen=True)
class Chain:
    """Steps from integers to integers."""

    dequants: tuple[AscendDequantOp, ...]
    activations: tuple[_Activation, ...]
    """The operations that read the results of the dequants."""
    concat: ConcatV2Op | None
    outer: _Activation | None
    """The activation after the Concat."""
    quants: tuple[AscendQuantOp, ...]

    @property
    def every_activation(self) -> tuple[_Activation, ...]:
        return (*self.activations, *((self.outer,) if self.outer is not None else ()))

    @property
    def merges(self) -> bool:
        """Whether no activation is between, or only those that become a flag."""
        return all(map(_is_flag, self.every_activation))

    @property
    def scale(self) -> float:
        """The scale of the integers: the engine takes that of the first AscendQuant."""
        return self.quants[0].scale.value.data


def _is_flag(op: Operation) -> bool:
    """Whether an activation is Relu, in any of its forms."""
    return isinstance(op, ReluOp) or (isinstance(op, LeakyReluOp) and abs(op.negative_slope.value.data) < _NEAR)


def _users(value: SSAValue) -> list[Operation]:
    """The readers of a value, in the order of the program."""
    users = [use.operation for use in value.uses]
    if len(users) < 2 or (block := users[0].parent) is None:
        return users
    wanted, found = set(users), list[Operation]()
    op = value.owner.next_op if isinstance(value.owner, Operation) else block.first_op
    while op is not None and len(found) < len(wanted):
        found += [op] if op in wanted else []
        op = op.next_op
    return found


def _behind(dequant: AscendDequantOp) -> Chain | None:
    """The chain of one AscendDequant that nothing joins; None if no AscendQuant is after it."""
    readers = _users(dequant.y)
    activations = tuple(op for op in readers if isinstance(op, _Activation))
    ends = [*readers, *(user for op in activations for user in _users(op.y))]
    quants = tuple(op for op in ends if isinstance(op, AscendQuantOp))
    return Chain((dequant,), activations, None, None, quants) if quants else None


def _before(quant: AscendQuantOp) -> Chain | None:
    """The chain of an AscendQuant after a Concat of AscendDequants."""
    op = producer_of(quant.x)
    outer = op if isinstance(op, _Activation) else None
    concat = op if outer is None else producer_of(outer.x)
    if not isinstance(concat, ConcatV2Op):
        return None
    inputs = [producer_of(value) for value in concat.x]
    activations = tuple(each for each in inputs if isinstance(each, _Activation))
    dequants = [producer_of(each.x) if isinstance(each, _Activation) else each for each in inputs]
    found = tuple(each for each in dequants if isinstance(each, AscendDequantOp))
    return Chain(found, activations, concat, outer, (quant,)) if len(found) == len(inputs) else None


class _OfChain(FusionPattern[Chain]):
    """The conditions of all chains."""

    def subject(self, m: Chain, root: Operation) -> Operation:
        return m.dequants[0] if m.concat is None else m.quants[0]

    @condition
    def rounds_to_nearest(self, m: Chain) -> str | None:
        """round_mode of every AscendQuant is Round"""
        modes = (f"{layer_of(q)} has round_mode {q.round_mode.data}" for q in m.quants if q.round_mode.data != "Round")
        return next(modes, None)

    @condition
    def no_sqrt_mode(self, m: Chain) -> str | None:
        """sqrt_mode is off everywhere"""
        squared = any(op.sqrt_mode.value.data for op in (*m.dequants, *m.quants))
        return "a scale of it is a square root (sqrt_mode)" if squared else None

    @condition
    def no_shift(self, m: Chain) -> str | None:
        """the accumulators are taken whole (no shift_n)"""
        return next((f"{layer_of(d)} has shift_n" for d in m.dequants if d.shifts), None)

    @condition
    def default_precision(self, m: Chain) -> str | None:
        """fakequant_precision_mode is DEFAULT: the other one has no arithmetic of chips"""
        forced = (op for op in (*m.dequants, *m.quants) if op.fakequant_precision_mode != DEFAULT_MODE)
        return next(
            (f"{layer_of(op)} has fakequant_precision_mode {op.fakequant_precision_mode.data}" for op in forced), None
        )

    @condition
    def relu_used_once(self, m: Chain) -> str | None:
        """every activation has one reader"""
        reasons = (other_uses(op.y, layer_of(op)) for op in m.every_activation)
        return next((reason for reason in reasons if reason is not None), None)

    @condition
    def one_kind_of_branch(self, m: Chain) -> str | None:
        """activations follow all AscendDequants and readers or none, and all of them are Relu or none is"""
        if m.concat is None and m.activations and len(m.activations) != len(_users(m.dequants[0].y)):
            return "some readers of it are activations, others are not"
        if len({_is_flag(op) for op in m.every_activation}) > 1:
            return "some activations after it are Relu, others are not"
        return None

    @condition
    def integer_readers(self, m: Chain) -> str | None:
        """every reader, after an activation where one is between, is AscendQuant"""
        if m.concat is None:
            ends = [op for op in _users(m.dequants[0].y) if op not in m.activations]
            ends += [user for op in m.activations for user in _users(op.y)]
            return next((f"'{op.name}' {layer_of(op)} reads floats" for op in ends if op not in m.quants), None)
        between = [*m.dequants, m.concat]
        return next((reason for op in between if (reason := other_uses(op.results[0], layer_of(op))) is not None), None)

    @condition
    def close_scales(self, m: Chain) -> str | None:
        """scales of AscendQuant are within 1e-5 of the first one's; offsets are not compared, the last one counts"""
        apart = (q for q in m.quants if abs(q.scale.value.data - m.scale) > _NEAR)
        return next((f"{layer_of(q)} has the scale {q.scale.value.data:.8g}, not {m.scale:.8g}" for q in apart), None)

    @condition
    def scale_in_range(self, m: Chain) -> str | None:
        """deq_scale times scale is a normal float32 number"""
        normal = all(are_normal(_multiplied(d, m.scale)) for d in m.dequants)
        return None if normal else "deq_scale times scale leaves the normal range of float32"

    def match(self, op: Operation) -> Chain | None:
        chain = _behind(op) if isinstance(op, AscendDequantOp) else _before(cast(AscendQuantOp, op))
        return chain if chain is not None and self.takes(chain) else None

    @abstractmethod
    def takes(self, m: Chain) -> bool:
        """Whether a chain is one of the pattern's."""


class _OfDequant(_OfChain):
    roots: ClassVar[Roots] = (AscendDequantOp,)


class _OfConcat(_OfChain):
    roots: ClassVar[Roots] = (AscendQuantOp,)


class _ForV200(_OfChain):
    """The conditions of V200."""

    @condition
    def no_padded_average(self, m: Chain) -> str | None:
        """no AscendDequant is after an average pool that is padded (padding SAME, or padding_mode SAME or CALCULATED)"""
        return next((f"{layer_of(d)} is after a padded average pool" for d in m.dequants if _averages(d)), None)

    @condition
    def aligned_channels(self, m: Chain) -> str | None:
        """the inputs of a Concat along channels have multiples of 32 channels for int8 (64 for int4, 16 for others)"""
        if m.concat is None:
            return None
        axis = one_index("concat_dim", m.concat.concat_dim) % len(shape_of(m.concat.output_data))
        if axis != _channel_axis(m.dequants[0]):
            return None
        multiple = _ALIGNED.get(m.quants[0].storage.width.data, 16)
        sizes = [shape_of(value)[axis] for value in m.concat.x]
        wrong = [size for size in sizes if not known(size) or size % multiple]
        return f"{layer_of(m.concat)} joins {wrong[0]} channels, no multiple of {multiple}" if wrong else None

    @condition
    def gives_int8(self, m: Chain) -> str | None:
        """AscendQuants give int8: other types need a quant mode (high precision) that files do not state"""
        return next((f"{layer_of(q)} gives {q.storage}" for q in m.quants if q.storage != i8), None)


def _averages(dequant: AscendDequantOp) -> bool:
    pool = producer_of(dequant.x)
    if isinstance(pool, AvgPoolV2Op):
        return pool.padding_mode.data in ("SAME", "CALCULATED")
    return isinstance(pool, AvgPoolOp) and pool.padding.data == "SAME"


def _channel_axis(dequant: AscendDequantOp) -> int:
    """The axis of channels: that of the layer's format, else axis 1."""
    layer = producer_of(dequant.x)
    return layer.channel_axis if isinstance(layer, FormatOp) else 1


def _deq_scales(dequant: AscendDequantOp) -> Array:
    array = array_of(dequant.deq_scale)
    assert array is not None, "the verifier asks for one"
    return array


def _multiplied(dequant: AscendDequantOp, scale: float) -> Array:
    """`deq_scale * scale` in float32."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(_deq_scales(dequant) * np.float32(scale))


def _key(dequant: AscendDequantOp, ending: str) -> str:
    constant = constant_of(dequant.deq_scale)
    assert constant is not None, "the verifier asks for one"
    return f"{constant.key.removesuffix('_deq_scale')}_{ending}"


def _relu_of(m: Chain, dequant: AscendDequantOp) -> bool:
    """Whether Relu follows an AscendDequant, as its flag or after it."""
    return bool(dequant.relu_flag.value.data) or (bool(m.every_activation) and m.merges and _has_activation(m, dequant))


def _has_activation(m: Chain, dequant: AscendDequantOp) -> bool:
    return m.outer is not None or any(op.x.owner is dequant for op in m.activations)


class _Merges(_ForV200):
    """AscendDequant(s) -> AscendRequant(s) of deq_scale * scale and the last offset; Relu is relu_flag, but at offset -128, where
    saturation does the same
    """

    def takes(self, m: Chain) -> bool:
        return m.merges

    def fold(self, m: Chain) -> Sequence[Folded]:
        return [Folded(_key(d, "req_scale"), np.dtype(np.float32), _multiplied(d, m.scale)) for d in m.dequants]

    def requants(self, m: Chain, folded: Sequence[SSAValue]) -> list[AscendRequantOp]:
        offset = m.quants[-1].offset
        return [
            AscendRequantOp.make(
                d.x,
                scales,
                offset=offset,
                relu_flag=_relu_of(m, d) and offset.value.data != -128,
                origin=d.origin,
                name=m.quants[0].y.name_hint if m.concat is None else d.y.name_hint,
            )
            for d, scales in zip(m.dequants, folded, strict=True)
        ]


class MergeForV200(_Merges, _OfDequant):
    """AscendQuants(Relu(AscendDequant(x))) = AscendRequant(x), one for all of them"""

    name = "requant"

    def rewrite(self, m: Chain, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        (made,) = self.requants(m, folded)
        for quant in m.quants:
            quant.y.replace_all_uses_with(made.y)
        return [made]


class MergeConcatForV200(_Merges, _OfConcat):
    """AscendQuant(Relu(Concat(AscendDequant(x), ...))) = Concat(AscendRequant(x), ...)"""

    name = "requant-concat"

    def rewrite(self, m: Chain, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        assert m.concat is not None
        made = self.requants(m, folded)
        return [*made, _joined(m.concat, [each.y for each in made], m.quants[0].y.name_hint)]


def _joined(concat: ConcatV2Op, values: Sequence[SSAValue], name: str | None) -> ConcatV2Op:
    return ConcatV2Op.make(values, concat.concat_dim, N=len(values), origin=concat.origin, name=name)


class Scales(_OfChain):
    """deq_scale is multiplied by AscendQuant's scale, which becomes 1; Relu is relu_flag, Relu6 is Relu6D with the scale"""

    half: ClassVar[bool] = False
    """Whether deq_scale is float16 (V100): below 2^-14 all of a layer's scales are square roots, with sqrt_mode."""

    def __init__(self, remarks: Remarks, scaled: set[Operation]) -> None:
        """AscendDequants and AscendQuants whose scales have moved are added to `scaled` (the engine's tag)."""
        super().__init__(remarks)
        self.done = scaled

    def fold(self, m: Chain) -> Sequence[Folded]:
        return [
            Folded(_key(d, "deq_scale"), np.dtype(np.float32), self.stored(_multiplied(d, m.scale))[0])
            for d in m.dequants
        ]

    def stored(self, scales: Array) -> tuple[Array, bool]:
        """Scales as the chip has them, and whether they are square roots."""
        if not self.half:
            return scales, False
        squared = bool((scales < _SMALLEST).any())
        roots = np.sqrt(scales) if squared else scales
        with np.errstate(over="ignore"):
            return roots.astype(np.float16).astype(np.float32), squared

    def scaled(self, m: Chain, folded: Sequence[SSAValue]) -> list[AscendDequantOp]:
        """The AscendDequants by their new scales; AscendQuants get the scale 1."""
        made = [
            AscendDequantOp.make(
                d.x,
                scales,
                sqrt_mode=self.stored(_multiplied(d, m.scale))[1],
                relu_flag=_relu_of(m, d),
                dtype=d.dtype,
                origin=d.origin,
                name=d.y.name_hint,
            )
            for d, scales in zip(m.dequants, folded, strict=True)
        ]
        self.done.update(made)
        return made

    def outcome(self, built: Operation) -> str:
        return "deq_scale has the scale of AscendQuant, which is 1 now"


def _scaled_activation(op: _Activation, x: SSAValue, scale: float) -> LeakyReluOp | Relu6Op | Relu6DOp:
    """The activation of numbers that are `scale` times as large; the engine leaves Relu6 at a scale of 1."""
    properties: dict[str, Any] = {"origin": op.origin, "location": op.location, "name": op.y.name_hint}
    if isinstance(op, LeakyReluOp):
        return LeakyReluOp.make(x, negative_slope=op.negative_slope, **properties)
    return Relu6Op.make(x, **properties) if scale == 1 else Relu6DOp.make(x, scale=scale, **properties)


class _ScalesFan(Scales, _OfDequant):
    def takes(self, m: Chain) -> bool:
        return m.dequants[0] not in self.done

    def rewrite(self, m: Chain, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        made, scale = self.scaled(m, folded), m.scale
        for op in m.activations:
            value = op.x
            if not _is_flag(op):
                activation = _scaled_activation(op, op.x, scale)
                Rewriter.insert_op(activation, InsertPoint.before(op))
                value = activation.y
            op.y.replace_all_uses_with(value)
        for quant in m.quants:
            quant.scale = real(1.0)
        return made


class _ScalesConcat(Scales, _OfConcat):
    def takes(self, m: Chain) -> bool:
        return m.quants[0] not in self.done

    def rewrite(self, m: Chain, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        assert m.concat is not None
        built: list[Operation] = [*(made := self.scaled(m, folded))]

        def activated(op: _Activation | None, x: SSAValue) -> SSAValue:
            if op is None or _is_flag(op):
                return x
            built.append(activation := _scaled_activation(op, x, m.scale))
            return activation.y

        between = {op.x.owner: op for op in m.activations}
        values = [activated(between.get(old), new.y) for old, new in zip(m.dequants, made, strict=True)]
        built.append(joined := _joined(m.concat, values, m.concat.output_data.name_hint))
        (quant,) = m.quants
        last = AscendQuantOp.make(
            activated(m.outer, joined.output_data),
            scale=1.0,
            offset=quant.offset,
            dst_type=quant.dst_type,
            origin=quant.origin,
            name=quant.y.name_hint,
        )
        self.done.add(last)
        return [*built, last]


class ScaleForV200(_ScalesFan, _ForV200):
    """AscendQuant(Relu6(AscendDequant(x))) = AscendQuant with scale 1 of Relu6D of AscendDequant by deq_scale * scale"""

    name = "scaled"

    def takes(self, m: Chain) -> bool:
        return super().takes(m) and not m.merges


class ScaleConcatForV200(_ScalesConcat, _ForV200):
    """AscendQuant(Concat(Relu6(AscendDequant(x)), ...)) likewise"""

    name = "scaled-concat"

    def takes(self, m: Chain) -> bool:
        return super().takes(m) and not m.merges


class _ForV100(Scales):
    """The condition of V100."""

    half = True

    @condition
    def float16_scale(self, m: Chain) -> str | None:
        """deq_scale times scale, or its square root, is a float16 number that is not 0"""
        found = [self.stored(_multiplied(d, m.scale))[0] for d in m.dequants]
        fits = all(bool(((each > 0) & (each <= _LARGEST)).all()) for each in found)
        return None if fits else "deq_scale times scale is beyond float16"


class ScaleForV100(_ScalesFan, _ForV100):
    """AscendQuant(Relu(AscendDequant(x))) = AscendQuant with scale 1 of AscendDequant by deq_scale * scale in float16"""

    name = "scaled"


class ScaleConcatForV100(_ScalesConcat, _ForV100):
    """AscendQuant(Concat(AscendDequant(x), ...)) likewise"""

    name = "scaled-concat"


class FuseSingleRelu(FuseReluFlag):
    """Relu(AscendDequant(x)) = AscendDequant(x) with relu_flag, where Relu has one reader"""

    @condition
    def relu_used_once(self, m: DequantRelu) -> str | None:
        """Relu has one reader"""
        return other_uses(m.relu.y, layer_of(m.relu))


class FuseFixpipe(FuseRequant):
    """AscendQuant(AscendDequant(x)) = AscendRequant(x) by the matrix engine: deq_scale * scale without the last 13 bits"""

    @condition
    def cube_before(self, m: DequantQuant) -> str | None:
        """the sums are those of the matrix engine"""
        return (
            None
            if isinstance(producer_of(m.dequant.x), CubeOp)
            else f"{layer_of(m.dequant)} is not after a cube operation"
        )

    @condition
    def static_sizes(self, m: DequantQuant) -> str | None:
        """all sizes are known"""
        return None if static(shape_of(m.dequant.x)) else "a size is not known before run time"

    def fold(self, m: DequantQuant) -> Sequence[Folded]:
        return [each._replace(values=shortened(each.values.astype(np.float32))) for each in super().fold(m)]


class FuseDual(FuseFixpipe):
    """A convolution whose sums may have two readers: integers, and reals or other integers"""

    @condition
    def dequant_used_once(self, m: DequantQuant) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """AscendDequant has at most two readers"""
        count = len(_users(m.dequant.y))
        return None if count <= 2 else f"the result of {layer_of(m.dequant)} has {count} readers"

    @condition
    def cube_before(self, m: DequantQuant) -> str | None:
        """the sums are those of Conv2D"""
        return None if isinstance(producer_of(m.dequant.x), Conv2DOp) else f"{layer_of(m.dequant)} is not after Conv2D"


BY_CHIP: Mapping[Chip | None, Sequence[tuple[type[FusionPattern[Any]], ...]]] = {
    None: ((FuseReluFlag, FuseRequant),),
    "v100": ((ScaleForV100, ScaleConcatForV100), (FuseSingleRelu,)),
    "v200": ((MergeForV200, MergeConcatForV200, ScaleForV200, ScaleConcatForV200), (FuseSingleRelu,)),
    "310b": ((FuseReluFlag, FuseFixpipe),),
    "a2": ((FuseReluFlag, FuseFixpipe),),
    "950": ((FuseReluFlag, FuseDual),),
}
"""The patterns that the engine applies on a chip, or those for exact scales, one group after the other."""
