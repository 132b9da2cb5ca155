"""The oldest and the newest supported versions of onnx and onnxruntime, each pair in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAIRS = {"oldest": ("onnx==1.21.0", "onnxruntime==1.22.0"), "newest": ("onnx<2", "onnxruntime<2")}
"""The oldest pair is what pyproject.toml allows; no version is excluded at the other end."""

PARTS = (
    "targets/onnx/test_file.py",
    "targets/onnx/test_optimizer.py",
    "frontends/onnx/test_graph.py",
    "flows/test_peer.py",
)
"""Reading, writing, running in onnxruntime, and all of `amct quantize`."""


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_versions(pair: str, tmp_path: Path) -> None:
    """What differs between versions is installed in front of this environment's other packages."""
    venv.create(tmp_path, with_pip=False)
    site = next(tmp_path.glob("lib/python*/site-packages"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    installed = subprocess.run([*pip, "--target", site, *PAIRS[pair]], capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"pip cannot install {' '.join(PAIRS[pair])}: {installed.stderr.strip().splitlines()[-1]}")
    source = TESTS.parents[1] / "src"
    (site / "others.pth").write_text(f"{source}\n{sysconfig.get_path('purelib')}\n")
    parts = [str(TESTS / part) for part in PARTS]
    command = [tmp_path / "bin" / "python", "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", *parts]
    done = subprocess.run(command, cwd=TESTS.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
