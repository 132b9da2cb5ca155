"""Who may import whom in the package: what lies beneath does not know what stands on it."""

import ast
import inspect
import re
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRLexer

PACKAGE = Path(__file__).parents[2] / "compiler"

LAYERS: Mapping[str, str] = {
    "dialects": "",
    "formats": "dialects",
    "runtime": "dialects formats",
    "observers": "runtime",
    "data": "dialects formats runtime",
    "configuration": "dialects formats runtime observers",
    "transforms": "dialects runtime observers data configuration engines",
    "lowering": "dialects runtime observers data transforms",
    "frontends": "dialects formats runtime observers data transforms",
    "targets": "dialects formats runtime observers data configuration transforms lowering",
    "engines": "dialects formats runtime observers data transforms lowering targets",
}
"""The folders that a folder may import. Modules of no folder, and those of other folders, count as part of what imports them."""

UPWARDS: Mapping[str, str] = {"engines": "targets transforms", "ir": "dialects", "session": "observers runtime"}
"""The imports of folders above: engines run what is written for them, names and the verifier know operations, a session types."""

STAGES = ("numbers", "decide", "place", "calibrate", "recover", "convert")
"""The folders of `transforms/quantization`, in the order in which their passes run; arithmetic is before all of them."""

FRAMEWORKS: Mapping[str, str] = {
    "targets.onnx_ascend": "targets.onnx",
    "targets.tf_ascend": "targets.tensorflow",
    "frontends.torch": "frontends.onnx",
}
"""Folders of one framework that extend another: all other folders of frontends, formats and targets know their own only."""

UPSTREAM: Mapping[str, str] = {
    "rewriting.driver": "unit/rewriting/test_rewriting.py",
    "dialects.quant": "lit/dialects/quant/ops.mlir",
    "ir.exact_text": "unit/ir/test_exact_text.py",
    "ir.weights": "unit/ir/test_weights.py",
    "ir.undocumented": "unit/ir/test_bad_text.py",
    "ir.name_hints": "unit/ir/test_value_names.py",
    "ir.unique_names": "unit/ir/test_names.py",
    "ir.numbers": "lit/dialects/quant/ops.mlir",
    "ir.dtypes": "unit/ir/test_exact_text.py",
    "ir.array": "unit/ir/test_weights.py",
}
"""What could become part of xDSL as it stands, with its tests: the driver, the quant dialect, and text with arrays next to it."""


@cache
def modules() -> dict[str, Path]:
    paths = {p.relative_to(PACKAGE).with_suffix(""): p for p in PACKAGE.rglob("*.py")}
    return {".".join(name.parts).removesuffix("__init__").removesuffix("."): path for name, path in paths.items()}


@cache
def imported(module: str) -> frozenset[str]:
    """The modules of the package that a module imports: at its top, in functions, and for types alone."""
    path = modules()[module]
    package = path.relative_to(PACKAGE).parent.parts
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            place = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            names = [f"{place}.{alias.name}".lstrip(".") for alias in node.names]
            found.update(name if name in modules() else place for name in names)
    return frozenset(found - {"", module})


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports in functions and for types count, too."""
    sorter = TopologicalSorter({module: imported(module) for module in modules()})
    try:
        sorter.prepare()
    except CycleError as e:
        pytest.fail(" -> ".join(e.args[1]))


def layer_of(module: str) -> str:
    return module.partition(".")[0]


def test_the_top_of_the_package_is_small() -> None:
    """The folders and modules next to each other, and how many of them stand one on the other."""
    tops: dict[str, set[str]] = {layer_of(module): set() for module in modules()}
    for module in modules():
        tops[layer_of(module)] |= {layer_of(name) for name in imported(module)} - {layer_of(module)}
    for top, above in UPWARDS.items():
        assert tops[top] >= set(above.split()), f"{top} does not import all of {above}"
        tops[top] -= set(above.split())
    floors = dict.fromkeys(tops, 1)
    for top in TopologicalSorter(tops).static_order():
        floors[top] += max((floors[name] for name in tops[top]), default=0)
    assert (len(tops), max(floors.values())) <= (24, 16), floors


def framework_of(module: str) -> str:
    """The folder of a framework, as in `targets.onnx`; empty for what all frameworks share."""
    folder = ".".join(module.split(".")[:2])
    has_frameworks = layer_of(module) in ("frontends", "formats", "targets") and "." in module
    return folder if has_frameworks and (PACKAGE / folder.replace(".", "/")).is_dir() else ""


def reached(module: str) -> set[str]:
    """The modules of layers that a module imports, by itself or by modules of no layer."""
    found, todo = {module}, [module]
    while todo:
        new = imported(todo.pop()) - found
        found |= new
        todo += [name for name in new if layer_of(name) not in LAYERS]
    return {name for name in found if layer_of(name) in LAYERS}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_what_is_beneath_it(layer: str) -> None:
    allowed = {layer, *LAYERS[layer].split()}
    wrong = {
        (module, name)
        for module in modules()
        if layer_of(module) == layer
        for name in reached(module)
        if layer_of(name) not in allowed
    }
    assert not wrong, "\n".join(f"{module} imports {name}" for module, name in sorted(wrong))


def test_a_framework_knows_its_own_only() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in modules()
        if (own := framework_of(module))
        for name in sorted(imported(module))
        if layer_of(name) == layer_of(own) and framework_of(name) not in ("", own, FRAMEWORKS.get(own))
    ]
    assert not wrong, "\n".join(wrong)


def stage_of(module: str) -> int | None:
    """The place of a module's stage of quantization in their order; None for a module of none."""
    parts = module.split(".")
    stages = parts[2:3] if parts[:2] == ["transforms", "quantization"] else []
    return STAGES.index(stages[0]) if stages and stages[0] in STAGES else None


def test_a_stage_of_quantization_imports_no_later_one() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in modules()
        if (own := stage_of(module)) is not None
        for name in sorted(imported(module))
        if (other := stage_of(name)) is not None and other > own
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("module", UPSTREAM)
def test_what_could_go_upstream_imports_nothing_else_of_ours(module: str) -> None:
    assert imported(module) <= UPSTREAM.keys()
    assert (PACKAGE.parent / "test" / UPSTREAM[module]).is_file()


def test_private_names_of_xdsl_are_in_one_file() -> None:
    """Those that our classes override or read: pyright reports the others where no comment allows them."""
    classes = [kind for each in (Parser, Printer, MLIRLexer) for kind in each.__mro__[:-1]]
    theirs = {name for kind in classes for name in (*vars(kind), *inspect.get_annotations(kind))}
    private = "|".join(sorted(name for name in theirs if re.fullmatch(r"_[a-z]\w*[a-z]", name)))
    use = re.compile(rf"from xdsl\.(?:parser|printer|utils\.mlir_lexer) [\s\S]*?(?:  def |\.)(?:{private})\b")
    sources = {name: path.read_text("utf-8") for name, path in modules().items()}
    allowed = [name for name, source in sources.items() if "xdsl" in source and "reportPrivateUsage" in source]
    assert {*allowed, *(name for name, source in sources.items() if use.search(source))} == {"ir.undocumented"}
