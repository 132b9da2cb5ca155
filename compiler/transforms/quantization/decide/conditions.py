"""The patterns that decide a layer, one for each kind of operation: a condition is a named member, its docstring the statement.

The rows of AMCT's tables (`tables.py`) and of profiles name the conditions that they ask for. Conditions of a source layer read
what its origin keeps of the source's attributes; those of a target judge the operation itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i8
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ....dialects import nn
from ....dialects.nn import NNOp, OriginAttr, constant_of
from ....dialects.nn.shapes import element_of, known, shape_of
from ....ir.dtypes import is_float
from ....rewriting import Condition, Refusal, Roots, condition, layer_of
from .deciding import SETTINGS, Decide, Deciding
from .embeddings import picked_from
from .rows import Broken, ComputedInIntegers, Layer, Rule
from .sites import Site


def rule(name: str) -> Callable[[Callable[[Site], str | None]], Rule]:
    """Decorator: makes a function a condition of a profile's row, outside of a pattern; the docstring is the statement."""

    def made(check: Callable[[Site], str | None]) -> Rule:
        found: Rule = Condition(lambda _, site: check(site), (check.__doc__ or "").strip())
        found.name = name
        return found

    return made


class DecideLayer(Decide[Layer]):
    """Any other operation that a profile quantizes, such as an activation."""

    name = "quantize"
    roots: ClassVar[Roots] = (NNOp,)

    def __init__(self, deciding: Deciding):
        super().__init__(deciding.asked, deciding.remarks)
        self.deciding = deciding

    def match(self, op: Operation) -> Layer | None:
        return self.deciding.undecided.get(op)

    def asked(self, m: Layer) -> Iterable[Condition[Any]]:
        if self.asks is not None:
            return self.asks
        return (*SETTINGS, *legality_of(m, self.request.profile.listed), DecideLayer.record)

    @classmethod
    def kinds(cls, profile: Any) -> Sequence[type[NNOp]]:
        """The operations of a profile that it decides."""
        return [kind for kind in profile.rows if pattern_of(kind) is cls or cls not in PATTERNS]

    @classmethod
    def listed(cls, profile: Any) -> Iterator[tuple[Condition[Any], str]]:
        if cls.asks is not None:
            yield from super().listed(profile)
            return
        kinds = cls.kinds(profile)
        tables = [row for row in profile.table if {*row.operations} & {*kinds}]
        of_tables: dict[Condition[Any], list[str]] = {}
        for row in tables:
            for rule in dict.fromkeys((*row.rules, *(row.of_inputs or ()))):
                of_tables.setdefault(rule, []).append(f"{row.framework} {row.op_type}")
        of_rows: dict[Condition[Any], list[str]] = {}
        for kind in kinds:
            for rule in profile.rows[kind].rules:
                of_rows.setdefault(rule, []).append(kind.name)
        yield from ((each, "") for each in (*SETTINGS, DecideLayer.input_float))
        if profile.listed is not None:
            yield profile.listed, ""
        yield from ((rule, _some(rows, len(tables))) for rule, rows in of_tables.items())
        yield DecideLayer.input_computed, ""
        yield from ((rule, _some(rows, len(kinds))) for rule, rows in of_rows.items())
        yield DecideLayer.record, ""

    def rewrite(self, m: Layer, rewriter: PatternRewriter) -> None:
        self.deciding.quantize(m)

    def refused(self, m: Layer, refusal: Refusal) -> None:
        super().refused(m, refusal)
        self.deciding.leave(m, refusal)

    @condition
    def record(self, m: Layer) -> str | None:
        """the record, where there is one, has parameters for the layer"""
        lacking = self.deciding.unrecorded(m)
        return None if lacking is None else f"the record {lacking}"

    @condition
    def input_float(self, site: Site) -> str | None:
        """the layer's input is of a float type"""
        element = element_of(site.compute.operands[0])
        return None if is_float(element) else f"its input is of {element}"

    @condition
    def input_computed(self, site: Site) -> str | None:
        """the layer's input is not a constant, and is not computed inside a fused region"""
        value = site.activation
        if value is None:
            return "its input is computed inside the fused region"
        return None if constant_of(value) is None else "its input is a constant"

    @condition
    def called_once(self, site: Site) -> str | None:
        """the module is called once (AMCT for PyTorch)"""
        origin = site.compute.origin
        again = isinstance(origin, OriginAttr) and _CALL.search(origin.layer.data) is not None
        return "its module is called more than once" if again else None

    @condition
    def float16_off(self, site: Site) -> str | None:
        """pooling, addition and products of two inputs stay float in float16 and mixed models (AMCT)"""
        return "the model is of float16 or mixed types" if site.half_precision else None

    integer_operator: ClassVar[ComputedInIntegers] = ComputedInIntegers(
        "an operator of Ascend IR computes the layer in integers: `--lower-to-ascend` would find one"
    )

    @condition
    def tensor_only(self, site: Site) -> str | None:
        """tensor_quantize names the layer, of which AMCT quantizes only inputs, and these only when asked to"""
        if isinstance(site, Layer) and site.inputs_asked:
            return None
        return "only its input can be quantized: set tensor_quantize for that"

    @condition
    def softmax_input(self, site: Site) -> str | None:
        """not only a Softmax, which takes floats, reads the result, directly or by way of what scales, masks and moves it"""
        if not _only_feeds_softmax(site.owner.results[0], site.softmax_only):
            return None
        return "it only feeds Softmax, which takes floats; masked scores (-10000, -inf) would widen its range"

    @condition
    def not_in_table(self, m: Layer) -> str | None:
        """AMCT's table has the layer's type"""
        if m.source is not None:
            return None
        origin = m.compute.origin
        return f"AMCT does not quantize {origin.op_type.data} layers" if isinstance(origin, OriginAttr) else None

    @condition
    def not_a_module(self, m: Layer) -> str | None:
        """the layer is a call of a module that AMCT for PyTorch quantizes"""
        if m.source is not None:
            return None
        origin = m.compute.origin
        module = origin.module_class if isinstance(origin, OriginAttr) else ""
        if module:
            return f"AMCT for PyTorch does not quantize {module}"
        return "AMCT for PyTorch quantizes calls of torch.nn's modules that pad with zeros; this is not such a call"


