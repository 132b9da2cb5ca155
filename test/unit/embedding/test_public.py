"""docs/embedding.md lists what its examples, and those of the other pages, take from modules. AMCT_UPDATE=1 writes the list."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from amct_opt.amct import pytorch
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.support.registry import EXTRAS

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


@pytest.mark.parametrize(
    ("old", "now", "part"),
    [
        ("amct_opt.backends", "amct_opt.engines", ".cluster"),
        ("amct_opt.lowering.linalg", "amct_linalg.lowering", ".rules"),
        ("amct_opt.engines.iree", "amct_linalg.iree", ""),
    ],
)
def test_modules_are_found_by_the_names_that_they_had(old: str, now: str, part: str) -> None:
    with pytest.warns(FutureWarning, match=rf"{old} is {now} now"):
        moved = import_module(old + part)
    assert moved is import_module(now + part)
    assert moved.__spec__ is not None
    assert moved.__spec__.name == now + part
    for name in {old, old + part}:
        del sys.modules[name]


@pytest.mark.parametrize("package", EXTRAS)
def test_what_is_not_installed_is_named_with_its_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(vars(pytorch), "nn", raising=False)  # an import of it has put it there
    session, errors = new_session(), dict[str, CompileError]()
    for registry in (session.passes, session.targets, session.engines):
        for name in registry:
            try:
                assert registry[name]
            except CompileError as e:
                errors[name] = e
    for name in ("nn", "auto_decomposition", "save_quant_retrain_model"):
        try:
            assert getattr(pytorch, name)
        except CompileError as e:
            errors[name] = e
    assert (
        list(errors)
        == {
            "amct_linalg": ["convert-to-linalg", "linalg", "ascendnpu-ir", "tosa", "iree"],
            "amct_training": ["nn", "auto_decomposition", "save_quant_retrain_model"],
        }[package]
    )
    hint = f"  hint: pip install 'amct-opt[{EXTRAS[package]}]'"
    assert {str(e) for e in errors.values()} == {f"error: this requires the package {package}\n{hint}"}
    with pytest.raises(CompileError, match="pass 'infer-shapes' tries no patterns of others"):
        session.own_patterns("infer-shapes")


def test_modules_of_training_have_their_names_in_amct() -> None:
    assert import_module("amct_opt.amct.pytorch.nn") is import_module("amct_training.nn")
