"""Numbers that decide shapes and cannot: each is one located error, or a module whose text reads back; never a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from ...values import BAD, error_of, put
from .conftest import build_model

HUGE = 1 << 62
COUNTS = (-HUGE, -7, -1, 0, 1 << 31, HUGE)
SCALES = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 3.4e38)

W = np.ones((4, 4, 3, 3), np.float32)
OF = {"x": ["x"], "xs": ["x", "s"], "xw": ["x", "w"]}
SIZES = ["x", "", "", "s"]
ROW = np.zeros((1, 5), np.float32)

Slot = tuple[str, int, list[str], dict[str, Any], dict[str, Any], int]
"""Operator, opset, inputs, attributes, constants, number of outputs."""


def slots() -> dict[str, Slot]:
    """Every attribute and every constant that decides a shape, with BAD for the number."""
    found: dict[str, Slot] = {
        "Resize sizes": ("Resize", 17, SIZES, {}, {"s": [1, 4, BAD, 8]}, 1),
        "Resize sizes antialiased": ("Resize", 18, SIZES, {"antialias": 1, "mode": "linear"}, {"s": [1, 4, BAD, 8]}, 1),
        "Resize sizes on axes": ("Resize", 18, SIZES, {"axes": [2]}, {"s": [BAD]}, 1),
        "Tile": ("Tile", 17, OF["xs"], {}, {"s": [1, 1, BAD, 1]}, 1),
        "Tile twice": ("Tile", 17, OF["xs"], {}, {"s": [1, -1, BAD, 1]}, 1),
        "Expand": ("Expand", 17, OF["xs"], {}, {"s": [BAD, 1, 1, 1, 1]}, 1),
        "Reshape": ("Reshape", 17, OF["xs"], {}, {"s": [BAD, -1, 4]}, 1),
        "Reshape allowzero": ("Reshape", 17, OF["xs"], {"allowzero": 1}, {"s": [BAD, -1]}, 1),
        "Pad": ("Pad", 17, OF["xs"], {}, {"s": [0, 0, BAD, 0, 0, 0, 0, 0]}, 1),
        "Pad in opset 10": ("Pad", 10, OF["x"], {"pads": [0, 0, BAD, 0, 0, 0, 0, 0]}, {}, 1),
        "ConstantOfShape": ("ConstantOfShape", 17, ["s"], {}, {"s": [BAD, 0]}, 1),
        "DepthToSpace": ("DepthToSpace", 17, OF["x"], {"blocksize": BAD}, {}, 1),
        "SpaceToDepth": ("SpaceToDepth", 17, OF["x"], {"blocksize": BAD}, {}, 1),
        "Split": ("Split", 17, OF["xs"], {"axis": 2}, {"s": [BAD, 2]}, 2),
        "Split in opset 11": ("Split", 11, OF["x"], {"axis": 2, "split": [BAD, 2]}, {}, 2),
        "Split num_outputs": ("Split", 18, OF["x"], {"axis": 2, "num_outputs": BAD}, {}, 2),
        "OneHot": ("OneHot", 17, ["i", "s", "v"], {}, {"i": [0], "s": [BAD], "v": np.ones(2, "f")}, 1),
        "TopK": ("TopK", 17, OF["xs"], {}, {"s": [BAD]}, 2),
        "GatherND": ("GatherND", 17, OF["xs"], {"batch_dims": BAD}, {"s": [[0, 0]]}, 1),
        "MaxUnpool": (
            "MaxUnpool",
            17,
            ["x", "i", "s"],
            {"kernel_shape": [2, 2]},
            {"i": np.zeros((1, 4, 4, 4), np.int64), "s": [1, 4, BAD, 8]},
            1,
        ),
        "RoiAlign": ("RoiAlign", 17, ["x", "r", "s"], {"output_height": BAD}, {"r": ROW[:, 1:], "s": [0]}, 1),
        "CenterCropPad": ("CenterCropPad", 18, OF["xs"], {"axes": [2]}, {"s": [BAD]}, 1),
        "Col2Im": ("Col2Im", 18, ["y", "s", "b"], {}, {"y": W[:1, :, :, 0], "s": [BAD, 2], "b": [1, 1]}, 1),
        "AffineGrid": ("AffineGrid", 20, ["t", "s"], {}, {"t": np.ones((1, 2, 3), "f"), "s": [1, 1, BAD, 2]}, 1),
        "STFT step": ("STFT", 17, ["y", "s", "", "n"], {}, {"y": np.ones((1, 16, 1), "f"), "s": BAD, "n": 4}, 1),
        "STFT length": ("STFT", 17, ["y", "n", "", "s"], {}, {"y": np.ones((1, 16, 1), "f"), "s": BAD, "n": 4}, 1),
        "HannWindow": ("HannWindow", 17, ["s"], {}, {"s": BAD}, 1),
    }
    for i, name in enumerate(("start", "limit", "delta")):
        numbers = [0, 5, 1]
        found[f"Range {name}"] = (
            "Range",
            17,
            [*"abc"],
            {},
            {**dict(zip("abc", numbers, strict=True)), "abc"[i]: BAD},
            1,
        )
    for i, name in enumerate(("starts", "ends", "axes", "steps")):
        lists = [[0], [4], [2], [1]]
        given = {**dict(zip("abcd", lists, strict=True)), "abcd"[i]: [BAD]}
        found[f"Slice {name}"] = ("Slice", 17, ["x", *"abcd"], {}, given, 1)
    for op_type in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        pools = "Pool" in op_type
        attributes: dict[str, Any] = {
            "strides": [BAD, 1],
            "dilations": [BAD, 1],
            "pads": [BAD, 0, 0, 0],
            "kernel_shape": [BAD, 3],
        }
        if not pools:
            attributes["group"] = BAD
        if op_type == "ConvTranspose":
            attributes |= {"output_padding": [BAD, 0], "output_shape": [BAD, 8]}
        for name, value in attributes.items():
            given = {"kernel_shape": [3, 3], name: value} if pools else {name: value}
            found[f"{op_type} {name}"] = (op_type, 19, OF["x" if pools else "xw"], given, {} if pools else {"w": W}, 1)
    return found


SLOTS = slots()
SCALED: dict[str, Slot] = {
    "Resize scales": ("Resize", 17, ["x", "", "s"], {}, {"s": [1, 1, BAD, 2]}, 1),
    "Resize scales in opset 10": ("Resize", 10, OF["xs"], {}, {"s": [1, 1, BAD, 2]}, 1),
    "Resize scales antialiased": (
        "Resize",
        18,
        ["x", "", "s"],
        {"antialias": 1, "mode": "cubic"},
        {"s": [1, 1, BAD, 2]},
        1,
    ),
    "Upsample": ("Upsample", 9, OF["xs"], {}, {"s": [1, 1, BAD, 2]}, 1),
    "Upsample in opset 7": ("Upsample", 7, OF["x"], {"scales": [1.0, 1.0, BAD, 2.0]}, {}, 1),
    "Range of floats": ("Range", 17, [*"abc"], {}, {"a": 0, "b": BAD, "c": 1}, 1),
}
NEGATIVE = ("Slice", "Range", "Pad")
"""Operators that take negative numbers: they count from the end, take elements away, or give an empty tensor."""


def outcome(slot: Slot, number: float, shape: tuple[int | str, ...], path: Path) -> str:
    """The error, or "" if the text of the module reads back."""
    op_type, opset, inputs, attributes, constants, outputs = slot
    names = [f"y{i}" for i in range(outputs)]
    given = {name: put(value, number) for name, value in attributes.items()}
    number_type = np.float32 if isinstance(number, float) else np.int64
    arrays = {
        n: v if isinstance(v, np.ndarray) else np.asarray(put(v, number), number_type) for n, v in constants.items()
    }
    node = helper.make_node(op_type, inputs, names, op_type, **given)
    path.write_bytes(build_model([node], [("x", shape)], names, arrays, opset).SerializeToString())
    return error_of(path)


@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (1, 4, "h", 4)], ids=["known", "dynamic"])
@pytest.mark.parametrize("name", [*SLOTS, *SCALED])
def test_hostile_numbers(name: str, shape: tuple[int | str, ...], tmp_path: Path) -> None:
    numbers = COUNTS if name in SLOTS else SCALES
    found = {number: outcome((SLOTS | SCALED)[name], number, shape, tmp_path / "m.onnx") for number in numbers}
    accepted = [n for n, error in found.items() if not error]
    assert np.isfinite(accepted).all()
    assert name.startswith(NEGATIVE) or min(accepted, default=0) >= 0
