"""Links of equalization: a layer whose output channels can be scaled, and all the layers that read these channels."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import Float16Type, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue, Use

from .....dialects.nn import (
    BoundOp,
    FusedOp,
    LayoutOp,
    MulOp,
    NNOp,
    NormalizationOp,
    WeightedOp,
    YieldOp,
    array_of,
)
from .....dialects.nn.shapes import element_of, shape_of
from .....ir.array import Array
from .....rewriting import Refusal, layer_of
from ....channels import Channels, carried
from ...decide.sites import Site, sites

WEIGHT = 1
"""The operand that is the weight of a layer."""
_BIAS = 2

Places = Mapping[Operation, Site]


class Parameter(NamedTuple):
    """A constant operand of a layer that is scaled with its output channels."""

    operand: int
    channels: Array
    """The output channel of each of its numbers: int64, in a shape that broadcasts to the constant's."""


class Reader(NamedTuple):
    """A layer that reads the channels of another."""

    site: Site
    of: Array
    """For each input channel of the reader, the output channel of the first layer: int64 [input channels]."""

    @property
    def compute(self) -> NNOp:
        return self.site.compute


class Bounded(NamedTuple):
    """Where channels are kept within bounds on the way to the layers that read them."""

    op: BoundOp
    value: SSAValue
    """Its result, or that of its region."""
    axis: int
    of: Array
    """The channel that each of its entries is: int64 [entries]."""


@dataclass(frozen=True, eq=False)
class Link:
    """A layer and all layers that read its result, directly or through what scales with its input; or a value that a product can
    divide, and layers that read it.
    """

    site: Site | None
    """The layer whose channels are divided; None for a value that a product divides."""
    parameters: tuple[Parameter, ...]
    """The weight or factors, and the bias where there is one."""
    readers: tuple[Reader, ...]
    bounded: tuple[Bounded, ...] = ()
    """Bounds that no channel may reach because of its factor."""

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
    def size(self) -> int:
        """The number of channels."""
        return int((self.parameters[0].channels if self.parameters else self.readers[0].of).max()) + 1


class NotLinked(Exception):
    """The output channels of a layer cannot be scaled: the rule's name and the reason."""

    def __init__(self, rule: str, reason: str):
        self.refusal: Refusal = Refusal(rule, reason)
        super().__init__(reason)


def links_of(module: ModuleOp) -> tuple[list[Link], dict[NNOp, Refusal]]:
    """The links of a module, and why other layers with weights, and normalizations, begin none.

    A product with a constant per channel, as RMSNorm ends in, begins one where it can and no other layer does.
    """
    places: Places = {site.compute: site for site in sites(module, (WeightedOp,))}
    found: list[Link] = []
    refused: dict[NNOp, Refusal] = {}
    read: set[NNOp] = set()
    for site in sites(module, (WeightedOp, NormalizationOp)):
        try:
            link = _link(site, places)
            if not read.isdisjoint(reader.compute for reader in link.readers):
                raise NotLinked("product", "the other operand of a product is divided, which its readers read")
            found.append(link)
            read |= {reader.compute for reader in link.readers}
        except NotLinked as e:
            refused[site.compute] = e.refusal
    for site in sites(module, (MulOp,)):
        with suppress(NotLinked):
            link = _link(site, places)
            found += [link] if read.isdisjoint(reader.compute for reader in link.readers) else []
    return found, refused


def _link(site: Site, places: Places) -> Link:
    """The link that a layer begins. Raises NotLinked."""
    op = site.compute
    if isinstance(element_of(op.results[0]), Float16Type):
        raise NotLinked("float16", "its numbers are of float16, which scaling could take out of range")
    if isinstance(op, MulOp):
        axis, parameters = _of_product(site)
    elif isinstance(op, NormalizationOp):
        axis, parameters = _of_norm(site)
    else:
        axis, parameters = _of_layer(site)
    count = int(parameters[0].channels.max()) + 1
    readers, bounded = _readers(op.results[0], Channels(axis, np.arange(count)), places)
    return Link(site, parameters, tuple(readers), tuple(bounded))


def _of_layer(site: Site) -> tuple[int, tuple[Parameter, ...]]:
    """The axis of a convolution's or matrix product's output channels, and what they scale with. Raises NotLinked."""
    op = cast(WeightedOp, site.compute)
    ask_for_numbers(site)
    axis = op.output_axis
    if axis is None:
        raise NotLinked("channels", "its weight is a vector: it has no output channels")
    if op.bias is None:
        return axis, (Parameter(WEIGHT, op.weight_outputs()),)
    if _floats(site, _BIAS) is None:
        raise NotLinked("constant-bias", "its bias is computed at run time")
    return axis, (Parameter(WEIGHT, op.weight_outputs()), Parameter(_BIAS, np.arange(op.output_channels)))


