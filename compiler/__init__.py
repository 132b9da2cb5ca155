"""amct-opt as a library: what an embedding compiler calls. Names are imported when first used.

In one step, from a model in a file or in memory:
    quantize, quantize_file     quantize a model, and measure the result
    tune                        search for the options that reach an accuracy
    sensitivity                 what each layer costs
    evaluate, perplexity        score models by labels, a function or a text
    compare, bisect             how far two models are apart, and where they part
    reduce                      the smallest part of a model that still shows a fault
    report                      the page of a run
    profiles                    the targets that can be quantized for

Step by step, on modules of xDSL:
    load, parse                 a module and its session, from a model or from text
    new_session                 a session alone
    run_pipeline, fuse_modules  fuse and lower
    calibrate, quantize         with settings of your own
    execute                     run a module once
    save, to_text               write it

What these take and return:
    Session, ImportOptions, Settings, Calibration, Activation, Arq, Preprocess, Loaded, Quantized, Remark, CompileError,
    Executable (with `in_integers`)

To derive from or to register, in a plugin:
    FusionPattern, Observer, Target, Profile, Row, NNOp, ElementwiseOp, AscendOp, expands, kernel; and Kernel, Node and Layer,
    the types of what kernels, readers and writers are given

`help(amct_opt.quantize)` describes one of them; docs/embedding.md shows them at work.
"""

import sys

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for typing's, which would be the first import
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from .api import (
        Loaded as Loaded,
        calibrate as calibrate,
        execute as execute,
        load as load,
        parse as parse,
        profiles as profiles,
        report as report,
        run_pipeline as run_pipeline,
        save as save,
        to_text as to_text,
        torch as torch,
    )
    from .api.files import (
        Quantized as Quantized,
        bisect as bisect,
        compare as compare,
        evaluate as evaluate,
        perplexity as perplexity,
        quantize as quantize,
        quantize_file as quantize_file,
        reduce as reduce,
        sensitivity as sensitivity,
        tune as tune,
    )
    from .configuration.settings import (
        Activation as Activation,
        Arq as Arq,
        Calibration as Calibration,
        Settings as Settings,
    )
    from .data.images import Preprocess as Preprocess
    from .dialects.ascend.base import AscendOp as AscendOp
    from .dialects.nn.base import NNOp as NNOp
    from .dialects.nn.elementwise import ElementwiseOp as ElementwiseOp
    from .dialects.nn.expansions import expands as expands
    from .observers import Observer as Observer
    from .rewriting import FusionPattern as FusionPattern
    from .runtime.executor import Executable as Executable
    from .runtime.integer_plan import in_integers as in_integers
    from .runtime.kernels import Kernel as Kernel, kernel as kernel
    from .session import (
        ImportOptions as ImportOptions,
        Layer as Layer,
        Node as Node,
        Session as Session,
    )
    from .session.universe import new_session as new_session
    from .support.diagnostics import (
        CompileError as CompileError,
        Remark as Remark,
    )
    from .targets import Target as Target
    from .transforms.fusion.fuse_modules import fuse_modules as fuse_modules
    from .transforms.quantization.profiles import (
        Profile as Profile,
        Row as Row,
    )

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
    ".support.diagnostics": ("CompileError", "Remark"),
    ".rewriting": ("FusionPattern",),
    ".data.images": ("Preprocess",),
    ".runtime.executor": ("Executable",),
    ".runtime.integer_plan": ("in_integers",),
    ".runtime.kernels": ("Kernel", "kernel"),
    ".dialects.ascend.base": ("AscendOp",),
    ".dialects.nn.base": ("NNOp",),
    ".dialects.nn.elementwise": ("ElementwiseOp",),
    ".dialects.nn.expansions": ("expands",),
    ".observers": ("Observer",),
    ".session": ("ImportOptions", "Layer", "Node", "Session"),
    ".targets": ("Target",),
    ".transforms.fusion.fuse_modules": ("fuse_modules",),
    ".transforms.quantization.profiles": ("Profile", "Row"),
    ".session.universe": ("new_session",),
}
"""The modules of the names above."""


_MOVED = {
    **{name: f"amct_opt.support.{name}" for name in ("diagnostics", "files", "limits", "registry", "tables")},
    **{name: f"amct_opt.session.{name}" for name in ("catalogue", "universe")},
    **{name: f"amct_opt.examine.{name}" for name in ("checking", "reduction", "reports")},
    "backends": "amct_opt.engines",
    "keywords": "amct_opt.api.keywords",
    "engines.iree": "amct_linalg.iree",
    "lowering.linalg": "amct_linalg.lowering",
    "targets.ascendnpu_ir": "amct_linalg.ascendnpu_ir",
    "targets.linalg": "amct_linalg.target",
}
"""The modules that have moved, by the names under which they are found until the next release, with a warning."""
_APART = {f"amct.pytorch.{name}": f"amct_training.{name}" for name in ("nn", "tensor_decompose")}
"""The modules of other packages that have AMCT's names here."""


class _Moved:
    """Finds and loads modules by the names that they had before they moved, or that AMCT has for them."""

    def find_spec(self, name: str, path: object = None, target: object = None, /) -> "ModuleSpec | None":
        package, _, rest = name.partition(".")
        old = next((each for each in (*_MOVED, *_APART) if f"{rest}.".startswith(f"{each}.")), None)
        if package != __name__ or old is None:
            return None
        from importlib.machinery import ModuleSpec

        if old in _MOVED:
            from warnings import warn

            warn(f"{package}.{old} is {_MOVED[old]} now", FutureWarning, stacklevel=2)
        origin = {**_MOVED, **_APART}[old] + rest.removeprefix(old)
        return ModuleSpec(name, self, origin=origin)  # pyright: ignore[reportArgumentType]

    def create_module(self, spec: "ModuleSpec") -> "ModuleType":
        from .support.registry import part

        module = part(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: "ModuleType") -> None:
        """The module was executed under its own name."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, _Moved())


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
    return sorted({*globals(), *(name for names in _PLACES.values() for name in names)})
