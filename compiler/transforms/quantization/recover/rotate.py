"""`--rotate`: the residual stream of transformers and the values of attention's heads, times Hadamard matrices that cancel out.

A rotation spreads outliers of single channels over all of them. Between linear layers it is folded into their weights: Ashkboos
et al., "QuaRot" (2024), and Liu et al., "SpinQuant" (2024), whose R1 and R2 these are, with fixed matrices and without training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....backends import Runner
from ....data import Samples
from ....dialects.nn import (
    AddOp,
    ConstantOp,
    DivOp,
    ExpandOp,
    GatherOp,
    MatMulOp,
    MulOp,
    NNOp,
    PowOp,
    ReciprocalOp,
    ReduceMeanOp,
    ReshapeOp,
    SqrtOp,
    TransposeOp,
    UnsqueezeOp,
    array_of,
    constant_of,
)
from ....dialects.nn.properties import ints
from ....dialects.nn.shapes import DYNAMIC, element_of, shape_of
from ....ir.array import Array
from ....pipelines.options import Parts
from ....rewriting import Refusal, Remarks, erase_dead_constants, layer_of
from ....session import Session, session_of
from ...dead_code import erase_dead
from ..data import load, within
from ..options import (
    AUTOMATIC,
    DataOptions,
    EngineOptions,
    PointOptions,
    QuantizeOptions,
    RecoveryOptions,
    SettingsOptions,
)
from ..request import Request, request_of
from ..running import runner_of
from .equalize.trial import EqualizationTrial
from .outputs import WORTH, few, halves

_WEIGHT, _BIAS = 1, 2
_SEED = 0
"""The seed of the signs in front of the matrices: without them a channel of equal numbers would become an outlier."""
_KEEPING = (ReshapeOp, UnsqueezeOp, ExpandOp, TransposeOp)
"""What values of heads go through on the way from their layer to the product with probabilities."""


@dataclass(frozen=True, init=False)
class RotatePass(Parts, ModulePass):
    """Multiply the residual stream of a transformer by a Hadamard matrix, folded into the embedding and into the weights of all
    layers that read and write it, after the scales of its RMS norms are folded into their readers; then the values of attention
    by one in each head. Each is kept where the quantized module's outputs win on samples that did not calibrate. What the module
    computes in float does not change. Options are those of the quantization that follows.
    """

    name = "rotate"

    calibration: DataOptions
    settings: SettingsOptions
    points: PointOptions
    running: EngineOptions

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        asked = QuantizeOptions(settings=self.settings, points=self.points, recovery=RecoveryOptions(rotate=True))
        Rotate(request_of(asked, session), self.calibration, self.running).apply(ctx, op)


@dataclass(frozen=True)
class Rotate(ModulePass):
    """`--rotate` with objects in place of option text, if the request asks for it."""

    name = "rotate"

    request: Request
    data: DataOptions
    running: EngineOptions = AUTOMATIC

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session, data = session_of(ctx), within(self.data, self.request.settings)
        rotate(op, self.request, lambda: load(data, op, session), session, runner_of(self.running))


class _Change(NamedTuple):
    """An operand before it was changed."""

    op: Operation
    operand: int
    before: SSAValue


class _Rotation(NamedTuple):
    """A rotation that is exact."""

    op: NNOp
    """The operation that remarks are about."""
    what: str
    apply: Callable[[], list[_Change]]


class _NotRotated(Exception):
    """What cannot be rotated: the rule's name and the reason."""

    def __init__(self, rule: str, reason: str):
        self.refusal: Refusal = Refusal(rule, reason)
        super().__init__(reason)


class _Norm(NamedTuple):
    """`x / sqrt(mean(x^2) + e)` over the last axis, by the operations that read x."""

    value: SSAValue
    normed: NNOp
    square: NNOp


class _Reader(NamedTuple):
    """A layer that reads a stream, and the product with a scale per channel between the norm and it."""

    layer: MatMulOp
    scale: MulOp | None


