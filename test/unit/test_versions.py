"""The oldest and the newest versions that pyproject.toml allows, each set in an environment of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
_PROJECT = tomllib.loads((TESTS.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
_EXTRAS = _PROJECT["optional-dependencies"]

CORE = [*_PROJECT["dependencies"], *_EXTRAS["onnxruntime"]]
CORE_PARTS = (
    "targets/onnx/test_file.py",
    "targets/onnx/test_optimizer.py",
    "frontends/onnx/test_graph.py",
    "flows/test_peer.py",
    "flows/test_latency.py",
    "ir/test_exact_text.py",
    "ir/test_bad_text.py",
)
"""Reading, writing, running in onnxruntime, text, and all of `amct quantize`."""

FRAMEWORKS = {
    "torch": (_EXTRAS["torch"], ("frontends/torch/test_networks.py", "targets/torch", "engines/test_in_torch.py")),
    "tensorflow": (_EXTRAS["tensorflow"], ("frontends/tensorflow/test_keras.py", "targets/tensorflow")),
}
"""Requirements, and what is run with them."""


def oldest(requirements: Sequence[str]) -> list[str]:
    """The lowest versions that are allowed: `numpy>=2.0` becomes `numpy==2.0`."""
    return [re.sub(r">=([^,]+).*", r"==\1", each) for each in requirements]


VERSIONS = {"oldest": oldest(CORE), "xdsl-0.75": ["xdsl==0.75.*"], "newest": CORE}
"""xDSL's API changes with each minor version: the first one that changed parsers and printers is tested, too."""


@pytest.mark.slow
@pytest.mark.parametrize("end", VERSIONS)
def test_core(end: str, tmp_path: Path) -> None:
    """Without what these packages need: it is installed in front of this environment's other packages."""
    run(VERSIONS[end], CORE_PARTS, tmp_path, "--no-deps")


@pytest.mark.versions
@pytest.mark.parametrize("end", ["oldest", "newest"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_frameworks(framework: str, end: str, tmp_path: Path) -> None:
    """With what they need: gigabytes, and therefore no part of `make test-all`."""
    requirements, parts = FRAMEWORKS[framework]
    run(oldest(requirements) if end == "oldest" else requirements, parts, tmp_path)


def run(requirements: Sequence[str], parts: Sequence[str], folder: Path, *options: str) -> None:
    """Run tests with other versions of some packages. Skips, with pip's reason, where they cannot be installed."""
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options]
    installed = subprocess.run([*pip, "--target", site, *requirements], capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"pip cannot install {' '.join(requirements)}: {installed.stderr.strip().splitlines()[-1]}")
    source = TESTS.parents[1] / "src"
    (site / "others.pth").write_text(f"{source}\n{sysconfig.get_path('purelib')}\n")
    command = [folder / "bin" / "python", "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow"]
    tests = [str(TESTS / part) for part in parts]
    done = subprocess.run([*command, *tests], cwd=TESTS.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
