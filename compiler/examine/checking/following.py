"""Runs one module along with another, layer by layer, each layer on the other's values.

Errors of a layer therefore do not reach the next one, the bound of each is as sharp as its few operations allow, and the first
layer that is wrong is found, not one of those after it.

A layer may mean another value in the two: equalization scales it, a change of layout transposes it. So the module runs twice
where it disagrees: `forced`, with the other's value in place of its own, and `own`, with its own. If the layers after it agree
with its own value and not with the other's, the two mean different things, and nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects import ascend
from ...dialects.ascend import AscendQuantOp
from ...dialects.ascend.cube import DATA
from ...dialects.nn import (
    CORRECTED,
    ConstantOp,
    DequantizeFloatOp,
    DequantizeOp,
    MovingOp,
    OpaqueOp,
    QuantizeOp,
    ShapeOp,
)
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import as_stored
from ...ir.functions import input_names, main_function, output_names
from ...ir.number_formats import rounding
from ...runtime.executor import RunError, flatten
from ...runtime.kernels import Array, Kernel
from ...runtime.plan import kernel_of
from ...runtime.program import Program, Row
from ...support.diagnostics import CompileError, describe
from ...transforms.quantization.numbers.least_error import fractions
from .bounds import errors_of, intended, place_of, unit

WEIGHT_STEPS = 0.5
"""Largest distance between a weight and its nearest integer, in steps of the weight's scale."""

LEAST = 2.0**-126
"""Runtimes may make smaller numbers zero."""

LEAST_HALF = np.float32(2.0**-24)
"""The step between the smallest numbers of float16."""

Known = Mapping[Hashable, Sequence[Array]]
"""Results by the data that decide them (`Graph.identity`)."""


class Graph:
    """A module as rows of operations on slots, whose kernels are made once."""

    def __init__(self, module: ModuleOp):
        """Raises CompileError for operations that cannot be run."""
        self.module = module
        function = main_function(module)
        block = function.body.block
        self.slots: dict[SSAValue, int] = {}
        self.program: Program = flatten(block, self.slots, ())
        self.inputs: dict[str, int] = dict(zip(input_names(function), (self.slots[a] for a in block.args), strict=True))
        returned = cast(ReturnOp, block.last_op).operands
        self.outputs: dict[str, int] = dict(zip(output_names(function), (self.slots[v] for v in returned), strict=True))
        self.makers: dict[int, Row] = {slot: row for row in self.program.rows for slot in row.results}
        self._kernels: dict[Operation, Kernel] = {}
        constants = ((slot, value.owner) for value, slot in self.slots.items())
        found = {slot: owner for slot, owner in constants if isinstance(owner, ConstantOp)}
        self._constants = {slot: owner.value for slot, owner in found.items()}
        self.corrected: set[int] = {slot for slot, owner in found.items() if CORRECTED in owner.key}
        """Biases that make up for the mean errors of their layers."""
        for row in self.program.rows:
            if isinstance(row.op, DequantizeOp) and not self.corrected.isdisjoint(row.operands):
                self.corrected.update(row.results)

    def identity(self, row: Row, values: Mapping[int, Array]) -> Hashable:
        """Identifies the results of a row: the same operation on the same arrays gives the same results in any module.
        None if unknown.
        """
        op = row.op
        if op.regions or row.kernel is not None:
            return None
        read = tuple(self._constants.get(slot) or id(values[slot]) for slot in row.operands)
        return op.name, frozenset(op.properties.items()), frozenset(op.attributes.items()), op.result_types, read

    def run(self, row: Row, values: Mapping[int, Array]) -> Sequence[Array]:
        """The results of one row. Raises RunError, located at its operation."""
        if (kernel := self._kernels.get(row.op)) is None:
            kernel = self._kernels[row.op] = kernel_of(row)
        try:
            with np.errstate(all="ignore"):
                result = kernel(*(values[slot] for slot in row.operands))
        except (ValueError, IndexError, VerifyException, MemoryError) as e:
            raise RunError(f"{e or type(e).__name__}", where=describe(row.op.location)) from e
        return cast("Sequence[Array]", result) if isinstance(result, list | tuple) else (cast(Array, result),)

    def begin(self, inputs: Mapping[str, Array]) -> dict[int, Array]:
        """The slots of a run before its first row."""
        return {**self.program.constants, **{self.inputs[name]: array for name, array in inputs.items()}}

    def trace(self, inputs: Mapping[str, Array], known: Known | None = None) -> dict[int, Array]:
        """Computes all values of a run, by slot. What is `known` is not computed again."""
        values = self.begin(inputs)
        for row in self.program.rows:
            made = known.get(self.identity(row, values)) if known else None
            values.update(zip(row.results, made or self.run(row, values), strict=True))
        return values

    def known(self, values: Mapping[int, Array]) -> Known:
        """The results of a run, for modules that partly compute the same; `values` must outlive them."""
        rows = ((self.identity(row, values), tuple(values[s] for s in row.results)) for row in self.program.rows)
        return {identity: results for identity, results in rows if identity is not None}


