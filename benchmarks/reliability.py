"""The campaigns of docs/measured/reliability.md: what was tried, how often it ended as promised, and what did not.

    python benchmarks/reliability.py [SHARE [CAMPAIGN ...]]

SHARE, a fraction, makes all campaigns smaller. The figures of campaigns that are not named stay on the page as they are.
A failure ends the script with status 1, after the page is written.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "measured" / "reliability.md"
BEGIN, END = "<!-- begin figures (benchmarks/reliability.py) -->\n", "<!-- end figures -->"
SEED = 1000
DIGITS = ROOT / "examples" / "digits"
DAMAGED, SLOW, GRAPHS, KILLS, PAIRS, WRITES = 2000, 250, 10_000, 300, 100, 2000
"""Files of each format, and of each that a package of another project reads, graphs, kills, pairs of runs, and writes (more
than there are), of a whole campaign.
"""


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
    from hostile_files import FORMATS, campaign  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory() as folder:
        for name, form in FORMATS.items():
            if form.package and find_spec(form.package) is None:
                print(f"damaged files, {name}: {form.package} is not installed", flush=True)
                continue
            number = SLOW if form.package else DAMAGED
            found = campaign(name, max(1, round(number * share)), Path(folder), SEED)
            refused = found.count - found.accepted - len(found.failures)
            result = f"{refused} refused in one line, {found.accepted} accepted; longest {found.slowest:.1f} s"
            yield Row(name, found.count, result, found.failures)


def random_graphs(share: float) -> Iterator[Row]:
    """Random networks and options; every stage is compared with onnxruntime, TensorFlow or OpenCV."""
    sys.path.insert(0, str(ROOT / "test"))
    from fuzz.campaign import FORMATS, campaign  # pyright: ignore[reportMissingImports]

    for name in dict.fromkeys(FORMATS):
        count = max(1, round(GRAPHS * share * FORMATS.count(name) / len(FORMATS)))
        found = campaign(range(SEED, SEED + count), format_=name)
        result = f"{found.passed.total()} stages agree, {found.refused.total()} refused with a reason"
        yield Row(name, found.graphs, result, [f.command for f in found.failures])


def crashes(share: float) -> Iterator[Row]:
    """`amct quantize` is killed at any moment, runs twice at once into one folder, is interrupted with Ctrl-C or SIGTERM, and
    has too little memory or disk. What reads its files repairs nothing.
    """
    from crashes import Runs, failing_writes, full_disks, interrupts, kills, pairs, shortages

    campaigns = {kills: KILLS, pairs: PAIRS, interrupts: PAIRS, shortages: KILLS, failing_writes: WRITES}
    if os.geteuid() == 0:  # only root can make disks
        campaigns[full_disks] = PAIRS
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs.of(DIGITS / "digits.onnx", DIGITS / "calib.npz", Path(folder))
        for run, count in campaigns.items():
            place = Path(folder) / run.__name__
            place.mkdir()
            found = run(runs, place, max(1, round(count * share)), SEED)
            result = f"{found.old} as before or empty, {found.new} with all files of one run"
            result += f", {found.python} as before with an error of Python itself" if found.python else ""
            name = run.__name__.replace("_", " ")
            yield Row(name, found.runs, result, [*found.torn, *(f"left {name}" for name in found.left)])


def injected_faults(share: float) -> Iterator[Row]:
    """Wrong kernels, folds, scales, layouts and axes in ResNet-50: `--check` names step and layer, the model is reduced.

    Seconds are of a processor.
    """
    sys.path.insert(0, str(ROOT / "test" / "unit" / "examine" / "checking"))
    from faults import faults, trials  # pyright: ignore[reportMissingImports]

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
    """Runs campaigns and writes the page after each. Returns 1 if something was found."""
    failed = False
    for name in names or CAMPAIGNS:
        rows: list[Row] = []
        for row in CAMPAIGNS[name](float(share)):
            print(f"{name}, {row.what}: {row.tried} tried, {row.result}, {len(row.failures)} failed", flush=True)
            for failure in row.failures:
                print(f"  {failure}", flush=True)
            failed |= bool(row.failures)
            rows.append(row)
        PAGE.write_text(with_figures(PAGE.read_text("utf-8"), name, rows), "utf-8")
    return int(failed)


def with_figures(page: str, name: str, rows: Sequence[Row]) -> str:
    """The page with new figures of one campaign. The other campaigns keep their parts, which are read by their headings."""
    head, _, rest = page.partition(BEGIN)
    figures, _, tail = rest.partition(END)
    parts = {each: _HEADING.format(each.capitalize()) for each in CAMPAIGNS}
    found = {each: _part(figures, heading) for each, heading in parts.items() if heading in figures}
    doc = " ".join((CAMPAIGNS[name].__doc__ or "").split())
    lines = [f"{parts[name]} {doc}", f"{_when_and_where()}.", ""]
    lines += ["| input | tried | ended as promised | failed |", "|---|---|---|---|"]
    lines += [f"| {r.what} | {r.tried:,} | {r.result} | {len(r.failures)} |" for r in rows]
    found[name] = "\n".join(lines)
    ordered = "\n\n".join(found[each] for each in CAMPAIGNS if each in found)
    return f"{head}{BEGIN}\n{ordered}\n\n{END}{tail}"


_HEADING = "**{}.**"


def _part(figures: str, heading: str) -> str:
    """The part of a campaign: up to the heading of the next one."""
    body = figures.partition(heading)[2].partition("\n**")[0]
    return f"{heading}{body}".strip()


def _when_and_where() -> str:
    kind = f"{os.cpu_count()} cores, {platform.machine()} {platform.system()}"
    return f"{datetime.now(UTC).date()}, {kind}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
