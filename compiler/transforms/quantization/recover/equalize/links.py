"""Links of equalization: a layer whose output channels can be scaled, and all the layers that read these channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import Float16Type, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, OpResult, SSAValue, Use
from xdsl.pattern_rewriter import PatternRewriter

from .....dialects.nn import (
    BoundOp,
    FusedOp,
    LayoutOp,
    MulOp,
    NNOp,
    NormalizationOp,
    PointOp,
    WeightedOp,
    array_of,
    plan_of,
)
from .....dialects.nn.shapes import DYNAMIC, element_of, shape_of
from .....ir.array import Array
from .....rewriting import Condition, Refusal, Remarks, Roots, StepPattern, condition, layer_of, requires
from .....rewriting.driver import apply_once
from .....session import Session
from ....channels import Channels, carried, followed
from ....fusion.fuse_activation.activations import LINEAR, single_kind
from ...decide.sites import Site, sites
from ...place.insert_observers import insert_observers
from ...request import Request

WEIGHT = 1
"""The operand that is the weight of a layer."""
_BIAS = 2


class Parameter(NamedTuple):
    """A constant operand of a layer that is scaled with its output channels."""

    operand: int
    channels: Array
    """The output channel of each of its numbers: int64, in a shape that broadcasts to the constant's."""


class Reader(NamedTuple):
    """A layer that reads the channels of another."""

    site: Site
    of: Array
    """The output channel of the first layer for each input channel of the reader: int64 [input channels]."""

    @property
    def compute(self) -> NNOp:
        return self.site.compute


class Bounded(NamedTuple):
    """A place where channels are kept within bounds on the way to the layers that read them."""

    op: BoundOp
    value: SSAValue
    """The result of the operation, or that of its region."""
    axis: int
    of: Array
    """The channel that each of its entries is: int64 [entries]."""


@dataclass(frozen=True, eq=False)
class Link:
    """A layer and all layers that read its result, directly or through operations that scale with their input; or a
    value that a product can divide, and layers that read it.
    """

    site: Site | None
    """The layer whose channels are divided; None for a value that a product divides."""
    parameters: tuple[Parameter, ...] = ()
    """The weight or factors, and the bias if there is one; empty if they are not known, and then nothing is followed."""
    readers: tuple[Reader, ...] = ()
    bounded: tuple[Bounded, ...] = ()
    """Bounds that no channel may reach because of its factor."""
    stops: tuple[Use, ...] = ()
    """The other operations that read channels; empty if the channels can be divided."""

    @property
    def begins(self) -> NNOp | None:
        """The operation of the layer whose channels are divided."""
        return None if self.site is None else self.site.compute

    @property
    def ends(self) -> set[NNOp | None]:
        """The operation that begins it, if there is one, and those that read it."""
        return {self.begins, *(reader.compute for reader in self.readers)}

    @property
    def compute(self) -> NNOp:
        """The operation that remarks are about."""
        return self.begins or self.readers[0].compute

    @property
    def layers(self) -> list[Site]:
        """The layers with weights: the one that begins it, and those that read it."""
        ends = (self.site, *(reader.site for reader in self.readers))
        return [site for site in ends if site is not None and isinstance(site.compute, WeightedOp)]

    @property
    def size(self) -> int:
        """The number of channels."""
        return int((self.parameters[0].channels if self.parameters else self.readers[0].of).max()) + 1


