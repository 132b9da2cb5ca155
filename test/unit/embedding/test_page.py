"""docs/embedding.md lists the public API as its docstrings have it."""

import inspect
from collections.abc import Callable, Iterator

import amct_opt

NAMES = [name for names in amct_opt._PLACES.values() for name in names]
"""The public API, without its module for PyTorch."""


class Annotation(str):
    """Printed as it is written."""

    __repr__ = str.__str__


def signature(name: str, function: Callable[..., object]) -> str:
    s = inspect.signature(function)
    listed = [p.replace(annotation=Annotation(p.annotation)) for p in s.parameters.values() if p.name != "self"]
    return f"`{name}{s.replace(parameters=listed, return_annotation=Annotation(s.return_annotation))}`"


def prose(found: object) -> str:
    return (inspect.getdoc(found) or "").strip()


def sentence(found: object) -> str:
    return " ".join(prose(found).partition("\n\n")[0].split()).replace("|", "\\|")


def members(found: type) -> Iterator[str]:
    """Methods and properties that a class of ours defines or inherits from one, up to a class that is listed itself."""
    listed = next((base for base in found.__mro__[1:] if getattr(amct_opt, base.__name__, None) is base), object)
    owners = [b for b in found.__mro__ if b.__module__.startswith("amct_opt.") and b not in listed.__mro__]
    named = {name: member for base in reversed(owners) for name, member in vars(base).items()}
    for name, member in named.items():
        if name.startswith("_") or not member.__doc__:
            continue
        if inspect.isfunction(member):
            yield f"* {signature(name, member)}: {sentence(member)}"
        elif isinstance(member, property):
            yield f"* `{name}`: {sentence(member)}"
    if listed is not object:
        yield f"* and those of `{listed.__name__}`"


def section() -> Iterator[str]:
    names = sorted(NAMES, key=str.lower)
    yield "### Functions"
    for name in names:
        if inspect.isfunction(found := getattr(amct_opt, name)):
            yield f"{signature(name, found)}\n\n{prose(found)}"
    yield "### Classes"
    for name in names:
        if inspect.isclass(found := getattr(amct_opt, name)):
            yield "\n".join([f"`{name}`. {prose(found)}", "", *members(found)]).strip()


def test_the_api_is_listed(generated: Callable[..., None]) -> None:
    generated("embedding.md", api="\n\n".join(["", *section(), ""]))
