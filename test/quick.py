"""`make quick`: ruff, pyright and the tests that mirror a file, for the files that differ from the main branch.

compiler/a/b/c.py is tested by test_c.py of test/unit/a/b, a or test/unit itself, by c*.mlir of test/lit in the same way, and by
what the folders test/unit/a/b/c and test/lit/a/b/c hold. Where there are none, what tests compiler/a/b tests it. For a file of
packages/a/PACKAGE the folders are test/unit/a and test/lit/a.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNIT, TEXTS = Path("test/unit"), Path("test/lit")


def git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()


def changed() -> list[Path]:
    """Files that the main branch, as it was when this one left it, has not: committed or not, tracked or not."""
    base = git("merge-base", "origin/main", "HEAD") or ["HEAD"]
    names = git("diff", "--name-only", "--diff-filter=d", *base) + git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in names]


def tests_of(path: Path) -> Iterable[Path]:
    """The tests of one file."""
    if path.is_relative_to(TEXTS) or (path.is_relative_to(UNIT) and path.name.startswith("test_")):
        return [path]
    if path.is_relative_to(UNIT):
        return [path.parent]
    top, *parts = path.with_suffix("").parts
    if top not in ("compiler", "packages"):
        return []
    inside = Path(*parts) if top == "compiler" else Path(parts[0], *parts[2:])
    for each in (inside, *inside.parents[:-1]):
        tests = [UNIT / each, TEXTS / each, *(UNIT / folder / f"test_{each.name}.py" for folder in each.parents)]
        texts = [TEXTS / folder / f"{each.name.replace('_', '-')}*.mlir" for folder in each.parents]
        if found := [match for test in (*tests, *texts) for match in ROOT.glob(str(test))]:
            return [match.relative_to(ROOT) for match in found]
    return []


def run(command: Sequence[str]) -> bool:
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    result = "failed" if done.returncode else "passed"
    print(f"{done.stdout}== {Path(command[0]).name} {result} in {time.perf_counter() - begin:.0f} s", flush=True)
    return done.returncode == 0


def main() -> int:
    files = changed()
    python = [str(path) for path in files if path.suffix == ".py"]
    tests = sorted({str(test) for path in files for test in tests_of(path)})
    texts, units = ([test for test in tests if Path(test).is_relative_to(folder)] for folder in (TEXTS, UNIT))
    print("tests:", *tests, flush=True)
    checks: list[tuple[list[str], list[str]]] = [
        (python, ["ruff", "check"]),
        (python, ["ruff", "format", "--check"]),
        (python, ["pyright"]),
        (units, ["pytest", "-n", "2" if len(units) > 2 else "0", "-m", "not slow and not page and not versions"]),
        (texts, ["lit", "-j2", "-s"]),
    ]
    tools = Path(sys.executable).parent
    commands = [[str(tools / tool), *options, *given] for given, (tool, *options) in checks if given]
    with ThreadPoolExecutor() as pool:
        return 0 if all([*pool.map(run, commands)]) else 1


if __name__ == "__main__":
    sys.exit(main())
