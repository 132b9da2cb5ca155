"""Loops of Keras's LSTM, GRU and SimpleRNN as ONNX's operators, which `nn` carries.

A step is imported like any function, once. What it computes is read from its operations: each gate is an activation of a sum of
products with constants, however Keras writes, splits and slices these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, element_of, known, shape_of, tensor
from ...ir.dtypes import element_type
from ...transforms.partial_shapes import Dimension, root
from ..building import Array, Binding, Constant, Sink, Size
from .node import Node

_VERSION = 14
"""The opset of the operators, since which they have this form."""


class NotRecurrent(Exception):
    """Raised for a loop that is not one of a recurrent layer; the message says how it differs."""


@dataclass(frozen=True, eq=False)
class TensorList:
    """A list of tensors, as loops read and write them."""

    stack: SSAValue | None = None
    """Its elements in one tensor `[T, ...]`; None for a list that is not filled."""
    item: SSAValue | None = None
    """Within a step: the element that the step reads."""
    read: list[Binding] = field(default_factory=list[Binding])
    """Within a step: the indices at which it reads."""
    written: tuple[Binding, Binding] | None = None
    """Within a step: the index at which it writes, and the element."""


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent layer, as ONNX has it: weights `[1, gates * H, I]` and `[1, gates * H, H]`, biases
    `[1, 2 * gates * H]`, gates in ONNX's order.
    """

    op_type: str
    input_weight: Array
    state_weight: Array
    bias: Array
    activations: tuple[str, ...]
    """Of gates, of candidates, and of an LSTM also of its cell."""
    linear_before_reset: bool = False


@dataclass(frozen=True)
class Step:
    """A step: its input x `[N, I]`, and its states before and after it, each `[N, H]`; an LSTM has two, h and c."""

    x: SSAValue
    before: Sequence[SSAValue]
    after: Sequence[SSAValue]


