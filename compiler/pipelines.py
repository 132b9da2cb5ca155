"""Running passes one after the other: verification, timing and printing between them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .diagnostics import CompileError, verify
from .options import build
from .session import Session
from .universe import PASSES, pass_named

After = Callable[[ModulePass, ModuleOp, float], None]
"""Told each pass when it is done, the module, and the seconds it took."""


def make_pass(name: str, options: str = "") -> ModulePass:
    """Our pass `name` from option text. Raises CompileError for an unknown pass or bad options."""
    if name not in PASSES:
        raise CompileError(f"no pass is called '{name}'", hint=f"passes are {', '.join(PASSES)}")
    return build(pass_named(name), options, f"--{name}")


def parse_pipeline(text: str) -> list[ModulePass]:
    """Passes from xDSL's pipeline text (`fuse-bn,quantize{bits=8}`); xDSL's own passes may take part."""
    from xdsl.transforms import get_all_passes
    from xdsl.utils.arg_spec import parse_pipeline as parse_specs
    from xdsl.utils.exceptions import ArgSpecParseError

    known = get_all_passes()
    passes: list[ModulePass] = []
    try:
        for spec in parse_specs(text):
            if spec.name in PASSES:
                passes.append(pass_named(spec.name).from_spec(spec))
            elif spec.name in known:
                passes.append(known[spec.name]().from_spec(spec))
            else:
                raise CompileError(f"no pass is called '{spec.name}'", hint=f"ours are {', '.join(PASSES)}")
    except (ArgSpecParseError, ValueError) as e:
        raise CompileError(f"pipeline '{text}': {e}") from None
    return passes


def run_passes(module: ModuleOp, passes: Sequence[ModulePass], session: Session, after: After | None = None) -> None:
    """Verify, then run each pass and verify again. Raises CompileError, located, from passes and the verifier."""
    verify(module)
    for each in passes:
        start = time.perf_counter()
        each.apply(session, module)
        seconds = time.perf_counter() - start
        if after is not None:
            after(each, module, seconds)
        try:
            verify(module)
        except CompileError as e:
            raise InvalidAfterPass(each.name, e) from e


class InvalidAfterPass(Exception):
    """A pass left a module that does not verify: a bug in the pass."""

    def __init__(self, name: str, error: CompileError):
        super().__init__(f"the module does not verify after --{name}: {error}")


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    import resource

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
