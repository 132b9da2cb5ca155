"""Settings of AMCT's files that are not supported: each is an error, never silently ignored."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...configuration.record import Record
from ...configuration.settings import Ada, Settings
from ...diagnostics import CompileError


def check_supported(settings: Settings) -> None:
    """Raises CompileError, located in the settings' file, that names the first setting that nothing does, and says why."""
    if (reason := next(_unsupported(settings), None)) is not None:
        raise CompileError(reason, where=settings.where)


def _unsupported(settings: Settings) -> Iterator[str]:
    if settings.skip_approximation_layers:
        yield "skip_approximation_layers is not supported: no layer is approximated here"
    named = [("common_config", settings.common), *settings.by_type.items(), *settings.by_layer.items()]
    for name, calibration in named:
        if calibration is None:
            continue
        if isinstance(calibration.weight, Ada):
            yield f"ada_quantize of {name} is not supported: it learns how to round weights, and nothing here is trained"


def check_record(record: Record, recurrent: Collection[str]) -> None:
    """Raises CompileError, located in the record's file, for fields of recurrent layers at a layer that is not one of
    these, and for one of these without scales of both weights.
    """
    for name, layer in record.layers.items():
        for field in ("scale_h", "scale_r") if name not in recurrent else ():
            if getattr(layer, field):
                raise record.error(name, f"{field} is of LSTM, GRU and RNN layers")
        if name in recurrent and not (layer.scale_w and layer.scale_r):
            raise record.error(name, "needs scale_w and scale_r, of its two weights")