def rotate(
    module: ModuleOp, request: Request, samples: Callable[[], Samples], session: Session, runner: Runner
) -> None:
    """If it is requested, rotate what can be rotated, and keep it where it is worth it.

    Raises CompileError, located, for NaN or Inf in the data or in what layers read, and for settings that name layers which
    the module does not have.
    """
    if not request.recovery.rotate:
        return
    remarks = Remarks(session, RotatePass.name)
    found = _rotations(module, remarks)
    if found:
        nearest = request.by_nearest
        trial = EqualizationTrial(module, nearest, halves(few(samples())), session, runner)
        trial.begin()
        for rotations in found:
            _try(rotations, trial, remarks)
    erase_dead([op for op in module.walk() if isinstance(op, MulOp)])
    erase_dead_constants(module)
    remarks.flush()


def can_rotate(module: ModuleOp, session: Session) -> bool:
    """Whether there is anything that a rotation leaves the same."""
    return bool(_rotations(module, Remarks(session, RotatePass.name)))


def _rotations(module: ModuleOp, remarks: Remarks) -> list[Sequence[_Rotation]]:
    """What is rotated together; with remarks on what cannot be."""
    return [each for each in (_streams(module, remarks), _all_heads(module, remarks)) if each]


def _try(rotations: Sequence[_Rotation], trial: EqualizationTrial, remarks: Remarks) -> None:
    """Apply rotations together; all is as before if the outputs do not win."""
    changes = [change for each in rotations for change in each.apply()]
    reason = trial.lost(WORTH)
    for op, operand, before in reversed(changes if reason else ()):
        op.operands[operand] = before
    for each in rotations:
        if reason is None:
            remarks.applied(each.op, "rotated", f"{each.what}; on samples that did not calibrate {trial.outcome}")
        else:
            remarks.missed(each.op, "outputs", reason)


def hadamard(size: int) -> Array | None:
    """An orthogonal matrix of equal magnitudes, float64 [size, size], its rows with fixed random signs; None where none is known.

    Sylvester's doubling of Paley's constructions: sizes are 2^k (q + 1) for a prime q = 3 mod 4, or 2^k 2 (q + 1) for a prime
    q = 1 mod 4.
    """
    core, doublings = size, 0
    while (matrix := _core(core)) is None:
        if core % 2:
            return None
        core, doublings = core // 2, doublings + 1
    for _ in range(doublings):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], size)
    return signs[:, None] * matrix / np.sqrt(size)


def _core(size: int) -> Array | None:
    """A Hadamard matrix that is not made by doubling: those of 1, and Paley's."""
    if size == 1:
        return np.ones((1, 1))
    if size % 4:
        return None
    if _is_prime(size - 1):  # 3 mod 4
        skew = np.block([[np.zeros((1, 1)), np.ones((1, size - 1))], [-np.ones((size - 1, 1)), _residues(size - 1)]])
        return skew + np.eye(size)
    half = size // 2
    if half % 4 != 2 or not _is_prime(half - 1):
        return None
    conference = np.block([[np.zeros((1, 1)), np.ones((1, half - 1))], [np.ones((half - 1, 1)), _residues(half - 1)]])
    return np.kron(conference, [[1, 1], [1, -1]]) + np.kron(np.eye(half), [[1, -1], [-1, -1]])


def _is_prime(number: int) -> bool:
    return number > 2 and all(number % each for each in range(2, int(number**0.5) + 1))


def _residues(prime: int) -> Array:
    """Jacobsthal's matrix: 1 where the difference of column and row is a square modulo the prime, -1 elsewhere, 0 for none."""
    character = np.full(prime, -1.0)
    character[np.arange(1, prime, dtype=np.int64) ** 2 % prime] = 1
    character[0] = 0
    return character[(np.arange(prime) - np.arange(prime)[:, None]) % prime]


def _streams(module: ModuleOp, remarks: Remarks) -> list[_Rotation]:
    """The residual streams that can be rotated; with remarks on the others."""
    norms = [norm for op in module.walk() if isinstance(op, ReduceMeanOp) and (norm := _norm(op)) is not None]
    seen: set[SSAValue] = set()
    found: list[_Rotation] = []
    for norm in norms:
        if norm.value in seen:
            continue
        values = {norm.value}
        try:
            found.append(_stream(norm, norms, values))
        except _NotRotated as e:
            remarks.missed(norm.normed, *e.refusal)
        seen |= values
    return found


