"""The exception that a lowering rule raises for an operation that it does not take."""

from __future__ import annotations


class NotLowered(Exception):
    """A condition of a rule fails: its name, and the reason as one sentence."""

    def __init__(self, rule: str, reason: str):
        super().__init__(reason)
        self.rule = rule
        self.reason = reason


def require(holds: bool, rule: str, reason: str) -> None:
    """Raises NotLowered, with the rule and the reason, if the condition is false."""
    if not holds:
        raise NotLowered(rule, reason)
