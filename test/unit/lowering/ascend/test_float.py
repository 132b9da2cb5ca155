"""Operations in float: lowering changes no number, as an `ascend` operation computes what its `nn` counterpart does."""

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.runtime.executor import run
from amct_opt.support.diagnostics import CompileError

X = "tensor<2x3x6x5xf32>"
XN = "tensor<2x6x5x3xf32>"
V = "tensor<3xf32>"

# name -> (argument types, body that ends in %y, type of %y); the arguments are %a, %b, ...
CASES: dict[str, tuple[list[str], str, str]] = {
    "conv": (
        [X, "tensor<4x3x3x2xf32>", "tensor<4xf32>"],
        "%y = nn.conv %a, %b, %c strides [2, 1] pads [1, 0, 0, 2] dilations [1, 2]",
        "tensor<2x4x3x5xf32>",
    ),
    "conv_groups": ([X, "tensor<6x1x3x3xf32>"], "%y = nn.conv %a, %b groups 3", "tensor<2x6x4x3xf32>"),
    "conv_1d": (
        ["tensor<2x4x6xf32>", "tensor<6x2x3xf32>", "tensor<6xf32>"],
        "%y = nn.conv %a, %b, %c strides [2] groups 2",
        "tensor<2x6x2xf32>",
    ),
    "conv_last": (
        [XN, "tensor<4x3x3x2xf32>", "tensor<4xf32>"],
        "%y = nn.conv %a, %b, %c layout nhwc strides [2, 1]",
        "tensor<2x2x4x4xf32>",
    ),
    "conv_transpose_1d": (
        ["tensor<2x4x6xf32>", "tensor<4x2x3xf32>"],
        "%y = nn.conv_transpose %a, %b strides [2]",
        "tensor<2x2x13xf32>",
    ),
    "conv_3d": (
        ["tensor<1x2x4x5x6xf32>", "tensor<3x2x2x2x2xf32>"],
        "%y = nn.conv %a, %b pads [1, 0, 0, 0, 0, 1]",
        "tensor<1x3x4x4x6xf32>",
    ),
    "conv_transpose": (
        [X, "tensor<3x2x3x3xf32>", "tensor<2xf32>"],
        "%y = nn.conv_transpose %a, %b, %c strides [2, 3] pads [1, 0, 1, 2] output_padding [1, 0]",
        "tensor<2x2x12x13xf32>",
    ),
    "matmul": (
        ["tensor<4x2xf32>", "tensor<5x4xf32>", "tensor<5xf32>"],
        "%y = nn.matmul %a, %b, %c transpose_a transpose_b",
        "tensor<2x5xf32>",
    ),
    "batch_matmul": (
        ["tensor<2x1x4x3xf32>", "tensor<3x5x3xf32>"],
        "%y = nn.matmul %a, %b transpose_b",
        "tensor<2x3x4x5xf32>",
    ),
    "bias_add": ([X, V], "%y = nn.bias_add %a, %b", X),
    "bias_add_last": ([XN, V], "%y = nn.bias_add %a, %b layout nhwc", XN),
    "max_pool": (
        [X],
        "%y = nn.max_pool %a strides [2, 2] pads [1, 0, 1, 1] kernel [3, 2] ceil_mode",
        "tensor<2x3x4x3xf32>",
    ),
    "max_pool_same": (
        [XN],
        "%y = nn.max_pool %a layout nhwc strides [2, 2] auto_pad same_lower kernel [3, 3]",
        "tensor<2x3x3x3xf32>",
    ),
    "average_pool": ([X], "%y = nn.average_pool %a pads [1, 1, 1, 1] kernel [3, 3]", X),
    "average_pool_ceil": (
        [X],
        "%y = nn.average_pool %a strides [2, 2] pads [0, 1, 1, 0] kernel [2, 3] ceil_mode count_include_pad",
        "tensor<2x3x3x3xf32>",
    ),
    "global_average_pool": ([X], "%y = nn.global_average_pool %a", "tensor<2x3x1x1xf32>"),
    "global_max_pool": ([XN], "%y = nn.global_max_pool %a layout nhwc", "tensor<2x1x1x3xf32>"),
    **{
        name: ([X], f"%y = nn.{name} %a", X)
        for name in (
            *("relu", "relu6", "sigmoid", "tanh", "hard_swish", "hard_sigmoid", "softplus", "mish", "erf", "exp"),
            *("neg", "abs", "gelu", "elu", "leaky_relu", "reciprocal", "softmax", "log_softmax"),
        )
    },
    "sqrt": ([X], "%e = nn.exp %a\n%y = nn.sqrt %e", X),
    "rsqrt": ([X], "%e = nn.exp %a\n%y = nn.rsqrt %e", X),
    "pow": ([X, X], "%e = nn.exp %a\n%y = nn.pow %e, %b", X),
    **{
        name: ([X, "tensor<5xf32>"], f"%y = nn.{name} %a, %b", X) for name in ("add", "sub", "mul", "div", "min", "max")
    },
    "clip": ([X], "%y = nn.clip %a min -0.3", X),
    "prelu": ([X], "%s = nn.constant dense<[[[0.5]], [[-1.0]], [[2.0]]]> : tensor<3x1x1xf32>\n%y = nn.prelu %a, %s", X),
    "prelu_one": ([X], "%s = nn.constant dense<0.5> : tensor<1xf32>\n%y = nn.prelu %a, %s", X),
    "cast": ([X], "%y = nn.cast %a", "tensor<2x3x6x5xi32>"),
    "batch_norm": ([X, V, V, V], "%v = nn.exp %d\n%y = nn.batch_norm %a, %b, %c, %d, %v epsilon 0.1", X),
    "softmax_channels": ([X], "%y = nn.softmax %a axis 1", X),
    "reshape": ([X], "%y = nn.reshape %a to [0, -1, 5]", "tensor<2x18x5xf32>"),
    "flatten": ([X], "%y = nn.flatten %a axis 2", "tensor<6x30xf32>"),
    "transpose": ([X], "%y = nn.transpose %a perm [3, 0, 2, 1]", "tensor<5x2x6x3xf32>"),
    "squeeze": (["tensor<2x1x3xf32>"], "%y = nn.squeeze %a", "tensor<2x3xf32>"),
    "unsqueeze": ([X], "%y = nn.unsqueeze %a axes [0, -1]", "tensor<1x2x3x6x5x1xf32>"),
    "concat": ([X, "tensor<2x1x6x5xf32>"], "%y = nn.concat %a, %b, %a axis -3", "tensor<2x7x6x5xf32>"),
    "slice": ([X], "%y = nn.slice %a starts [-1, 1] ends [-100, 5] axes [2, 3] steps [-2, 3]", "tensor<2x3x3x2xf32>"),
    "gather": (
        [X],
        "%i = nn.constant dense<[[0, -1], [2, 1]]> : tensor<2x2xi64>\n%y = nn.gather %a, %i axis 1",
        "tensor<2x2x2x6x5xf32>",
    ),
    "pad": ([X], "%y = nn.pad %a pads [0, 1, 0, 2, 0, 0, 3, 0] value 1.5", "tensor<2x4x9x7xf32>"),
    "pad_reflect": ([X], "%y = nn.pad %a pads [0, 0, 1, 2, 0, 0, 0, 1] mode reflect", "tensor<2x3x7x8xf32>"),
    "selu": ([X], "%y = nn.selu %a", X),
    "where": (
        [X],
        "%z = nn.constant dense<[true, false, true, true, false]> : tensor<5xi1>\n%y = nn.where %z, %a, %a",
        X,
    ),
    "resize_scales": (
        [X],
        "%y = nn.resize %a scales [1.0, 1.0, 1.5, 2.0] mode linear coordinates asymmetric",
        "tensor<2x3x9x10xf32>",
    ),
    "resize_sizes": ([X], "%y = nn.resize %a sizes [0, 0, 4, 9] mode cubic", "tensor<2x3x4x9xf32>"),
    "resize_tensorflow": (
        [X],
        '%y = nn.resize %a sizes [0, 0, 4, 9] mode linear from <tensorflow, "ResizeBilinear", "y">',
        "tensor<2x3x4x9xf32>",
    ),
    "resize_nearest_tensorflow": (
        [X],
        '%y = nn.resize %a sizes [0, 4, 9, 0] nearest round_prefer_ceil from <tensorflow, "ResizeNearestNeighbor", "y">',
        "tensor<2x4x9x5xf32>",
    ),
    "depth_to_space": (["tensor<2x8x3x5xf32>"], "%y = nn.depth_to_space %a block 2", "tensor<2x2x6x10xf32>"),
    "space_to_depth": ([X.replace("5", "4")], "%y = nn.space_to_depth %a block 2", "tensor<2x12x3x2xf32>"),
    "space_to_batch": (
        [X],
        "%y = nn.space_to_batch %a layout nhwc block [2, 3] pads [1, 0, 0, 0]",
        "tensor<12x2x2x5xf32>",
    ),
    **{
        f"reduce_{name}": ([X], f"%y = nn.reduce_{name} %a axes [1, -1] keepdims", "tensor<2x1x6x1xf32>")
        for name in ("mean", "sum", "max", "min", "prod")
    },
}


