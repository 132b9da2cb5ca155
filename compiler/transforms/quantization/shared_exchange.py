"""How much each layer affects the network's outputs, on a cluster: workers share the layers, and each runs all samples.

What a layer costs is a sum over samples in order: sharing layers leaves it as it is, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from xdsl.dialects.builtin import ModuleOp

from ...backends import Runner
from ...backends.cluster import failure
from ...backends.sharing import Bar, Packed, in_order, packed, part_of, unpacked
from ...runtime.data import Samples
from ...runtime.metrics import Measure
from ...session import Session
from .output_sensitivity import exchanged

M = TypeVar("M", bound=Measure)

_LAYERS = 4
"""Layers in a share. Each share runs the whole network once, and the network after each of its layers."""


class _Networks(NamedTuple):
    base: Packed
    other: Packed
    reference: Packed
    samples: Samples
    measure: Callable[[], Any]


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
    """What `exchanged` gives, computed by the cluster of `runner` if it has one. `measure` is a class."""
    if runner.cluster is None:
        return exchanged(base, other, layers, reference, samples, session, phase, measure)
    shares = [layers[i : i + _LAYERS] for i in range(0, len(layers), _LAYERS)]
    sent = part_of(samples, samples.first, samples.count)
    common = _Networks(packed(base, session), packed(other, session), packed(reference, session), sent, measure)
    found: dict[str, M] = {}
    bar = Bar.of(phase, [len(share) for share in shares])
    for parts in in_order(runner.cluster, _exchanged, common, shares, session, bar, _halves):
        for each in parts:
            found.update(each)
    return found


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
