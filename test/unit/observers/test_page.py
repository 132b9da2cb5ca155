"""docs/observers.md lists every observer with its options. AMCT_UPDATE=1 writes the list."""

from collections.abc import Callable
from dataclasses import fields

from amct_opt.observers import OBSERVERS, make_observer


def row(name: str) -> str:
    observer = make_observer(name, 8, symmetric=False)
    options = [f for f in fields(OBSERVERS[name]) if f.init]
    listed = ", ".join(f"`{f.name.replace('_', '-')}={_text(f.default)}`" for f in options)
    passes = "3 with `exact=true`, else 1" if "exact" in [f.name for f in options] else str(observer.passes)
    return f"| `{name}` | {listed or 'none'} | {passes} | {observer.merging} |"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_observers(generated: Callable[..., None]) -> None:
    lines = ["| observer | options and defaults | passes over the data | merged parts |", "|---|---|---|---|"]
    generated("observers.md", observers="\n".join([*lines, *map(row, OBSERVERS)]))


def test_passes() -> None:
    passes = {name: make_observer(name, 8, symmetric=False).passes for name in OBSERVERS}
    assert passes.pop("ifmr") == 3
    assert set(passes.values()) == {1}
    assert make_observer("ifmr{exact=false}", 8, symmetric=False).passes == 1
