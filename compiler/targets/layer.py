"""The common parts of what formats write for one operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from xdsl.ir import Operation

from ..dialects.nn import expanded
from ..ir.weights import WeightError
from ..support.diagnostics import CompileError, op_error
from .graph import ELSEWHERE, OTHERWISE, label_of

if TYPE_CHECKING:
    from .caffe.net import Net
    from .onnx.graph import Graph as OnnxGraph
    from .tensorflow.graph import Graph as TensorFlowGraph

_Graph = TypeVar("_Graph", bound="OnnxGraph | TensorFlowGraph | Net")


class Layer(ABC, Generic[_Graph]):
    """The form of one operation in a format."""

    FORMAT: ClassVar[str]

    def __init__(self, graph: _Graph, op: Operation, label: str = ""):
        self.graph = graph
        self.op = op
        self.label: str = label or label_of(op)
        self.source = op
        """The operation of the module: `op`, or the one whose expansion has `op` as a step."""

    def write(self, written: Callable[[Any, Self], str | Sequence[Any] | None]) -> None:
        """Writes the operation as `written` says. Raises CompileError, located, if the format cannot express it."""
        try:
            results = written(self.op, self)
        except WeightError as e:
            raise self.error(f"cannot be written: {e}") from None
        if results is not None:
            self.finish([results] if isinstance(results, str) else results)

    def expanded(self, op: Operation, written: Callable[[Any, Self], str | Sequence[Any] | None]) -> str | list[str]:
        """The results of an operation whose expansion is written."""
        if (expansion := expanded(op)) is None:
            raise self.error(f"has no form in {self.FORMAT}", ELSEWHERE.get(op.name.partition(".")[0], OTHERWISE))
        with expansion:
            for step in expansion.steps:
                layer = copy(self)
                layer.op = step
                if step is not expansion.results[0].owner:  # the last step has the name of the layer
                    layer.label = f"{self.label}/{step.name.partition('.')[2]}"
                if (results := written(step, layer)) is not None:
                    self.graph.bind(step.results[0], results if isinstance(results, str) else results[0] or "")
            made = [name for v in expansion.results if (name := self.value(v)) is not None]
            return made[0] if len(made) == 1 else made

    def error(self, message: str, hint: str = "") -> CompileError:
        return op_error(self.source, self.explained(message), hint)

    def explained(self, message: str) -> str:
        """The message about `source`: it names the step of the expansion that the message is about."""
        return message if self.op is self.source else f"becomes {self.op.name}, which {message}"

    def note(self, rule: str, reason: str) -> None:
        self.graph.remarks.note(self.source, rule, reason)

    @abstractmethod
    def value(self, operand: Any) -> str | None:
        """The name of an operand."""

    @abstractmethod
    def finish(self, results: Sequence[Any]) -> None:
        """Names the operation's results, and hands what is written to the graph."""
