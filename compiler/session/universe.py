"""A new session, with all built-in parts and those of plugins.

`UNIVERSE` is the `xdsl.universe` entry point: with this package installed, plain `xdsl-opt` knows our dialects and passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from ..support.registry import call_plugins, load
from . import Session
from .catalogue import DIALECTS, PASSES


def _lazy(reference: str) -> Callable[[], Any]:
    return lambda: load(reference)


def new_session() -> Session:
    """A session that knows the compiler's dialects, xDSL's own, and all registrations of installed plugins.

    Raises CompileError if a plugin fails.
    """
    session = Session()
    for name, factory in get_all_dialects().items():
        session.register_dialect(name, factory)
    for name, reference in DIALECTS.items():
        session.register_dialect(name, cast("Callable[[], Dialect]", _lazy(reference)))
    call_plugins("amct_opt.plugins", session)
    return session


# xDSL registers its own `canonicalize`, which runs our operations' patterns; a name must not be registered twice.
_SHARED_WITH_XDSL = frozenset(PASSES) & frozenset(get_all_passes())


def __getattr__(name: str) -> Universe:
    """`UNIVERSE`, made when it is asked for, since installed plugins are loaded for it: their passes and dialects belong to it.

    Raises CompileError if a plugin fails.
    """
    if name != "UNIVERSE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    session = new_session()
    known = {*DIALECTS, *get_all_dialects()}
    others = [name for name in session.registered_dialect_names if name not in known]
    dialects = {name: _lazy(reference) for name, reference in DIALECTS.items()}
    passes = {name: _lazy(row.reference) for name, row in PASSES.items() if name not in _SHARED_WITH_XDSL}
    return Universe(
        all_dialects={**dialects, **{name: partial(session.get_dialect, name) for name in others}},
        all_passes={**passes, **{name: partial(_itself, each) for name, each in session.passes.added.items()}},
    )


def _itself(each: type[ModulePass]) -> type[ModulePass]:
    return each
