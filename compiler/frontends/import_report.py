"""Counts how the nodes of a source graph were imported, and reports it in remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from ..dialects import nn
from ..rewriting import Refusal, Remarks
from ..session import Session
from ..support.diagnostics import Remark


class ImportReport:
    """Counts nodes by how they were imported. `where` is the file."""

    def __init__(self, session: Session, where: str):
        self._session = session
        self._where = where
        self._carried: dict[nn.OpaqueOp, str] = {}
        self._emitted: list[Sequence[Operation]] = []
        self._counts: Counter[str] = Counter()

    def folded(self) -> None:
        """A node whose results are known."""
        self._counts["folded"] += 1

    def removed(self, count: int = 1) -> None:
        """Nodes that only pass on their input, or have no meaning in inference."""
        self._counts["removed"] += count

    def unused(self, count: int) -> None:
        """Nodes that no output depends on."""
        self._counts["unused"] += count

    def converted(self, inputs: Sequence[object], results: Sequence[object], ops: Sequence[Operation]) -> None:
        """Counts a node with these inputs, results and operations; without operations it passes on its input or is known."""
        if ops:
            self._emitted.append(ops)
        else:
            self._counts["removed" if any(r in inputs for r in results) else "folded"] += 1

    def carried(self, op: nn.OpaqueOp, reason: str) -> None:
        self._carried[op] = reason

    def all_carried(self) -> Mapping[nn.OpaqueOp, str]:
        """The carried nodes, with reasons."""
        return self._carried

    def note(self, rule: str, name: str, reason: str) -> None:
        """A remark on the model itself."""
        self._session.remark(Remark("analysis", "import", rule, name, "func.func", reason, self._where))

    def finish(self, kept: Mapping[Operation, Refusal] | None = None) -> None:
        """Reports the carried nodes, why operations on constants were not folded, and the counts of nodes."""
        remarks = Remarks(self._session, "import")
        carried = {op: reason for op, reason in self._carried.items() if op.parent is not None}
        for op, reason in carried.items():
            remarks.missed(op, "native", f"carried as opaque: {reason}")
        for op, refusal in (kept or {}).items():
            remarks.missed(op, *refusal)
        remarks.flush()
        kinds = Counter(op.op_type.data for op in carried)
        names = ", ".join(f"{n} {op_type}" for op_type, n in sorted(kinds.items()))
        # shape arithmetic that became a property or a known value has been removed
        mapped = sum(any(op.parent is not None for op in ops) for ops in self._emitted)
        parts = [
            f"{mapped} mapped to nn",
            f"{len(carried)} carried as opaque" + (f" ({names})" if names else ""),
            f"{self._counts['folded'] + len(self._emitted) - mapped} folded",
            f"{self._counts['removed']} removed",
            f"{self._counts['unused'] + len(self._carried) - len(carried)} unused",
        ]
        nodes = self._counts.total() + len(self._carried) + len(self._emitted)
        self.note("summary", "main", f"{nodes} nodes: {', '.join(parts)}")