def _norm(mean: ReduceMeanOp) -> _Norm | None:
    """The RMS norm that a mean belongs to."""
    square = mean.input.owner
    rank = len(shape_of(mean.input))
    if mean.axis_list() != (rank - 1,) or mean.keepdims is None or not mean.input.has_one_use():
        return None
    if isinstance(square, PowOp) and (power := array_of(square.rhs)) is not None and power.size == 1:
        squared = square.lhs if float(power.reshape(())) == 2 else None
    else:
        squared = square.lhs if isinstance(square, MulOp) and square.lhs is square.rhs else None
    root = _only(_only(mean.result, AddOp) or mean, SqrtOp)
    inverse = None if root is None else _only(root, ReciprocalOp) or root
    if squared is None or inverse is None or not inverse.results[0].has_one_use():
        return None
    epsilon = _only(mean.result, AddOp)
    if epsilon is not None and not any(
        (array := array_of(each)) is not None and array.size == 1 for each in epsilon.operands
    ):
        return None
    use = next(iter(inverse.results[0].uses))
    normed = use.operation
    fits = (
        isinstance(normed, MulOp) if isinstance(inverse, ReciprocalOp) else isinstance(normed, DivOp) and use.index == 1
    )
    if not fits or normed.operands[1 - use.index] is not squared or not isinstance(normed, NNOp):
        return None
    return _Norm(squared, normed, cast(NNOp, square))


def _only(value: SSAValue | NNOp, kind: type[NNOp]) -> NNOp | None:
    """The only operation that reads a value, if it is of a kind."""
    value = value.results[0] if isinstance(value, NNOp) else value
    if not value.has_one_use():
        return None
    op = next(iter(value.uses)).operation
    return op if isinstance(op, kind) else None


def _stream(first: _Norm, norms: Sequence[_Norm], values: set[SSAValue]) -> _Rotation:
    """The stream that a norm reads; its values are added to `values`. Raises _NotRotated."""
    size = shape_of(first.value)[-1]
    own = {op: norm for norm in norms for op in (norm.square, norm.normed)}
    writers: list[NNOp] = []
    readers: list[_Reader] = []
    read: dict[NNOp, _Norm] = {}
    waiting = [first.value]
    while waiting:
        value = waiting.pop()
        made = value.owner
        if isinstance(made, AddOp):
            for each in made.operands:
                if shape_of(each)[-1:] != (size,) or len(shape_of(each)) != len(shape_of(value)):
                    raise _NotRotated("stream", f"'nn.add' {layer_of(made)} adds something of another shape to it")
                if each not in values:
                    values.add(each)
                    waiting.append(each)
        else:
            writers.append(_writer(made))
        for use in value.uses:
            op = use.operation
            if isinstance(op, AddOp):
                if op.result not in values:
                    values.add(op.result)
                    waiting.append(op.result)
            elif isinstance(op, NNOp) and op in own and own[op].value is value:
                read[own[op].normed] = own[op]
            else:
                readers.append(_Reader(_layer(op, use.index), None))
    for norm in read.values():
        readers += _behind(norm.normed)
    matrix = hadamard(size) if size > 1 else None
    if matrix is None:
        raise _NotRotated("size", f"no Hadamard matrix of {'?' if size == DYNAMIC else size} channels is known")

    def apply() -> list[_Change]:
        changes = [_after(op, matrix) for op in writers]
        changes += [each for op in writers if isinstance(op, MatMulOp) for each in _bias(op, matrix)]
        return changes + [each for reader in readers for each in _read(reader, matrix)]

    what = f"a stream of {size} channels, which {len(writers)} layers write and {len(readers)} read"
    return _Rotation(first.normed, what, apply)


