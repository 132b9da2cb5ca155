"""The sensitivity of each layer to quantization: the cosine between its results in float and quantized (AMCT)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, OpResult, Region, SSAValue

from ....data import Samples
from ....dialects.nn import before_points
from ....dialects.nn.fused import outside
from ....ir.array import Array
from ....rewriting import layer_of
from ....runtime.executor import Executable
from ....session import Session
from ..decide.layers import able_names, candidates, is_quantized
from ..decide.sites import Site, balancer_of, shift_of, sites
from ..profiles import profile_of


def sensitivities(whole: ModuleOp, quantized: ModuleOp, samples: Samples, session: Session) -> dict[str, float]:
    """The sensitivity `0.5 + 0.5 * cosine` of a layer's results in floats and quantized, by quantized layer, the worst
    first; 1 means no difference.

    Both modules hold the same layers, fused alike. Every layer gets the inputs that it has in `whole`, of all samples. A layer
    that gives nothing but zeros in floats counts 1, one that does so only quantized 0.
    """
    rows = profile_of(session).rows
    alone = _quantized(quantized, session)
    layers = {
        name: _Pair(site, Executable(by_itself(alone[name])), _Cosine())
        for site in sites(whole, rows)
        if (name := layer_of(site.compute)) in alone
    }
    readers: dict[SSAValue, list[tuple[_Pair, str]]] = {}
    makers: dict[SSAValue, _Pair] = {}
    pending: dict[SSAValue, Array] = {}
    for pair in layers.values():
        for value, name in zip(inputs_of(pair.site), pair.alone.inputs, strict=True):
            readers.setdefault(value, []).append((pair, name))
        makers[pair.site.compute.results[0]] = pair

    def watch(value: SSAValue, array: Array) -> None:
        if (pair := makers.get(value)) is not None:
            pair.cosine.add(array, pending.pop(value))
        for pair, name in readers.get(value, ()):
            pair.waiting[name] = array
            if len(pair.waiting) == len(pair.alone.inputs):
                (pending[pair.site.compute.results[0]],) = pair.alone.run(pair.waiting).values()
                pair.waiting.clear()

    executable = Executable(whole, list({**readers, **makers}))
    for i, batch in enumerate(samples.batches()):
        executable.run(batch, watch)
        session.progress("rank", i + 1, samples.runs)
    found = {name: pair.cosine.result() for name, pair in layers.items()}
    return dict(sorted(found.items(), key=lambda entry: entry[1]))


def quantized_layers(module: ModuleOp, session: Session) -> tuple[str, ...]:
    """The names of the layers that are quantized, in program order."""
    return tuple(_quantized(module, session))


def _quantized(module: ModuleOp, session: Session) -> dict[str, Site]:
    """The layers that are quantized."""
    profile = profile_of(session)
    names = able_names(candidates(module, profile))
    found = {layer_of(site.compute): site for site in sites(module, profile.rows) if is_quantized(site)}
    return {name: site for name, site in found.items() if name in names}


@dataclass(frozen=True, eq=False)
class _Pair:
    """A layer of the float module, and its quantized form alone."""

    site: Site
    alone: Executable
    cosine: _Cosine
    waiting: dict[str, Array] = field(default_factory=dict[str, Array])
    """The inputs received so far, until all are complete."""


@dataclass
class _Cosine:
    """Sums over everything that was added, in float64."""

    product: float = 0
    first: float = 0
    second: float = 0

    def add(self, a: Array, b: Array) -> None:
        x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
        self.product += float(x @ y)
        self.first += float(x @ x)
        self.second += float(y @ y)

    def result(self) -> float:
        if not self.first:
            return 1.0
        return 0.5 + 0.5 * self.product / np.sqrt(self.first * self.second).item() if self.second else 0.0


def by_itself(site: Site) -> ModuleOp:
    """A module that computes one quantized layer: from its inputs in floats to its result, including the shift of its sums."""
    sources = inputs_of(site)
    block = Block(arg_types=[source.type for source in sources])
    values: dict[SSAValue, SSAValue] = dict(zip(sources, block.args, strict=True))
    end = site.compute if (shift := shift_of(site.compute)) is None else shift
    result = copied(end.results[0], values, block)
    block.add_op(ReturnOp(result))
    return ModuleOp([FuncOp("main", ([source.type for source in sources], (result.type,)), Region(block))])


def inputs_of(site: Site) -> list[SSAValue]:
    """The computed values that a layer read before it was quantized, each once, in the order of its operands."""
    if (product := balancer_of(site)) is not None:
        return [product.operands[0]]
    operands = (site.operand(i) for i in range(len(site.compute.operands)))
    sources = (before_points(each) for each in operands if each is not None)
    return [value for value in dict.fromkeys(sources) if not is_constant(value)]


def is_constant(value: SSAValue) -> bool:
    """Whether a value does not depend on any input: a constant, or a value computed of constants (a dequantized weight)."""
    if isinstance(value, BlockArgument):
        return False
    assert isinstance(value, OpResult)
    return all(map(is_constant, value.op.operands))


def copied(value: SSAValue, values: dict[SSAValue, SSAValue], block: Block) -> SSAValue:
    """A copy of the operation that computes a value, and of those that it needs, at the end of the block."""
    value = outside(value)
    if value not in values:
        assert isinstance(value, OpResult), "a layer reads its input and constants"
        operands: Mapping[SSAValue, SSAValue] = {o: copied(o, values, block) for o in value.op.operands}
        copy = value.op.clone(dict(operands))
        block.add_op(copy)
        values.update(zip(value.op.results, copy.results, strict=True))
    return values[value]
