"""Runs passes in sequence, with verification, timing and printing between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from ..ir.verification import verify
from ..ir.weights import WeightError
from ..session import Session
from ..session.catalogue import PASSES, PIPELINES, Numbers, passes as our_passes
from ..support.diagnostics import CompileError, first_line
from ..support.registry import Registry
from .options import build, build_from_spec

After = Callable[[ModulePass, ModuleOp, float], None]
"""Called after each pass with the pass, the module, and the seconds it took."""


Passes = Registry[type[ModulePass]]
"""The passes of a session."""
OURS: Passes = our_passes()


def make_pass(name: str, options: str = "", known: Passes = OURS) -> ModulePass:
    """The pass `name` from option text. Raises CompileError for an unknown pass or bad options."""
    return build(known[name], options, f"--{name}")


def parse_pipeline(text: str, known: Passes = OURS) -> list[ModulePass]:
    """Passes from xDSL's pipeline text (`fuse-bn,quantize{bits=8}`); may include xDSL's own passes, and pipelines of
    `PIPELINES` by name.
    """
    from xdsl.transforms import get_all_passes
    from xdsl.utils.arg_spec import parse_pipeline as parse_specs
    from xdsl.utils.exceptions import ArgSpecParseError

    others = get_all_passes()
    passes: list[ModulePass] = []
    try:
        for spec in parse_specs(text):
            if spec.name in PIPELINES and not spec.parameters:
                passes += parse_pipeline(PIPELINES[spec.name], known)
            elif spec.name in others and spec.name not in known:
                passes.append(others[spec.name]().from_spec(spec))
            else:
                passes.append(build_from_spec(known[spec.name], spec))
    except (ArgSpecParseError, ValueError) as e:
        raise CompileError(f"pipeline '{text}': {_last_line(e)}") from None
    return passes


def _last_line(error: BaseException) -> str:
    """The message of an xDSL error, without the source excerpt."""
    return [line for line in str(error).splitlines() if line.strip()][-1].strip(" ^|")


def run_passes(module: ModuleOp, passes: Sequence[ModulePass], session: Session, after: After | None = None) -> None:
    """Verifies, then runs each pass and verifies again. Raises CompileError, located, from passes and the verifier."""
    _verify(module, session)
    run_on_verified(module, passes, session, after)


def run_on_verified(
    module: ModuleOp, passes: Sequence[ModulePass], session: Session, after: After | None = None
) -> None:
    """Like `run_passes`, for a module that has not changed since it was verified."""
    for each in passes:
        with step(each.name, module, session, getattr(each, "numbers", None), after and partial(after, each)):
            each.apply(session, module)


@contextmanager
def step(
    name: str,
    module: ModuleOp,
    session: Session,
    numbers: Numbers | None = None,
    after: Callable[[ModuleOp, float], None] | None = None,
) -> Generator[None]:
    """Surrounds what the pass of this name does to a verified module: it is timed, checked and verified. `numbers` is the promise
    of a pass whose options decide it. Raises CompileError, located, from the pass and the verifier.
    """
    row = PASSES.get(name)
    before = _state(module) if row is not None and row.numbers == "kept" else None
    checked = nullcontext() if session.checker is None else session.checker.passing(name, module, session, numbers)
    start = time.perf_counter()
    try:
        with checked, session.phase(name):
            yield
    except WeightError as e:
        raise CompileError(str(e)) from e
    except PassFailedException as e:
        raise CompileError(f"--{name}: {first_line(e)}") from e
    if after is not None:
        after(module, time.perf_counter() - start)
    try:
        _verify(module, session)
    except CompileError as e:
        raise BrokenPass(f"the module does not verify after --{name}: {e}") from e
    if before is not None and before != _state(module):
        raise BrokenPass(f"--{name} has changed the module, although it promises not to")


def _verify(module: ModuleOp, session: Session) -> None:
    with session.phase("verify"):
        verify(module)


def _state(module: ModuleOp) -> list[tuple[object, ...]]:
    """All that a pass could change: operations, their operands, types, properties and attributes."""
    return [
        (op, tuple(op.operands), tuple(op.result_types), dict(op.properties), dict(op.attributes))
        for op in module.walk()
    ]


class BrokenPass(Exception):
    """A pass left a module that does not verify, or changed one that it promises to keep: a bug in the pass."""