class DecideWeighted(DecideLayer):
    """A layer with a weight and a bias."""

    @condition
    def weight_constant(self, site: Site) -> str | None:
        """the weight does not depend on an input (AMCT: its source holds no placeholder), is finite and has elements"""
        weight = constant_of(site.operand(1))
        if weight is None:
            experts = next(filter(None, map(picked_from, site.compute.operands)), None)
            picked = "" if experts is None else f": it is picked from experts ({layer_of(experts.op)})"
            return f"its weight is computed at run time{picked}"
        if 0 in shape_of(weight.result):
            return "its weight has no elements"
        return None if weight.finite else "its weight holds NaN or Inf"

    @condition
    def weight_unshared(self, site: Site) -> str | None:
        """no other layer has the weight (AMCT for PyTorch)"""
        weight = constant_of(site.operand(1))
        if weight is None:
            return None
        layers = nn.WeightedOp | nn.FusedOp
        readers = {use.operation for use in weight.result.uses if isinstance(use.operation, layers)}
        return "another layer has the same weight" if len(readers) > 1 else None

    @condition
    def bias_constant(self, site: Site) -> str | None:
        """the bias, where there is one, is a finite constant"""
        if len(site.compute.operands) < 3:
            return None
        bias = constant_of(site.operand(2))
        if bias is None:
            return "its bias is computed at run time"
        return None if bias.finite else "its bias holds NaN or Inf"


class DecideConvolution(DecideWeighted):
    """A convolution or transposed convolution: its input and its weight, with a scale for each output channel."""

    name = "quantize-convolution"
    roots: ClassVar[Roots] = nn.kinds(nn.ConvolutionOp)

    @condition
    def filter_rank_4(self, site: Site) -> str | None:
        """the filter is of rank 4 (AMCT)"""
        rank = len(shape_of(site.compute.operands[1]))
        return None if rank == 4 else f"its filter is of rank {rank}"

    @condition
    def planar_filter(self, site: Site) -> str | None:
        """the operator is Conv2D: the filter is of rank 4, or 3, which runs as 4 (AMCT)"""
        rank = len(shape_of(site.compute.operands[1]))
        return None if rank in (3, 4) else f"its filter is of rank {rank}"

    @condition
    def dilation_d_1(self, site: Site) -> str | None:
        """a convolution with a filter of rank 5 has dilation_d 1 (AMCT)"""
        dilations = _source_ints(site.compute, "dilations")
        if len(dilations) == 5:  # TensorFlow's have an entry for every axis
            depth = 2 if source_attribute(site.compute, "data_format") == StringAttr("NCDHW") else 1
            dilations = dilations[depth : depth + 3]
        if len(dilations) == 3 and dilations[0] != 1:
            return f"its dilation_d is {dilations[0]}"
        return None

    @condition
    def dilation_1(self, site: Site) -> str | None:
        """dilations are 1: those of the source layer, and what import and canonicalization made of them (AMCT)"""
        op = cast(nn.ConvolutionOp, site.compute)
        # ONNX and TensorFlow have the plural
        for dilations in (_source_ints(op, "dilations"), _source_ints(op, "dilation"), op.dilation_list):
            if set(dilations) - {1}:
                return f"its dilations are {list(dilations)}"
        return None


