"""Registries of objects by name: those of the compiler, which are imported on first use, and those registered in a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from traceback import walk_tb
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .diagnostics import CompileError, first_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")


EXTRAS = {"amct_linalg": "linalg", "amct_training": "training"}
"""The extras that install parts in packages of their own, by package."""


def load(reference: str) -> Any:
    """`.module:name` -> the object of that name in this package, `package.module:name` that in a package of its own.

    Raises CompileError as `part` does.
    """
    module, _, name = reference.partition(":")
    return getattr(part(module), name)


def part(module: str) -> ModuleType:
    """A module of this package (`.module`), or of one that an extra installs. Raises CompileError, which names the extra."""
    package = module.partition(".")[0]
    try:
        return import_module(module, __name__.partition(".")[0])
    except ModuleNotFoundError as e:
        if package not in EXTRAS or not f"{e.name}.".startswith(f"{package}."):
            raise
        hint = f"pip install 'amct-opt[{EXTRAS[package]}]'"
        raise CompileError(f"this requires the package {package}", hint=hint) from None


def call_plugins(group: str, given: Any) -> None:
    """Call the function of each entry point of installed packages in a group: those of `amct_opt.plugins` get every new session,
    to register what their package adds, and those of `amct_opt.commands` what adds the parsers of `amct`.

    Raises CompileError if one fails.
    """
    for entry in _entry_points(group):
        try:
            entry.load()(given)
        except (Exception, SystemExit) as e:  # a package may raise anything
            raise _failed(entry, e) from e


def failed_plugin(error: BaseException) -> CompileError | None:
    """The error of a plugin that was called later, at its line; None if the error comes from code of this package."""
    groups = map(_entry_points, ("amct_opt.commands", "amct_opt.plugins"))
    plugins = {entry.module.partition(".")[0]: entry for group in groups for entry in group}
    for frame, line in reversed([*walk_tb(error.__traceback__)]):
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in plugins:
            return _failed(plugins[package], error, f"{frame.f_code.co_filename}:{line}")
        if package == __name__.partition(".")[0]:
            break
    return None


def _failed(entry: EntryPoint, error: BaseException, where: str = "") -> CompileError:
    package = entry.dist.name if entry.dist is not None else entry.module
    hint = f"repair or uninstall the package {package}, which brings it"
    return CompileError(f"plugin '{entry.name}' ({entry.value}) fails: {first_line(error)}", where=where, hint=hint)


@cache
def _entry_points(group: str) -> EntryPoints:
    """The entry points of a group. They are read once per process: reading the metadata of all packages takes milliseconds."""
    from importlib.metadata import entry_points

    return entry_points(group=group)


class References(Mapping[str, T]):
    """Objects by name, from a table of references as `load` takes them."""

    def __init__(self, table: Mapping[str, str]):
        self._table = table

    def __getitem__(self, name: str) -> T:
        return cast(T, load(self._table[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class Registry(Generic[T]):
    """Objects of one kind by name. Those of the compiler come first and cannot be replaced."""

    def __init__(
        self,
        kind: str,
        plural: str,
        ours: Callable[[], Mapping[str, T]],
        others: Mapping[str, str] = MappingProxyType({}),
    ):
        """`others` maps other names to the compiler's names: lookups accept them, iteration leaves them out."""
        self.kind = kind
        self.plural = plural
        self._ours = ours
        self._others = others
        self._added: dict[str, T] = {}

    def __repr__(self) -> str:
        return f"Registry({self.plural}: {', '.join(self)})"

    def add(self, name: str, value: T) -> None:
        """Register `value`. Raises CompileError for a name that is taken."""
        if name in self:
            raise CompileError(f"{self.kind} '{name}' exists already", hint="choose another name")
        self._added[name] = value

    def __getitem__(self, name: str) -> T:
        """The thing of this name. Raises CompileError if there is none."""
        name = self._others.get(name, name)
        for table in (self._ours(), self._added):
            if name in table:
                return table[name]
        close = get_close_matches(name, [*self, *self._others], 1)
        hint = f"did you mean '{close[0]}'?" if close else f"{self.plural} are {', '.join(self)}"
        raise CompileError(f"no {self.kind} is called '{name}'", hint=hint, option=self.kind)

    def __contains__(self, name: object) -> bool:
        return name in self._ours() or name in self._added or name in self._others

    def __iter__(self) -> Iterator[str]:
        """The names, ours first."""
        yield from self._ours()
        yield from self._added

    def others(self, name: str) -> list[str]:
        """The other names of a thing."""
        return [other for other, own in self._others.items() if own == name]

    @property
    def added(self) -> Mapping[str, T]:
        """The registered things."""
        return self._added

    def copy(self) -> Registry[T]:
        """An independent copy: additions to one are not visible in the other."""
        copied = Registry(self.kind, self.plural, self._ours, self._others)
        copied._added.update(self._added)
        return copied
