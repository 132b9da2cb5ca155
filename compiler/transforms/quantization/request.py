"""A request to quantize: one object, made and checked once, from options or from a program's objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp

from ...configuration.checks import check_observers
from ...configuration.record import Record
from ...configuration.settings import Settings
from ...diagnostics import CompileError
from ...ir.layer_names import LayerNames
from ...pipelines.options import Parts
from ...session import Session
from .decide.layers import Layers, able_names, resolve
from .decide.named_layers import record_in_module
from .options import AS_THE_PROFILE, NO_RECOVERY, PointOptions, RecoveryOptions, SettingsOptions
from .profiles import Profile, profile_of


@dataclass(frozen=True)
class Request:
    """Settings, a record, whose layers alone are quantized, and options for points on values; with the profile that decides."""

    settings: Settings
    profile: Profile
    record: Record | None = None
    points: PointOptions = AS_THE_PROFILE
    recovery: RecoveryOptions = NO_RECOVERY

    def __post_init__(self) -> None:
        """Raises CompileError, located in a file where there is one, for what the profile does not support."""
        self.points.check_points(self.profile)
        if self.recovery.equalize and self.record is not None:
            message = "cannot be used with equalization: its parameters are those of the channels as they are"
            raise CompileError(message, where=self.where)
        if not self.profile.facts.balanced and self._balances():
            raise CompileError(
                f"profile {self.profile.name} does not support dmq_balancer: "
                "inputs are quantized where they are made, before balancing",
                where=self.where,
            )

    def _balances(self) -> bool:
        if self.record is not None:
            return any(layer.tensor_balance_factor for layer in self.record.layers.values())
        held = (self.settings.common, *self.settings.by_type.values(), *self.settings.by_layer.values())
        return any(each is not None and each.migration_strength is not None for each in held)

    @property
    def where(self) -> str:
        """The file of the record or of the settings."""
        return self.settings.where if self.record is None else self.record.where

    @property
    def shifts(self) -> bool:
        """Sums keep 16 bits: as settings say, else if the record shifts one or, without a record, with joint_quant (AMCT)."""
        if self.settings.shift is not None:
            return self.settings.shift
        if self.record is not None:
            return any(any(layer.shift_bit) for layer in self.record.layers.values())
        return self.settings.joint_quant and self.profile.facts.shifted

    def within(self, module: ModuleOp, session: Session) -> Resolved:
        """The request in the names of a module's layers, with what it is for each of them.

        Raises CompileError, located in the settings' file, for layers and observers that do not exist, and for what a layer
        cannot have.
        """
        layers = resolve(self.settings, module, self.profile)
        check_observers(layers.settings, session.observers)
        record = self.record
        if record is not None:
            record = record_in_module(record, LayerNames.of(module), able_names(layers.candidates))
        return Resolved(layers.settings, self.profile, record, self.points, self.recovery, layers=layers)


@dataclass(frozen=True)
class Resolved(Request):
    """A request in the names of one module's layers, with its settings of each: all that decides about the module."""

    layers: Layers = field(kw_only=True)


@dataclass(frozen=True, kw_only=True)
class QuantizationOptions(Parts, SettingsOptions):
    """The options that make a request."""

    points: PointOptions = AS_THE_PROFILE

    def request(self, session: Session) -> Request:
        """Raises CompileError for bad options and files, located at the line or layer, and for what the profile does not
        support.
        """
        settings = self.settings()
        return Request(settings, profile_of(session), self.records(settings), self.points)


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions(QuantizationOptions):
    """The options of all of quantization."""

    recovery: RecoveryOptions = NO_RECOVERY

    def request(self, session: Session) -> Request:
        """The same."""
        return replace(super().request(session), recovery=self.recovery)
