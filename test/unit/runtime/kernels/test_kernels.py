"""What holds for all kernels: there is one per operation, and plans run in several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.ir.text import parse_module
from amct_opt.runtime import kernels, scratch
from amct_opt.runtime.executor import Executable
from amct_opt.session.universe import new_session


def test_every_operation_has_a_kernel() -> None:
    for family in kernels._FAMILIES["nn"]:
        import_module(f"amct_opt.runtime.kernels.{family}")
    computed_by_the_plan = {nn.ConstantOp, nn.YieldOp}
    assert set(nn.OPERATIONS) - set(kernels._KERNELS) - set(nn.expandable()) == computed_by_the_plan


def test_threads_do_not_share_working_memory(small_integers) -> None:
    text = """
    func.func @main(%x: tensor<1x4x20x20xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x20x20xf32> {
      %a = nn.conv %x, %w pads [1, 1, 1, 1] : (tensor<1x4x20x20xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x20x20xf32>
      %b = nn.max_pool %a kernel [3, 3] pads [1, 1, 1, 1] : tensor<1x4x20x20xf32>
      func.return %b : tensor<1x4x20x20xf32>
    }
    """
    runner = Executable(parse_module(new_session(), text, "net.mlir"))
    feeds = [{"x": small_integers((1, 4, 20, 20)), "w": small_integers((4, 4, 3, 3))} for _ in range(20)]
    alone = [runner.run(f)["result0"] for f in feeds]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda f: [runner.run(f)["result0"] for _ in range(10)][-1], feeds))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


def test_scratch_is_used_again_and_grows() -> None:
    dtype = np.dtype(np.float32)
    first = scratch.scratch("test", (4, 5), dtype)
    assert np.shares_memory(first, scratch.scratch("test", (20,), dtype))
    assert not np.shares_memory(first, scratch.scratch("other", (20,), dtype))
    assert scratch.scratch("test", (30, 3), dtype).shape == (30, 3)


def test_large_scratch_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "KEPT_BYTES", 100)
    dtype = np.dtype(np.int8)
    large = scratch.scratch("large", (101,), dtype)
    assert not np.shares_memory(large, scratch.scratch("large", (101,), dtype))
