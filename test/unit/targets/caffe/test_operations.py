"""Operations that Caffe has, written to its files: read back and interpreted, and run by OpenCV, they compute the same.

What Caffe does not have is refused, at the operation. The tolerance is that of operations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.frontends.caffe import read
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.caffe import CaffeTarget

from ..operations import CASES, Array, Case, X, const, nhwc, positive, real

_NAMES = """
abs add average_pool-ceil average_pool-include batch_norm batch_norm-nhwc batch_norm-rank-2 batch_to_space
batch_to_space-nhwc batch_to_space-one-axis bias_add bias_add-nhwc bias_add-rank-2 clip clip-above clip-below
clip-nothing concat conv conv-1d conv-3d conv-3d-nhwc conv-depthwise conv-groups conv-nhwc conv-same conv_transpose
conv_transpose-nhwc conv_transpose-same conv_transpose-shape conv_transpose-strides depth_to_space depth_to_space-crd
depth_to_space-nhwc dequantize-i2 dequantize-i4 elu exp flatten gelu-tanh global_average global_average-nhwc global_max
hard_shrink hard_sigmoid hard_swish leaky log lrn lrn-nhwc matmul-rank-3-2 max_pool max_pool-ceil max_pool-ceil-pads max_pool-nhwc
mish mul neg pad-wrap-only-negative reciprocal reduce_mean-all reduce_sum-all relu relu6 reshape reshape-constant
reshape-zero-not-needed resize-linear-align resize-nearest rsqrt selu sigmoid softmax softplus softsign
space_to_batch-one-axis space_to_depth space_to_depth-nhwc split split-one sqrt squeeze squeeze-all squeeze-none tanh
transpose transpose-scalar unsqueeze unsqueeze-none
"""
WRITTEN = frozenset(_NAMES.split())
"""The cases of operations.py that Caffe has a form for."""

NOT_IN_OPENCV = frozenset({"Bias", "Clip", "Reduction", "Threshold"})
WRONG_IN_OPENCV = frozenset({"lrn", "lrn-nhwc", "conv_transpose-strides", "transposed-dilated", "transpose-scalar"})
"""It ignores LRN's `k` and Deconvolution's dilation, and has no blobs without axes."""


def pooled(x: Any, kind: Any = nn.MaxPoolOp, **properties: Any) -> Any:
    """With an operation after it: OpenCV knows outputs by layers, and where sizes are cut the last layer has two."""
    return nn.NegOp.make(kind.make(x, **properties).result)


def average(x: Any, **properties: Any) -> Any:
    return pooled(x, nn.AveragePoolOp, **properties)


def conv(x: Any, *kernel: int, **properties: Any) -> Any:
    return nn.ConvOp.make(x, const(real(3, 4, *kernel)), const(real(3), key="bias"), **properties)


def transposed(x: Any, **properties: Any) -> Any:
    return nn.ConvTransposeOp.make(x, const(real(4, 3, 4, 3)), const(real(3), key="bias"), **properties)


def gate(x: Any) -> Any:
    return nn.MulOp.make(x, nn.SigmoidOp.make(nn.GlobalAveragePoolOp.make(x).result).result)


BOX = real(1, 4, 5, 6, 7)
ODD = real(1, 4, 9, 11)

FORMS: dict[str, Case] = {
    # pads whose ends differ: zeros in the kernel
    "conv-pads-end": Case(lambda x: conv(x, 3, 3, pads=(0, 0, 1, 1), strides=(2, 2)), (real(2, 4, 8, 6),)),
    "conv-pads-begin": Case(lambda x: conv(x, 2, 5, pads=(2, 3, 0, 1), strides=(2, 1)), (X,)),
    "conv-pads-mixed": Case(lambda x: conv(x, 3, 3, pads=(0, 2, 2, 0), dilations=(2, 1)), (X,)),
    "conv-same-lower": Case(lambda x: conv(x, 4, 4, auto_pad="same_lower", strides=(3, 2)), (X,)),
    "conv-3d-strides": Case(lambda x: conv(x, 2, 3, 2, strides=(1, 2, 2), pads=(0, 1, 1, 0, 1, 1)), (BOX,)),
    "conv-2d-dilations": Case(lambda x: conv(x, 3, 2, dilations=(1, 2), strides=(2, 1)), (X,)),
    "transposed-more-behind": Case(lambda x: transposed(x, strides=(2, 3), output_padding=(1, 2)), (X,)),
    "transposed-more-cut-behind": Case(lambda x: transposed(x, strides=(2, 2), pads=(0, 1, 2, 1)), (X,)),
    "transposed-more-cut-before": Case(lambda x: transposed(x, strides=(2, 2), pads=(2, 1, 0, 0)), (X,)),
    "transposed-dilated": Case(lambda x: transposed(x, dilations=(2, 2), pads=(1, 1, 1, 1)), (X,)),
    # sizes that are rounded down: cut before or after
    "max-floor": Case(lambda x: pooled(x, kernel=(2, 3), strides=(2, 3)), (ODD,), exact=True),
    "max-floor-pads": Case(
        lambda x: pooled(x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), (real(1, 2, 8, 6),), exact=True
    ),
    "max-floor-small-kernel": Case(lambda x: pooled(x, kernel=(1, 1), strides=(2, 3)), (real(1, 4, 8, 9),), exact=True),
    "max-same": Case(
        lambda x: pooled(x, kernel=(3, 3), strides=(2, 2), auto_pad="same_upper"), (real(1, 2, 8, 7),), exact=True
    ),
    "average-floor": Case(lambda x: average(x, kernel=(3, 2), strides=(3, 2)), (real(1, 4, 8, 9),)),
    "average-floor-pads": Case(
        lambda x: average(x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), count_include_pad=True),
        (real(1, 2, 8, 6),),
    ),
    "mean-of-space": Case(lambda x: nn.ReduceMeanOp.make(x, axes=[2, 3]), (X,)),
    "mean-of-space-kept": Case(lambda x: nn.ReduceMeanOp.make(x, axes=[-1, -2], keepdims=True), (X,)),
    "max-of-space": Case(lambda x: nn.ReduceMaxOp.make(x, axes=[2, 3]), (X,), exact=True),
    "sum-of-rows": Case(lambda x: nn.ReduceSumOp.make(x, axes=[3], keepdims=True), (X,)),
    # sums and products
    "scale": Case(lambda x: nn.MulOp.make(const(real(4, 1, 1)), x), (X,), exact=True),
    "scale-and-bias": Case(
        lambda x: nn.AddOp.make(nn.MulOp.make(x, const(real(1, 4, 1, 1))).result, const(real(4, 1, 1), key="b")), (X,)
    ),
    "scale-number-and-bias": Case(
        lambda x: nn.AddOp.make(nn.MulOp.make(x, const(0.3)).result, const(real(6), key="b")), (X,)
    ),
    "scale-plane": Case(lambda x: nn.MulOp.make(x, const(real(4, 1, 6))), (X,), exact=True),
    "power": Case(lambda x: nn.AddOp.make(nn.MulOp.make(x, const(-0.75)).result, const([1.5])), (X,)),
    "product-used-twice": Case(
        lambda x: (lambda p: nn.MulOp.make(nn.AddOp.make(p, const(2.0, key="two")).result, p))(
            nn.MulOp.make(x, const(0.5)).result
        ),
        (X,),
    ),
    "less-constant": Case(lambda x: nn.SubOp.make(x, const(real(4, 1, 1))), (X,), exact=True),
    "constant-less": Case(lambda x: nn.SubOp.make(const(real(4, 1, 1)), x), (X,), exact=True),
    "difference": Case(nn.SubOp.make, (X, real(*X.shape)), exact=True),
    "quotient": Case(nn.DivOp.make, (X, positive(*X.shape))),
    "quotient-constant": Case(lambda x: nn.DivOp.make(x, const(positive(4, 1, 1))), (X,)),
    "minimum": Case(nn.MinOp.make, (X, real(*X.shape)), exact=True),
    "maximum": Case(nn.MaxOp.make, (X, real(*X.shape)), exact=True),
    "pow": Case(lambda x: nn.PowOp.make(x, const(3.0)), (positive(2, 4),)),
    "gate": Case(gate, (X,)),
    "add-broadcast": Case(nn.AddOp.make, (X, real(2, 4, 1, 1)), exact=True),
    "prelu-channel": Case(lambda x: nn.PReluOp.make(x, const(real(4, 1, 1))), (X,)),
    "prelu-one": Case(lambda x: nn.PReluOp.make(x, const(0.3)), (X,)),
    "batch-norm-plain": Case(
        lambda x: nn.BatchNormOp.make(
            x, const(np.ones(4)), const(np.zeros(4), key="b"), const(real(4)), const(positive(4))
        ),
        (X,),
    ),
    # data movement
    "slice": Case(lambda x: nn.SliceOp.make(x, starts=[1, -3], ends=[3, 100], axes=[1, 3]), (X,), exact=True),
    "pad-negative": Case(lambda x: nn.PadOp.make(x, pads=[-1, 0, -2, 0, 0, -1, -1, 0]), (X,), exact=True),
    "split-unused": Case(
        lambda x: nn.NegOp.make(nn.SplitOp.make(x, axis=1, sizes=[1, 2, 1]).parts[1]), (X,), exact=True
    ),
    "reshape-batch": Case(lambda x: nn.ReshapeOp.make(x, to=[0, -1]), (X,), exact=True),
    "flatten-all": Case(lambda x: nn.FlattenOp.make(x, axis=0), (X,), exact=True),
    "flatten-last": Case(lambda x: nn.FlattenOp.make(x, axis=3), (X,), exact=True),
    "nhwc-net": Case(
        lambda x: nn.SigmoidOp.make(
            nn.GlobalAveragePoolOp.make(conv(x, 3, 3, layout="nhwc").result, layout="nhwc").result
        ),
        (nhwc(X),),
    ),
    "resize-thrice": Case(lambda x: nn.ResizeOp.make(x, scales=(1.0, 1.0, 3.0, 2.0), mode="nearest"), (X,), exact=True),
}


class Written:
    """A module's files."""

    def __init__(self, module: ModuleOp, folder: Path):
        self.session = new_session()
        self.prototxt, self.caffemodel = CaffeTarget().write(module, folder / "net.prototxt", self.session)
        self.text = self.prototxt.read_text()

    def read(self, **shapes: tuple[int, ...]) -> ModuleOp:
        session = new_session()
        session.imports = ImportOptions(weights=self.caffemodel, shapes=shapes)
        module = read(self.prototxt, session)
        verify(module)
        return module

    def opencv(self, inputs: Mapping[str, Array]) -> Array:
        cv2 = pytest.importorskip("cv2")
        net = cv2.dnn.readNetFromCaffe(str(self.prototxt), str(self.caffemodel))
        net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        net.enableFusion(False)
        net.enableWinograd(False)
        for name, array in inputs.items():
            net.setInput(array, name)
        (output,) = [n for n in net.getUnconnectedOutLayersNames() if "/silence" not in n]
        return np.array(net.forward(output))