class DivideChannels(StepPattern[Link]):
    """the output channels of a layer or norm are divided by powers of two, and the weights of all layers that read them are
    multiplied by the same
    """

    name = "divide-channels"
    roots: ClassVar[Roots] = (WeightedOp, NormalizationOp)

    def __init__(self, remarks: Remarks, places: Mapping[Operation, Site], read: dict[NNOp, Link]):
        super().__init__(remarks)
        self.places = places
        self.read: dict[NNOp, Link] = read
        """The link whose channels a layer reads, by layer."""

    @condition
    def float16(self, m: Link) -> str | None:
        """its numbers are not of float16"""
        half = isinstance(element_of(m.compute.results[0]), Float16Type)
        return "its numbers are of float16, which scaling could take out of range" if half else None

    @condition
    def constant_weight(self, m: Link) -> str | None:
        """its weight or factors, and the weights of the layers that read it, are constants of floats"""
        if isinstance(m.compute, NormalizationOp) and any(each is None for each in _constants(self.places[m.compute])):
            return "its factors are not constants of floats"
        unknown = (layer_of(each.compute) for each in m.layers if _floats(each, WEIGHT) is None)
        return next((f"the weight of {name} is not a constant of floats" for name in unknown), None)

    @condition
    def region(self, m: Link) -> str | None:
        """in fused regions, layers read values from outside, and bounds come last"""
        if (inner := next((each.compute for each in m.layers if each.activation is None), None)) is not None:
            return f"{layer_of(inner)} reads what its fused region computes"
        bounds = (use for use in m.stops if isinstance(use.operation, BoundOp) and not use.operation.is_homogeneous)
        return next((f"{named(use.operation)} bounds it inside a fused region" for use in bounds), None)

    @condition
    def channels(self, m: Link) -> str | None:
        """it has output channels, which stay apart on the way, and are input channels of the layers that read them"""
        op = m.compute
        if isinstance(op, WeightedOp) and op.output_axis is None:
            return "its weight is a vector: it has no output channels"
        if isinstance(op, NormalizationOp) and op.scaled_axis is None:
            return "it normalizes over several axes"
        if isinstance(op, NormalizationOp) and not m.parameters:
            return "its factors are not one per channel"
        for use in m.stops:
            if isinstance(use.operation, WeightedOp) and use.index == 0:
                return f"{layer_of(use.operation)} reads it along another axis than its channels"
            if _scales(use) and not _multiplies(use):
                return f"{named(use.operation)} does not keep its channels apart"
        return None

    constant_bias: Condition[Any] = requires(
        lambda m: m.parameters, "its bias is constant", "its bias is computed at run time"
    )
    reader: Condition[Any] = requires(
        lambda m: m.readers or m.stops, "something reads its result", "nothing reads its result"
    )

    @condition
    def graph_output(self, m: Link) -> str | None:
        """its result is not an output of the model"""
        is_output = any(isinstance(use.operation, ReturnOp) for use in m.stops)
        return "its result is an output of the model" if is_output else None

    @condition
    def homogeneous(self, m: Link) -> str | None:
        """whatever reads its result, up to the layers, scales with it"""
        for use in m.stops:
            does = "multiplies its result by itself" if _scales(use) else "reads its result, and does not scale with it"
            return f"{named(use.operation)} {does}"
        return None

    @condition
    def product(self, m: Link) -> str | None:
        """its readers do not read the channels of another link, as those of a product of two do"""
        if self.read.keys().isdisjoint(each.compute for each in m.readers):
            return None
        return "the other operand of a product is divided, which its readers read"

    def match(self, op: Operation) -> Link | None:
        """The operation and everything that reads its channels, up to the uses that cannot be part of a link."""
        if (site := self.places.get(op)) is None:
            return None
        axis, parameters = _parameters(site)
        if not parameters:
            return None if isinstance(op, MulOp) else Link(site)
        readers, bounded, stops, products = list[Reader](), list[Bounded](), list[Use](), set[Operation]()

        def behind(use: Use, channels: Channels) -> Channels | None:
            if (bounds := _bounds(use.operation, channels)) is not None:
                bounded.append(bounds)
                return channels
            if use.operation in products or not _scales(use):
                return None
            products.update([use.operation] if _multiplies(use) else [])
            return channels if _multiplies(use) else carried(cast(NNOp, use.operation), channels)

        start = Channels(axis, np.arange(int(parameters[0].channels.max()) + 1))
        for use, channels in followed(op.results[0], start, behind):
            reader = use.operation
            if isinstance(reader, WeightedOp) and use.index == 0:
                readers.append(Reader(self.places[reader], channels.of))
                if reader.input_axis == channels.axis:
                    continue
            stops.append(use)
        return Link(site, parameters, tuple(readers), tuple(bounded), tuple(stops))

    def rewrite(self, m: Link, rewriter: PatternRewriter) -> None:
        """Take the link: the divisors of all links' channels are searched afterwards."""
        self.read |= {reader.compute: m for reader in m.readers}