def _of_norm(site: Site) -> tuple[int, tuple[Parameter, ...]]:
    """The channels and parameters of a normalization, whose last step is a product and a sum per channel. Raises NotLinked."""
    op = cast(NormalizationOp, site.compute)
    axis = op.scaled_axis
    if axis is None:
        raise NotLinked("channels", "it normalizes over several axes")
    along, rank = (0, 1) if isinstance(op, LayoutOp) else (axis, axis + 1)
    indices = range(WEIGHT, min(len(op.operands), _BIAS + 1))
    return axis, tuple(Parameter(i, _entries(site, i, along, rank)) for i in indices)


def _of_product(site: Site) -> tuple[int, tuple[Parameter, ...]]:
    """The channels and parameters of a product with a constant per channel. Raises NotLinked."""
    op, rank = site.compute, len(shape_of(site.compute.results[0]))
    index = 0 if _floats(site, 0) is not None else 1
    array = _floats(site, index)
    if array is None or array.ndim > rank or shape_of(op.operands[1 - index]) != shape_of(op.results[0]):
        raise NotLinked("constant-weight", "it is not a product with a constant")
    axis = rank - array.ndim + int(np.argmax(array.shape)) if array.ndim else 0
    return axis, (Parameter(index, _entries(site, index, axis, rank)),)


def _entries(site: Site, index: int, axis: int, rank: int) -> Array:
    """The channels of a constant operand that varies along an axis of the result alone. Raises NotLinked."""
    array = _floats(site, index)
    if array is None:
        raise NotLinked("constant-weight", "its factors are not constants of floats")
    shape: tuple[int, ...] = array.shape
    padded = (1,) * (rank - len(shape)) + shape
    if padded[axis] == 1 or any(size != 1 for i, size in enumerate(padded) if i != axis):
        raise NotLinked("channels", "its factors are not one per channel")
    return np.arange(padded[axis]).reshape(shape)


def ask_for_numbers(site: Site) -> None:
    """Raises NotLinked for a layer whose data or weight cannot be inspected."""
    if site.multiplies_inputs or _floats(site, WEIGHT) is None:
        raise NotLinked("constant-weight", f"the weight of {layer_of(site.compute)} is not a constant of floats")
    if site.activation is None:
        raise NotLinked("region", f"{layer_of(site.compute)} reads what its fused region computes")


def _floats(site: Site, index: int) -> Array | None:
    array = array_of(site.operand(index))
    return array if array is not None and array.size and array.dtype.kind not in "iub" else None


def _readers(value: SSAValue, channels: Channels, places: Places) -> tuple[list[Reader], list[Bounded]]:
    """All layers that read these channels, and bounds on the way. Raises NotLinked where something else reads them."""
    found: list[Reader] = []
    bounded: list[Bounded] = []
    products: set[Operation] = set()
    waiting = [(use, channels) for use in value.uses]
    if not waiting:
        raise NotLinked("reader", "nothing reads its result")
    while waiting:
        use, channels = waiting.pop()
        op = use.operation
        if isinstance(op, ReturnOp):
            raise NotLinked("graph-output", "its result is an output of the model")
        if (site := places.get(op)) is not None and use.index == 0:
            found.append(_reader(site, channels))
            continue
        if isinstance(op, BoundOp) and not op.is_homogeneous:
            bounded.append(Bounded(op, _outside(op), *channels))
            waiting += [(each, channels) for each in op.results[0].uses]
            continue
        if isinstance(op, MulOp):
            if op in products:
                raise NotLinked("homogeneous", f"'nn.mul' {layer_of(op)} multiplies its result by itself")
            products.add(op)
        behind, channels = _behind(use, channels)
        waiting += [(each, channels) for each in behind.uses]
    return found, bounded


def _outside(op: BoundOp) -> SSAValue:
    """The result of an operation, which a region must yield. Raises NotLinked."""
    (result,), region = op.results, op.parent_op()
    if not isinstance(region, FusedOp):
        return result
    if any(not isinstance(use.operation, YieldOp) for use in result.uses):
        raise NotLinked("region", f"'{op.name}' {layer_of(op)} bounds it inside a fused region")
    return region.result


def _reader(site: Site, channels: Channels) -> Reader:
    ask_for_numbers(site)
    if channels.axis != cast(WeightedOp, site.compute).input_axis:
        raise NotLinked("channels", f"{layer_of(site.compute)} reads it along another axis than its channels")
    return Reader(site, channels.of)


def _behind(use: Use, channels: Channels) -> tuple[SSAValue, Channels]:
    """The value after an operation that scales with what it reads, and where its channels are. Raises NotLinked."""
    op = use.operation
    if isinstance(op, FusedOp):
        return op.body.block.args[use.index], channels
    if isinstance(op, YieldOp) and isinstance(region := op.parent_op(), FusedOp):
        return region.result, channels
    what = f"'{op.name}' {layer_of(op)}"
    if isinstance(op, MulOp) and use.index == 1 and shape_of(op.rhs) == shape_of(op.result):
        return op.result, channels
    if not isinstance(op, NNOp) or use.index != 0 or not op.is_homogeneous or len(op.results) != 1:
        raise NotLinked("homogeneous", f"{what} reads its result, and does not scale with it")
    found = carried(op, channels)
    if found is None:
        raise NotLinked("channels", f"{what} does not keep its channels apart")
    return op.results[0], found
