"""`--insert-observers`: decides where quantization happens, and says why not elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ...diagnostics import CompileError
from ...dialects.nn import DequantizeOp, ObserveOp
from ...rewriting import Remarks, layer_of
from ...runtime.observers import make_observer
from ...session import session_of
from .legality import first_broken
from .profiles import Profile, Row, profile_named
from .sites import Site, sites


@dataclass(frozen=True)
class InsertObserversPass(ModulePass):
    """Put an observer on the input of every layer that the target profile quantizes and legality allows."""

    name = "insert-observers"

    observer: str = "minmax"
    skip_layers: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        make_observer(self.observer, 8, symmetric=False)  # raises where there is no such
        remarks = Remarks(ctx, self.name)
        profile = profile_named(session_of(ctx).profile)
        candidates = sites(op, profile.rows)
        _check_layers(self.skip_layers, candidates)
        points: dict[SSAValue, ObserveOp] = {}
        for site in candidates:
            producer = _producer(site.activation)
            if isinstance(producer, ObserveOp):
                continue
            if isinstance(producer, DequantizeOp):
                _report_half_quantized(site, profile.rows[type(site.compute)], remarks)
                continue
            if layer_of(site.compute) in self.skip_layers:
                remarks.missed(site.compute, "skip-layers", "it is on the list of skip-layers")
            elif (broken := first_broken(site, profile.rows[type(site.compute)].rules)) is not None:
                remarks.missed(site.compute, broken[0].name, broken[1])
            else:
                self._observe(site, profile, points)
                remarks.applied(site.compute, "observed", f"input observed by {self.observer}")
        remarks.flush()

    def _observe(self, site: Site, profile: Profile, points: dict[SSAValue, ObserveOp]) -> None:
        value = site.activation
        assert value is not None, "legality has asked for it"
        if value not in points:
            point = ObserveOp.make(
                value,
                point=f"{layer_of(site.compute)}:0",
                observer=self.observer,
                bits=profile.bits,
                symmetric=profile.symmetric_activations,
                location=site.compute.location,
            )
            Rewriter.insert_op(point, InsertPoint.before(site.owner))
            points[value] = point
        site.set_operand(0, points[value].result)


def _producer(value: SSAValue | None) -> Operation | None:
    return value.op if isinstance(value, OpResult) else None


def _report_half_quantized(site: Site, row: Row, remarks: Remarks) -> None:
    """A layer that came quantized is left as it is; where only its input did, that is said."""
    if row.weight is not None and not isinstance(_producer(site.operand(row.weight)), DequantizeOp):
        remarks.missed(site.compute, "weight-quantized", "its input came quantized, its weight did not: it is left so")


def _check_layers(names: tuple[str, ...], candidates: list[Site]) -> None:
    known = {layer_of(s.compute) for s in candidates}
    if unknown := [n for n in names if n not in known]:
        raise CompileError(
            f"skip-layers names {', '.join(unknown)}, which is no layer that could be quantized",
            hint=f"such layers are {', '.join(sorted(known)[:8])}{', ...' if len(known) > 8 else ''}",
        )
