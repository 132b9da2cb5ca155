"""Every operation computes in PyTorch what the interpreter computes, or is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

import amct_opt
from amct_opt.ir.text import parse_module
from amct_opt.runtime.executor import run

from ...frameworks import needs, torch
from ..operations import CASES, module_of

pytestmark = needs("torch", "onnxscript")


def test_operations_compute_the_same() -> None:
    for name, case in CASES.items():
        module = module_of(case.build, case.arrays, case.dynamic)
        expected = run(module, {f"x{i}": a for i, a in enumerate(case.arrays)}).values()
        given = amct_opt.torch.fake_quantized(module)(*(torch.from_numpy(np.array(a)) for a in case.arrays))
        results = [given] if isinstance(given, torch.Tensor) else [*given.values()]
        for found, array in zip(results, expected, strict=True):
            tolerance: dict[str, Any] = {"rtol": 2e-5, "atol": 1e-5, "err_msg": name}
            np.testing.assert_allclose(found.float().numpy(), array.astype(np.float32), **tolerance)


def test_nan_becomes_the_least_integer() -> None:
    module = parse_module(
        amct_opt.new_session(),
        """func.func @main(%x: tensor<3xf32>) -> tensor<3xi8> {
          %y = nn.quantize %x by <i8, scale = 0.5, zero_point = 3> : (tensor<3xf32>) -> tensor<3xi8>
          func.return %y : tensor<3xi8> }""",
    )
    x = np.array([np.nan, np.inf, 1.25], np.float32)
    (expected,) = run(module, {"x": x}).values()
    found = amct_opt.torch.fake_quantized(module)(torch.from_numpy(x))
    np.testing.assert_array_equal(found.numpy(), expected)
