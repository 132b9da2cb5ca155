"""Operands of operations with many of them (Concat, the results of a graph), which xDSL copies whenever one is replaced.

To replace all n operands would take n * n steps. Importing this module gives xDSL's view of operands an assignment that keeps
many operands in a list. What the view shows stays the same.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.core import OpOperands, SSAValues

_MANY = 16
"""Fewest operands that are kept in a list: fewer are copied in less time than a list of them takes."""


class _Many(list[SSAValue]):
    """Operands as xDSL's `SSAValues`, but one can be replaced."""

    @property
    def types(self) -> tuple[Attribute, ...]:
        return tuple(value.type for value in self)

    def __getitem__(self, index: Any) -> Any:
        return SSAValues([*self][index]) if isinstance(index, slice) else super().__getitem__(int(index))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, _Many) else other)

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(tuple(self))


def _replace(self: OpOperands, idx: int, operand: SSAValue) -> None:
    op: Any = self._op  # pyright: ignore[reportPrivateUsage]
    if len(op._operands) < _MANY:
        _copy(self, idx, operand)
        return
    if not isinstance(op._operands, _Many):
        op._operands = _Many(op._operands)
    use = op._operand_uses[idx]
    op._operands[idx].remove_use(use)
    operand.add_use(use)
    op._operands[idx] = operand


_copy = OpOperands.__setitem__
OpOperands.__setitem__ = _replace