class DivideProduct(DivideChannels):
    """the output channels of a product with a constant for each channel, as of RMSNorm, are divided in the same way; it is tried
    after all layers and norms, and leaves no remark if it is refused
    """

    name = "divide-product"
    roots: ClassVar[Roots] = (MulOp,)

    def refused(self, m: Link, refusal: Refusal) -> None:
        self.remarks.forget(m.compute)


class DivideInput(StepPattern[Link]):
    """the channels of a layer's input are divided by a product in float, where no other layer divides them, and its weight is
    multiplied by the same; one product serves all layers that read the value
    """

    name = "divide-input"
    roots: ClassVar[Roots] = (WeightedOp,)

    def __init__(self, remarks: Remarks, free: Mapping[Operation, Site], in_float: Callable[[SSAValue], bool]):
        super().__init__(remarks)
        self.free = free
        """The layers whose inputs nothing else divides."""
        self.in_float = in_float
        """Whether a value is computed in float in the quantized module."""
        self.found: dict[tuple[SSAValue | None, int], list[Reader]] = {}
        """Readers by value and axis."""

    @condition
    def float_input(self, m: Link) -> str | None:
        """its input is computed in float"""
        value = m.readers[0].site.activation
        in_float = value is not None and self.in_float(value)
        return None if in_float else "its input comes from integers, and a product would compute in float"

    def match(self, op: Operation) -> Link | None:
        """A layer whose numbers and channels are known."""
        site = self.free.get(op)
        if site is None or (value := site.activation) is None or _floats(site, WEIGHT) is None:
            return None
        channels = shape_of(value)[cast(WeightedOp, op).input_axis]
        if isinstance(value.owner, PointOp) or isinstance(element_of(value), Float16Type) or channels == DYNAMIC:
            return None
        return Link(None, readers=(Reader(site, np.arange(channels)),))

    def rewrite(self, m: Link, rewriter: PatternRewriter) -> None:
        site = m.readers[0].site
        self.found.setdefault((site.activation, cast(WeightedOp, site.compute).input_axis), []).extend(m.readers)


def links_of(module: ModuleOp, remarks: Remarks) -> list[Link]:
    """The links of a module; with remarks on other layers with weights, and normalizations."""
    kinds = (*cast("tuple[type[DivideChannels], ...]", remarks.session.patterns_of("equalize")), DivideChannels)
    places: dict[Operation, Site] = {site.compute: site for site in sites(module, (WeightedOp, NormalizationOp, MulOp))}
    read: dict[NNOp, Link] = {}
    for each in (kinds, (DivideProduct,)):
        apply_once(module, [kind(remarks, places, read) for kind in each])
    return list(dict.fromkeys(read.values()))


def products_of(module: ModuleOp, links: Sequence[Link], request: Request, remarks: Remarks) -> list[Link]:
    """The values that are computed in float, and the layers that quantize them, of those whose inputs no link divides; with
    remarks on the others.

    There are none where the profile computes products in integers, which would round before it divides.
    """
    row = request.profile.rows.get(MulOp)
    linked = {reader.compute for link in links for reader in link.readers}
    free: dict[Operation, Site] = {
        site.compute: site for site in sites(module, (WeightedOp,)) if site.compute not in linked
    }
    if not free or (row is not None and not row.between):
        return []
    pattern = DivideInput(remarks, free, _made_in_float(module, request, remarks.session))
    apply_once(module, [pattern])
    return [Link(None, readers=tuple(readers)) for readers in pattern.found.values()]