@dataclass(frozen=True, eq=False)
class _Affine:
    """`sum(value @ matrix) + bias`, matrices `[K, N]` by value."""

    matrices: Mapping[SSAValue, Array]
    bias: Array | None = None

    def columns(self, part: slice) -> _Affine:
        bias = None if self.bias is None else np.broadcast_to(self.bias, (self.width,))[part]
        return _Affine({value: matrix[:, part] for value, matrix in self.matrices.items()}, bias)

    @property
    def width(self) -> int:
        return next(iter(self.matrices.values())).shape[1]

    def plus(self, other: _Affine) -> _Affine | None:
        if self.matrices.keys() & other.matrices.keys():
            return None
        biases = [b for b in (self.bias, other.bias) if b is not None]
        return _Affine({**self.matrices, **other.matrices}, sum(biases[1:], biases[0]) if biases else None)


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop: the values at its start, those that one step is given, and those that the step gives."""

    start: Sequence[Binding | TensorList]
    given: Sequence[Binding | TensorList]
    """The start's values where steps pass them on, otherwise arguments of a block."""
    after: Sequence[Binding | TensorList]
    goes_on: SSAValue
    """The condition for another step."""
    sink: Sink

    @staticmethod
    def of(
        start: Sequence[Binding | TensorList],
        given: Sequence[Binding | TensorList],
        after: Sequence[Binding | TensorList],
        goes_on: Sequence[Binding | TensorList],
        sink: Sink,
    ) -> Loop:
        """The loop of a step with these values. Raises NotRecurrent if it gives others than it is given."""
        if len(after) != len(start) or len(goes_on) != 1:
            raise NotRecurrent("this one gives other values than it takes")
        return Loop(start, given, after, sink.value(_binding(goes_on[0])), sink)

    def cell(self) -> Cell:
        """The cell that the steps compute. Raises NotRecurrent for another loop."""
        x, sequence, (index, state) = self._sequence()
        read = [v for each in self.given if isinstance(each, TensorList) for v in each.read]
        if not self._counters.issuperset(read) or not self._is_over(sequence):
            raise NotRecurrent("this one does not take the elements of a sequence one after the other")
        if index not in self._counters and not _equals(index, 0):
            raise NotRecurrent("this one keeps the states of some steps")
        states = self._states
        before, after = ([self.sink.value(_binding(each[i])) for i in states] for each in (self.given, self.after))
        if state is not after[0] or (cell := _cell_of(Step(x, before, after))) is None:
            raise NotRecurrent("this one computes something else")
        return cell

    def results(self, node: Node, cell: Cell) -> list[Binding | TensorList]:
        """What the loop gives, computed by the cell on all of the sequence. A counter is not among it."""
        _, sequence, (index, _) = self._sequence()
        states = self._states
        every, last = emit(node, cell, sequence, [_binding(self.start[i]) for i in states])
        kept = every if index in self._counters else node.emit(nn.UnsqueezeOp, last[0], axes=[0]).result
        found = dict(zip(states, last, strict=True))
        return [
            found.get(i, self.start[i] if given is after else TensorList(kept))
            for i, (given, after) in enumerate(zip(self.given, self.after, strict=True))
        ]

    def _sequence(self) -> tuple[SSAValue, SSAValue, tuple[Binding, Binding]]:
        """The element that a step reads, the sequence that it is of, and the index and the state that it writes."""
        read, written = list[tuple[SSAValue, SSAValue]](), list[tuple[Binding, Binding]]()
        for rows in zip(self.start, self.given, self.after, strict=True):
            match rows:
                case TensorList(stack=SSAValue() as stack), TensorList(item=SSAValue() as item), _:
                    read.append((item, stack))
                case TensorList(), _, TensorList(written=(index, state)):
                    written.append((index, state))
                case TensorList(), _, _:
                    raise NotRecurrent("this one leaves a sequence as it is")
                case _:
                    pass
        if len(read) != 1 or len(written) != 1:
            raise NotRecurrent("this one reads or writes several sequences, as with a mask")
        return *read[0], written[0]

    @property
    def _counters(self) -> set[Binding]:
        """The values that are 0 in the first step, and 1 more in each next one."""
        found: set[Binding] = set()
        for start, given, after in zip(self.start, self.given, self.after, strict=True):
            op = after.owner if isinstance(after, SSAValue) else None
            if isinstance(op, nn.AddOp) and op.lhs is given and _equals(op.rhs, 1) and _equals(_binding(start), 0):
                found.add(op.lhs)
        return found

    @property
    def _states(self) -> list[int]:
        """The places of values of two axes that steps change, that of the state which is kept first."""
        _, _, (_, state) = self._sequence()
        rows = zip(self.given, self.after, strict=True)
        found = [i for i, (g, a) in enumerate(rows) if isinstance(g, SSAValue) and g is not a and len(shape_of(g)) == 2]
        return sorted(found, key=lambda i: self.after[i] is not state)

    def _is_over(self, sequence: SSAValue) -> bool:
        """Whether there are as many steps as the sequence has elements."""
        pending, seen, bounds = [self.goes_on], set[SSAValue](), list[Size]()
        while pending:
            if (value := pending.pop()) in seen:
                continue
            seen.add(value)
            match value.owner:
                case nn.AndOp() as both:
                    pending += both.operands
                case nn.CompareOp() as less if less.predicate.data is nn.Predicate.LT and less.lhs in self._counters:
                    array = nn.array_of(less.rhs)
                    sizes = (
                        self.sink.shapes.elements(less.rhs) if array is None else [int(v) for v in array.reshape(-1)]
                    )
                    bounds += sizes or [None]
                case _:
                    return False
        if known(length := shape_of(sequence)[0]):
            numbers = [bound for bound in bounds if isinstance(bound, int)]
            return len(numbers) == len(bounds) and min(numbers) == length
        return all(isinstance(b, Dimension) and root(b) == root(Dimension(sequence, 0)) for b in bounds)


def _binding(value: Binding | TensorList) -> Binding:
    if isinstance(value, TensorList):
        raise NotRecurrent("this one computes something else")
    return value


def _equals(value: Binding, number: int) -> bool:
    """Whether a value is known to be this number, in all elements."""
    array = value.array if isinstance(value, Constant) else nn.array_of(value)
    return array is not None and bool((array == number).all())


def step_inputs(
    block: Block, start: Sequence[Binding | TensorList], passed_on: Collection[int]
) -> list[Binding | TensorList]:
    """What a step is given: the values of the start that it passes on, by their places, otherwise arguments of the block."""

    def argument(value: Binding, dropped: int) -> SSAValue:
        element = element_of(value) if isinstance(value, SSAValue) else element_type(value.array.dtype)
        shape = shape_of(value) if isinstance(value, SSAValue) else value.array.shape
        return block.insert_arg(tensor(element, shape[dropped:]), len(block.args))

    given: list[Binding | TensorList] = []
    for i, value in enumerate(start):
        if isinstance(value, TensorList):
            given.append(value if value.stack is None else TensorList(item=argument(value.stack, 1)))
        else:
            given.append(value if i in passed_on else argument(value, 0))
    return given


def _cell_of(step: Step) -> Cell | None:
    """The cell that computes a step; None for one of another form."""
    kinds = {1: (_gru, _simple), 2: (_lstm,)}
    return next((cell for kind in kinds.get(len(step.after), ()) if (cell := kind(step)) is not None), None)


