"""What a report advises: each rule on runs where it applies and where it does not, and commands that exist."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from amct_opt.examine.reports.advice import advice
from amct_opt.examine.reports.reading import (
    Activation,
    Answers,
    DrawnLayer,
    LayerError,
    Measured,
    OutputError,
    Point,
    Run,
    Weights,
)
from amct_opt.support.diagnostics import Remark
from amct_opt.tools.amct import parser

COMMANDS = {name: f"amct {name} m.onnx --observer minmax --data d.npz" for name in ("quantize", "sensitivity", "tune")}
NARROW = Activation(-50.0, 50.0, 0.0, -50.0, 1.0, [1, *[0] * 48, 9999, 9999, *[0] * 48, 1])
WIDE = Activation(-50.0, 50.0, 0.0, -50.0, 1.0, [20] * 100)


def run_with(sqnr: float | None = 40.0, **changes: object) -> Run:
    measured = Measured(8, COMMANDS, {}, [WIDE])
    run = Run(Path("out"), "m.onnx", {"observer": "mse"}, "", 10, True, False, [], [], None, {}, {}, measured=measured)
    return replace(run, outputs=[OutputError("y", "fake_quantized", sqnr, 1.0, 0.0)], **changes)


def layer(
    name: str = "fc", drop: float | None = None, bits: int = 8, scales: str = "one scale", outliers: float = 1
) -> DrawnLayer:
    weights = Weights(bits, scales, 1, [-1.0], [1.0], [1.0], outliers)
    points = [Point("x", 0, 8, (-50.0, 50.0))]
    return DrawnLayer(name, "nn.matmul", "2", "quantized", "", "", LayerError(9.0, 1.0), drop, points, weights)


ROUNDED = Remark("applied", "round-weights", "gptq", "fc", "nn.matmul", "", "")
MINMAX = {"observer": "minmax"}

ANSWERS = [Answers("float", 88.0, 76.0, 94.0, 44, 50, 1.0), Answers("fake_quantized", 82.0, 69.0, 90.0, 41, 50, 0.25)]

CASES: dict[str, tuple[Run, DrawnLayer, tuple[str, ...]]] = {
    "all is well": (run_with(), layer(), ()),
    "equal outputs": (run_with(None), layer(drop=20.0), ()),
    "synthetic": (
        run_with(synthetic=True),
        layer(),
        ("amct quantize m.onnx --observer minmax --data DATA -o out-calibrated",),
    ),
    "few samples": (run_with(held_back=False), layer(), ("",)),
    "does not run": (run_with(onnxruntime={"version": "1", "failure": "bad"}), layer(), ("",)),
    "poor": (run_with(9.0), layer(), (COMMANDS["sensitivity"], f"{COMMANDS['tune']} -o out-tuned")),
    "wrong answers": (
        run_with(9.0, answers=ANSWERS),
        layer(),
        (f"{COMMANDS['tune']} -o out-tuned", COMMANDS["sensitivity"]),
    ),
    "right answers": (run_with(answers=[ANSWERS[0], replace(ANSWERS[0], stage="fake_quantized")]), layer(), ()),
    "a layer dominates": (
        run_with(20.0),
        layer("a/b c", drop=9.0),
        (
            f"{COMMANDS['quantize']} --skip-layers 'a/b c' -o out-skipped",
            f"{COMMANDS['quantize']} --recipe detection -o out-wide",
        ),
    ),
    "a small drop": (run_with(20.0), layer(drop=2.0), ()),
    "outliers": (
        run_with(metadata=MINMAX, measured=Measured(8, COMMANDS, {}, [NARROW])),
        layer(),
        ("amct quantize m.onnx --data d.npz --observer mse -o out-mse",),
    ),
    "no outliers": (run_with(metadata=MINMAX), layer(), ()),
    "uneven channels": (run_with(20.0), layer(outliers=30.0), (f"{COMMANDS['quantize']} --equalize -o out-equalized",)),
    "a scale for each": (run_with(20.0), layer(outliers=30.0, scales="a scale per channel"), ()),
    "4 bits": (run_with(), layer(bits=4), (f"{COMMANDS['quantize']} --round-weights mismatch -o out-rounded",)),
    "4 bits, rounded": (run_with(remarks=[ROUNDED]), layer(bits=4), ()),
    "4 bits, another layer rounded": (
        run_with(remarks=[ROUNDED]),
        layer("other", bits=4),
        (f"{COMMANDS['quantize']} --round-weights mismatch -o out-rounded",),
    ),
    "4 bits, too wide for the default": (
        run_with(remarks=[replace(ROUNDED, kind="missed", rule="wide")]),
        layer(bits=4),
        (f"{COMMANDS['quantize']} --round-weights mismatch -o out-rounded",),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rules(case: str) -> None:
    run, network, commands = CASES[case]
    found = advice(replace(run, layers=[network]))
    assert tuple(each.command for each in found) == commands
    for each in found:
        if each.command:
            parser().parse_args(shlex.split(each.command)[1:])
