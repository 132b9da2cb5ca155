"""Every operation, lowered and written as for ATC, gives the same bits when the file is read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.ir.functions import value_attributes
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx_ascend import OnnxAscendTarget

from ..operations import CASES

OPSETS = (11, 13, 17)

REFUSED = {"average_pool-dilated", "pad-wrap-twice", "resize-linear-symmetric"}
"""What came with opsets after 17."""

ROUNDED = {"gelu-tanh"}
"""Written as its definition in small operators, which rounds in another order."""

CARRIED = {"resize-sizes-kept-dynamic"}
"""Sizes that are computed in the file: onnx.reference runs what is read."""


def refused(module: ModuleOp, opset: int, path: Path) -> str | None:
    """Why a module cannot be written; None where it is."""
    try:
        OnnxAscendTarget(opset=opset).write(module, path, new_session())
    except CompileError as e:
        return e.message
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES.keys() - CARRIED))
def test_round_trip(name: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "deploy.onnx"
    module = case.module()
    lowered = module.clone()
    LowerToAscendPass().apply(new_session(), lowered)
    expected = run(lowered, case.feeds)
    for opset in OPSETS:
        if (refusal := refused(module, opset, path)) is not None:
            assert opset < 17 or name in REFUSED, refusal
            assert "opset" in refusal
            assert not list(tmp_path.iterdir())
            continue
        assert name not in REFUSED
        back = frontends.read(path, new_session())
        verify(back)
        for key, actual in run(back, case.feeds).items():
            if name in ROUNDED:
                case.check(actual, expected[key], f"opset {opset}")
            else:
                assert (actual.dtype, actual.shape) == (expected[key].dtype, expected[key].shape)
                assert np.ascontiguousarray(actual).tobytes() == np.ascontiguousarray(expected[key]).tobytes(), opset
        path.unlink()


def test_pad_as_an_output(tmp_path: Path) -> None:
    """Nothing after the Pad quantizes: it stays where it is."""
    block = Block(arg_types=[TensorType(f32, (1, 2, 3, 3))])
    pad = nn.PadOp.make(block.args[0], pads=[0, 0, 1, 1, 0, 0, 1, 1])
    block.add_ops([pad, ReturnOp(pad.result)])
    described = [value_attributes("x")], [value_attributes("y")]
    function = FuncOp(
        *("main", ([*block.arg_types], [pad.result.type]), Region(block)),
        arg_attrs=ArrayAttr(described[0]),
        res_attrs=ArrayAttr(described[1]),
    )
    path = tmp_path / "pad.onnx"
    OnnxAscendTarget(opset=13).write(ModuleOp([function]), path, new_session())
    x = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
    result = run(frontends.read(path, new_session()), {"x": x})["y"]
    np.testing.assert_array_equal(result, np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]))
