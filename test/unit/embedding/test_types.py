"""What type checkers see of the public API: everything that `compiler` hands out, with its members, has known types."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import compiler

PACKAGE = Path(compiler.__path__[0])


@pytest.mark.slow
def test_every_public_name_is_typed(tmp_path: Path) -> None:
    """`pyright --verifytypes` on the package as it is installed: beside its dependencies."""
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "amct_opt" not in each.name and each.suffix != ".pth":
            (tmp_path / each.name).symlink_to(each)
    shutil.copytree(PACKAGE, tmp_path / "compiler", ignore=shutil.ignore_patterns("__pycache__"))
    argv = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    argv += ["--verifytypes", "compiler", "--ignoreexternal", "--outputjson"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    places = tuple(f"{getattr(compiler, name).__module__}.{name}" for name in compiler.__all__)
    public = [s for s in symbols if s["name"] in places or s["name"].startswith(tuple(f"{p}." for p in places))]
    assert {s["name"] for s in public} >= set(places)
    assert len(public) > 200
    assert {s["name"]: s["diagnostics"] for s in public if not s["isTypeKnown"]} == {}