def _writer(made: object) -> NNOp:
    """A layer that writes a stream. Raises _NotRotated."""
    if isinstance(made, GatherOp):
        table = array_of(made.input)
        if table is not None and table.ndim == 2 and made.axis.value.data == 0 and made.batch_count == 0:
            _ask_for_float32(made.input)
            return made
    if isinstance(made, MatMulOp):
        return _layer(made, 0)
    what = f"'{made.name}' {layer_of(made)}" if isinstance(made, Operation) else "an input of the model"
    raise _NotRotated(
        "writer", f"{what} writes it, which is neither a linear layer, an embedding nor an addition of these"
    )


def _behind(normed: NNOp) -> list[_Reader]:
    """The layers that read a norm, directly or after its scale. Raises _NotRotated."""
    scale = _only(normed, MulOp)
    factors = next((each for each in scale.operands if array_of(each) is not None), None) if scale else None
    if scale is None or factors is None:
        return [_Reader(_layer(use.operation, use.index), None) for use in normed.results[0].uses]
    if np.squeeze(cast(Array, array_of(factors))).ndim > 1 or shape_of(scale.results[0]) != shape_of(normed.results[0]):
        raise _NotRotated("scale", f"'nn.mul' {layer_of(scale)} does not scale channels")
    _ask_for_float32(factors)
    return [_Reader(_layer(use.operation, use.index), cast(MulOp, scale)) for use in scale.results[0].uses]


def _layer(op: Operation, index: int) -> MatMulOp:
    """A product of a constant matrix with the operand `index` = 0. Raises _NotRotated."""
    if isinstance(op, ReturnOp):
        raise _NotRotated("graph-output", "it is an output of the model")
    if not isinstance(op, MatMulOp):
        raise _NotRotated("reader", f"'{op.name}' {layer_of(op)} reads it, which is not a linear layer")
    weight = array_of(op.rhs)
    if index != 0 or weight is None or weight.ndim != 2 or op.transpose_a is not None:
        raise _NotRotated("reader", f"'nn.matmul' {layer_of(op)} reads or writes it without a constant matrix")
    _ask_for_float32(op.rhs)
    if op.bias is not None and array_of(op.bias) is None:
        raise _NotRotated("constant-bias", f"the bias of {layer_of(op)} is computed at run time")
    return op


def _ask_for_float32(value: SSAValue) -> None:
    if not isinstance(element_of(value), Float32Type):
        raise _NotRotated("float32", f"{element_of(value)} would round what is rotated")


def _all_heads(module: ModuleOp, remarks: Remarks) -> list[_Rotation]:
    """The values of heads that can be rotated; with remarks on other products of probabilities and values."""
    found: list[_Rotation] = []
    for op in module.walk():
        if not isinstance(op, MatMulOp) or (chain := _merged_heads(op)) is None:
            continue
        try:
            found.append(_heads(op, *chain))
        except _NotRotated as e:
            remarks.missed(op, *e.refusal)
    return found


def _merged_heads(reader: MatMulOp) -> tuple[MatMulOp, int] | None:
    """The product of two activations whose heads, side by side, a layer reads, and the size of a head."""
    merge = reader.lhs.owner
    order = merge.input.owner if isinstance(merge, ReshapeOp) else None
    product = order.input.owner if isinstance(order, TransposeOp) else None
    if not isinstance(product, MatMulOp) or constant_of(product.rhs) is not None or product.bias is not None:
        return None
    assert isinstance(order, TransposeOp), "it has the product"
    rank, size = len(shape_of(order.result)), shape_of(product.result)[-1]
    if ints(order.perm)[-1] != rank - 1 or product.transpose_b is not None or size <= 1:
        return None
    return product, size


