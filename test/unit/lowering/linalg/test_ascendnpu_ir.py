"""`-t ascendnpu-ir`: what `bishengir-opt` of the package `ascendnpu-ir` lowers down to hivm, where it is installed.

Its verifiers accept wrong shapes, too. Therefore what it makes of its own operations for upstream is compiled by IREE, and the
numbers are compared.
`AMCT_UPDATE=1 pytest -m slow` on this file writes the table in docs/linalg.md again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt.diagnostics import CompileError
from amct_opt.runtime.executor import Executable
from amct_opt.targets.ascendnpu_ir import AscendNpuIrTarget

from ...scripts import ROOT
from .native import called, compiled_text
from .test_operations import f32, of_ascend, of_integers

PAGE = ROOT / "docs" / "linalg.md"
START, END = "<!-- ascendnpu-ir -->\n", "<!-- end -->\n"
DIGITS = ROOT / "examples" / "digits"
HFUSION = [f"--convert-{each}-to-hfusion" for each in ("tensor", "linalg", "arith", "math")]
HIVM = ["--convert-hfusion-to-hivm", "--convert-tensor-to-hivm"]


def tool() -> str:
    """The path of `bishengir-opt`; skips the test where there is none."""
    package = find_spec("ascendnpuir")
    inside = Path(str(package.origin)).parent / "bin" / "bishengir-opt" if package is not None else None
    found = shutil.which("bishengir-opt") or (str(inside) if inside is not None else None)
    return found or pytest.skip("ascendnpu-ir is not installed")


def sent(module: ModuleOp, folder: Path) -> str:
    """Why a module does not arrive at hivm; empty if it does."""
    session, text = amct_opt.new_session(), folder / "m.mlir"
    try:
        AscendNpuIrTarget().write(module, text, session)
    except CompileError:
        return next(f"no form: `{r.rule}`" for r in session.remarks if r.kind == "missed")
    for options, name in ((HFUSION, "hfusion.mlir"), (HIVM, "hivm.mlir")):
        command = [tool(), str(text), *options, "-o", str(folder / name)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if "rror: " in line or "ERROR: " in line]
            return "rejected: " + (lines[0].rpartition("rror: ")[2] if lines else f"status {result.returncode}")
        text = folder / name
    return ""


@pytest.mark.slow
def test_operations(tmp_path: Path) -> None:
    tool()
    verdicts: dict[str, list[str]] = {}
    for name, sample in (of_ascend(f32) | {f"{n} (int8)": s for n, s in of_integers().items()}).items():
        verdicts.setdefault(sent(sample.module, tmp_path) or "accepted down to hivm", []).append(name)
    rows = [f"| {verdict} | {', '.join(f'`{name}`' for name in names)} |" for verdict, names in verdicts.items()]
    table = "\n".join(["| `bishengir-opt` | operations |", "| --- | --- |", *rows, ""])
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    _, _, after = rest.partition(END)
    if os.environ.get("AMCT_UPDATE"):
        PAGE.write_text(before + START + table + END + after, "utf-8")
    assert START + table + END in PAGE.read_text("utf-8"), "run with AMCT_UPDATE=1"


def digits(passes: str) -> ModuleOp:
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    data = f'"{DIGITS / "calib.npz"}"'
    shape = 'infer-shapes{input_shape="image:2x1x8x8"}'
    amct_opt.run_pipeline(module, f"{shape},fuse-all,quantize{{data={data}}}{passes}", session)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("passes", ["", ",lower-to-ascend", ",lower-to-ascend,fuse-requant"])
def test_the_digits_network_arrives_at_hivm(passes: str, tmp_path: Path) -> None:
    tool()
    assert sent(digits(passes), tmp_path) == ""
    text = (tmp_path / "hivm.mlir").read_text()
    assert "hacc.entry" in text
    assert "hivm.hir.matmul" in text


@pytest.mark.slow
def test_the_integers_on_its_way_back(tmp_path: Path) -> None:
    """hfusion, written for upstream by `bishengir-opt` itself and compiled by IREE, gives the outputs of the interpreter.

    Its way back writes `hfusion.cast` without the rounding, which `math.roundeven` stands for here.
    """
    module = digits(",lower-to-ascend,fuse-requant")
    assert sent(module, tmp_path) == ""
    rounding = r"hfusion.cast \{round_mode = #hfusion.round_mode<rint>\} ins\((%\w+) : (tensor<[^>]*f32>)\) outs\([^)]*\) -> \2\n"
    rounded, back = tmp_path / "rounded.mlir", tmp_path / "back.mlir"
    rounded.write_text(re.sub(rounding, r"math.roundeven \1 : \2\n", (tmp_path / "hfusion.mlir").read_text()))
    options = ["--execution-engine-convert-hfusion-to-upstream", "--linalg-generalize-named-ops"]
    subprocess.run([tool(), str(rounded), *options, "-o", str(back)], check=True)
    back.write_text(re.sub(r"attributes \{hacc[^}]*\}", "", back.read_text()))
    x = np.load(DIGITS / "heldout.npz")["image"][:2]
    (expected,) = Executable(module).run({"image": x}).values()
    (found,) = called(compiled_text(back).main, [x])
    np.testing.assert_array_equal(found, expected)


def test_what_it_writes(tmp_path: Path) -> None:
    """Operations on whole tensors, products of int8 into int32, rounding by hfusion; no generic operation is left."""
    (path,) = AscendNpuIrTarget().write(digits(",lower-to-ascend"), tmp_path / "m.mlir", amct_opt.new_session())
    text = path.read_text()
    assert "attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>}" in text
    assert "linalg.generic" not in text
    assert text.count("linalg.matmul") == 5 + 32, (
        "one for each layer, and for each channel of the depthwise convolution"
    )
    assert "hfusion.cast {round_mode = #hfusion.round_mode<rint>}" in text
