"""A new session, with all built-in parts and those of plugins.

`UNIVERSE` is the `xdsl.universe` entry point: with this package installed, plain `xdsl-opt` knows our dialects and passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from ..support.diagnostics import CompileError
from ..support.registry import load
from . import Session
from .catalogue import DIALECTS, PASSES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGINS = "amct_opt.plugins"
"""The entry point group of plugins: each function gets every new session, to register its package's additions."""


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
    _load_plugins(session)
    return session


def _load_plugins(session: Session) -> None:
    """Call the function of every entry point in the group with the session."""
    for entry in _plugins():
        try:
            entry.load()(session)
        except Exception as e:  # a package may raise anything
            package = entry.dist.name if entry.dist is not None else entry.module
            hint = f"repair or uninstall the package {package}, which brings it"
            raise CompileError(
                f"plugin '{entry.name}' ({entry.value}) fails: {e or type(e).__name__}", hint=hint
            ) from e


@cache
def _plugins() -> tuple[EntryPoint, ...]:
    """The plugins of installed packages, read once per process: reading the metadata of every package takes milliseconds."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=PLUGINS))


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