def module_text(arguments: list[str], body: str, result: str) -> str:
    """Fills in the types: of the operands by name, of everything but the last result as the first argument's."""
    types: dict[str, str] = dict(zip(("%a", "%b", "%c", "%d"), arguments, strict=False))
    lines = []
    for line in body.split("\n"):
        name, _, rest = line.partition(" = ")
        if "constant" in line:
            types[name] = line.rpartition(" : ")[2]
            lines.append(line)
            continue
        words = (word.rstrip(",") for word in rest.split() if word.startswith("%"))
        types[name] = result if name == "%y" else arguments[0 if line.endswith("%a") else 3]
        lines.append(f"{line} : ({', '.join(types[w] for w in words)}) -> {types[name]}")
    given = ", ".join(f"{n}: {t}" for n, t in zip(types, arguments, strict=False))
    return f"func.func @main({given}) -> {result} {{\n" + "\n".join(lines) + f"\nfunc.return %y : {result}\n}}"


@pytest.mark.parametrize("name", CASES)
def test_numbers_stay(name, equivalence):
    before = equivalence.parse(module_text(*CASES[name]))
    after = equivalence.after(before, "lower-to-ascend")
    assert not [op.name for op in after.walk() if op.name.startswith("nn.") and op.name != "nn.constant"]
    with np.errstate(all="ignore"):
        equivalence.assert_equivalent(before, after)