class DecideProduct(DecideWeighted):
    """A matrix product: its input and its weight, or two inputs."""

    name = "quantize-product"
    roots: ClassVar[Roots] = (nn.MatMulOp,)

    @condition
    def matrix_weight(self, site: Site) -> str | None:
        """the second operand is of rank 2 (AMCT)"""
        rank = len(shape_of(site.compute.operands[1]))
        return None if rank == 2 else f"its second operand is of rank {rank}"

    @condition
    def two_inputs(self, site: Site) -> str | None:
        """a product of two inputs takes both from outside of a fused region, as int8 without zero point if they come quantized"""
        for index in site.inputs if site.multiplies_inputs else ():
            value = site.operand(index)
            if value is None:
                return f"its input {index} is computed inside the fused region"
            if not isinstance(value, OpResult) or not isinstance(value.op, nn.DequantizeOp):
                continue
            params = value.op.qparams.data
            if params.storage != i8 or params.axis is not None or params.zero_points().any():
                return f"its input {index} came quantized otherwise than to int8 with one scale and no zero point"
        return None

    @condition
    def transpose_a_false(self, site: Site) -> str | None:
        """transpose_a, which Gemm calls transA, is false (AMCT)"""
        if _source_int(site.compute, "transA"):
            return "its transA is 1"
        return "its transpose_a is true" if _source_int(site.compute, "transpose_a") else None

    @condition
    def transpose_false(self, site: Site) -> str | None:
        """transpose_a, transpose_b, adjoint_a and adjoint_b are false, and an InnerProduct's transpose is (AMCT)"""
        names = ("transpose", "transpose_a", "transpose_b", "adjoint_a", "adjoint_b")
        flags = [name for name in names if _source_int(site.compute, name)]
        return f"its {' and '.join(flags)} {'are' if len(flags) > 1 else 'is'} true" if flags else None

    @condition
    def adj_x_false(self, site: Site) -> str | None:
        """adj_x is false (AMCT)"""
        return "its adj_x is true" if _source_int(site.compute, "adj_x") else None

    @condition
    def axis_1(self, site: Site) -> str | None:
        """an InnerProduct has axis 1 (AMCT)"""
        axis = _source_int(site.compute, "axis", 1)
        return None if axis == 1 else f"its axis is {axis}"


class DecideAverage(DecideLayer):
    """An average over windows or over space: its input."""

    name = "quantize-average"
    roots: ClassVar[Roots] = (nn.AveragePoolOp, nn.GlobalAveragePoolOp, nn.ReduceMeanOp)

    @condition
    def average_count(self, site: Site) -> str | None:
        """every window averages the same number of elements, so that 1/count is one factor"""
        pool = cast(nn.AveragePoolOp, site.compute)
        spatial = pool.spatial(shape_of(pool.input))
        if (pads := pool.resolved_pads(spatial)) is None:
            return "its padding is not known before run time"
        if any(pads) and pool.count_include_pad is None:
            return "its windows at the border average fewer elements"
        if pool.ceil_mode is not None and not _ceil_is_floor(pool, spatial):
            return "ceil_mode adds windows that average fewer elements"
        return None

    @condition
    def integer_average(self, site: Site) -> str | None:
        """onnxruntime's integer kernel computes the mean: no dilations, and no `ceil_mode` next to padding that counts"""
        if cast(nn.AveragePoolOp, site.compute).has_integer_kernel:
            return None
        return "onnxruntime has no integer kernel for its dilations, or for its ceil_mode with padding that counts"

    @condition
    def averages_space(self, site: Site) -> str | None:
        """a mean is that of GlobalAveragePool: over all axes after the channels, which stay as 1"""
        if cast(nn.ReduceMeanOp, site.compute).averages_space:
            return None
        return "onnxruntime has an integer kernel only for the mean over all axes after the channels, with keepdims"

    @condition
    def global_pooling_false(self, site: Site) -> str | None:
        """global_pooling is false: the layer does not pool over all of space (AMCT)"""
        whole = isinstance(site.compute, nn.GlobalAveragePoolOp) or _source_int(site.compute, "global_pooling")
        return "global pooling is not quantized" if whole else None


