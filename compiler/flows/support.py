"""Reports which layers of a model can be quantized, which rule prevents it, and which Ascend operators compute them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from ..dialects.ascend import AscendOp
from ..dialects.nn import ConstantOp, NNOp, OriginAttr, plan_of
from ..lowering.ascend import LowerToAscendPass
from ..lowering.ascend.chips import library
from ..lowering.ascend.chips.kernels import Kernel, kernel_of, nothing_known
from ..lowering.ascend.trial_lowering import kernels_in_integers
from ..rewriting import Refusal, layer_of
from ..session import Session
from ..transforms.fusion.fuse_all import FuseAllPass
from ..transforms.quantization.decide.conditions import DecideLayer
from ..transforms.quantization.decide.layers import NO_SETTINGS, is_quantized
from ..transforms.quantization.decide.legality import row_of
from ..transforms.quantization.decide.sites import sites
from ..transforms.quantization.place.insert_observers import insert_observers
from ..transforms.quantization.profiles import Profile, profile_of
from ..transforms.quantization.request import Request

Quantizable = Literal["fully", "tensor only", "no"]
"""Input and weight; the input alone, if `tensor_quantize` requests it; neither."""


@dataclass(frozen=True)
class LayerSupport:
    """The support of a layer. `rule` and `reason` say why it cannot be quantized fully; `rule` is empty if it can."""

    name: str
    type: str
    """The source framework's name for it; the operation's own name if it has no source framework."""
    quantizable: Quantizable
    rule: str
    reason: str
    ascend: tuple[str, ...]
    """The Ascend operators that the layer is lowered to; empty if it has no lowering."""
    ascend_of_type: tuple[str, ...]
    """The Ascend operators that AMCT's table names for layers of its type. For other types, if the layer is lowered to none:
    those that it would be lowered to without fusion.
    """
    kernels: tuple[str, ...] = ()
    """On a chip (`session.chip`): the operators that compute it, quantized if it can be, with their element types, or why one has
    no kernel.
    """


def layers_of(module: ModuleOp, session: Session) -> list[LayerSupport]:
    """Lists every layer of a module in program order, judged by the session's profile in a copy that is fused as in
    `amct quantize`. The module itself does not change.
    """
    profile, fused = profile_of(session), module.clone()
    FuseAllPass().apply(session.silent(), fused)
    verdicts = dict(_verdicts(fused, session, profile))
    left = {layer_of(op) for op in fused.walk() if isinstance(op, NNOp)}
    ascend, alone = _ascend_operations(fused, session), _ascend_operations(module, session)
    kernels = _kernels(fused, session, profile, verdicts, ascend)
    rows = {layer_of(op): row for op in module.walk() if isinstance(op, NNOp) and (row := row_of(op)) is not None}
    types = {
        layer_of(op): op.origin.op_type.data if isinstance(op.origin, OriginAttr) else op.name
        for op in module.walk()
        if isinstance(op, NNOp) and not isinstance(op, ConstantOp)
    }
    return [
        LayerSupport(
            name,
            kind,
            *(verdicts.get(name, _not_listed(kind, profile)) if name in left else _FOLDED),
            _names(ascend.get(name, ())),
            rows[name].ascend if name in rows else () if name in ascend else _names(alone.get(name, ())),
            kernels.get(name, ()),
        )
        for name, kind in types.items()
    ]


_Verdict = tuple[Quantizable, str, str]

_NOT_IN_PROFILE = "not-in-profile"
_FOLDED: _Verdict = ("no", "folded", "fusion folds it into another layer")


def _verdicts(module: ModuleOp, session: Session, profile: Profile) -> Iterator[tuple[str, _Verdict]]:
    """Quantization's verdict by layer name. A layer may be several operations, so quantized ones come last and override."""
    reported = insert_observers(module, Request(NO_SETTINGS, profile), session.silent())
    reasons = {(r.layer, r.rule): r.reason for r in reported if r.kind == "missed"}
    rows = profile.rows
    first = {site.owner: site for site in reversed(sites(module, rows))}
    found: list[tuple[str, _Verdict]] = []
    for site in sites(module, (NNOp,)):
        name, begin = layer_of(site.compute), first.get(site.owner, site)
        decided = begin.compute if profile.facts.by_region else site.compute
        if (plan := plan_of(decided)) is None:
            if type(site.compute) in rows and is_quantized(begin):
                found.append((name, ("fully", "", "it is already quantized in the model")))
        elif plan.rule is None:
            found.append((name, ("fully", "", "")))
        elif plan.rule != _NOT_IN_PROFILE:  # that is said in the words of the source
            kind: Quantizable = "tensor only" if plan.rule == DecideLayer.tensor_only.name else "no"
            found.append((name, (kind, plan.rule, reasons[layer_of(decided), plan.rule])))
    yield from sorted(found, key=lambda each: each[1][0] == "fully")


def _not_listed(kind: str, profile: Profile) -> _Verdict:
    if profile.table:
        return "no", "not-in-table", f"AMCT does not quantize {kind} layers"
    return "no", _NOT_IN_PROFILE, f"profile {profile.name} does not quantize {kind} layers"


def _names(operations: Iterable[AscendOp]) -> tuple[str, ...]:
    return tuple(op.name.removeprefix("ascend.") for op in operations)


def _ascend_operations(module: ModuleOp, session: Session) -> Mapping[str, list[AscendOp]]:
    """The lowered operations of a copy of the module, by layer."""
    lowered = module.clone()
    LowerToAscendPass().apply(session.silent(), lowered)
    made: dict[str, list[AscendOp]] = {}
    for op in lowered.walk():
        if isinstance(op, AscendOp):
            made.setdefault(layer_of(op), []).append(op)
    return made


def _kernels(
    module: ModuleOp,
    session: Session,
    profile: Profile,
    verdicts: Mapping[str, _Verdict],
    ascend: Mapping[str, list[AscendOp]],
) -> Mapping[str, tuple[str, ...]]:
    """The kernels of the session's chip for each layer, or why there is none, and a note if nothing is known about it."""
    if session.chip is None:
        return {}
    if not library(session.chip):
        session.note(nothing_known(session.chip))
        return {}
    in_float = {name: [kernel_of(op, session.chip) for op in made] for name, made in ascend.items()}
    found: dict[str, Sequence[Kernel | Refusal]] = {**in_float}
    for site in sites(module, profile.rows):
        name, row = layer_of(site.compute), profile.rows[type(site.compute)]
        if row.judge is not None and verdicts.get(name, _FOLDED)[0] == "fully":
            two_inputs = row.two_inputs and site.multiplies_inputs
            found[name] = kernels_in_integers(site.compute, two_inputs, session.chip)
    texts = {
        name: [each.reason if isinstance(each, Refusal) else str(each) for each in own] for name, own in found.items()
    }
    return {name: tuple(dict.fromkeys(own)) for name, own in texts.items()}