def test_splitting_stays(equivalence):
    before = equivalence.parse("""
    func.func @main(%a: tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x4xf32>) {
      %x, %y = nn.split %a axis -1 sizes [3, 4] : (tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x4xf32>)
      func.return %x, %y : tensor<2x3xf32>, tensor<2x4xf32>
    }""")
    equivalence.assert_equivalent(before, equivalence.after(before, "lower-to-ascend"))


def test_lrn_differs_by_the_rounding_of_alpha(equivalence):
    """alpha / 5 and its product with 5 are rounded to float32: 2 * 2^-24 of a summand of the base of a power below 1."""
    before = equivalence.parse(module_text([X], "%y = nn.lrn %a size 5 alpha 0.3 beta 0.75", X))
    after = equivalence.after(before, "lower-to-ascend")
    assert "ascend.LRN" in [op.name for op in after.walk()]
    equivalence.assert_equivalent(before, after, rtol=4 * 2.0**-24)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_weights_are_rearranged(layout, equivalence, net):
    """Channels last, and TensorFlow's depthwise layer: the filter is another array, the numbers are the same."""
    rng = np.random.default_rng(0)
    shape = (2, 3, 7, 6) if layout == "nchw" else (2, 7, 6, 3)
    origin = nn.OriginAttr.of("tensorflow", "DepthwiseConv2dNative", "dw")
    n = net(*shape)
    depthwise = n.constant(rng.normal(size=(6, 1, 3, 3)).astype(np.float32))
    y = n.add(nn.ConvOp.make(n.x, depthwise, groups=3, layout=layout, origin=origin, pads=(1, 1, 1, 1)))
    weight = n.constant(rng.normal(size=(4, 3, 3, 2)).astype(np.float32))
    y = n.add(nn.ConvOp.make(y, weight, groups=2, layout=layout))
    up = n.constant(rng.normal(size=(4, 2, 3, 3)).astype(np.float32))
    before = n.module(n.add(nn.ConvTransposeOp.make(y, up, groups=2, strides=(2, 2), layout=layout)))
    after = equivalence.after(before, "lower-to-ascend")
    assert "ascend.DepthwiseConv2D" in [op.name for op in after.walk()]
    equivalence.assert_equivalent(before, after)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_one_spatial_axis_becomes_two(layout, equivalence, net):
    rng = np.random.default_rng(0)
    n = net(*((2, 3, 9) if layout == "nchw" else (2, 9, 3)))
    weight, bias = rng.normal(size=(4, 3, 3)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    window = {"strides": (2,), "pads": (1, 2), "dilations": (2,), "layout": layout}
    y = n.add(nn.ConvOp.make(n.x, n.constant(weight), n.constant(bias), **window))
    up = n.constant(rng.normal(size=(4, 2, 3)).astype(np.float32))
    before = n.module(n.add(nn.ConvTransposeOp.make(y, up, strides=(2,), pads=(1, 0), layout=layout)))
    after = equivalence.after(before, "lower-to-ascend")
    assert [op.name for op in after.walk() if op.name.endswith("queeze")] == ["ascend.Unsqueeze", "ascend.Squeeze"] * 2
    equivalence.assert_equivalent(before, after)


def test_a_negative_index_has_to_be_announced(equivalence):
    module = equivalence.parse("""
    func.func @main(%x: tensor<3xf32> {nn.name = "x"}, %i: tensor<1xi64> {nn.name = "i"}) -> tensor<1xf32> {
      %axis = nn.constant dense<0> : tensor<i64>
      %y = ascend.GatherV2 %x, %i, %axis : (tensor<3xf32>, tensor<1xi64>, tensor<i64>) -> tensor<1xf32>
      func.return %y : tensor<1xf32>
    }""")
    x = np.arange(3, dtype=np.float32)
    assert run(module, {"x": x, "i": np.array([2])})["result0"] == 2
    with pytest.raises(CompileError, match="index -1 is negative"):
        run(module, {"x": x, "i": np.array([-1])})
