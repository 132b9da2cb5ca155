"""AMCT's observers in the form of its files: an algorithm, and parameters by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from ..observers import OBSERVERS, make_observer
from ..support.diagnostics import CompileError
from .settings import HFMG, IFMR

Parameters = Mapping[str, float]
"""Numbers by name, with underscores."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    IFMR: ("max_percentile", "min_percentile", "search_range_start", "search_range_end", "search_step"),
    HFMG: ("num_of_bins",),
}


def default_parameters(algorithm: str) -> dict[str, float]:
    """Every parameter of one of AMCT's algorithms."""
    return parameters_of(algorithm, every=True)[1]


def observer_text(algorithm: str, parameters: Parameters) -> str:
    """The text that `make_observer` reads, without defaults."""
    defaults = {f.name: f.default for f in fields(OBSERVERS[algorithm])}
    given = [f"{k.replace('_', '-')}={v!r}" for k, v in parameters.items() if v != defaults[k]]
    return f"{algorithm}{{{' '.join(given)}}}" if given else algorithm


def parameters_of(observer: str, *, every: bool = False) -> tuple[str, dict[str, float]]:
    """Algorithm and parameters of an observer: those that differ from their default, or `every` one.

    Raises CompileError for an observer, or an option of one, that AMCT does not have.
    """
    algorithm = observer.partition("{")[0]
    if algorithm not in PARAMETERS:
        raise CompileError(f"AMCT has no observer '{algorithm}'", hint=f"its own are {', '.join(PARAMETERS)}")
    made = make_observer(observer, 8, symmetric=False)
    options = {f.name: getattr(made, f.name) for f in fields(made) if f.init}
    changed = {f.name for f in fields(made) if f.init and options[f.name] != f.default}
    if strange := changed.difference(PARAMETERS[algorithm]):
        raise CompileError(f"AMCT's {algorithm} has no option '{min(strange).replace('_', '-')}'")
    return algorithm, {name: options[name] for name in PARAMETERS[algorithm] if every or name in changed}
