"""Joint quantization (AMCT's joint_quant): the inputs and the result of a sum share one scale and one zero point.

AMCT does not document how. Here the points on a sum's inputs and on its result, which the quantized layers before and
behind it read through, are one group and observed together: the range is searched on the union of their values. Sums in a row,
as along a residual chain, thereby share one. The result is that of the activation behind the sum, where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ....dialects.nn import AddOp, FusedOp, NNOp, ObserveOp, plan_of
from ....ir.functions import main_function
from ....rewriting import Remarks, layer_of
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..decide.layer_inputs import ends_layer, inputs_of, sum_broken
from ..decide.sites import Site, sites
from .alignment import align, groups_of, settle
from .points import producer_of

_RULE = "joint-quant"


def join_sums(module: ModuleOp, remarks: Remarks) -> None:
    """Group the points of each sum (layer types Add and Eltwise). Leaves a remark for each member, and for sums without two."""
    sums = [site for site in sites(module, (AddOp,)) if ends_layer(site)]
    order = {op: i for i, op in enumerate(main_function(module).body.block.ops)}
    for site in sums:
        if (reason := sum_broken(site)) is not None:
            remarks.missed(site.compute, _RULE, reason)
            continue
        members = [p for value in _values(site) for p in _points_on(value, order)]
        for point in align("joint", layer_of(site.compute), members, ()):
            remarks.note(
                site.compute,
                f"{_RULE}-{point.point.data}",
                f"{point.point.data} {_spec(point)}, unlike {_first(members)}",
            )
        if len(set(members)) < 2:
            remarks.missed(site.compute, _RULE, "at least two of its inputs and readers must be quantized")
    for given_up in settle(module):
        for point in given_up:
            _tell(point, remarks, "shares no parameters: the given ones differ")
    for name, members in groups_of(module).items():
        for point in members:
            if point.joint is not None:
                others = ", ".join(m.point.data for m in members if m is not point)
                _tell(point, remarks, f"shares scale and zero point with {others}, group {name}")


def _values(site: Site) -> Iterator[SSAValue]:
    """The inputs of a sum, and its result."""
    yield from (raw for each in inputs_of(site) if (raw := _observed(each.value)) is not None)
    result = site.owner.results[0]
    yield result
    yield from (user.results[0] for user in users(result) if single_kind(user) in LINEAR)


def _observed(value: SSAValue | None) -> SSAValue | None:
    """The result of a value's point."""
    producer = producer_of(value)
    return producer.input if isinstance(producer, ObserveOp) else value


def users(value: SSAValue) -> list[Operation]:
    """The operations that read a value, one for each use."""
    return [use.operation for use in value.uses]


def _points_on(value: SSAValue, order: Mapping[Operation, int]) -> list[ObserveOp]:
    """The points on a value in order, except those of layers that read it balanced."""
    return sorted(
        (op for op in users(value) if isinstance(op, ObserveOp) and not _is_balanced(op)), key=order.__getitem__
    )


def _is_balanced(point: ObserveOp) -> bool:
    readers = (op for user in users(point.result) for op in user.walk())
    return any(plan.balance is not None for op in readers if (plan := plan_of(op)) is not None)


def _spec(point: ObserveOp) -> str:
    return f"is of {point.bits.value.data} bits, {'asymmetric' if point.symmetric is None else 'symmetric'}"


def _first(members: list[ObserveOp]) -> str:
    return f"{members[0].point.data}, which {_spec(members[0])}"


def _tell(point: ObserveOp, remarks: Remarks, what: str) -> None:
    """Leave a remark for each layer that reads through a point."""
    for user in users(point.result):
        op = next((o for o in user.body.block.ops if isinstance(o, NNOp)), None) if isinstance(user, FusedOp) else user
        if op is not None:
            remarks.note(op, f"{_RULE}-{point.point.data}", f"{point.point.data} {what}")