ALL = {**{n: CASES[n] for n in sorted(WRITTEN)}, **FORMS}


@pytest.mark.parametrize("name", ALL)
def test_written(tmp_path: Path, name: str) -> None:
    case = ALL[name]
    module = case.module()
    wanted = run(module, case.feeds)
    files = Written(module, tmp_path)
    again = run(files.read(), case.feeds)
    assert sorted(again) == sorted(wanted)
    for output, array in wanted.items():
        case.check(again[output], array)
    known = not any(f'type: "{kind}"' in files.text for kind in NOT_IN_OPENCV)
    if known and len(wanted) == 1 and name not in WRONG_IN_OPENCV:
        # OpenCV fuses a product and a sum even where it is told not to
        Case(case.build, case.arrays).check(files.opencv(case.feeds), next(iter(wanted.values())))


@pytest.mark.parametrize("name", sorted(set(CASES) - WRITTEN))
def test_refused(tmp_path: Path, name: str) -> None:
    module = CASES[name].module()
    with pytest.raises(CompileError) as e:
        CaffeTarget().write(module, tmp_path / "net.prototxt", new_session())
    assert e.value.where
    assert list(tmp_path.iterdir()) == []


BAD: dict[str, tuple[Callable[..., Any], tuple[Array, ...], str]] = {
    "pads-and-dilations": (
        lambda x: conv(x, 3, 3, pads=(0, 0, 1, 0), dilations=(2, 1)),
        (X,),
        "no multiple of its dilations",
    ),
    "step": (nn.GeluOp.make, (real(2, 3),), "becomes nn.erf, which has no form in Caffe"),
    "average-of-input": (lambda x: average(x, kernel=(3, 3), pads=(1, 1, 1, 1)), (X,), "other results"),
    "pool-1d": (lambda x: pooled(x, kernel=(3,)), (real(1, 2, 8),), "rank 4"),
    "constant-output": (lambda x: (nn.ReluOp.make(x), const([1.0])), (X,), "output 'y1' is a constant"),
    "broadcast-both": (nn.MulOp.make, (real(2, 1, 3), real(2, 4, 1)), "takes one shape"),
    "constant-of-more-axes": (lambda x: nn.MulOp.make(x, const(real(2, 3))), (real(3),), "more axes"),
    "constant-that-enlarges": (lambda x: nn.AddOp.make(x, const(real(4, 1))), (real(1, 3),), "constants of shape"),
    "matrix-at-run-time": (nn.MatMulOp.make, (real(2, 3), real(3, 4)), "computes its weight at run time"),
    "pad": (lambda x: nn.PadOp.make(x, pads=[0, 0, 1, 1, 0, 0, 1, 1]), (X,), "adds elements"),
    "cut to nothing": (lambda x: nn.PadOp.make(x, pads=[0, 0, 0, 0, 0, 0, 0, -X.shape[3]]), (X,), "keeps no elements"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad(tmp_path: Path, name: str) -> None:
    build, arrays, message = BAD[name]
    with pytest.raises(CompileError, match=message):
        CaffeTarget().write(Case(build, arrays).module(), tmp_path / "net.prototxt", new_session())


def test_outputs_that_are_read(tmp_path: Path) -> None:
    """An output that is read, one that is an input and one value under two names are outputs of the file."""

    def build(x: Any) -> Any:
        a = nn.ReluOp.make(x).result
        return a, nn.TanhOp.make(a).result, x, a

    case = Case(build, (X,), exact=True)
    module = case.module()
    wanted, again = run(module, case.feeds), run(Written(module, tmp_path).read(), case.feeds)
    assert sorted(again) == ["y0", "y1", "y2", "y3"]
    for name, array in wanted.items():
        case.check(again[name], array)


def flattening(shape: str, result: str) -> ModuleOp:
    return parse_module(
        new_session(),
        f"""func.func @main(%x: tensor<{shape}xf32> {{nn.name = "x0"}}) -> (tensor<{result}xf32> {{nn.name = "y0"}}) {{
          %y = nn.flatten %x : (tensor<{shape}xf32>) -> tensor<{result}xf32>
          func.return %y : tensor<{result}xf32>
        }}""",
    )


def test_unknown_batch(tmp_path: Path) -> None:
    """Written as 1, with a remark; another batch can be given."""
    module = flattening("?x4x6", "?x24")
    files = Written(module, tmp_path)
    assert "dim: 1\n" in files.text
    assert "a batch of 1" in " ".join(r.reason for r in files.session.remarks)
    x = {"x0": real(3, 4, 6)}
    np.testing.assert_array_equal(run(files.read(x0=(-1, 4, 6)), x)["y0"], run(module, x)["y0"])


def test_unknown_sizes(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="input 'x0' has unknown sizes") as e:
        Written(flattening("1x4x?", "1x?"), tmp_path)
    assert "--input-shape 'x0:" in e.value.hint
