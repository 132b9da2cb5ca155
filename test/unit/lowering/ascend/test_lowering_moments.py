"""Normalizations, repetition, shapes and places of largest elements: lowering changes no number, and they are numpy's."""

import numpy as np
import pytest

from amct_opt.runtime.executor import run

X = "tensor<2x3x4x5xf32>"
CASES = {
    "layer_norm": (["tensor<4x5xf32>", "tensor<4x5xf32>"], "nn.layer_norm %a, %b, %c axis 1 epsilon 0.1", X),
    "layer_norm_without_bias": (["tensor<5xf32>"], "nn.layer_norm %a, %b", X),
    "instance_norm": (["tensor<3xf32>", "tensor<3xf32>"], "nn.instance_norm %a, %b, %c epsilon 0.1", X),
    "instance_norm_last": (["tensor<5xf32>", "tensor<5xf32>"], "nn.instance_norm %a, %b, %c layout nhwc", X),
    "group_norm": (["tensor<3xf32>", "tensor<3xf32>"], "nn.group_norm %a, %b, %c num_groups 3", X),
    "expand": ([], "nn.expand %a to [3, 1, 1, 1, 5]", "tensor<3x2x3x4x5xf32>"),
    "shape": ([], "nn.shape %a start 1 end -1", "tensor<2xi64>"),
    "arg_max": ([], "nn.arg_max %a axis -2 keepdims", "tensor<2x3x1x5xi64>"),
}


def text(name: str) -> str:
    more, body, result = CASES[name]
    types = dict(zip("abc", [X, *more], strict=False))
    arguments = ", ".join(f"%{n}: {t}" for n, t in types.items())
    return f"""
    func.func @main({arguments}) -> {result} {{
      %y = {body} : ({", ".join(types.values())}) -> {result}
      func.return %y : {result}
    }}"""


@pytest.mark.parametrize("name", CASES)
def test_numbers_stay(name, equivalence):
    before = equivalence.parse(text(name))
    equivalence.assert_equivalent(before, equivalence.after(before, "lower-to-ascend", "legalize-ascend"))


def test_layer_norm_by_hand(equivalence):
    module = equivalence.after(equivalence.parse(text("layer_norm")), "lower-to-ascend")
    x = equivalence.random_inputs(module)
    a, scale, bias = (np.asarray(v, np.float64) for v in x.values())
    mean, variance = a.mean(axis=(1, 2, 3), keepdims=True), a.var(axis=(1, 2, 3), keepdims=True)
    wanted = (a - mean) / np.sqrt(variance + 0.1) * scale + bias
    np.testing.assert_allclose(run(module, x)["result0"], wanted, rtol=0, atol=2e-6)


def test_shapes_at_run_time(equivalence):
    before = equivalence.parse("""
    func.func @main(%x: tensor<?x?x4xf32>) -> (tensor<?x?x2x2xf32>, tensor<?x?xf32>, tensor<?x4x?xf32>) {
      %y = nn.reshape %x to [0, 0, 2, 2] : (tensor<?x?x4xf32>) -> tensor<?x?x2x2xf32>
      %z = nn.reshape %x to [0, -1] : (tensor<?x?x4xf32>) -> tensor<?x?xf32>
      %t = nn.transpose %x perm [0, 2, 1] : (tensor<?x?x4xf32>) -> tensor<?x4x?xf32>
      %w = nn.reshape %t to [0, 4, 0] : tensor<?x4x?xf32>
      func.return %y, %z, %w : tensor<?x?x2x2xf32>, tensor<?x?xf32>, tensor<?x4x?xf32>
    }""")
    equivalence.assert_equivalent(before, equivalence.after(before, "lower-to-ascend", "legalize-ascend"))


def test_batch_norm_channels_last(net, equivalence):
    """A product and a sum that are folded in float64, next to a division in float32."""
    from amct_opt.dialects import nn

    rng = np.random.default_rng(0)
    n = net(2, 4, 5, 6)
    parameters = [n.constant(rng.uniform(0.5, 2, 6).astype(np.float32)) for _ in range(4)]
    before = n.module(n.add(nn.BatchNormOp.make(n.x, *parameters, layout="nhwc")))
    after = equivalence.after(before, "lower-to-ascend", "legalize-ascend")
    equivalence.assert_equivalent(before, after, rtol=0, atol=4e-6)
