"""Writes docs/architecture.svg, the folders of the package and what they import: `python docs/generate/architecture.py`.

A folder stands above the folders that it imports. Lines that follow from others are left out; where folders import each
other in a circle, the dashed line is the one with the fewest imports.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from html import escape
from itertools import groupby, pairwise
from pathlib import Path

TARGET = Path(__file__).parents[1] / "architecture.svg"
PACKAGE = Path(__file__).parents[2] / "compiler"
_WIDTH, _HEIGHT, _GAP, _RISE, _PAGE = 168, 46, 24, 92, 480
_STYLE = """\
text { font: 13px sans-serif; text-anchor: middle; fill: #1f2328 } .small { font-size: 10px; fill: #57606a }
rect { fill: #f6f8fa; stroke: #57606a; rx: 6 } path { fill: none; stroke: #8c959f } .back { stroke-dasharray: 4 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 } rect { fill: #161b22; stroke: #9198a1 } path { stroke: #6e7681 } }"""
_WORDS = {
    "tools": "the commands",
    "amct": "AMCT's functions",
    "api": "the Python API",
    "flows": "what commands do",
    "examine": "checks, reports, reduction",
    "frontends": "models in",
    "targets": "files out",
    "lowering": "to ascend",
    "transforms": "fusion, quantization",
    "engines": "cluster, onnxruntime",
    "pipelines": "passes and options",
    "configuration": "settings, records",
    "rewriting": "patterns, conditions",
    "runtime": "interpreter",
    "observers": "ranges from data",
    "data": "samples in every form",
    "formats": "files, in both directions",
    "dialects": "nn, ascend",
    "session": "names, options, remarks",
    "ir": "types, text, locations",
    "support": "files, errors, limits",
}


def main() -> None:
    TARGET.write_text(picture(), "utf-8")


def imports() -> Counter[tuple[str, str]]:
    """The number of imports from one folder to another; imports in functions and for types count."""
    found = Counter[tuple[str, str]]()
    for path in PACKAGE.rglob("*.py"):
        package = path.relative_to(PACKAGE).parent.parts
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.level or not package:
                continue
            place = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            names = [place[0]] if place[0] else [alias.name for alias in node.names]
            found.update((package[0], name) for name in names if name in _WORDS and name != package[0])
    return found


def picture() -> str:
    """The SVG."""
    counts = imports()
    forward = {name: {b for a, b in counts if a == name} for name in _WORDS}
    back: set[tuple[str, str]] = set()
    while cycle := _cycle(forward):
        a, b = min(pairwise(cycle), key=lambda pair: (counts[pair], pair))
        forward[a].remove(b)
        back.add((a, b))

    @cache
    def level(name: str) -> int:
        return max((level(below) + 1 for below in forward[name]), default=0)

    @cache
    def beneath(name: str) -> frozenset[str]:
        return frozenset(forward[name]).union(*map(beneath, forward[name]))

    rows = [list(row) for _, row in groupby(sorted(_WORDS, key=level, reverse=True), level)]
    place: dict[str, tuple[float, float]] = {}
    for i, row in enumerate(rows):
        left = (_PAGE - len(row) * (_WIDTH + _GAP) + _GAP) / 2 + (i % 2) * 30
        place.update({name: (left + j * (_WIDTH + _GAP), 16 + i * _RISE) for j, name in enumerate(row)})
    lines = [
        _line(place[a], place[b], "")
        for a in _WORDS
        for b in sorted(forward[a])
        if not any(b in beneath(other) for other in forward[a])
    ]
    lines += [_line(place[b], place[a], ' class="back"') for a, b in sorted(back)]
    boxes = [_box(name, *place[name]) for name in _WORDS]
    height = 32 + len(rows) * _RISE - (_RISE - _HEIGHT)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_PAGE} {height}" role="img">'
    title = "<title>The folders of compiler/, each above those that it imports</title>"
    return "\n".join([head, title, f"<style>{_STYLE}</style>", *lines, *boxes, "</svg>", ""])


def _cycle(graph: Mapping[str, set[str]]) -> list[str] | None:
    """Folders that import each other in a circle, the first one again at the end."""
    try:
        TopologicalSorter({name: sorted(below) for name, below in graph.items()}).prepare()
    except CycleError as e:
        return list(reversed(e.args[1]))
    return None


def _box(name: str, x: float, y: float) -> str:
    middle = x + _WIDTH / 2
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}"/><text x="{middle:g}" y="{y + 20:g}">{name}/</text>'
        f'<text class="small" x="{middle:g}" y="{y + 36:g}">{escape(_WORDS[name])}</text>'
    )


def _line(above: tuple[float, float], below: tuple[float, float], kind: str) -> str:
    x, y = above[0] + _WIDTH / 2, above[1] + _HEIGHT
    to_x, to_y = below[0] + _WIDTH / 2, below[1]
    bend = (to_y - y) / 2
    return f'<path{kind} d="M{x:g} {y:g}C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"/>'


if __name__ == "__main__":
    main()
