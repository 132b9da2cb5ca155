"""docs/embedding.md lists what its examples, and those of the other pages, take from modules. AMCT_UPDATE=1 writes the list."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from ..docs.pages import PAGES, ROOT, blocks_of


def sources() -> Iterator[str]:
    """The code of somebody who uses the compiler."""
    yield from (path.read_text("utf-8") for path in (ROOT / "examples" / "embedding").rglob("*.py"))
    for page in PAGES.values():
        yield from (block.text for block in blocks_of(page.read_text("utf-8")) if block.language == "python")


def taken() -> dict[str, list[str]]:
    """Names by module, next to those that `amct_opt` itself hands out."""
    imports = [node for text in sources() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    found = {(each.module, alias.name) for each in imports for alias in each.names if not each.level}
    modules = sorted({module for module, _ in found if module and module.startswith("amct_opt.")})
    return {module: sorted(name for owner, name in found if owner == module) for module in modules}


def test_modules_are_listed(generated: Callable[..., None]) -> None:
    rows = [f"| `{module}` | {', '.join(f'`{n}`' for n in names)} |" for module, names in taken().items()]
    generated("embedding.md", modules="\n".join(["| module | of it |", "| --- | --- |", *rows]))


def test_what_is_taken_has_a_docstring() -> None:
    found = [(m, n, getattr(import_module(m), n, None)) for m, names in taken().items() for n in names]
    assert [f"{m}.{n}" for m, n, o in found if callable(o) and not inspect.getdoc(o)] == []


def test_modules_are_found_by_the_names_that_they_had() -> None:
    with pytest.warns(FutureWarning, match=r"amct_opt.backends is amct_opt.engines now"):
        moved = import_module("amct_opt.backends.cluster")
    assert moved is import_module("amct_opt.engines.cluster")
    assert moved.__spec__ is not None
    assert moved.__spec__.name == "amct_opt.engines.cluster"
    for name in ("amct_opt.backends", "amct_opt.backends.cluster"):
        del sys.modules[name]