@dataclass
class Analysis:
    """The errors of a run, computed when they are asked for. Values that were replaced by given ones are exact."""

    graph: Graph
    values: Mapping[int, Array]
    exact: set[int]
    """Slots whose value was given; their own error, before it was replaced, is that of `error_before`."""
    rounded_constants: bool = False
    """Whether constants of floats may have been folded: computed in float64, then rounded once."""
    steps: float | None = None
    """Largest distance, in steps, that quantization may move a weight; None if quantization is not intended."""
    unrounded: bool = False
    """Whether given values of float16 are roundings of other values (`Follower.unrounded`)."""
    operands: Mapping[int, tuple[Array, ...]] = field(default_factory=dict[int, "tuple[Array, ...]"])
    _known: dict[int, Array | None] = field(default_factory=dict[int, "Array | None"])
    unbounded: bool = False
    """Whether a carried operator has no bound: rules after it may give NaN, of infinity times 0."""

    def error(self, slot: int) -> Array | None:
        """The bounds of the results that the row of a slot computed from the values that it read."""
        todo = [slot]
        while todo:
            current = todo[-1]
            row = self.graph.makers.get(current)
            if current in self._known or row is None:
                todo.pop()
                self._known.setdefault(current, self._of_constant(current))
                continue
            if missing := [s for s in row.operands if s not in self.exact and s not in self._known]:
                todo += missing
                continue
            todo.pop()
            self._compute(row)
        return self._known[slot]

    def _of_constant(self, slot: int) -> Array | None:
        array = self.graph.program.constants.get(slot)
        if array is not None and self.steps is not None and self._is_weight(slot, array):
            return np.full(array.shape, self.steps, np.float32) + self._clipped(slot, array)
        if array is not None and self.steps is not None and self._is_in_format(slot):
            return rounding(array)
        if array is None or not self.rounded_constants or not np.issubdtype(array.dtype, np.floating):
            return None
        return np.abs(array).astype(np.float32) * np.float32(2.0**-23)

    def _of_given(self, slot: int) -> Array | None:
        value = self.values[slot]
        if not self.unrounded or value.dtype != np.float16:
            return None
        return np.maximum(np.abs(value).astype(np.float32) * np.float32(unit(value.dtype)), LEAST_HALF / 2)

    def _is_weight(self, slot: int, array: Array) -> bool:
        """Whether a constant holds the integers of a weight or a bias."""
        if array.dtype.kind not in "iuV" or array.dtype.itemsize > 4:
            return False
        readers = [row.op for row in self.graph.program.readers.get(slot, ())]
        return any(
            isinstance(op, DequantizeOp) or any(element_of(operand) in DATA for operand in op.operands)
            for op in readers
        )

    def _clipped(self, slot: int, array: Array) -> Array | float:
        """The further steps that the first and the last integer may be off: the search for scales of groups of few bits
        clips numbers beyond them.
        """
        ops = (row.op for row in self.graph.program.readers.get(slot, ()))
        op = next((op for op in ops if isinstance(op, DequantizeOp) and op.qparams.data.block is not None), None)
        if op is None or (bits := op.qparams.data.storage.width.data if op.bits is None else op.bits.value.data) > 4:
            return 0.0
        half, integers = 2 ** (bits - 1), as_stored(array)
        return np.where((integers == -half) | (integers == half - 1), half * (1 / fractions(bits)[-1] - 1), 0).astype(
            np.float32
        )

    def _is_in_format(self, slot: int) -> bool:
        """Whether a constant holds the elements of a weight in a number format, not its scales."""
        for row in self.graph.program.readers.get(slot, ()):
            if isinstance(row.op, DequantizeFloatOp) and row.operands[0] == slot:
                readers = self.graph.program.readers.get(row.results[0], ())
                return not any(isinstance(each.op, DequantizeFloatOp) for each in readers)
        return False

    def _reads_integers(self, row: Row) -> bool:
        """Whether an operand is a value or a weight that stands for integers."""
        makers = (self.graph.makers.get(slot) for slot in row.operands if slot not in self.exact)
        return any(each is not None and isinstance(each.op, DequantizeOp) for each in makers)

    def _compute(self, row: Row) -> None:
        if self.steps is not None and isinstance(row.op, OpaqueOp) and self._reads_integers(row):
            # what moves all of them in one direction says nothing of rounding, and the worst case of an LSTM grows in each step
            self.unbounded = True
            self._known.update({slot: np.full(self.values[slot].shape, np.inf, np.float32) for slot in row.results})
            return
        read = [self.values[slot] for slot in row.operands]
        errors = [self._of_given(slot) if slot in self.exact else self._known[slot] for slot in row.operands]
        made = self.operands.get(id(row)) or tuple(self.values[slot] for slot in row.results)
        found = errors_of(row.op, read, errors, made)
        if self.steps is not None and (rounded := intended(row.op, read, errors)) is not None:
            found[0] = rounded
        if self.steps is not None and not self.graph.corrected.isdisjoint(row.operands) and found[0] is not None:
            found[0] = found[0] + found[0].max(initial=0.0)  # a mean error is not larger than the largest
        if self.unbounded:
            found = [None if each is None else np.where(np.isnan(each), np.inf, each) for each in found]
        self._known.update(zip(row.results, found, strict=True))


