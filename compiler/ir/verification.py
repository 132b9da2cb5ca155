"""The verifier: each operation, the order of values, and groups of quantization points."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from ..support.diagnostics import first_line, op_error


def verify(module: ModuleOp) -> None:
    """Verifies op by op, then that values are defined before use, then groups of quantization points. Raises CompileError at the
    op that fails.

    xDSL's own `verify` prints the whole module into its error and does not check dominance.
    """
    from ..dialects.nn.groups import check_groups

    for op in module.walk():
        try:
            op.verify_()
        except VerifyException as e:
            raise op_error(op, first_line(e)) from None
        for region in op.regions:
            _check_terminators(op, region)
    visible: set[SSAValue] = set()
    for region in module.regions:
        _check_order(region, visible)
    check_groups(module)


def _check_terminators(op: Operation, region: Region) -> None:
    if op.has_trait(NoTerminator):
        return
    for block in region.blocks:
        if block.last_op is None or not block.last_op.has_trait(IsTerminator, value_if_unregistered=True):
            raise op_error(op, "region does not end in a terminator")


def _check_order(region: Region, visible: set[SSAValue]) -> None:
    """Checks that every operand is visible at its use; `visible`, the values of enclosing regions, is restored at the end."""
    dominance = DominanceInfo(region) if len(region.blocks) > 1 else None
    for block in region.blocks:
        before = [b for b in region.blocks if dominance is not None and dominance.strictly_dominates(b, block)]
        added = [v for b in before for v in _values(b)] + list(block.args)
        visible.update(added)
        for op in block.ops:
            if not visible.issuperset(op.operands):
                raise op_error(op, "uses a value that is not defined before it")
            isolated = op.has_trait(IsolatedFromAbove)
            for inner in op.regions:
                _check_order(inner, set() if isolated else visible)
            visible.update(op.results)
        visible.difference_update(added, _values(block))


def _values(block: Block) -> list[SSAValue]:
    return [*block.args, *(result for op in block.ops for result in op.results)]