def _parameters(site: Site) -> tuple[int, tuple[Parameter, ...]]:
    """The axis of an operation's output channels, and the parameters that scale with them; empty if one of these is not known."""
    op = site.compute
    if isinstance(op, MulOp):
        return _of_product(site)
    constants = _constants(site)
    axis = op.output_axis if isinstance(op, WeightedOp) else cast(NormalizationOp, op).scaled_axis
    if axis is None or any(each is None for each in constants):
        return 0, ()
    if isinstance(op, WeightedOp):
        found = [op.weight_outputs(), np.arange(op.output_channels)][: len(constants)]
    else:
        along, rank = (0, 1) if isinstance(op, LayoutOp) else (axis, axis + 1)
        found = [_entries(each, along, rank) for each in constants]
    parameters = tuple(Parameter(i, each) for i, each in enumerate(found, WEIGHT) if each is not None)
    return axis, parameters if len(parameters) == len(constants) else ()


def _of_product(site: Site) -> tuple[int, tuple[Parameter, ...]]:
    """The axis and the factors of a product with a constant per channel; no factors for any other one."""
    op, rank = site.compute, len(shape_of(site.compute.results[0]))
    index = 0 if _floats(site, 0) is not None else 1
    array = _floats(site, index)
    if (
        array is None
        or not array.ndim
        or array.ndim > rank
        or shape_of(op.operands[1 - index]) != shape_of(op.results[0])
    ):
        return 0, ()
    axis = rank - array.ndim + int(np.argmax(array.shape))
    entries = _entries(array, axis, rank)
    return axis, () if entries is None else (Parameter(index, entries),)


def _constants(site: Site) -> list[Array | None]:
    """The weight or factors of a layer or norm, and its bias if there is one; None for operands that are computed."""
    return [_floats(site, index) for index in range(WEIGHT, min(len(site.compute.operands), _BIAS + 1))]


def _floats(site: Site, index: int) -> Array | None:
    """The numbers of an operand, if it is a constant of floats."""
    array = array_of(site.operand(index))
    return array if array is not None and array.size and array.dtype.kind not in "iub" else None


def _entries(array: Array | None, axis: int, rank: int) -> Array | None:
    """The channels of a constant that varies along this axis of the result alone; None for another one."""
    shape: tuple[int, ...] = () if array is None else array.shape
    padded = (1,) * (rank - len(shape)) + shape
    if padded[axis] == 1 or any(size != 1 for i, size in enumerate(padded) if i != axis):
        return None
    return np.arange(padded[axis]).reshape(shape)


def named(made: Operation | Block) -> str:
    """An operation, or the operation that has an argument, in words."""
    return f"'{made.name}' {layer_of(made)}" if isinstance(made, Operation) else "an input of the model"


def _bounds(op: Operation, channels: Channels) -> Bounded | None:
    """An operation that keeps channels within bounds and, in a region, comes last."""
    if not isinstance(op, BoundOp) or op.is_homogeneous:
        return None
    value, region = op.results[0], op.parent_op()
    if not isinstance(region, FusedOp):
        return Bounded(op, value, *channels)
    is_last = value.has_one_use() and region.terminator.value is value
    return Bounded(op, region.result, *channels) if is_last else None


def _multiplies(use: Use) -> bool:
    """Whether a product of two values scales with this one, and keeps its channels apart."""
    op = use.operation
    return isinstance(op, MulOp) and shape_of(op.operands[use.index]) == shape_of(op.result)


def _scales(use: Use) -> bool:
    """Whether the result of an operation scales with its input."""
    op = use.operation
    whole = isinstance(op, NNOp) and use.index == 0 and op.is_homogeneous and len(op.results) == 1
    return whole or _multiplies(use)


def _made_in_float(module: ModuleOp, request: Request, session: Session) -> Callable[[SSAValue], bool]:
    """Whether the operation that computes a value stays in float, when it is quantized as requested."""
    copies: dict[SSAValue, SSAValue] = {}
    copy = module.clone(copies)
    insert_observers(copy, request, session.silent())
    quantized = {site.owner for site in sites(copy, request.profile.rows) if (p := plan_of(site.compute)) and p.input}

    def in_float(value: SSAValue) -> bool:
        while isinstance(value, OpResult) and isinstance(op := value.op, NNOp):
            if not (op.is_passive or single_kind(op) in LINEAR):
                break
            value = op.operands[0]
        return not isinstance(value, OpResult) or copies[value].owner not in quantized

    return in_float
