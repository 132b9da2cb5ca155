"""Which layers of a model can be quantized, by which rule not, and what computes them on Ascend; known before any work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from .dialects.ascend import AscendOp
from .dialects.nn import ConstantOp, NNOp, OriginAttr
from .lowering.ascend import LowerToAscendPass
from .rewriting import Remarks, layer_of
from .session import Session
from .transforms.fusion.fuse_all import FuseAllPass
from .transforms.quantization.layers import NO_SETTINGS, has_integer_weight, is_quantized
from .transforms.quantization.legality import Broken, first_broken, other_layers
from .transforms.quantization.profiles import Profile, profile_of
from .transforms.quantization.rules.layer_rules import tensor_only
from .transforms.quantization.sites import Site, sites
from .transforms.quantization.values.between import layers_in_integers

Quantizable = Literal["fully", "tensor only", "no"]
"""Input and weight; the input alone, where `tensor_quantize` asks for it; neither."""


@dataclass(frozen=True)
class LayerSupport:
    """The support of a layer. `rule` and `reason` say why it cannot be quantized fully; `rule` is empty where it can."""

    name: str
    type: str
    """As the source framework calls it; an operation's own name where it comes from none."""
    quantizable: Quantizable
    rule: str
    reason: str
    ascend: tuple[str, ...]
    """The Ascend operators that the layer is lowered to; none where there are none yet."""


def layers_of(module: ModuleOp, session: Session) -> list[LayerSupport]:
    """Every layer of a module in program order, judged by the session's profile in a copy that is fused as `amct quantize` fuses
    it. The module stays as it is.
    """
    profile, fused = profile_of(session), module.clone()
    FuseAllPass().apply(session.silent(), fused)
    verdicts = dict((_of_values if profile.points == "values" else _of_layers)(fused, session, profile))
    left = {layer_of(op) for op in fused.walk() if isinstance(op, NNOp)}
    ascend = _ascend_operators(fused, session)
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
        )
        for name, kind in types.items()
    ]


_Verdict = tuple[Quantizable, str, str]

_FOLDED: _Verdict = ("no", "folded", "fusion folds it into another layer")


def _of_values(module: ModuleOp, session: Session, profile: Profile) -> Iterator[tuple[str, _Verdict]]:
    """Layers by name, as quantization decides of all of them: there it counts what stands around an operation. Where a layer is
    several operations, those that are quantized come last.
    """
    remarks = Remarks(session.silent(), "support")
    layers, _ = layers_in_integers(module, NO_SETTINGS, None, profile, remarks)
    found = sites(module, profile.rows)
    first = {site.owner: site for site in reversed(found)}
    for site in sorted(found, key=lambda each: each.owner in layers):
        begin = first[site.owner]
        if site.owner in layers or has_integer_weight(begin):
            yield layer_of(site.compute), _verdict(begin, None)
        else:
            remark = remarks.of(begin.compute)[0]
            yield layer_of(site.compute), ("no", remark.rule, remark.reason)


def _of_layers(module: ModuleOp, session: Session, profile: Profile) -> Iterator[tuple[str, _Verdict]]:
    """Layers that quantization considers, by name; where a layer is several operations, those that count come last."""
    rows = profile.rows
    found = sites(module, rows)
    judged = [
        (s, None if is_quantized(s) else first_broken(s, rows[type(s.compute)].rules, profile.table)) for s in found
    ]
    if profile.table:
        judged.extend(other_layers(module, rows))
    for site, broken in sorted(judged, key=lambda each: each[1] is None):
        yield layer_of(site.compute), _verdict(site, broken)


def _verdict(site: Site, broken: Broken | None) -> _Verdict:
    if broken is None:
        return "fully", "", "it is already quantized in the model" if is_quantized(site) else ""
    rule, reason = broken
    return "tensor only" if rule is tensor_only else "no", rule.name, reason


def _not_listed(kind: str, profile: Profile) -> _Verdict:
    if profile.table:
        return "no", "not-in-table", f"AMCT does not quantize {kind} layers"
    return "no", "not-in-profile", f"profile {profile.name} does not quantize {kind} layers"


def _ascend_operators(module: ModuleOp, session: Session) -> Mapping[str, list[str]]:
    """The lowered operations of a copy of the module, by layer."""
    lowered = module.clone()
    LowerToAscendPass().apply(session.silent(), lowered)
    made: dict[str, list[str]] = {}
    for op in lowered.walk():
        if isinstance(op, AscendOp):
            made.setdefault(layer_of(op), []).append(op.name.removeprefix("ascend."))
    return made
