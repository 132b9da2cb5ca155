"""How much each layer affects the network's outputs, on a cluster: workers share the layers, and each runs all samples.

What a layer costs is a sum over samples in order: sharing layers leaves it as it is, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ....backends import Runner
from ....backends.checkpoint import Checkpoint
from ....backends.cluster import failure
from ....backends.data_hash import digest_of
from ....backends.sharing import Bar, Packed, in_order, packed, part_of, unpacked
from ....runtime.data import Samples
from ....runtime.metrics import Measure
from ....session import Session
from .output_sensitivity import exchanged

Array = np.ndarray[Any, np.dtype[Any]]
M = TypeVar("M", bound=Measure)

_LAYERS = 4
"""Layers in a share. Each share runs the whole network once, and the network after each of its layers."""


class _Networks(NamedTuple):
    base: Packed
    other: Packed
    reference: Packed
    samples: Samples
    measure: Callable[[], Any]

    @property
    def key(self) -> tuple[str, ...]:
        """What is measured, as plain data, beside the layers and the samples."""
        return *(each.digest for each in self[:3]), type(self.measure()).__name__


def exchanged_by(
    runner: Runner,
    base: ModuleOp,
    other: ModuleOp,
    layers: Sequence[str],
    reference: ModuleOp,
    samples: Samples,
    session: Session,
    phase: str,
    measure: Callable[[], M],
) -> dict[str, M]:
    """What `exchanged` gives, computed by the cluster of `runner` if it has one, whose checkpoint keeps the layers that are done.
    `measure` is a dataclass of numbers.
    """
    if runner.cluster is None:
        return exchanged(base, other, layers, reference, samples, session, phase, measure)
    shares = [layers[i : i + _LAYERS] for i in range(0, len(layers), _LAYERS)]
    sent = part_of(samples, samples.first, samples.count)
    send = partial(packed, session=session, cluster=runner.cluster)
    common = _Networks(send(base), send(other), send(reference), sent, measure)
    digest = partial(digest_of, samples, session, runner.cluster)
    checkpoint = Checkpoint.of(runner.checkpoint, lambda: (*common.key, layers, digest(), samples.batch_size))
    merged, kept = checkpoint.taken_up()
    found = {layers[int(number)]: _measure_of(measure(), numbers) for number, numbers in kept.items()}
    sizes = [len(share) for share in shares]
    bar = Bar(phase, sizes[merged:], sum(sizes[:merged]), len(layers))
    for parts in in_order(runner.cluster, _exchanged, common, shares[merged:], session, bar, _halves):
        for each in parts:
            found.update(each)
        merged += 1
        checkpoint.keep(partial(_arrays, layers, found), merged, last=merged == len(shares))
    return found


def _arrays(layers: Sequence[str], found: Mapping[str, Any]) -> Mapping[str, Array]:
    """The measures of the layers that are done, by the layer's number."""
    return {str(i): np.array(astuple(found[name]), np.float64) for i, name in enumerate(layers) if name in found}


def _measure_of(zero: Any, numbers: Array) -> Any:
    """A measure with these numbers, which have the types of those that it begins with."""
    return type(zero)(*(type(first)(number) for first, number in zip(astuple(zero), numbers, strict=True)))


def _halves(layers: Sequence[str]) -> Sequence[Sequence[str]]:
    """Half of the layers each. Raises CompileError for one."""
    if len(layers) == 1:
        raise failure(layers[0])
    middle = len(layers) // 2
    return layers[:middle], layers[middle:]


def _exchanged(networks: _Networks, layers: Sequence[str]) -> dict[str, Any]:
    """On a worker: the measures of some layers."""
    (base, session), (other, _), (reference, _) = map(unpacked, networks[:3])
    return exchanged(base, other, layers, reference, networks.samples, session, "", networks.measure)