class Apart(NamedTuple):
    """The worst element of a layer, and how far apart the two values of the layer may be."""

    difference: float
    bound: float
    place: tuple[int, ...]
    first: float
    second: float


@dataclass
class FollowedLayer:
    """A layer over all samples: `parts` is the worst element beyond the bound, if there is one."""

    name: str
    where: str
    op: str
    equal: bool = True
    """To the bit."""
    largest: float = 0.0
    """Largest absolute difference."""
    bound: float = 0.0
    """The bound of that element."""
    parts: Apart | None = None
    explained: bool = False
    """Beyond the bound, but the layers after it show that the two mean different values by it."""

    @property
    def verdict(self) -> str:
        """`equal`, `rounding`, `means another value` or `parts`."""
        if self.parts is not None:
            return "means another value" if self.explained else "parts"
        return "equal" if self.equal else "rounding"


Views = Callable[[Array, Array], Iterable[Array]]
"""The forms in which the other's value of a layer may appear in this module, from that value and this module's."""


def as_it_is(other: Array, value: Array) -> Iterable[Array]:
    """The other array with its axes unchanged."""
    if other.shape == value.shape:
        yield other


def in_any_order(other: Array, value: Array) -> Iterable[Array]:
    """The other array with its axes unchanged, then in every order that gives the shape."""
    yield from as_it_is(other, value)
    if other.ndim == value.ndim and 2 < other.ndim < 6 and sorted(other.shape) == sorted(value.shape):
        for order in permutations(range(other.ndim)):
            if order != tuple(range(other.ndim)) and tuple(other.shape[i] for i in order) == value.shape:
                yield other.transpose(order)


Errors = Callable[[int], "Array | None"]
"""The bounds of the other's value, by slot; None where it is exact."""


