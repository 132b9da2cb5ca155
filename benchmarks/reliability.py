"""The campaigns of docs/reliability.md: what was tried, how often it ended as promised, and what did not.

    python benchmarks/reliability.py [SHARE [CAMPAIGN ...]]

SHARE, a fraction, makes all campaigns smaller. The figures of campaigns that are not named stay; they are kept under `.bench/`.
A failure ends the script with status 1, after the page is written.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from environments import CACHE

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = CACHE / "reliability.json"
BEGIN, END = "<!-- begin figures (benchmarks/reliability.py) -->\n", "<!-- end figures -->"
SEED = 1000
DIGITS = ROOT / "examples" / "digits"
DAMAGED, GRAPHS, KILLS, PAIRS = 2000, 10_000, 300, 100
"""Files of each format, graphs, kills, and pairs of runs, of a whole campaign."""


class Row(NamedTuple):
    """What a campaign tried on one kind of input."""

    what: str
    tried: int
    result: str
    """How the runs ended that kept the promise."""
    failures: Sequence[str]
    """The runs that did not, with the command or seed that shows each again."""


def damaged_files(share: float) -> Iterator[Row]:
    """Files of every format with bytes, numbers, names or lines changed; the tools run on each."""
    sys.path.insert(0, str(ROOT / "test" / "unit" / "flows"))
    from hostile_files import FORMATS, campaign

    with tempfile.TemporaryDirectory() as folder:
        for name in FORMATS:
            found = campaign(name, max(1, round(DAMAGED * share)), Path(folder), SEED)
            refused = found.count - found.accepted - len(found.failures)
            result = f"{refused} refused in one line, {found.accepted} accepted; longest {found.slowest:.1f} s"
            yield Row(name, found.count, result, found.failures)


def random_graphs(share: float) -> Iterator[Row]:
    """Random networks and options; every stage is compared with onnxruntime, TensorFlow or OpenCV."""
    sys.path.insert(0, str(ROOT / "test"))
    from fuzz.campaign import FORMATS, campaign

    for name in dict.fromkeys(FORMATS):
        count = max(1, round(GRAPHS * share * FORMATS.count(name) / len(FORMATS)))
        found = campaign(range(SEED, SEED + count), format_=name)
        result = f"{found.passed.total()} stages agree, {found.refused.total()} refused with a reason"
        yield Row(name, found.graphs, result, [f.command for f in found.failures])


def crashes(share: float) -> Iterator[Row]:
    """`amct quantize` is killed at any moment, runs twice at once into one folder, and is interrupted with Ctrl-C."""
    from crashes import Runs, interrupts, kills, pairs

    with tempfile.TemporaryDirectory() as folder:
        runs = Runs.of(DIGITS / "digits.onnx", DIGITS / "calib.npz", Path(folder))
        for run, count in ((kills, KILLS), (pairs, PAIRS), (interrupts, PAIRS)):
            place = Path(folder) / run.__name__
            place.mkdir()
            found = run(runs, place, max(1, round(count * share)), SEED)
            result = f"{found.old} as before or empty, {found.new} with all files of one run"
            yield Row(run.__name__, found.runs, result, [*found.torn, *(f"left {name}" for name in found.left)])


def injected_faults(share: float) -> Iterator[Row]:
    """Wrong kernels, folds, scales, layouts and axes in ResNet-50: `--check` names step and layer, the model is reduced."""
    sys.path.insert(0, str(ROOT / "test" / "unit" / "checking"))
    from faults import faults, trials

    chosen = faults()[:: max(1, round(1 / share))]
    for kind in dict.fromkeys(fault.kind.split()[0] for fault in chosen):
        found = list(trials(50, [fault for fault in chosen if fault.kind.split()[0] == kind]))
        most, finding, reducing = (
            max(each) for each in zip(*((t.left, t.finding, t.reducing) for t in found), strict=True)
        )
        result = f"named within {finding:.0f} s, reduced to {most} operations or fewer within {reducing:.0f} s"
        yield Row(kind, len(found), result, [str(t) for t in found if t.failed])


CAMPAIGNS: Mapping[str, Callable[[float], Iterator[Row]]] = {
    "damaged files": damaged_files,
    "random graphs": random_graphs,
    "injected faults": injected_faults,
    "crashes": crashes,
}
"""By title. A campaign takes a share of its whole size."""


def main(share: str = "1", *names: str) -> int:
    """Runs campaigns and writes the page. Returns 1 if something was found."""
    CACHE.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    failed = False
    for name in names or CAMPAIGNS:
        where, rows = _when_and_where(), []
        for row in CAMPAIGNS[name](float(share)):
            print(f"{name}, {row.what}: {row.tried} tried, {row.result}, {len(row.failures)} failed", flush=True)
            for failure in row.failures:
                print(f"  {failure}", flush=True)
            failed |= bool(row.failures)
            rows.append(row._asdict())
        results[name] = {"where": where, "rows": rows}
        RESULTS.write_text(json.dumps(results, indent=1))
    text = PAGE.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}{figures(results)}{END}{rest.partition(END)[2]}", "utf-8")
    return int(failed)


def figures(results: Mapping[str, Mapping[str, object]]) -> str:
    """A table for each campaign that has run."""
    lines: list[str] = []
    for name, run in CAMPAIGNS.items():
        if name not in results:
            continue
        lines += [f"\n**{name.capitalize()}.** {(run.__doc__ or '').strip()}", f"{results[name]['where']}.", ""]
        lines += ["| input | tried | ended as promised | failed |", "|---|---|---|---|"]
        rows = [Row(**row) for row in results[name]["rows"]]
        lines += [f"| {r.what} | {r.tried:,} | {r.result} | {len(r.failures)} |" for r in rows]
    return "\n".join([*lines, "", ""])


def _when_and_where() -> str:
    kind = f"{os.cpu_count()} cores, {platform.machine()} {platform.system()}"
    return f"{datetime.now(UTC).date()}, {kind}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
