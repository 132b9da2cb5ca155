"""Quantization points on inputs of operations: points on one value with equal specifications are shared."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, LocationAttr, ModuleOp, UnitAttr
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import LayerRecord
from ....dialects.nn import ObserveOp, ParamsSource, ParamsSourceAttr, QParamsAttr, Spec, plan_of
from ....dialects.nn.properties import integer
from ....ir.functions import main_function
from ..decide.sites import Site


def spec_of(held: LayerSettings, given: LayerRecord | None) -> Spec:
    """The specification from settings, or the parameters from a record."""
    return Spec(held.observer, held.bits, held.symmetric) if given is None else recorded(held.observer, given)


def recorded(observer: str, given: LayerRecord) -> Spec:
    """The parameters of a record's `scale_d` and `offset_d`."""
    assert given.scale_d is not None
    assert given.offset_d is not None
    params = QParamsAttr.of(IntegerType(given.bits), given.scale_d, given.offset_d)
    return Spec(observer, given.bits, given.offset_d == 0, params)


def producer_of(value: SSAValue | None) -> Operation | None:
    """The operation that computes a value, None for an argument."""
    return value.op if isinstance(value, OpResult) else None


class Points:
    """Creates points, and shares equal ones."""

    def __init__(self, module: ModuleOp) -> None:
        self._order = {op: i for i, op in enumerate(main_function(module).body.block.ops)}
        self._made: dict[tuple[SSAValue, Spec, Site | None], tuple[ObserveOp, int]] = {}
        """The points, each with the position of its first reader, before which it stands."""
        self._replaced: set[ObserveOp] = set()

    def observe(
        self, site: Site, index: int, value: SSAValue, spec: Spec, name: str, only_for: Site | None = None
    ) -> None:
        """Let an operation read `value` through a point, replacing any point that it reads through now; `only_for` gives a
        layer a point that is not shared.
        """
        if isinstance(old := producer_of(site.operand(index)), ObserveOp):
            self._replaced.add(old)
        key = (value, spec, only_for)
        place = self._order[site.owner]
        if key not in self._made:
            made = make_point(value, name, spec, site.compute.location)
            Rewriter.insert_op(made, InsertPoint.before(site.owner))
            self._made[key] = made, place
        point, first = self._made[key]
        if place < first:
            point.detach()
            Rewriter.insert_op(point, InsertPoint.before(site.owner))
            self._made[key] = point, place
        site.set_operand(index, point.result)

    def place(self, site: Site, layer: str) -> None:
        """Let a layer read operands as its plan has them. One whose channels are balanced has points of its own."""
        plan = plan_of(site.compute)
        for index, spec in () if plan is None else plan.points:
            value = site.operand(index)
            assert value is not None, "legality has asked for it"
            if index == 0 and isinstance(value.owner, ObserveOp):
                value = value.owner.input
            only_for = site if plan is not None and plan.balance is not None else None
            self.observe(site, index, value, spec, f"{layer}:{index}", only_for)

    def erase_unused(self) -> None:
        """Erase the points that were replaced."""
        for point in self._replaced:
            if not point.result.uses:
                point.detach()
                point.erase()


def make_point(value: SSAValue, name: str, spec: Spec, location: LocationAttr) -> ObserveOp:
    """A new point on a value, not inserted yet."""
    return ObserveOp.make(
        value,
        point=name,
        observer=spec.observer,
        bits=spec.bits,
        symmetric=spec.symmetric,
        qparams=spec.qparams,
        source=None if spec.qparams is None else ParamsSourceAttr(ParamsSource.RECORD),
        location=location,
    )


def set_parameters(point: ObserveOp, spec: Spec) -> None:
    """Give an existing point the parameters of a record."""
    point.bits, point.symmetric = integer(spec.bits), UnitAttr() if spec.symmetric else None
    point.qparams, point.source = spec.qparams, ParamsSourceAttr(ParamsSource.RECORD)
