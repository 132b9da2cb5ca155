"""Reports which layers of a model can be quantized, which rule prevents it, and which Ascend operators compute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from ..dialects.ascend import AscendOp
from ..dialects.nn import ConstantOp, NNOp, OriginAttr, plan_of
from ..lowering.ascend import LowerToAscendPass
from ..rewriting import layer_of
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


def layers_of(module: ModuleOp, session: Session) -> list[LayerSupport]:
    """Lists every layer of a module in program order, judged by the session's profile in a copy that is fused as in
    `amct quantize`. The module itself does not change.
    """
    profile, fused = profile_of(session), module.clone()
    FuseAllPass().apply(session.silent(), fused)
    verdicts = dict(_verdicts(fused, session, profile))
    left = {layer_of(op) for op in fused.walk() if isinstance(op, NNOp)}
    ascend, alone = _ascend_operators(fused, session), _ascend_operators(module, session)
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
            tuple(ascend.get(name, ())),
            rows[name].ascend if name in rows else () if name in ascend else tuple(alone.get(name, ())),
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


def _ascend_operators(module: ModuleOp, session: Session) -> Mapping[str, list[str]]:
    """The lowered operations of a copy of the module, by layer."""
    lowered = module.clone()
    LowerToAscendPass().apply(session.silent(), lowered)
    made: dict[str, list[str]] = {}
    for op in lowered.walk():
        if isinstance(op, AscendOp):
            made.setdefault(layer_of(op), []).append(op.name.removeprefix("ascend."))
    return made