@dataclass
class Follower:
    """A module that follows another: it runs on the other's values, given by slot of this module."""

    graph: Graph
    layers: Mapping[int, str]
    """Names of the layers to compare, by slot."""
    views: Views = as_it_is
    bits: bool = False
    """Whether values must be equal to the bit."""
    steps: float | None = None
    measured: bool = False
    """Whether differences within the bounds are measured, too."""
    unrounded: bool = False
    """Whether the other may go on with float32 where it gives float16: onnxruntime has few kernels for float16 on processors, and
    casts once for several operations in a row."""
    found: dict[str, FollowedLayer] = field(default_factory=dict[str, FollowedLayer])
    unbounded: set[str] = field(default_factory=set[str])
    """Layers that may differ by any amount: a carried operator reads a value that was rounded to integers, which no rule bounds.
    """

    def follow(
        self,
        inputs: Mapping[str, Array],
        given: Mapping[int, Array],
        error: Errors | None,
        outputs: Mapping[int, Array],
        known: Known | None = None,
    ) -> None:
        """Follows one run. `given` are the other's values by slot, `outputs` those that must be equal as they are.

        `error` gives the bounds of the other's values; without it, they are computed by the same operations in another order,
        and have the same bounds. What is `known` of the other is neither computed nor compared again.

        Raises CompileError, located, for operations that cannot be run.
        """
        _Run(self, inputs, given, error, outputs, known or {}).run()

    def first(self) -> FollowedLayer | None:
        """The first layer that is wrong."""
        return next((layer for layer in self.found.values() if layer.parts is not None and not layer.explained), None)