def _heads(reader: MatMulOp, product: MatMulOp, size: int) -> _Rotation:
    """The layer that writes the values of a product's heads, and the one that reads them. Raises _NotRotated."""
    _layer(reader, 0)
    inputs = reader.rhs_shape[-2]
    heads = shape_of(product.result)[-1], shape_of(cast(ReshapeOp, reader.lhs.owner).input)[-2]
    if heads[0] * heads[1] != inputs:
        raise _NotRotated("heads", f"its {inputs} inputs are not all heads of {size} side by side")
    _ask_for_one_use(reader.lhs, cast(ReshapeOp, reader.lhs.owner).input, product.result)
    value = product.rhs
    while True:
        _ask_for_one_use(value)
        op = value.owner
        if isinstance(op, MatMulOp) and shape_of(value)[-1] % size == 0 and shape_of(value)[-1] > 0:
            writer = _layer(op, 0)
            break
        if not isinstance(op, _KEEPING):
            what = f"'{op.name}' {layer_of(op)}" if isinstance(op, Operation) else "an input of the model"
            raise _NotRotated("values", f"{what} gives it values, which is not a linear layer")
        before, after = shape_of(op.input), shape_of(value)
        splits = isinstance(op, ReshapeOp) and isinstance(op.input.owner, MatMulOp)
        keeps = before[-1] == after[-1] == size and _keeps_last(op)
        if not keeps and not (splits and after[-1] == size):
            raise _NotRotated("values", f"'{op.name}' {layer_of(op)} does not keep the values of a head together")
        value = op.input
    matrix = hadamard(size)
    if matrix is None:
        raise _NotRotated("size", f"no Hadamard matrix of {size} channels is known")

    def apply() -> list[_Change]:
        written = np.kron(np.eye(writer.output_channels // size), matrix)
        read = np.kron(np.eye(inputs // size), matrix)
        return [_after(writer, written), *_bias(writer, written), *_read(_Reader(reader, None), read)]

    return _Rotation(reader, f"values in heads of {size}, which {layer_of(writer)} writes", apply)


def _keeps_last(op: NNOp) -> bool:
    """Whether the last axis stays the last."""
    if isinstance(op, TransposeOp):
        return ints(op.perm)[-1] == len(shape_of(op.result)) - 1
    return True


def _ask_for_one_use(*values: SSAValue) -> None:
    for value in values:
        if not value.has_one_use():
            made = value.owner
            what = layer_of(made) if isinstance(made, Operation) else "an input"
            raise _NotRotated("reader", f"the values of heads, {what}, are read elsewhere as well")


def _after(op: NNOp, matrix: Array) -> _Change:
    """Rotate what an embedding or a layer writes."""
    if isinstance(op, GatherOp):
        return _set(op, 0, lambda table: table @ matrix)
    transposed = cast(MatMulOp, op).transpose_b is not None
    return _set(op, _WEIGHT, lambda weight: matrix.T @ weight if transposed else weight @ matrix)


def _bias(op: MatMulOp, matrix: Array) -> list[_Change]:
    return [] if op.bias is None else [_set(op, _BIAS, lambda bias: bias @ matrix)]


def _read(reader: _Reader, matrix: Array) -> Iterator[_Change]:
    """Let a layer read what is rotated, with the scale in front of it in its weight."""
    layer, scale = reader
    factors = np.ones(1)
    if scale is not None:
        index = 0 if array_of(scale.lhs) is not None else 1
        factors = cast(Array, array_of(scale.operands[index])).astype(np.float64).reshape(-1)
        yield _Change(layer, 0, layer.lhs)
        layer.operands[0] = scale.operands[1 - index]

    def weight(own: Array) -> Array:
        if layer.transpose_b is not None:
            return (own * factors) @ matrix
        return matrix.T @ (own * factors[:, None])

    yield _set(layer, _WEIGHT, weight)


def _set(op: NNOp, index: int, changed: Callable[[Array], Array]) -> _Change:
    """Give an operation a constant of its own, computed in float64."""
    before = op.operands[index]
    constant = constant_of(before)
    assert constant is not None, "what is rotated is constant"
    numbers = changed(constant.array.astype(np.float64)).astype(constant.array.dtype)
    own = ConstantOp.of(numbers, f"{constant.key.removesuffix('.rotated')}.rotated", constant.location)
    Rewriter.insert_op(own, InsertPoint.before(op))
    op.operands[index] = own.result
    return _Change(op, index, before)