def _lstm(m: Step) -> Cell | None:
    (h, c), (new_h, new_c) = m.before, m.after
    for kept, added in _operands(new_c, nn.AddOp):
        for forget, _ in (p for p in _operands(kept, nn.MulOp) if p[1] is c):
            for update, candidate in _operands(added, nn.MulOp):
                for output, cell in _operands(new_h, nn.MulOp):
                    gates = [_activated(value) for value in (update, output, forget, candidate)]
                    squashed = _activation(cell)
                    if squashed is None or squashed[1] is not new_c or None in gates:
                        continue
                    (i, o, f, g) = [gate for gate in gates if gate is not None]
                    if i[0] == o[0] == f[0]:
                        return _cell("LSTM", m.x, h, [i[1], o[1], f[1], g[1]], (i[0], g[0], squashed[0]))
    return None


def _gru(m: Step) -> Cell | None:
    (h,), (new_h,) = m.before, m.after
    for kept, added in _operands(new_h, nn.AddOp):
        for update, _ in (p for p in _operands(kept, nn.MulOp) if p[1] is h):
            for rest, candidate in _operands(added, nn.MulOp):
                squashed, z = _activation(candidate), _activated(update)
                if z is None or squashed is None or not _is_rest(rest, update):
                    continue
                if (cell := _gru_with(m.x, h, z, *squashed)) is not None:
                    return cell
    return None


def _gru_with(x: SSAValue, h: SSAValue, z: tuple[str, _Affine], activation: str, candidate: SSAValue) -> Cell | None:
    """The GRU with this update gate and the candidate before its activation: the state is reset before its product, or after."""
    whole = _affine(candidate)
    if whole is not None:
        for value in whole.matrices:
            for reset, _ in (p for p in _operands(value, nn.MulOp) if p[1] is h):
                if (r := _activated(reset)) is not None and r[0] == z[0]:
                    moved = {h if v is value else v: matrix for v, matrix in whole.matrices.items()}
                    return _cell("GRU", x, h, [z[1], r[1], _Affine(moved, whole.bias)], (z[0], activation))
    for first, second in _operands(candidate, nn.AddOp):
        for reset, product in _operands(second, nn.MulOp):
            r, of_x, of_h = _activated(reset), _affine(first), _affine(product)
            if r is None or r[0] != z[0] or of_x is None or of_h is None or [*of_h.matrices] != [h]:
                continue
            made = _cell("GRU", x, h, [z[1], r[1], of_x], (z[0], activation), of_h)
            if made is not None and h not in of_x.matrices:
                return made
    return None


def _simple(m: Step) -> Cell | None:
    (h,), (new_h,) = m.before, m.after
    found = _activated(new_h)
    return None if found is None else _cell("RNN", m.x, h, [found[1]], (found[0],))


def _cell(
    op_type: str,
    x: SSAValue,
    h: SSAValue,
    gates: Sequence[_Affine],
    activations: tuple[str, ...],
    reset: _Affine | None = None,
) -> Cell | None:
    """The cell of these gates, in ONNX's order; None if one reads something else than x and h. `reset` is the product of the
    state with the weight of a GRU's last gate, if that is reset afterwards.
    """
    if any(gate.matrices.keys() - {x, h} for gate in gates):
        return None
    sizes, width = {x: shape_of(x)[-1], h: shape_of(h)[-1]}, shape_of(h)[-1]
    if DYNAMIC in sizes.values() or any(gate.width != width for gate in gates):
        return None
    dtype = next(iter(gates[0].matrices.values())).dtype

    def rows(gate: _Affine, value: SSAValue) -> Array:
        return gate.matrices[value].T if value in gate.matrices else np.zeros((width, sizes[value]), dtype)

    def bias(gate: _Affine | None) -> Array:
        given = None if gate is None else gate.bias
        return np.broadcast_to(np.zeros(1, dtype) if given is None else given.reshape(-1), (width,))

    states = [*gates[:-1], reset or gates[-1]]
    biases = [*map(bias, gates), *(bias(None) for _ in gates[:-1]), bias(reset)]
    weight, recurrent = (
        np.concatenate([rows(gate, value) for gate in each])[None] for each, value in ((gates, x), (states, h))
    )
    return Cell(op_type, weight, recurrent, np.concatenate(biases)[None], activations, reset is not None)


def _is_rest(value: SSAValue, gate: SSAValue) -> bool:
    """Whether a value is `1 - gate`."""
    op = value.owner
    one = nn.array_of(op.lhs) if isinstance(op, nn.SubOp) and op.rhs is gate else None
    return one is not None and bool((one == 1).all())


