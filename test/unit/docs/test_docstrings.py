"""Every public class and function of the packages says what it is, but those that a decorator puts into a table under a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .pages import ROOT

SOURCES = sorted([*(ROOT / "compiler").rglob("*.py"), *(ROOT / "packages").rglob("*.py")])


def undocumented(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None and not any(map(registers, node.decorator_list)):
            yield node.name


def registers(decorator: ast.expr) -> bool:
    """Whether it is called with what it decorates for (`@converter("Relu")`, `@kernel(nn.ReluOp)`), or says `@overload`."""
    if isinstance(decorator, ast.Call):
        return ast.unparse(decorator.func) != "dataclass"
    return ast.unparse(decorator) == "overload"


def test_public_names_have_docstrings() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in SOURCES
        if (names := list(undocumented(ast.parse(path.read_text("utf-8")))))
    }
    assert found == {}


def test_what_lacks_one_is_found() -> None:
    source = '''
def bare(): ...
def said():
    """What it gives."""
def _own(): ...
@converter("Relu")
def relu(node): ...
@dataclass(frozen=True)
class Held: ...
'''
    assert list(undocumented(ast.parse(source))) == ["bare", "Held"]
