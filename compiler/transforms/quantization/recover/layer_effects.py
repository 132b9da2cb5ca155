"""Measures how much each layer affects the outputs of the network: one layer at a time is replaced by its form in another module.

Values that do not depend on the layer are computed once for all layers; the network after the layer runs again. On a cluster,
workers share the layers, and each runs all samples: what a layer costs is a sum over samples in order, the same to the bit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ....data import Samples
from ....dialects.nn import QuantizeOp, is_layer
from ....engines import HERE, Runner
from ....engines.checkpoint import Checkpoint
from ....engines.cluster import failure
from ....engines.data_hash import digest_of
from ....engines.sharing import Bar, Packed, in_order, packed, part_of, unpacked
from ....ir.array import Array
from ....ir.functions import main_function, output_names, return_op
from ....rewriting import layer_of
from ....runtime.executor import Executable
from ....runtime.metrics import Measure
from ....session import Session
from ..decide.sites import Site, shift_of, sites
from ..profiles import profile_of
from .sensitivity import by_itself, copied, inputs_of, is_constant

M = TypeVar("M", bound=Measure)


_LAYERS = 4
"""Layers in a share. Each share runs the whole network once, and the network after each of its layers."""


class _Forms(NamedTuple, Generic[M]):
    """The networks of `exchanged`, the samples, and the measure to begin with."""

    base: ModuleOp
    other: ModuleOp
    reference: ModuleOp
    samples: Samples
    measure: Callable[[], M]


class _Sent(NamedTuple):
    """The data that workers need to measure layers."""

    base: Packed
    other: Packed
    reference: Packed
    samples: Samples
    measure: Callable[[], Any]

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the measurement, as plain data, apart from the layers and the samples."""
        return *(each.digest for each in self[:3]), repr(self.measure())


def exchanged(
    base: ModuleOp,
    other: ModuleOp,
    layers: Sequence[str],
    reference: ModuleOp,
    samples: Samples,
    session: Session,
    phase: str,
    measure: Callable[[], M],
    runner: Runner = HERE,
) -> dict[str, M]:
    """The distance of `base`'s outputs from those of `reference` if `other` computes this one layer, by layer.

    The three modules are float or quantized forms of one network without fused regions, with the same layer names.
    `session.on_progress` is called with `phase`. The checkpoint of a cluster keeps the layers that are done. Raises CompileError
    if a module cannot be run.
    """
    if runner.cluster is None:
        return _exchanged(_Forms(base, other, reference, samples, measure), layers, session, phase)
    shares = [layers[i : i + _LAYERS] for i in range(0, len(layers), _LAYERS)]
    sent = part_of(samples, samples.first, samples.count)
    send = partial(packed, session=session, cluster=runner.cluster)
    common = _Sent(send(base), send(other), send(reference), sent, measure)
    digest = partial(digest_of, samples, session, runner.cluster)
    checkpoint = Checkpoint.of(runner.checkpoint, lambda: (*common.key, layers, digest(), samples.batch_size))
    merged, kept = checkpoint.taken_up()
    taken_up = measure().taken_up
    found = {layers[int(number)]: taken_up(json.loads(text.tobytes())) for number, text in kept.items()}
    sizes = [len(share) for share in shares]
    bar = Bar(phase, sizes[merged:], sum(sizes[:merged]), len(layers))
    for parts in in_order(runner.cluster, _on_worker, common, shares[merged:], session, bar, _halves):
        for each in parts:
            found.update(each)
        merged += 1
        checkpoint.keep(partial(_arrays, layers, found), merged, last=merged == len(shares))
    return found


def _arrays(layers: Sequence[str], found: Mapping[str, Measure]) -> Mapping[str, Array]:
    """The measures of the layers that are done as text, by the layer's number."""
    texts = {i: json.dumps(found[name].data()) for i, name in enumerate(layers) if name in found}
    return {str(i): np.frombuffer(text.encode(), np.uint8) for i, text in texts.items()}


def _halves(layers: Sequence[str]) -> Sequence[Sequence[str]]:
    """Half of the layers each. Raises CompileError for one."""
    if len(layers) == 1:
        raise failure(layers[0])
    middle = len(layers) // 2
    return layers[:middle], layers[middle:]


def _on_worker(networks: _Sent, layers: Sequence[str]) -> dict[str, Any]:
    """The measures of some layers."""
    (base, session), (other, _), (reference, _) = map(unpacked, networks[:3])
    return _exchanged(_Forms(base, other, reference, networks.samples, networks.measure), layers, session, "")


def _exchanged(given: _Forms[M], layers: Sequence[str], session: Session, phase: str) -> dict[str, M]:
    base, other, reference, samples, measure = given
    rows = profile_of(session).rows
    forms = {layer_of(site.compute): site for site in sites(other, rows)}
    found = [
        _Exchanged(name, inputs_of(site), Executable(by_itself(forms[name])), _rest(base, _result(site)), measure())
        for site in sites(base, rows)
        if (name := layer_of(site.compute)) in layers and name in forms
    ]
    _measure(base, reference, found, samples, session, phase)
    return {each.layer: each.measured for each in found}