class _Run:
    """A run of a follower with two sets of values, which are the same wherever no layer is suspect."""

    def __init__(
        self,
        follower: Follower,
        inputs: Mapping[str, Array],
        given: Mapping[int, Array],
        error: Errors | None,
        outputs: Mapping[int, Array],
        known: Known,
    ):
        self.known = known
        self.follower, self.graph = follower, follower.graph
        self.given, self.error, self.outputs = given, error, outputs
        self.forced = self.graph.begin(inputs)
        self.own = dict(self.forced)
        settings = {"rounded_constants": True, "steps": follower.steps, "unrounded": follower.unrounded}
        self.exact_forced, self.exact_own = set[int](), set[int]()
        self.made: dict[int, tuple[Array, ...]] = {}
        self.in_forced = Analysis(self.graph, self.forced, self.exact_forced, **cast(Any, settings), operands=self.made)
        self.in_own = Analysis(self.graph, self.own, self.exact_own, **cast(Any, settings))
        self.causes: dict[int, frozenset[str]] = {}
        self.shown: dict[str, Apart] = {}
        """Suspects: layers that disagree although they read only the other's values."""
        self.explained: set[str] = set()
        self.blamed: set[str] = set()

    def run(self) -> None:
        for row in self.graph.program.rows:
            same = all(self.forced[s] is self.own[s] for s in row.operands)
            made = self.known.get(self.graph.identity(row, self.forced)) or self.graph.run(row, self.forced)
            other = made if same else self.graph.run(row, self.own)
            self.made[id(row)] = tuple(made)
            self.forced.update(zip(row.results, made, strict=True))
            self.own.update(zip(row.results, other, strict=True))
            cause = frozenset[str]().union(*(self.causes.get(s, frozenset()) for s in row.operands))
            for slot in row.results:
                if cause:
                    self.causes[slot] = cause
                if slot in self.given:
                    self._judge(slot)
        for slot, expected in self.outputs.items():
            self._judge_output(slot, expected)
        for name, apart in self.shown.items():
            layer = self.follower.found[name]
            if name in self.blamed or name not in self.explained:
                layer.parts, layer.explained = layer.parts if layer.parts and not layer.explained else apart, False
            elif layer.parts is None:
                layer.parts, layer.explained = apart, True

    def _judge(self, slot: int) -> None:
        value, own, cause = self.forced[slot], self.own[slot], self.causes.get(slot, frozenset())
        layer = self._layer(slot)
        views = [*self.follower.views(self.given[slot], value)]
        if not views:
            return  # no value of the other has this shape: both go on with their own
        if not cause:
            view, apart = self._agreement(slot, value, views, self.in_forced, layer)
            moved = apart is not None and self._is_only_quantized(slot, value, view)
            if apart is not None:
                self.shown.setdefault(layer.name, apart)
            if moved:
                self.explained.add(layer.name)
            elif apart is not None:
                self.causes[slot] = frozenset({layer.name})
            self._force(slot, view, both=apart is None or moved)
            return
        own_views = [*self.follower.views(self.given[slot], own)]
        view_own, apart_own = self._agreement(slot, own, own_views, self.in_own, None) if own_views else (None, None)
        if view_own is None or apart_own is not None:
            sure = len(views) == 1 and not self.follower.measured
            self._force(slot, views[0] if sure else self._agreement(slot, value, views, self.in_forced, layer)[0])
            return
        _, apart = self._agreement(slot, value, views, self.in_forced, layer)
        if apart is not None and self._compare(slot, value, views[0], self.in_own) is not None:
            self.explained |= cause  # within bounds that are sharp enough to tell the two apart
            self._agreement(slot, own, own_views, self.in_own, layer)
        self.causes.pop(slot)
        self._force(slot, view_own, both=True)

    def _is_only_quantized(self, slot: int, *values: Array) -> bool:
        """Whether all that reads either value quantizes it to the same integers, which one of the two stands for already: the
        quantization moved past the layer, and maybe past others that only move elements.
        """
        found = None if self.follower.bits else self._quantizing(slot)
        for row in found or ():
            if not any(_is_quantized(row.op, each) for each in values):
                return False
            one, other = (self.graph.run(row, {row.operands[0]: each})[0] for each in values)
            (bound,) = errors_of(row.op, values[:1], [self.in_forced.error(slot)], [one])
            if not np.all(distance(one, other) <= (0 if bound is None else bound)):
                return False
        return bool(found)

    def _quantizing(self, slot: int) -> list[Row] | None:
        """The rows that quantize a value in the end, by one scale if elements were moved before; None if others read
        it, apart from operations that ask for its shape.
        """
        found: list[Row] = []
        waiting = [slot]
        while waiting:
            current = waiting.pop()
            if current in self.outputs:
                return None
            for row in self.graph.program.readers.get(current, ()):
                if isinstance(row.op, QuantizeOp | AscendQuantOp) and (current == slot or _has_one_scale(row.op)):
                    found.append(row)
                elif _only_moves(row.op) and row.operands[0] == current:
                    waiting += row.results
                elif not isinstance(row.op, ShapeOp | ascend.ShapeOp):
                    return None
        return found

    def _force(self, slot: int, view: Array, *, both: bool = False) -> None:
        """Replaces the value of a layer by the other's. The value that was computed keeps its bound."""
        self.forced[slot] = view
        self.exact_forced.add(slot)
        if both:
            self.own[slot] = view
            self.exact_own.add(slot)

    def _judge_output(self, slot: int, expected: Array) -> None:
        """Compares an output, which must be equal as it is; if it is also a layer, that was compared before it was replaced."""
        cause = self.causes.get(slot, frozenset())
        row = self.graph.makers.get(slot)
        computed = None if row is None else self.made[id(row)][row.results.index(slot)]
        value = self.own[slot] if cause or computed is None else computed
        if value.shape == expected.shape and not np.array_equal(value, expected, equal_nan=_floating(value)):
            analysis = self.in_own if cause else self.in_forced
            apart = self._compare(slot, value, expected, analysis)
        else:
            apart = None if value.shape == expected.shape else Apart(np.inf, 0, (), np.nan, np.nan)
        if apart is None:
            if cause and self._compare(slot, self.forced[slot], expected, self.in_own) is not None:
                self.explained |= cause
            return
        if cause:
            self.blamed |= cause
            return
        layer = self._layer(slot)
        self.shown.setdefault(layer.name, apart)
        self.blamed.add(layer.name)

    def _layer(self, slot: int) -> FollowedLayer:
        name = self.follower.layers[slot]
        if (layer := self.follower.found.get(name)) is None:
            row = self.graph.makers.get(slot)
            where, op = ("", "an input") if row is None else (describe(row.op.location), row.op.name)
            layer = self.follower.found[name] = FollowedLayer(name, where, op)
        return layer

    def _agreement(
        self, slot: int, value: Array, views: Sequence[Array], analysis: Analysis, layer: FollowedLayer | None
    ) -> tuple[Array, Apart | None]:
        """The value of the other module in the form that agrees, or in its plain form with the worst element."""
        first: Apart | None = None
        for view in views:
            if view is value or np.array_equal(view, value, equal_nan=_floating(value)):
                return view, None
            apart = self._compare(slot, value, view, analysis)
            if apart is None:
                if layer is not None:
                    self._measure(layer, slot, value, view, analysis)
                return view, None
            first = first or apart
        if layer is not None and first is not None:
            layer.equal, layer.largest, layer.bound = False, first.difference, first.bound
        return views[0], first

    def _measure(self, layer: FollowedLayer, slot: int, value: Array, view: Array, analysis: Analysis) -> None:
        layer.equal = False
        if not self.follower.measured:
            return
        difference = distance(value, view)
        i = np.unravel_index(int(np.argmax(difference)), difference.shape)
        if float(difference[i]) > layer.largest:
            layer.largest = float(difference[i])
            bound = self._bound(slot, analysis, difference)
            layer.bound = float(np.broadcast_to(bound, difference.shape)[i])

    def _bound(self, slot: int, analysis: Analysis, difference: Array) -> Array:
        """The errors of both values, the other's only if they are needed to explain the difference."""
        own = analysis.error(slot)
        least = np.float64(LEAST_HALF if self.forced[slot].dtype == np.float16 else LEAST)
        total: Any = least if own is None else own + least
        if not self.follower.measured and bool(np.all(difference <= total)):
            return total
        other = own if self.error is None else self.error(slot)
        if other is not None:
            fits = own is None or other.shape == own.shape
            total = total + (other if fits else float(other.max(initial=0.0)))
        fits = not total.ndim or total.shape == difference.shape
        return total if fits else np.asarray(total.max(initial=0.0))

    def _compare(self, slot: int, value: Array, view: Array, analysis: Analysis) -> Apart | None:
        """The element that is furthest beyond its bound; None if there is none."""
        difference = distance(value, view)
        bound: Array = np.zeros(()) if self.follower.bits else self._bound(slot, analysis, difference)
        if analysis.unbounded and not np.isfinite(bound).all():
            self.follower.unbounded.add(self.follower.layers[slot])
        if bool(np.all(difference <= bound)):
            return None
        beyond = difference - bound
        beyond = np.where(np.isnan(beyond), np.inf, beyond)
        worst = np.unravel_index(int(np.argmax(beyond)), beyond.shape) if beyond.ndim else ()
        if not beyond.size or not float(beyond[worst]) > 0:
            return None
        limit = float(np.broadcast_to(bound, difference.shape)[worst])
        index = tuple(int(i) for i in worst)
        return Apart(float(difference[worst]), limit, index, float(view[worst]), float(value[worst]))