class DecideElementwise(DecideLayer):
    """A sum or another operation on two values, element by element: both values."""

    name = "quantize-elementwise"
    roots: ClassVar[Roots] = (nn.BinaryOp,)

    @condition
    def operation_sum(self, site: Site) -> str | None:
        """operation is 1, SUM (AMCT)"""
        operation = source_attribute(site.compute, "operation")
        if not isinstance(operation, StringAttr) or operation.data == "SUM":
            return None
        return f"its operation is {operation.data}"

    @condition
    def softmax_part(self, site: Site) -> str | None:
        """the division is not that of a Softmax in small operations, `exp(x) / sum(exp(x))`, which takes floats"""
        if not isinstance(site.compute, nn.DivOp) or not _ends_softmax(site.compute):
            return None
        return "it is the last step of a Softmax in small operations, which takes floats"


class DecidePassive(DecideLayer):
    """An operation that moves, pads or chooses elements: its input, whose parameters may hold for its results."""

    name = "quantize-passive"
    roots: ClassVar[Roots] = (nn.MovingOp, nn.MaxPoolOp, nn.GlobalMaxPoolOp)

    @condition
    def pads_with_zero(self, site: Site) -> str | None:
        """what is padded is on the grid of the input: zero, which every grid holds, or elements of it"""
        fill = cast(nn.MovingOp, site.compute).fill
        return f"it pads with {fill}, which may not be among the input's values" if fill else None

    @condition
    def resize_nearest(self, site: Site) -> str | None:
        """a Resize takes the nearest elements: what other modes interpolate is not on the grid of the input"""
        if cast(nn.MovingOp, site.compute).only_moves:
            return None
        mode = cast(nn.ResizeModeAttr, site.compute.properties["mode"]).data
        return f"its mode is {mode.value}, which onnxruntime computes in float"


PATTERNS: tuple[type[DecideLayer], ...] = (
    DecideConvolution,
    DecideProduct,
    DecideAverage,
    DecideElementwise,
    DecidePassive,
    DecideLayer,
)
"""Patterns in order: the first with an operation's class among its roots decides the operation."""


@cache
def pattern_of(kind: type[Operation]) -> type[DecideLayer]:
    """The pattern that decides operations of a class."""
    return next(each for each in PATTERNS if issubclass(kind, each.roots))


def conditions_named(kinds: Iterable[type[NNOp]], names: Iterable[str]) -> tuple[Rule, ...]:
    """The conditions of these names, for operations of these classes. Raises TypeError if their pattern has no such condition."""
    (pattern,) = {pattern_of(kind) for kind in kinds}
    found = {each.name: each for each in pattern.conditions}
    if unknown := [name for name in names if name not in found]:
        raise TypeError(f"pattern {pattern.name} has no condition {unknown[0]}")
    return tuple(found[name] for name in names)


def check_conditions(kind: type[NNOp], rules: Iterable[Rule]) -> None:
    """Raises TypeError for a condition of another pattern than the one that decides operations of a class, and for one without
    its judge; those of layers with weights may be asked of any other operation that a profile quantizes.
    """
    pattern, members = pattern_of(kind), {each for one in PATTERNS for each in one.conditions}
    own = DecideWeighted.conditions if pattern is DecideLayer else pattern.conditions
    for each in rules:
        if isinstance(each, ComputedInIntegers) and each.judge is None:
            raise TypeError(f"{kind.name}: condition {each.name} has no judge: name it as integer_operator.by(judge)")
        if each in members and each not in own:
            raise TypeError(f"{kind.name}: pattern {pattern.name} has no condition {each.name}")


