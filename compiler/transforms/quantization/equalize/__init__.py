"""`--equalize`: channels divided by powers of two, and the weights that read them multiplied, where that quantizes better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, log10
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....backends import Runner
from ....dialects.nn import ConstantOp, array_of, constant_of
from ....rewriting import Remarks, erase_dead_constants, layer_of
from ....runtime.data import Samples
from ....session import Session, session_of
from ..balance_channels.input_channels import Weighted, weight_channels
from ..data_options import BackendOptions, DataOptions
from ..recovery_options import RecoveryOptions
from ..request import QuantizationOptions, Request
from ..sites import Site
from .channels_seen import channels_seen
from .costs import Grids, Weight
from .grids import grids_of
from .links import WEIGHT, Link, links_of
from .search import Search
from .trial import outputs_lost

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class EqualizePass(QuantizationOptions, DataOptions, BackendOptions, ModulePass):
    """Divide output channels of layers and norms by powers of two, and multiply the weights of all layers that read them by the
    same, where data shows that quantization then costs less: cross-layer equalization and SmoothQuant. What the module computes
    in float does not change by a bit. Options are those of the quantization that follows. Batch norms are to be folded before.
    """

    name = "equalize"

    def request(self, session: Session) -> Request:
        return replace(super().request(session), recovery=RecoveryOptions(equalize=True))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        request = self.request(session)
        samples = self.within(request.settings)
        equalize(op, request, lambda: samples.load(op, session), session, self.runner())


class Change(NamedTuple):
    """A constant operand of a layer, before and after."""

    site: Site
    operand: int
    before: SSAValue
    after: ConstantOp


def equalize(
    module: ModuleOp, request: Request, samples: Callable[[], Samples], session: Session, runner: Runner
) -> None:
    """If it is requested, scale the channels of links where it is worth it; all is as before if the quantized module's outputs
    get worse.

    Raises CompileError, located, for NaN or Inf in the data or in what layers read, and for settings that name layers which
    the module does not have.
    """
    if not request.recovery.equalize:
        return
    remarks = Remarks(session, EqualizePass.name)
    links, refused = links_of(module)
    for layer, refusal in refused.items():
        remarks.missed(layer, *refusal)
    if links:
        _equalize(module, links, request.within(module, session), samples(), session, runner, remarks)
    erase_dead_constants(module)
    remarks.flush()


def _equalize(
    module: ModuleOp,
    links: Sequence[Link],
    request: Request,
    samples: Samples,
    session: Session,
    runner: Runner,
    remarks: Remarks,
) -> None:
    layers = {each.site.compute: each.site for link in links for each in (link, *link.readers)}
    weighted = [site for site in layers.values() if isinstance(site.compute, Weighted)]
    grids = grids_of(module, weighted, request)
    weights = {site.compute: _weight(site, grid) for site, grid in zip(weighted, grids, strict=True)}
    search = Search(links, weights, channels_seen(module, weighted, samples, session, runner))
    search.run()
    before, changes = module.clone(), list[Change]()
    done: list[tuple[Link, str]] = []
    for link, exponents in search.exponents.items():
        if not exponents.any():
            remarks.missed(link.compute, "no-gain", "no factors make its readers' errors a fifth smaller")
        elif (changed := _scaled(link, exponents)) is None:
            remarks.missed(link.compute, "exact", "its numbers times powers of two leave the range of their type")
        else:
            changes += changed
            done.append((link, _outcome(link, exponents, search)))
    if changes and (lost := outputs_lost(before, module, request, samples, session, runner)) is not None:
        for change in reversed(changes):
            change.site.set_operand(change.operand, change.before)
        for link, _ in done:
            remarks.missed(link.compute, "outputs", lost)
        return
    for link, outcome in done:
        remarks.applied(link.compute, "equalized", outcome)


def _weight(site: Site, grids: Grids) -> Weight:
    array = array_of(site.operand(WEIGHT))
    assert array is not None, "links have constant weights"
    return Weight.of(cast(Weighted, site.compute), array, grids)


def _scaled(link: Link, exponents: Array) -> list[Change] | None:
    """Divide a link's channels by 2^exponents and multiply what reads them; None, with nothing changed, if that rounds."""
    shifts = [(link.site, index, -exponents[channels]) for index, channels in link.parameters]
    for site, of in link.readers:
        shifts.append((site, WEIGHT, exponents[of][weight_channels(cast(Weighted, site.compute))]))
    scaled = [_times(site.operand(index), shift) for site, index, shift in shifts]
    changes: list[Change] = []
    for (site, index, _), constant in zip(shifts, scaled, strict=True):
        before = site.operand(index)
        if constant is None or before is None:
            return None
        changes.append(Change(site, index, before, constant))
    for site, index, _, after in changes:
        Rewriter.insert_op(after, InsertPoint.before(site.owner))
        site.set_operand(index, after.result)
    return changes


def _times(value: SSAValue | None, shifts: Array) -> ConstantOp | None:
    """A constant times 2^shifts; None where its type does not hold that."""
    constant = constant_of(value)
    assert constant is not None, "links have constant parameters"
    numbers = constant.array
    with np.errstate(all="ignore"):
        scaled = np.ldexp(numbers.astype(np.float64), shifts).astype(numbers.dtype)
        back = np.ldexp(scaled.astype(np.float64), -shifts)
    if not np.array_equal(back, numbers.astype(np.float64)):
        return None
    return ConstantOp.of(scaled, f"{constant.key.removesuffix('.equalized')}.equalized", constant.location)


def _outcome(link: Link, exponents: Array, search: Search) -> str:
    readers = ", ".join(layer_of(reader.site.compute) for reader in link.readers)
    without, left = (search.error(link, each) for each in (np.zeros_like(exponents), exponents))
    gain = 10 * log10(without / left) if left else inf
    return (
        f"{np.count_nonzero(exponents)} of {exponents.size} channels divided by 2^{exponents.min()} to 2^{exponents.max()}, "
        f"the error of {readers} {gain:.1f} dB smaller"
    )


__all__ = ["EqualizePass", "equalize"]