def _floating(array: Array) -> bool:
    return bool(np.issubdtype(array.dtype, np.inexact)) or array.dtype.name == "bfloat16"


def _has_one_scale(op: QuantizeOp | AscendQuantOp) -> bool:
    return isinstance(op, AscendQuantOp) or op.qparams.data.axis is None


def _only_moves(op: Operation) -> bool:
    meaning = op.meaning().op if isinstance(op, ascend.AscendOp) and op.has_meaning() else op
    return isinstance(meaning, MovingOp) and meaning.only_moves


def _is_quantized(op: Operation, reals: Array) -> bool:
    """Whether an operation quantizes, and reals are those of the integers that it makes of them, as far as float32 has them."""
    found = place_of(op, reals)
    if found is None:
        return False
    place, _, (low, high) = found
    nearest = np.rint(place).clip(low, high)
    return bool(np.all(np.abs(place - nearest) <= (high - low) * 2.0**-20))


def distance(value: Array, view: Array) -> Array:
    """Absolute differences in float64; equal infinities, and NaN in both, do not differ."""
    with np.errstate(invalid="ignore"):
        difference = np.asarray(np.abs(value.astype(np.float64) - view))
    if not np.isfinite(difference).all():
        same = (value == view) | (np.isnan(value) & np.isnan(view))
        difference[same] = 0.0
    return difference


def layer_error(name: str, layer: FollowedLayer, what: str, hint: str = "") -> CompileError:
    """The error that names a layer."""
    parts = layer.parts
    assert parts is not None
    place = f"[{', '.join(map(str, parts.place))}]"
    message = (
        f"{what}: layer '{name}' ({layer.op}) is {parts.second:.9g} at {place} instead of {parts.first:.9g}; "
        f"its operations explain {parts.bound:.3g}"
    )
    return CompileError(message, where=layer.where, hint=hint)
