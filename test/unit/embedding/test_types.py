"""What type checkers see of the package: every name in it that is not private has a known type, and so have its members."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import amct_opt

from ..scripts import ROOT

PACKAGE = Path(amct_opt.__path__[0])
PACKAGES = PACKAGE, *(path.parent for path in (ROOT / "packages").glob("*/*/__init__.py"))


@pytest.mark.slow
def test_the_whole_package_is_typed(tmp_path: Path) -> None:
    """`pyright --verifytypes` on the package as it is installed: next to its dependencies."""
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "amct_opt" not in each.name and each.suffix != ".pth":
            (tmp_path / each.name).symlink_to(each)
    for package in PACKAGES:
        shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    argv = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    argv += ["--verifytypes", "amct_opt", "--ignoreexternal", "--outputjson"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["typeCompleteness"]
    public = {s["name"]: s for s in found["symbols"] if s["isExported"]}
    assert set(public) >= {f"amct_opt{place}.{name}" for place, names in amct_opt._PLACES.items() for name in names}
    unknown = {name: s["diagnostics"] for name, s in public.items() if not s["isTypeKnown"]}
    assert unknown == {}


CALLS = {
    'quantize("m.onnx", data="c.npz", profil="qdq")': '"profil" of type "NoSuchOption"',
    'quantize("m.onnx", data="c.npz", weight_bit=4, bits=8)': '"weight_bit" of type "NoSuchOption"',
    'quantize(*amct_opt.load("m.onnx"), skip_layer=["fc"])': '"skip_layer" of type "NoSuchOption"',
    'quantize("m.onnx", data="c.npz", weight_bits=5)': 'parameter "weight_bits"',
    'quantize("m.onnx", observr="mse").save("out")': '"observr" of type "NoSuchOption"',
    "load(5)": 'parameter "model" of type "Model"',
    'quantize("m.onnx", data="c.npz", weight_bits=4, skip_layers=["fc"]).save("out")': "",
    'quantize(*amct_opt.load("m.onnx"), weight_bits=4).module': "",
}
"""Calls, and what a type checker says of them."""


@pytest.mark.slow
def test_a_misspelt_keyword_is_named(tmp_path: Path) -> None:
    lines = ["import amct_opt", *(f"amct_opt.{call}" for call in CALLS)]
    (tmp_path / "calls.py").write_text("\n".join(lines))
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(PACKAGE.parent)]}))
    argv = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "calls.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = dict.fromkeys(range(1, len(lines)), "")
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        said[each["range"]["start"]["line"]] += each["message"]
    for (call, expected), message in zip(CALLS.items(), said.values(), strict=True):
        assert expected in message, (call, message)
        assert bool(expected) == bool(message), (call, message)
