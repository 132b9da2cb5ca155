"""Weights of few levels, asked for in a configuration or given by a record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.configuration.record import read_record
from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import layer_of
from amct_opt.runtime.affine import symmetric_scales
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.record import RecordTarget
from amct_opt.transforms.quantization.numbers.parameters import quantized
from amct_opt.transforms.quantization.numbers.weights import levels_of, nearest

from ...values import parsed

WEIGHT = np.random.default_rng(3).normal(size=(8, 4, 3, 3)).astype(np.float32)

NET = f"""
func.func @main(%x: tensor<?x4x9x9xf32> {{nn.name = "x"}}) -> (tensor<?x8x5x5xf32> {{nn.name = "y"}}) {{
  %w = nn.constant #nn.external<"w", tensor<8x4x3x3xf32>, "0x{WEIGHT.tobytes().hex()}">
  %v = nn.constant #nn.external<"v", tensor<8x8x3x3xf32>, "0x{np.repeat(WEIGHT, 2, 1).tobytes().hex()}">
  %0 = nn.conv %x, %w from <tensorflow, "Conv2D", "plain"> :
    (tensor<?x4x9x9xf32>, tensor<8x4x3x3xf32>) -> tensor<?x8x7x7xf32>
  %y = nn.conv %0, %v dilations [2, 2] pads [1, 1, 1, 1]
    from <tensorflow, "Conv2D", "dilated", {{dilations = array<i64: 1, 2, 2, 1>}}> :
    (tensor<?x8x7x7xf32>, tensor<8x8x3x3xf32>) -> tensor<?x8x5x5xf32>
  func.return %y : tensor<?x8x5x5xf32>
}}
"""

Quantize = Callable[[str], tuple[ModuleOp, Session]]


@pytest.fixture
def quantize(tmp_path: Path) -> Quantize:
    """Quantize the net on random inputs, by a simplified configuration, or by `record.txt`."""

    def quantize(config: str) -> tuple[ModuleOp, Session]:
        (tmp_path / "simple.cfg").write_text(config)
        np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).normal(size=(8, 4, 9, 9)).astype(np.float32))
        module, session = parsed(NET)
        options = (
            f"record={tmp_path}/record.txt" if not config else f"config={tmp_path}/simple.cfg data={tmp_path}/x.npz"
        )
        make_pass("quantize", options).apply(session, module)
        return module, session

    return quantize


def integers(module: ModuleOp) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for op in module.walk():
        if isinstance(op, nn.ConvOp):
            back = op.weight.owner
            assert isinstance(back, nn.DequantizeOp)
            array = nn.array_of(back.input)
            assert array is not None
            found[layer_of(op)] = array
    return found


@pytest.mark.parametrize("steps", [16, 32])
def test_by_common_settings(steps: int, quantize: Quantize) -> None:
    """AMCT's table asks for dilations of 1: the other layer stays uniform, and that is said."""
    module, session = quantize(f"common_config {{ nuq_quantize {{ num_steps: {steps} }} }}")
    found = integers(module)
    uniform = quantized(WEIGHT, symmetric_scales(WEIGHT, 8, 0), 8, 0)
    np.testing.assert_array_equal(found["plain"], nearest(uniform, levels_of(uniform, steps)))
    assert np.unique(found["plain"]).size == steps
    assert np.unique(found["dilated"]).size > 32
    missed = [r for r in session.remarks if r.kind == "missed"]
    assert [(r.layer, r.rule) for r in missed] == [("dilated", "dilation-1")]
    assert missed[0].reason.startswith("its weight takes all levels: its dilations are")
    done = next(r for r in session.remarks if r.pass_name == "convert-observers" and r.layer == "plain")
    assert done.reason.endswith(f"int8 weight per channel of {steps} levels")


def test_by_name(quantize: Quantize) -> None:
    """Asked of one layer, the other is uniform; asked of one that cannot, an error with its place."""
    config = 'override_layer_configs {{ layer_name: "{}" calibration_config {{ nuq_quantize {{ num_steps: 16 }} }} }}'
    module, _ = quantize(config.format("plain"))
    assert {k: np.unique(v).size <= 16 for k, v in integers(module).items()} == {"plain": True, "dilated": False}
    with pytest.raises(CompileError, match="cannot have weights of few levels: its dilations are"):
        quantize(config.format("dilated"))


def test_record(tmp_path: Path, quantize: Quantize) -> None:
    """The levels are written as `cluster`, and by them the record gives the same integers again."""
    module, session = quantize("common_config { nuq_quantize { num_steps: 16 } }")
    RecordTarget().write(module, tmp_path / "record.txt", session)
    record = read_record(tmp_path / "record.txt")
    assert record.layers["plain"].cluster == tuple(np.unique(integers(module)["plain"]).tolist())
    assert record.layers["dilated"].cluster == ()
    again, _ = quantize("")
    for name, array in integers(module).items():
        np.testing.assert_array_equal(integers(again)[name], array, name)


def product(weight: np.ndarray, plan: str) -> str:
    """A matrix product with a calibrated input and a plan for its weight, [16, 16]."""
    return f"""
func.func @main(%x: tensor<?x16xf32> {{nn.name = "x"}}) -> (tensor<?x16xf32> {{nn.name = "y"}}) {{
  %w = nn.constant #nn.external<"w", tensor<16x16xf32>, "0x{weight.astype(np.float32).tobytes().hex()}">
  %o = nn.observe %x as "fc:0" by "minmax" gives <i8, scale = 0.1> : tensor<?x16xf32>
  %y = nn.matmul %o, %w from <onnx, "Gemm", "fc"> {{nn.plan = #nn.plan<{plan}>}} :
    (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}}
"""


def recorded(text: str, options: str, folder: Path) -> tuple[np.ndarray, tuple[int, ...]]:
    """The integers of the weight of a product that is quantized, printed and read again; and the cluster of its record."""
    module, session = parsed(text)
    make_pass("quantize", options).apply(session, module)
    module = parse_module(session, module_text(module))
    RecordTarget().write(module, folder / "record.txt", session)
    (array,) = (op.array for op in module.walk() if isinstance(op, nn.ConstantOp))
    return array, read_record(folder / "record.txt").layers["fc"].cluster


@pytest.mark.parametrize("levels", [16, 32])
def test_a_small_weight_keeps_its_levels_through_a_record(levels: int, tmp_path: Path) -> None:
    weight = np.random.default_rng(4).normal(size=(16, 16))
    first, cluster = recorded(product(weight, f"input, weight i8 levels {levels}"), "", tmp_path)
    assert cluster == tuple(np.unique(first))
    assert len(cluster) == levels
    again, _ = recorded(product(weight, "input, weight i8"), f"record={tmp_path}/record.txt", tmp_path)
    np.testing.assert_array_equal(again, first)


def test_few_integers_by_chance_are_not_levels(tmp_path: Path) -> None:
    weight = np.random.default_rng(4).permutation(np.repeat(np.arange(16), 16)).reshape(16, 16)
    integers, cluster = recorded(product(weight, "input, weight i8"), "", tmp_path)
    assert (np.unique(integers).size, cluster) == (16, ())
