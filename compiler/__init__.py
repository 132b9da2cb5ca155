"""amct-opt as a library: what an embedding compiler calls. Names are imported when first used (docs/embedding.md)."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for typing's, which would be the first import
if TYPE_CHECKING:
    from . import torch as torch
    from .api import Loaded, calibrate, execute, load, parse, profiles, report, run_pipeline, save, to_text
    from .api.files import (
        Quantized,
        bisect,
        compare,
        evaluate,
        perplexity,
        quantize,
        quantize_file,
        reduce,
        sensitivity,
        tune,
    )
    from .configuration.settings import Activation, Arq, Calibration, Settings
    from .data.images import Preprocess
    from .diagnostics import CompileError, Remark
    from .observers import Observer
    from .rewriting import FusionPattern
    from .runtime.executor import Executable
    from .runtime.integer_plan import in_integers
    from .runtime.kernels import kernel
    from .session import ImportOptions, Session
    from .targets import Target
    from .transforms.fusion.fuse_modules import fuse_modules
    from .transforms.quantization.profiles import Profile, Row
    from .universe import new_session

__all__ = [
    "Activation",
    "Arq",
    "Calibration",
    "CompileError",
    "Executable",
    "FusionPattern",
    "ImportOptions",
    "Loaded",
    "Observer",
    "Preprocess",
    "Profile",
    "Quantized",
    "Remark",
    "Row",
    "Session",
    "Settings",
    "Target",
    "bisect",
    "calibrate",
    "compare",
    "evaluate",
    "execute",
    "fuse_modules",
    "in_integers",
    "kernel",
    "load",
    "new_session",
    "parse",
    "perplexity",
    "profiles",
    "quantize",
    "quantize_file",
    "reduce",
    "report",
    "run_pipeline",
    "save",
    "sensitivity",
    "to_text",
    "tune",
]

_PLACES = {
    ".api": (
        "Loaded",
        "calibrate",
        "execute",
        "load",
        "parse",
        "profiles",
        "report",
        "run_pipeline",
        "save",
        "to_text",
    ),
    ".api.files": (
        "Quantized",
        "bisect",
        "compare",
        "evaluate",
        "perplexity",
        "quantize",
        "quantize_file",
        "reduce",
        "sensitivity",
        "tune",
    ),
    ".configuration.settings": ("Activation", "Arq", "Calibration", "Settings"),
    ".diagnostics": ("CompileError", "Remark"),
    ".rewriting": ("FusionPattern",),
    ".data.images": ("Preprocess",),
    ".runtime.executor": ("Executable",),
    ".runtime.integer_plan": ("in_integers",),
    ".runtime.kernels": ("kernel",),
    ".observers": ("Observer",),
    ".session": ("ImportOptions", "Session"),
    ".targets": ("Target",),
    ".transforms.fusion.fuse_modules": ("fuse_modules",),
    ".transforms.quantization.profiles": ("Profile", "Row"),
    ".universe": ("new_session",),
}
"""The modules of the names above."""


def __getattr__(name: str) -> object:
    if name == "torch":
        from importlib import import_module

        return import_module(".torch", __name__)
    for place, names in _PLACES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(place, __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
