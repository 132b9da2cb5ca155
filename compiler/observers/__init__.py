"""Observers: summaries of the values that pass a quantization point. One file per algorithm.

An observer's state is bounded for any amount of data, and separately made states merge into one.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..pipelines.options import build
from ..support.diagnostics import CompileError
from ..support.registry import Registry
from .entropy import EntropyObserver
from .hfmg import HfmgObserver
from .ifmr import IfmrObserver
from .isotone import IsotoneObserver
from .minmax import MinMaxObserver
from .moving_average import MovingAverageObserver
from .mse import MseObserver
from .observer import Observer
from .octav import OctavObserver
from .percentile import PercentileObserver

OBSERVERS: Mapping[str, type[Observer]] = {
    "minmax": MinMaxObserver,
    "moving-average": MovingAverageObserver,
    "percentile": PercentileObserver,
    "kl": EntropyObserver,
    "mse": MseObserver,
    "octav": OctavObserver,
    "isotone": IsotoneObserver,
    "ifmr": IfmrObserver,
    "hfmg": HfmgObserver,
}
"""Observers by the name in `--insert-observers=observer=`."""


Known = Registry[type[Observer]]
"""The observers of a session."""
OURS: Known = Registry("observer", "observers", lambda: OBSERVERS)


def make_observer(text: str, bits: int, *, symmetric: bool, known: Known = OURS) -> Observer:
    """The observer that `text` names, with its options: `ifmr`, `percentile{percentile=0.999}`.

    Raises CompileError for an unknown name and for bad options.
    """
    name, brace, options = text.partition("{")
    observer_class = known[name]
    if brace and not options.endswith("}"):
        raise CompileError(f"observer {text}: the options do not end in }}", option="observer")
    try:
        observer = build(observer_class, options.removesuffix("}"), f"observer {name}")
    except CompileError as e:
        e.option = "observer"
        raise
    observer.bits, observer.symmetric = bits, symmetric
    return observer


__all__ = ["OBSERVERS", "OURS", "Known", "Observer", "make_observer"]