def first_of(site: Site, rules: Iterable[Rule]) -> Broken | None:
    """The first of these conditions, apart from those of settings, that a layer does not meet, and the reason."""
    pattern: Any = pattern_of(type(site.compute))
    return next(((each, reason) for each in rules if (reason := each.holds(pattern, site)) is not None), None)


def legality_of(m: Layer, listed: Rule | None) -> Iterator[Rule]:
    """The conditions of a layer apart from settings, in order: of its source in the table (`listed`, and those of its
    row), of the form that fusion gave the layer, and of the profile.
    """
    yield DecideLayer.input_float
    if listed is not None:
        yield listed
    if m.source is not None:
        yield from m.source.rules_of(m)
    yield DecideLayer.input_computed
    yield from m.row.rules


def type_of(site: Site) -> str:
    """The source's name for the type of a layer, the operation's own without a source."""
    origin = site.compute.origin
    return origin.op_type.data if isinstance(origin, OriginAttr) else site.compute.name


def _some(names: Sequence[str], whole: int) -> str:
    """Names, or nothing if they are all there are."""
    return ", ".join(names) if len(names) < whole else ""


_CALL = re.compile(r"@\d+$")
"""The number of one of several calls of a module."""


def _ceil_is_floor(pool: nn.AveragePoolOp, spatial: Sequence[int]) -> bool:
    """Whether `ceil_mode` does not add a window; with strides of 1 it never does."""
    sizes = zip(pool.window_output(spatial), pool.window_output(spatial, ceil=True), pool.stride_list, strict=True)
    return all(stride == 1 or (known(floor) and floor == ceil) for floor, ceil, stride in sizes)


def source_attribute(op: NNOp, name: str) -> Attribute | None:
    """An attribute of the source layer, None if the operation has no origin or the layer no such attribute."""
    return op.origin.attributes.data.get(name) if isinstance(op.origin, OriginAttr) else None


def _source_int(op: NNOp, name: str, default: int = 0) -> int:
    value = source_attribute(op, name)
    return value.value.data if isinstance(value, IntegerAttr) else default


def _source_ints(op: NNOp, name: str) -> tuple[int, ...]:
    value = source_attribute(op, name)
    return tuple(value.get_values()) if isinstance(value, DenseArrayBase) else ()


_SCORES = (nn.MovingOp, nn.BinaryOp, nn.CastOp, nn.WhereOp, nn.ReduceMaxOp)
"""Operations that scale, bias, mask and move scores and masks (-10000, the lowest float or -inf), or take the largest one."""


def _only_feeds_softmax(value: SSAValue, known: dict[SSAValue, bool]) -> bool:
    """The answer for a value; `known` keeps those for all values after it."""
    waiting = [value]
    while waiting:
        current = waiting[-1]
        further = None if current in known else _scores_from(current)
        if further and (unknown := [v for v in further if v not in known]):
            waiting += unknown
            continue
        known.setdefault(current, further is not None and all(known[v] for v in further))
        waiting.pop()
    return known[value]


def _scores_from(value: SSAValue) -> list[SSAValue] | None:
    """The results of operations that move, scale and mask a value; None if nothing reads it, or an operation other than
    these and Softmax.
    """
    readers = [use.operation for use in value.uses]
    others = [op for op in readers if not _is_softmax(op)]
    if not readers or not all(isinstance(op, (*_SCORES, nn.PointOp)) for op in others):
        return None
    return [result for op in others for result in op.results]


def _is_softmax(op: Operation) -> bool:
    return isinstance(op, nn.SoftmaxOp | nn.LogSoftmaxOp) or (isinstance(op, nn.ExpOp) and _begins_softmax(op))


def _begins_softmax(exponential: nn.ExpOp) -> bool:
    """Whether only a sum and a division by this sum read an exponential."""
    readers = [use.operation for use in exponential.result.uses]
    ends = [r for r in readers if isinstance(r, nn.DivOp) and _ends_softmax(r)]
    return bool(ends) and all(isinstance(r, nn.ReduceSumOp) or r in ends for r in readers)


def _ends_softmax(division: nn.DivOp) -> bool:
    total = division.rhs.owner
    if not isinstance(division.lhs.owner, nn.ExpOp) or not isinstance(total, nn.ReduceSumOp):
        return False
    return total.input is division.lhs
