"""Modes together, on the digits network: twice is once, three passes are the whole, and a record repeats the numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amct_opt.tools import amct_opt

DIGITS = Path(__file__).parents[4] / "examples" / "digits"
DATA = f"data={DIGITS / 'calib.npz'} samples=4"

STEPS = (f"--balance-channels={DATA}", f"--calibrate={DATA}", "--convert-observers", f"--shift-accumulators={DATA}")
"""The passes after the one that decides: none is given a decision again."""

CONFIGURATIONS = {
    "levels.cfg": "common_config { nuq_quantize { num_steps: 16 } dmq_balancer { } }",
    "all.cfg": """
        joint_quant: true
        fakequant_precision_mode: FORCE_FP16_QUANT
        tensor_quantize { layer_name: "add1" input_index: 0 }
        common_config { hfmg_quantize { } dmq_balancer { } }
    """,
}

JOINT, HALF, ALONE = "joint-quant=true", "fakequant-precision-mode=FORCE_FP16_QUANT", "weight-only=true"
MODES = {
    "everything": f"config=all.cfg only-layers=conv1,conv2,conv3,fc1 {JOINT}",
    "few levels, shared, balanced": f"config=levels.cfg {JOINT} shift=false",
    "few levels, shifted": f"config=levels.cfg {JOINT}",
    "half, tensors": f"{HALF} tensor-quantize=add1:0 dmq=0.5",
    "half, shared": f"{HALF} {JOINT} activation-offset=false",
    "alone, balanced": f"{ALONE} dmq=0.5",
    "alone, half, tensors": f"{ALONE} {HALF} tensor-quantize=add1:0",
    "16 bits, shifted": f"bits=16 {JOINT}",
    "4 bits, balanced": "bits=4 weight-bits=4 dmq=0.8",
}
ON_VALUES = {
    "shifted": f"{JOINT} shift=true",
    "half": HALF,
    "alone": f"{ALONE} channel-wise=true weight-asymmetric=true weight-bits=4",
    "some": "only-layers=conv1,conv2,add1 tensor-quantize=add1:0",
}
SLOW = ("few levels, shifted", "half, shared", "alone, balanced", "half", "some")
"""Modes whose parts are in others, too."""
CASES = [
    pytest.param(profile, options, id=f"{profile}: {name}", marks=[pytest.mark.slow] if name in SLOW else [])
    for profile, modes in (("ascend", MODES), ("qdq", ON_VALUES))
    for name, options in modes.items()
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in CONFIGURATIONS.items():
        Path(name).write_text(text)
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("profile", "options"), CASES)
def test_mode(profile: str, options: str) -> None:
    def made(name: str, source: str | Path, *passes: str) -> str:
        arguments = [str(source), f"--profile={profile}", *passes, "-o", f"{name}.mlir"]
        assert amct_opt.run(arguments) == 0
        return Path(f"{name}.mlir").read_text("utf-8").replace(f'"{name}.', '"net.')

    fuse = "--fuse-all" if "config" not in options else f"--fuse-all={options.split()[0]}"
    whole = f"--quantize={DATA} {options} correct-bias=false round-weights=nearest"
    once = made("once", DIGITS / "digits.onnx", fuse, whole)
    assert made("twice", "once.mlir", whole) == once

    source: str | Path = DIGITS / "digits.onnx"
    text = ""
    for i, step in enumerate((fuse, f"--insert-observers={options}", *STEPS)):
        text = made(f"step{i}", source, step)
        source = f"step{i}.mlir"
    assert text == once

    assert amct_opt.run(["once.mlir", f"--profile={profile}", "-t", "record", "-o", "record.txt"]) == 0
    joint = " joint-quant=true" if JOINT in options else ""
    again = made("again", DIGITS / "digits.onnx", fuse, f"--quantize=record=record.txt{joint}")
    lost = numbers(once) - numbers(again)
    assert numbers(again) <= numbers(once)
    if profile == "qdq":  # results that no recorded layer reads stay float
        lost = {line for line in lost if ".weight." in line or ".bias." in line}
    assert not lost


def numbers(text: str) -> set[str]:
    """Every operation with parameters, without where these came from."""
    lines = (line.strip() for line in text.splitlines() if " by <" in line or " of <" in line)
    return {re.sub(r" given \w+", "", line) for line in lines}
