"""Runs the benchmarks and writes `docs/measured/benchmarks.md` from what they say of themselves and what they print.

    python benchmarks/page.py [NAME ...]

All, or those named; the sections of the others stay as they are.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
PAGE, README = HERE.parent / "docs" / "measured" / "benchmarks.md", HERE.parent / "README.md"

SECTIONS = {
    "zoo": "Trained networks",
    "peers": "Quantizing compared with peers",
    "calibration": "Calibration: observers, memory, float inference",
    "fused_nodes": "Quantized files in onnxruntime",
    "forward": "Running a model",
    "native": "Native code",
    "compile_path": "Compiling large graphs",
    "large_weights": "Large weights",
    "large_decoder": "A decoder of 1.1 billion parameters",
    "start_up": "Start-up",
}
"""The benchmarks of the page, and their headings."""

_HEAD = """# Benchmarks

Written by `make bench`, which builds the models, makes a virtual environment for each peer under `.bench/`, and runs them and
ours in turn. No network is needed but to install the peers. Absolute figures are of one machine on one day; ratios are what to
compare. Figures are medians with the least and the largest in parentheses. Peak memory is the largest resident size of a fresh
process.
"""


def main(names: list[str]) -> None:
    sections = _sections()
    for name in names or SECTIONS:
        print(f"{name} ...", flush=True)
        sections[SECTIONS[name]] = _section(name)
        shown = [f"## {title}\n\n{sections[title]}\n" for title in SECTIONS.values() if title in sections]
        PAGE.write_text("\n".join([_HEAD, *shown]), "utf-8")
    write_speed()


def _sections() -> dict[str, str]:
    """What the page says below each heading."""
    _, *parts = PAGE.read_text("utf-8").split("\n## ")
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


def _section(name: str) -> str:
    """What a benchmark says of itself, where and when it runs, and what it prints."""
    statement, where = ast.get_docstring(ast.parse((HERE / f"{name}.py").read_text())) or "", _when_and_where()
    done = subprocess.run([sys.executable, str(HERE / f"{name}.py")], stdout=subprocess.PIPE, text=True, check=False)
    failed = f"\nended with status {done.returncode}" if done.returncode else ""
    return f"{statement}\n\n{where}:\n\n```text\n{done.stdout.strip()}{failed}\n```"


BEGIN, END = "<!-- begin speed (benchmarks/page.py) -->\n", "<!-- end speed -->"
OURS = {"ours, qdq": "amct-opt, profile qdq", "ours, qdq by default": "by default"}
NETWORKS = {"resnet50": "ResNet-50", "mobilenet": "MobileNetV2", "transformer": "a small transformer"}


def write_speed() -> None:
    """Put README's table of speed between its marks, from the page."""
    before, _, rest = README.read_text("utf-8").partition(BEGIN)
    README.write_text(f"{before}{BEGIN}{speed(PAGE.read_text('utf-8'))}\n{END}{rest.partition(END)[2]}", "utf-8")


def speed(page: str) -> str:
    """Medians of the tables compared with peers: a row for each network, a column for each tool, ours as in the first table."""
    found: dict[str, dict[str, str]] = {name: {} for name in NETWORKS}
    for line in page.partition(f"## {SECTIONS['peers']}\n")[2].partition("\n## ")[0].splitlines():
        network, *cells = re.split(r"\s{2,}", line.strip())
        if network in found and cells[0] != "ours, ascend":
            wall, _, peak, sqnr = (cell.split(" ")[0] for cell in cells[1:5])
            found[network].setdefault(cells[0], f"{float(wall):.1f} s, {peak} MB, {float(sqnr):.1f} dB")
    measured = dict.fromkeys(tool for each in found.values() for tool in each)
    tools = [*(each for each in OURS if each in measured), *(each for each in measured if each not in OURS)]
    rows = [(NETWORKS[name], *(each.get(tool, "-") for tool in tools)) for name, each in found.items()]
    lines = [("network", *(OURS.get(tool, tool) for tool in tools)), ["---"] * (len(tools) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _when_and_where() -> str:
    """The day and the machine's kind, how busy it was with other things, and versions of what counts."""
    packages = ", ".join(f"{package} {version(package)}" for package in ("numpy", "onnxruntime", "xdsl"))
    kind = f"{os.cpu_count()} cores, {platform.machine()} {platform.system()}, load {os.getloadavg()[0]:.1f} before"
    return f"{datetime.now(UTC).date()}, {kind}, Python {platform.python_version()}, {packages}"


if __name__ == "__main__":
    main(sys.argv[1:])