def rounded(
    whole: ModuleOp,
    quantized: ModuleOp,
    places: Mapping[str, Sequence[int]],
    samples: Samples,
    session: Session,
    phase: str,
    measure: Callable[[], M],
) -> dict[str, list[M]]:
    """The distance of the outputs from those in float if one value of a layer is rounded as at its point in
    `quantized`, the same network in its quantized form, and all else computes in float: by layer, a measure for each of
    its `places` in `layer_values`. Values that have no point there are left out.

    Raises CompileError if a module cannot be run.
    """
    values, forms = layer_values(whole), layer_values(quantized)
    found = [
        _Exchanged(layer, [values[i]], Executable(_rounding(point)), _rest(whole, values[i]), measure())
        for layer, own in places.items()
        for i in own
        for point in [use.operation for use in forms[i].uses if isinstance(use.operation, QuantizeOp)][:1]
    ]
    _measure(whole, whole, found, samples, session, phase)
    return {layer: [each.measured for each in found if each.layer == layer] for layer in places}


def layer_values(module: ModuleOp) -> list[SSAValue]:
    """The inputs of the graph and the results of layers, which are the same in all forms of a network without regions."""
    block = main_function(module).body.block
    return [*block.args, *(result for op in block.ops if is_layer(op) for result in op.results)]


def _rounding(point: QuantizeOp) -> ModuleOp:
    """A module that quantizes a value as at its point, and dequantizes it."""
    dequantized = next(use.operation.results[0] for use in point.result.uses)
    block = Block(arg_types=[point.input.type])
    result = copied(dequantized, {point.input: block.args[0]}, block)
    block.add_op(ReturnOp(result))
    return ModuleOp([FuncOp("main", ([point.input.type], [result.type]), Region(block))])


def _measure(
    base: ModuleOp,
    reference: ModuleOp,
    found: Sequence[_Exchanged[Any]],
    samples: Samples,
    session: Session,
    phase: str,
) -> None:
    """Measure the distance of the outputs of `base` from those of `reference` with each change alone."""
    needed = {value for each in found for value in (*each.inputs, *each.rest.values)}
    whole, wanted = Executable(base, list(needed)), Executable(reference)
    for i, batch in enumerate(samples.batches()):
        seen: dict[SSAValue, Array] = {}
        outputs = whole.run(batch, lambda value, array, seen=seen: seen.update({value: array.copy()}))
        expected = wanted.run(batch)
        for each in found:
            each.measured.add(expected, {**outputs, **each.run(seen)})
        session.progress(phase, i + 1, samples.runs)


@dataclass(frozen=True)
class _Rest:
    """Computes the outputs that depend on a value, from inputs in this order: the value, then `values`."""

    executable: Executable
    values: Sequence[SSAValue]
    """Further values of the whole module that the rest reads."""
    outputs: Sequence[str]


@dataclass(frozen=True)
class _Exchanged(Generic[M]):
    """A part of the running module, its other form as a separate module, and the network after it."""

    layer: str
    inputs: Sequence[SSAValue]
    """The values of the running module that it reads."""
    alone: Executable
    rest: _Rest
    measured: M

    def run(self, seen: Mapping[SSAValue, Array]) -> dict[str, Array]:
        """The changed outputs by name, computed from the values of the running module."""
        inputs = [seen[value] for value in self.inputs]
        (result,) = self.alone.run(dict(zip(self.alone.inputs, inputs, strict=True))).values()
        given = [result, *(seen[value] for value in self.rest.values)]
        executable = self.rest.executable
        outputs = executable.run(dict(zip(executable.inputs, given, strict=True)))
        return dict(zip(self.rest.outputs, outputs.values(), strict=True))


def _result(site: Site) -> SSAValue:
    """A layer's result; if its sums are shifted, the result of the shift."""
    end = site.compute if (shift := shift_of(site.compute)) is None else shift
    return end.results[0]


def _rest(module: ModuleOp, value: SSAValue) -> _Rest:
    """A module of all operations that depend on `value`, up to the outputs that do."""
    main = main_function(module)
    block = Block(arg_types=[value.type])
    values: dict[SSAValue, SSAValue] = {value: block.args[0]}
    dependent, arguments, constants = {value}, list[SSAValue](), dict[SSAValue, SSAValue]()
    for op in main.body.block.ops:
        if op is return_op(main) or dependent.isdisjoint(op.operands):
            continue
        for operand in op.operands:
            if operand in values:
                continue
            if is_constant(operand):
                values[operand] = copied(operand, constants, block)
            else:
                values[operand] = block.insert_arg(operand.type, len(block.args))
                arguments.append(operand)
        copy = op.clone(values)
        block.add_op(copy)
        values.update(zip(op.results, copy.results, strict=True))
        dependent.update(op.results)
    named = zip(output_names(main), return_op(main).operands, strict=True)
    ends = [(name, values[output]) for name, output in named if output in dependent]
    results = [end for _, end in ends]
    block.add_op(ReturnOp(*results))
    types = [each.type for each in block.args], [each.type for each in results]
    rest = ModuleOp([FuncOp("main", types, Region(block))])
    return _Rest(Executable(rest), arguments, [name for name, _ in ends])
