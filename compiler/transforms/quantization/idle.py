"""Options that decide nothing about a module: with each other value, every layer is quantized in the same way."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from ...dialects.nn import ConstantOp, ObserveOp, plan_of
from ...pipelines.options import composed, leaves, values_of
from ...session import Session
from ...support.diagnostics import CompileError
from .options import PointOptions, QuantizeOptions, SettingsOptions
from .place.insert_observers import insert_observers
from .request import request_of

_APART = ("config", "record", "dynamic")
"""Files, which have checks of their own, and what has a pass that warns."""


def warn_of_idle(options: QuantizeOptions, module: ModuleOp, session: Session) -> None:
    """Warn of each option that is given and decides nothing about a fused module, which is not changed. Conversion warns where
    nothing is quantized at all.

    Raises CompileError as `insert_observers` does.
    """
    known, values = leaves(QuantizeOptions), values_of(options)
    deciding = [name for name in known if known[name].owner in (SettingsOptions, PointOptions) and name not in _APART]
    given = [name for name in deciding if values[name] != known[name].default]
    if not given or not (decided := _decided(options, module, session)):
        return

    def decides(name: str, other: object) -> bool:
        try:
            return _decided(composed(QuantizeOptions, {**values, name: other}), module, session) != decided
        except CompileError:  # with the default: another option asks for this one
            return other == known[name].default

    for name in given:
        default, switches = known[name].default, (True, False) if known[name].type is bool else ()
        choices = known[name].choices or switches
        others = [default, *(each for each in choices if each not in (default, values[name]))]
        if not any(decides(name, other) for other in others):
            session.warn(f"{known[name].name} changes nothing: without it, each layer is quantized in the same way")


def _decided(options: QuantizeOptions, module: ModuleOp, session: Session) -> list[object]:
    """The points and the plans of layers, by their place in a copy of a module; none if all layers stay in float."""
    copy, silent, found = module.clone(), session.silent(), list[object]()
    insert_observers(copy, request_of(options, silent), silent)
    points = [(place, op.properties) for place, op in enumerate(copy.walk()) if isinstance(op, ObserveOp)]
    for place, op in enumerate(copy.walk()):
        if (plan := plan_of(op)) is not None and not plan.is_float:
            # Which weights layers compute with while ranges are found matters only where ranges are found.
            weights = plan.weights if points else tuple(replace(each, first=False) for each in plan.weights)
            found.append((place, replace(plan, weights=weights)))
        elif isinstance(op, ConstantOp):
            op.properties.clear()  # operations are in reference cycles, which would keep the weights of the module
    return [*points, *found]
