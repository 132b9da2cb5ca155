"""Decisions about layers: patterns with named conditions ask settings, the tables and the record, and the first
condition that does not hold is the reason that a layer stays in float.

`conditions.py` has the patterns of layers, by the kind of their operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Protocol, TypeVar, cast

from xdsl.ir import Operation

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import Record
from ....dialects.nn import How, NNOp, Plan, set_plan
from ....rewriting import Condition, Refusal, Remarks, StepPattern
from .rows import Layer


class Setting(Condition[Any]):
    """A condition that a setting of its name breaks."""

    def __init__(self, statement: str, reason: str):
        super().__init__(self._refused, statement)
        self.reason = reason

    def _refused(self, pattern: Decide[Any], m: Any) -> str | None:
        return self.reason if pattern.held(m).skipped == self.name else None


class Decided(Protocol):
    """An object of a decision: a layer, by the operation that computes it."""

    @property
    def compute(self) -> NNOp: ...


S = TypeVar("S", bound=Decided)


class Requested(Protocol):
    """A request in the names of a module's layers (`request.Resolved`), as patterns know it."""

    @property
    def profile(self) -> Any: ...
    @property
    def record(self) -> Record | None: ...
    @property
    def layers(self) -> Any: ...


class Deciding(ABC):
    """Decides the layers of a profile's kinds: what becomes of a layer under all conditions, and how it gets its points."""

    def __init__(self, request: Requested, remarks: Remarks):
        self.remarks = remarks
        self.asked = request
        self.undecided: dict[Operation, Layer] = {}
        """The layers that are not decided yet, by operation."""

    def decided(self, m: Layer) -> None:
        """Records that a layer is decided. Called once for each layer."""
        del self.undecided[m.compute]

    def takes_weight(self, m: Layer) -> bool:
        """Whether only its weight is to be quantized: according to the record if there is one, else to the settings."""
        record = self.asked.record
        if record is None or not m.held.quantize:
            return m.held.quantize and m.held.weight_compress_only
        entry = record.layers.get(m.name)
        return entry is not None and entry.weight_compress_only

    @abstractmethod
    def has_integers(self, m: Layer) -> bool:
        """Whether it is quantized already."""

    @abstractmethod
    def keep(self, m: Layer) -> None:
        """Keeps a layer that is quantized already."""

    @abstractmethod
    def unrecorded(self, m: Layer) -> str | None:
        """The reason why a record, if there is one, does not cover the layer; None if it does."""

    @abstractmethod
    def quantize(self, m: Layer) -> None:
        """Plan the quantization of a layer that meets all conditions."""

    @abstractmethod
    def quantize_weight(self, m: Layer, how: Callable[[Layer, How], How]) -> None:
        """Plan the quantization of the weight alone, by `how` applied to the quantization that settings or the record give.

        Raises CompileError, located in the record's file, for scales that do not fit it.
        """

    def leave(self, m: Layer, refusal: Refusal) -> None:
        """Leaves a layer in float."""
        self.decided(m)


class Decide(StepPattern[S]):
    """The decision about a layer: it is quantized, unless a condition does not hold; then it stays in float, with the reason."""

    skip_layers: ClassVar[Setting] = Setting(
        "the list of skip-layers does not have the layer", "it is on the list of skip-layers"
    )
    skip_layer_types: ClassVar[Setting] = Setting(
        "the list of skip-layer-types does not have its type", "its type is on the list of skip-layer-types"
    )
    only_layers: ClassVar[Setting] = Setting(
        "the list of only-layers, where there is one, has the layer", "it is not on the list of only-layers"
    )
    quant_enable: ClassVar[Setting] = Setting(
        "the configuration, where there is one, enables the layer", "the configuration does not enable it"
    )
    left_in_float: ClassVar[Setting] = Setting(
        "settings or a record name the layer, if the model is already quantized",
        "the model is already quantized, and this layer was left in float",
    )
    weight_compress_only: ClassVar[Setting] = Setting(
        "where only weights are quantized, the layer has one that can be quantized by itself",
        "only weights are quantized, and it has no weight that can be quantized by itself",
    )

    def __init__(self, request: Requested, remarks: Remarks):
        super().__init__(remarks)
        self.request = request

    def held(self, m: S) -> LayerSettings:
        """The settings of a layer."""
        return self.request.layers.held[m.compute]

    asks: ClassVar[tuple[Condition[Any], ...] | None] = None
    """The conditions of every layer; None for all of the pattern's."""

    def asked(self, m: S) -> Iterable[Condition[Any]]:
        """The conditions that a layer has to meet, in their order."""
        return self.conditions if self.asks is None else self.asks

    @classmethod
    def listed(cls, profile: Any) -> Iterator[tuple[Condition[Any], str]]:
        """The conditions that a profile asks of its layers, in their order, each with the layers that it is for, or empty."""
        yield from ((each, "") for each in (cls.conditions if cls.asks is None else cls.asks))

    def refusal(self, m: S) -> Refusal | None:
        return first_refusal(self, m, self.asked(m))

    def refused(self, m: S, refusal: Refusal) -> None:
        set_plan(m.compute, Plan(refusal.rule))


SETTINGS = cast("tuple[Setting, ...]", Decide.conditions)
"""The conditions of all layers."""


def first_refusal(pattern: Any, m: Any, conditions: Iterable[Condition[Any]]) -> Refusal | None:
    """The first of these conditions that does not hold for a match of a pattern."""
    found = ((each, each.holds(pattern, m)) for each in conditions)
    return next((Refusal(each.name, reason) for each, reason in found if reason is not None), None)
