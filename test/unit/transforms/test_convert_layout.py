"""Converting layouts changes no number, and leaves no operation of the other layout."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn


def transposes(module: ModuleOp) -> int:
    return sum(isinstance(op, nn.TransposeOp) for op in module.walk())


@settings(max_examples=60)
@given(data=st.data(), to=st.sampled_from(list(nn.Layout)))
def test_random_networks(equivalence, random_networks, data: st.DataObject, to: nn.Layout) -> None:
    module, x = data.draw(random_networks)
    after = equivalence.after(module, f"convert-layout={to.value}")
    equivalence.assert_equivalent(module, after, {"arg0": x})
    assert all(op.layout.data is to for op in after.walk() if isinstance(op, nn.LayoutOp))


EVERY_LAYOUT_OPERATION = """
!map = tensor<?x6x4x8xf32>
!vec = tensor<8xf32>
!filter = tensor<8x2x2x1xf32>
func.func @main(%x: !map) -> !map {
  %c = nn.constant dense<[1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 2.0, 0.25]> : !vec
  %v = nn.constant dense<[1.0, 2.0, 0.5, 3.0, 1.5, 1.0, 2.0, 0.25]> : !vec
  %w = nn.constant #nn.external<"w", tensor<8x2x2x1xf32>, "WEIGHTS">
  %b = nn.batch_norm %x, %c, %c, %c, %v layout nhwc : (!map, !vec, !vec, !vec, !vec) -> !map
  %i = nn.instance_norm %b, %c, %v layout nhwc : (!map, !vec, !vec) -> !map
  %g = nn.group_norm %i, %c, %v num_groups 2 layout nhwc : (!map, !vec, !vec) -> !map
  %l = nn.lrn %g size 3 layout nhwc : !map
  %a = nn.bias_add %l, %c layout nhwc : (!map, !vec) -> !map
  %d = nn.space_to_depth %a block 2 layout nhwc : (!map) -> tensor<?x3x2x32xf32>
  %e = nn.depth_to_space %d block 2 mode crd layout nhwc : (tensor<?x3x2x32xf32>) -> !map
  %s = nn.space_to_batch %e block [3, 1] pads [0, 0, 0, 0] layout nhwc : (!map) -> tensor<?x2x4x8xf32>
  %t = nn.batch_to_space %s block [3, 1] crops [0, 0, 0, 0] layout nhwc : (tensor<?x2x4x8xf32>) -> !map
  %f = nn.conv %t, %w groups 4 auto_pad same_upper layout nhwc : (!map, !filter) -> !map
  %h = nn.conv_transpose %f, %w groups 4 pads [0, 0, 1, 0] layout nhwc : (!map, !filter) -> !map
  %m = nn.max_pool %h kernel [2, 1] pads [1, 0, 0, 0] layout nhwc : !map
  %n = nn.average_pool %m kernel [2, 1] pads [1, 0, 0, 0] layout nhwc : !map
  %o = nn.global_average_pool %n layout nhwc : (!map) -> tensor<?x1x1x8xf32>
  %p = nn.global_max_pool %n layout nhwc : (!map) -> tensor<?x1x1x8xf32>
  %q = nn.add %o, %p : tensor<?x1x1x8xf32>
  %r = nn.resize %n scales [1.0, 1.0, 2.0, 1.0] mode linear : (!map) -> tensor<?x6x8x8xf32>
  %u = nn.slice %r starts [0] ends [8] axes [2] steps [2] : (tensor<?x6x8x8xf32>) -> !map
  %y = nn.mul %u, %q : (!map, tensor<?x1x1x8xf32>) -> !map
  %z = nn.log_softmax %y : !map
  func.return %z : !map
}
""".replace("WEIGHTS", "0x" + np.random.default_rng(0).normal(size=32).astype(np.float32).tobytes().hex())


def test_every_layout_operation(equivalence) -> None:
    """One transpose at the input, one at the output.

    Sums run in another order: at most 64 float32 terms of size 1 to 10 in each of a dozen operations.
    """
    module = equivalence.parse(EVERY_LAYOUT_OPERATION)
    used = {type(op) for op in module.walk() if isinstance(op, nn.LayoutOp)}
    assert used == {op for op in nn.OPERATIONS if issubclass(op, nn.LayoutOp)}
    after = equivalence.after(module, "convert-layout=NCHW")
    assert transposes(after) == 2
    equivalence.assert_equivalent(module, after, rtol=1e-4, atol=1e-4)
    assert transposes(equivalence.after(after, "convert-layout=NHWC")) == 0


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("quantized", [False, True])
def test_flattened_weights(equivalence, transpose_b: bool, quantized: bool) -> None:
    """The rows of a matrix after a flattened feature map; integers below 2^24, so exact in any order."""
    shape, flag, axis = ("5x24", "transpose_b", 0) if transpose_b else ("24x5", "", 1)
    array = np.random.default_rng(1).integers(-8, 8, [int(d) for d in shape.split("x")])
    scales = "scale = [1.0, 2.0, 0.5, 4.0, 1.0]"
    weight = (
        f"""%q = nn.constant #nn.external<"w", tensor<{shape}xi8>, "0x{array.astype(np.int8).tobytes().hex()}">
            %w = nn.dequantize %q by <i8, {scales}, axis = {axis}> : (tensor<{shape}xi8>) -> tensor<{shape}xf32>"""
        if quantized
        else f"""%w = nn.constant #nn.external<"w", tensor<{shape}xf32>, "0x{array.astype(np.float32).tobytes().hex()}">"""
    )
    module = equivalence.parse(f"""
        func.func @main(%x: tensor<?x2x3x4xf32>) -> tensor<?x5xf32> {{
          {weight}
          %t = nn.transpose %x perm [0, 2, 3, 1] : (tensor<?x2x3x4xf32>) -> tensor<?x3x4x2xf32>
          %m = nn.max_pool %t kernel [1, 1] layout nhwc : (tensor<?x3x4x2xf32>) -> tensor<?x3x4x2xf32>
          %f = nn.reshape %m to [-1, 24] : (tensor<?x3x4x2xf32>) -> tensor<?x24xf32>
          %y = nn.matmul %f, %w {flag} : (tensor<?x24xf32>, tensor<{shape}xf32>) -> tensor<?x5xf32>
          func.return %y : tensor<?x5xf32>
        }}""")
    after = equivalence.after(module, "convert-layout=NCHW")
    assert transposes(after) == 0
    x = np.random.default_rng(2).integers(-8, 8, (3, 2, 3, 4)).astype(np.float32)
    equivalence.assert_equivalent(module, after, {"x": x})


def test_rows_of_tokens_are_not_flattened(equivalence) -> None:
    """After an unknown batch, [-1, 6] of [?, 2, 6] makes more rows: no features are joined, the transpose stays."""
    weight = np.random.default_rng(1).integers(-8, 8, (6, 5)).astype(np.float32)
    module = equivalence.parse(f"""
        func.func @main(%x: tensor<?x6x2xf32>) -> tensor<?x5xf32> {{
          %w = nn.constant #nn.external<"w", tensor<6x5xf32>, "0x{weight.tobytes().hex()}">
          %t = nn.transpose %x perm [0, 2, 1] : (tensor<?x6x2xf32>) -> tensor<?x2x6xf32>
          %f = nn.reshape %t to [-1, 6] : (tensor<?x2x6xf32>) -> tensor<?x6xf32>
          %y = nn.matmul %f, %w : (tensor<?x6xf32>, tensor<6x5xf32>) -> tensor<?x5xf32>
          func.return %y : tensor<?x5xf32>
        }}""")
    after = equivalence.after(module, "convert-layout=NCHW")
    assert transposes(after) == 1
    x = np.random.default_rng(2).integers(-8, 8, (3, 6, 2)).astype(np.float32)
    equivalence.assert_equivalent(module, after, {"x": x})