def _operands(value: SSAValue, kind: type[nn.AddOp | nn.MulOp]) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The operands of a sum or product in both orders; none of another operation."""
    op = value.owner
    if isinstance(op, kind):
        yield op.lhs, op.rhs
        yield op.rhs, op.lhs


_ACTIVATIONS: Mapping[type, str] = {nn.SigmoidOp: "Sigmoid", nn.TanhOp: "Tanh", nn.ReluOp: "Relu"}
"""ONNX's names."""


def _activation(value: SSAValue) -> tuple[str, SSAValue] | None:
    """An activation by its name, and its operand."""
    name = _ACTIVATIONS.get(type(value.owner))
    return None if name is None or not isinstance(value.owner, nn.ActivationOp) else (name, value.owner.operands[0])


def _activated(value: SSAValue) -> tuple[str, _Affine] | None:
    """An activation of a sum of products."""
    if (found := _activation(value)) is None or (gate := _affine(found[1])) is None:
        return None
    return found[0], gate


def _affine(value: SSAValue, depth: int = 8) -> _Affine | None:
    """A value as sum of products with constants; None if it is something else, or is made in more steps than those of a gate."""
    if depth == 0 or len(shape_of(value)) != 2:
        return None
    match op := value.owner:
        case nn.MatMulOp(bias=None, transpose_a=None, transpose_b=None) if len(shape_of(op.rhs)) == 2:
            matrix = nn.array_of(op.rhs)
            return None if matrix is None else _Affine({op.lhs: matrix})
        case nn.AddOp() | nn.BiasAddOp():
            return _sum(op.operands[0], op.operands[1], depth - 1)
        case nn.SplitOp() if op.axis.value.data in (-1, 1) and (whole := _affine(op.input, depth - 1)) is not None:
            part, sizes = [each is value for each in op.results].index(True), nn.ints(op.sizes)
            return whole.columns(slice(sum(sizes[:part]), sum(sizes[: part + 1])))
        case nn.SliceOp() if (
            len(shape_of(value)) == 2
            and op.slices(2)[0] == slice(None)
            and (whole := _affine(op.input, depth - 1)) is not None
        ):
            return whole.columns(op.slices(2)[1])
        case _:
            return None


def _sum(first: SSAValue, second: SSAValue, depth: int) -> _Affine | None:
    for value, other in ((first, second), (second, first)):
        if (array := nn.array_of(other)) is not None:
            whole = _affine(value, depth)
            if whole is None or array.size not in (1, whole.width) or (array.ndim and array.shape[-1] != array.size):
                return None
            return whole.plus(_Affine({}, array.reshape(-1)))
    a, b = _affine(first, depth), _affine(second, depth)
    return None if a is None or b is None else a.plus(b)


def emit(node: Node, cell: Cell, x: Binding, states: Sequence[Binding]) -> tuple[SSAValue, list[SSAValue]]:
    """The operator on all of a sequence, `[T, N, I]`, from these states: states of every step `[T, N, H]`, and the last ones."""
    sequence = node.sink.value(x)
    time, samples, _ = shape_of(sequence)
    element, hidden = element_of(sequence), cell.state_weight.shape[2]
    attributes: dict[str, Attribute] = {"hidden_size": IntegerAttr(hidden, i64)}
    if cell.linear_before_reset:
        attributes["linear_before_reset"] = IntegerAttr(1, i64)
    if cell.activations != _USUAL[cell.op_type]:
        attributes["activations"] = ArrayAttr([StringAttr(name) for name in cell.activations])
    constants = {".W": cell.input_weight, ".R": cell.state_weight, ".B": cell.bias}
    weights = [node.constant(array, suffix) for suffix, array in constants.items()]
    given = [state for state in states if not all(map(_is_zero, states))]
    first = [node.emit(nn.UnsqueezeOp, node.sink.value(state), axes=[0]).result for state in given]
    types = [(time, 1, samples, hidden), *[(1, samples, hidden)] * len(states)]
    op = node.emit(
        nn.OpaqueOp,
        [sequence, *weights, *first],
        result_types=[tensor(element, shape) for shape in types],
        framework="onnx",
        op_type=cell.op_type,
        version=_VERSION,
        present=[1, 1, 1, 1, 0, *(1 for _ in first)],
        attrs=DictionaryAttr(attributes),
    )
    every = node.emit(nn.SqueezeOp, op.outputs[0], axes=[1]).result
    return every, [node.emit(nn.SqueezeOp, last, axes=[0]).result for last in op.outputs[1:]]


def _is_zero(value: Binding) -> bool:
    """Whether a state is one of zeros, which the operators begin with anyway."""
    if isinstance(value, SSAValue) and isinstance(value.owner, nn.ExpandOp):
        value = value.owner.input
    return _equals(value, 0)


_USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""The activations of operators that do not name any."""
