"""The forms that operators take from opset 7 to 26: attributes that became inputs, defaults that changed.

Each case is imported, must need no opaque operation, and must compute what onnxruntime computes for the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.runtime.executor import run

ort = pytest.importorskip("onnxruntime")


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


@dataclass(frozen=True)
class Form:
    """A node of one type at one opset; `weights` are its inputs after the first, by position, None for an absent one."""

    opset: int
    op_type: str
    x: np.ndarray
    weights: tuple[np.ndarray | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    dynamic: bool = False
    """Whether the sizes of `x` are left open in the model."""

    @property
    def name(self) -> str:
        details = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op_type}-{self.opset}-{details or len(self.weights)}{'-dynamic' if self.dynamic else ''}"


def form(
    opset: int,
    op_type: str,
    x: np.ndarray,
    *weights: np.ndarray | None,
    outputs: int = 1,
    dynamic: bool = False,
    **attributes,
):
    return Form(opset, op_type, x, weights, attributes, outputs, dynamic)


def forms() -> Iterator[Form]:
    x4, x3, x2 = f32(2, 3, 6, 8), f32(2, 3, 4), f32(3, 4)

    # Axes: an attribute, then an input; without them all, or those of size 1
    yield form(11, "Squeeze", f32(1, 3, 1, 2), axes=[0, -2])
    yield form(13, "Squeeze", f32(1, 3, 1, 2), i64(0, -2))
    yield form(7, "Squeeze", f32(1, 3, 1, 2))
    yield form(13, "Squeeze", f32(1, 3, 1, 2))
    yield form(11, "Unsqueeze", x2, axes=[0, -1])
    yield form(13, "Unsqueeze", x2, i64(0, -1))
    for name, since in (("Sum", 13), ("Mean", 18), ("Max", 18), ("Min", 18), ("Prod", 18)):
        yield form(11, f"Reduce{name}", x3, axes=[1], keepdims=0)
        yield form(11, f"Reduce{name}", x3, axes=[-1, 0])
        yield form(7, f"Reduce{name}", x3)
        yield form(since, f"Reduce{name}", x3, i64(1), keepdims=0)
        yield form(since, f"Reduce{name}", x3, i64(-1, 0))
        yield form(since, f"Reduce{name}", x3, keepdims=0)
        yield form(since, f"Reduce{name}", x3, noop_with_empty_axes=1)
        yield form(since, f"Reduce{name}", x3, i64(), keepdims=1)

    # Pad, Slice, Split
    yield form(7, "Pad", x4, pads=[0, 0, 1, 2, 0, 0, 3, 1], value=1.5)
    yield form(10, "Pad", x4, pads=[0, 0, 1, 2, 0, 0, 3, 1], mode="reflect")
    yield form(11, "Pad", x4, i64(0, 0, 1, -2, 0, 0, 3, 1), scalar(0.5))
    yield form(13, "Pad", x4, i64(0, 0, 1, 2, 0, 0, 3, 1), mode="edge")
    yield form(18, "Pad", x4, i64(1, 2, 3, 1), scalar(2.0), i64(-1, 2))
    yield form(18, "Pad", x4, i64(1, 2, 3, 1), None, i64(2, 3), mode="reflect")
    yield form(19, "Pad", x4, i64(0, 0, 1, 2, 0, 0, 3, 1), mode="wrap")
    yield form(7, "Slice", x4, starts=[1, -3], ends=[3, 1000], axes=[1, 3])
    yield form(7, "Slice", x4, starts=[0, 1], ends=[1, -1])
    yield form(10, "Slice", x4, i64(-1, 1), i64(-(2**62), 7), i64(3, 2), i64(-2, 2))
    yield form(13, "Slice", x4, np.array([1], np.int32), np.array([3], np.int32), np.array([-3], np.int32))
    yield form(13, "Slice", x4, i64(2), i64(2**62), i64(3), i64(1), dynamic=True)
    yield form(7, "Split", x4, axis=1, split=[1, 2], outputs=2)
    yield form(11, "Split", x4, axis=-1, outputs=4)
    yield form(13, "Split", x4, i64(5, 3), axis=3, outputs=2)
    yield form(13, "Split", x4, axis=2, outputs=3)
    yield form(18, "Split", x4, axis=3, num_outputs=3, outputs=3)

    # Clip, Dropout, Pow, Gelu, Swish
    yield form(7, "Clip", x4, min=-0.5, max=0.25)
    yield form(10, "Clip", x4, min=0.0)
    yield form(7, "Clip", x4)
    yield form(11, "Clip", x4, scalar(-0.5), scalar(0.25))
    yield form(13, "Clip", x4, None, scalar(0.25))
    yield form(13, "Clip", x4, scalar(0.0), scalar(6.0))
    yield form(13, "Clip", np.arange(-9, 9, dtype=np.int8), scalar(-3, np.int8), scalar(5, np.int8))
    yield form(13, "Clip", np.array([2**62, 5], np.int64), scalar(2**60 + 1, np.int64), scalar(2**61 + 1, np.int64))
    yield form(7, "Dropout", x4, ratio=0.3)
    yield form(12, "Dropout", x4, scalar(0.3))
    yield form(13, "Dropout", x4, scalar(0.3), scalar(False, np.bool_))
    yield form(7, "Pow", abs(x4), f32(8))
    yield form(12, "Pow", abs(x4), i64(2))
    yield form(15, "Pow", np.arange(6, dtype=np.int32), f32(1))
    yield form(20, "Gelu", x4)
    yield form(20, "Gelu", x4, approximate="tanh")

    # Softmax: over all axes from `axis` on before opset 13
    for op_type in ("Softmax", "LogSoftmax"):
        for axis in (0, 1, 2, 3):
            yield form(9, op_type, x4, axis=axis)
        yield form(9, op_type, x4)
        yield form(11, op_type, x4, axis=-2)
        yield form(11, op_type, x4, axis=1, dynamic=True)
        yield form(7, op_type, f32(2, 5, 1, 1))
        yield form(13, op_type, x4)
        yield form(13, op_type, x4, axis=1)

    # Upsample and Resize
    up = np.array([1, 1, 2, 3], np.float32)
    yield form(7, "Upsample", x4, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")
    yield form(9, "Upsample", x4, up, mode="linear")
    yield form(10, "Resize", x4, up, mode="nearest")
    yield form(10, "Resize", x4, np.array([1, 1, 0.5, 0.6], np.float32), mode="linear")
    none = np.zeros(0, np.float32)
    for mode in ("nearest", "linear", "cubic"):
        yield form(11, "Resize", x4, none, up, mode=mode)
        yield form(13, "Resize", x4, None, np.array([1, 1, 0.75, 1.25], np.float32), mode=mode)
        yield form(13, "Resize", x4, None, None, i64(2, 3, 9, 5), mode=mode)
        yield form(
            13, "Resize", x4, None, None, i64(2, 3, 9, 5), mode=mode, coordinate_transformation_mode="align_corners"
        )
    yield form(
        13, "Resize", x4, None, up, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    yield form(18, "Resize", x4, None, None, i64(9, 5), axes=[2, 3], mode="linear")
    yield form(18, "Resize", x4, None, np.array([2, 1.5], np.float32), axes=[3, 2], mode="nearest")
    yield form(18, "Resize", x4, None, up, mode="linear", dynamic=True)

    # Normalization
    channels = [f32(3, seed=1), f32(3, seed=2), f32(3, seed=3), abs(f32(3, seed=4)) + 0.5]
    for opset in (7, 9, 14, 15):
        yield form(opset, "BatchNormalization", x4, *channels, epsilon=1e-3)
    yield form(8, "BatchNormalization", x3, *channels, momentum=0.5, spatial=1)
    yield form(7, "InstanceNormalization", x4, *channels[:2])
    yield form(17, "LayerNormalization", x4, f32(8), f32(8, seed=1))
    yield form(17, "LayerNormalization", x4, f32(6, 8), axis=-2, epsilon=1e-3)
    yield form(7, "LRN", f32(2, 7, 3, 3), size=3, alpha=0.01, beta=0.6, bias=2.0)
    yield form(21, "GroupNormalization", f32(2, 6, 4, 4), f32(6), f32(6, seed=1), num_groups=3)

    # Convolution and pooling
    w = f32(4, 3, 3, 3)
    yield form(7, "Conv", x4, w, f32(4))
    yield form(11, "Conv", x4, w, auto_pad="SAME_UPPER", strides=[2, 2])
    yield form(11, "Conv", x4, w, auto_pad="SAME_LOWER", strides=[2, 3], dynamic=True)
    yield form(11, "Conv", x4, w, auto_pad="VALID", dilations=[2, 1])
    yield form(11, "Conv", f32(2, 4, 9), f32(4, 1, 3), group=4, pads=[1, 2])
    yield form(11, "Conv", f32(1, 2, 4, 5, 6), f32(3, 2, 2, 2, 2), strides=[1, 2, 1])
    t = f32(3, 2, 3, 3)
    yield form(7, "ConvTranspose", x4, t, f32(2))
    yield form(11, "ConvTranspose", x4, t, strides=[2, 2], pads=[1, 0, 1, 2], output_padding=[1, 0])
    yield form(11, "ConvTranspose", x4, t, strides=[2, 2], auto_pad="SAME_UPPER")
    yield form(11, "ConvTranspose", x4, t, strides=[3, 2], output_shape=[18, 17])
    yield form(11, "ConvTranspose", x4, t, strides=[3, 2], output_shape=[17, 16], auto_pad="SAME_UPPER")
    yield form(11, "ConvTranspose", x4, t, strides=[3, 2], output_shape=[19, 18], auto_pad="SAME_UPPER")
    yield form(11, "ConvTranspose", f32(1, 4, 5, 5), f32(4, 3, 2, 2), group=2, dilations=[2, 2])
    for op_type in ("MaxPool", "AveragePool"):
        yield form(7, op_type, x4, kernel_shape=[3, 2])
        yield form(10, op_type, x4, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
        yield form(12, op_type, x4, kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER")
    yield form(10, "MaxPool", x4, kernel_shape=[2, 2], dilations=[2, 3])
    yield form(19, "AveragePool", x4, kernel_shape=[2, 2], dilations=[2, 3])
    yield form(7, "AveragePool", x4, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    yield form(12, "MaxPool", np.arange(-32, 32, dtype=np.int8).reshape(1, 1, 8, 8), kernel_shape=[2, 2])
    yield form(7, "GlobalAveragePool", x4)
    yield form(7, "GlobalMaxPool", x4)

    # Gemm
    a, b = f32(3, 5), f32(5, 4, seed=1)
    yield form(7, "Gemm", a, b, f32(4))
    yield form(11, "Gemm", a, b)
    yield form(11, "Gemm", a, b.T.copy(), f32(1, 4), transB=1, alpha=0.3, beta=1.7)
    yield form(11, "Gemm", a.T.copy(), b, f32(3, 1), transA=1, alpha=0.5)
    yield form(13, "Gemm", a, b, f32(3, 4), beta=0.25)
    yield form(13, "Gemm", a, b, scalar(2.5), alpha=2.0, beta=3.0)
    yield form(13, "Gemm", a, b, f32(1), dynamic=True)
    yield form(13, "Gemm", a, b, f32(4), beta=0.0)

    # Shapes
    yield form(7, "Reshape", x4, i64(2, -1, 0))
    yield form(14, "Reshape", f32(0, 3), i64(3, 0), allowzero=1)
    yield form(7, "Flatten", x4, axis=2)
    yield form(11, "Flatten", x4, axis=-1)
    yield form(7, "Transpose", x4)
    yield form(8, "Expand", f32(3, 1), i64(2, 1, 4))
    yield form(11, "Gather", x4, i64(-1, 0), axis=-1)
    yield form(7, "DepthToSpace", f32(1, 8, 2, 3), blocksize=2)
    yield form(11, "DepthToSpace", f32(1, 8, 2, 3), blocksize=2, mode="CRD")
    yield form(7, "SpaceToDepth", f32(1, 2, 4, 6), blocksize=2)
    yield form(15, "Shape", x4, start=1, end=-1)
    yield form(7, "Concat", x4, f32(2, 1, 6, 8), axis=1)
    yield form(11, "Concat", x4, f32(2, 3, 6, 1), axis=-1)

    # Elementwise
    yield form(8, "Sum", x2, f32(3, 1), f32(4))
    yield form(8, "Mean", x2, f32(3, 1), f32(4))
    yield form(8, "Max", x2, f32(3, 1), f32(4))
    yield form(8, "Min", x2)
    yield form(7, "PRelu", x4, f32(3, 1, 1))
    yield form(7, "Add", x4, f32(8))
    yield form(9, "Where", x4 > 0, f32(8), f32(1))
    yield form(9, "Cast", 100 * x4, to=TensorProto.INT32)
    yield form(13, "Cast", x4, to=TensorProto.FLOAT16)
    yield form(7, "Xor", x4 > 0, x4 > 0.5)
    yield form(12, "LessOrEqual", x4, f32(8))
    for op_type in ("Elu", "Selu", "HardSigmoid", "LeakyRelu", "Softplus", "Softsign", "Tanh"):
        yield form(7, op_type, x4)
    yield form(7, "HardSigmoid", x4, alpha=1 / 6, beta=0.5)
    yield form(14, "HardSwish", x4)
    yield form(18, "Mish", x4)

    # Quantization
    s, z = scalar(0.05), scalar(3, np.uint8)
    yield form(10, "QuantizeLinear", x4, s, z)
    yield form(10, "QuantizeLinear", x4, s)
    yield form(13, "QuantizeLinear", x4, abs(f32(3)) + 0.01, np.array([1, -2, 3], np.int8), axis=1)
    yield form(13, "QuantizeLinear", x4, np.array([0.1], np.float32), np.array([0], np.int8), axis=3)
    yield form(21, "QuantizeLinear", x4, scalar(0.001), scalar(7, np.uint16))
    yield form(21, "QuantizeLinear", x4, s, output_dtype=TensorProto.INT8)
    q = np.arange(-24, 24, dtype=np.int8).reshape(2, 3, 8)
    yield form(10, "DequantizeLinear", q, s, scalar(3, np.int8))
    yield form(13, "DequantizeLinear", q, abs(f32(8)) + 0.01, axis=-1)
    yield form(13, "DequantizeLinear", q.astype(np.int32), s)
    yield form(21, "DequantizeLinear", q.astype(np.int16), s, scalar(-300, np.int16))


FORMS = list(forms())


@pytest.mark.parametrize("form", FORMS, ids=[f.name for f in FORMS])
def test_form(form: Form, build: Callable[..., ModelProto], load: Callable[[ModelProto], ModuleOp]) -> None:
    model = model_of(form, build)
    module = load(model)
    assert not [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = run(module, {"x": form.x})
    for name, wanted in zip(results, session.run(None, {"x": form.x}), strict=True):
        found = results[name]
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind in "iub":
            np.testing.assert_array_equal(found, wanted)
        else:
            # sums of up to 27 products near 1, in another order: some 1e-6; float16 keeps 11 bits
            tolerance = 1e-3 if wanted.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def model_of(form: Form, build: Callable[..., ModelProto]) -> ModelProto:
    names = [f"w{i}" if w is not None else "" for i, w in enumerate(form.weights)]
    weights = {n: w for n, w in zip(names, form.weights, strict=True) if w is not None}
    outputs = [f"y{i}" for i in range(form.outputs)]
    node = helper.make_node(form.op_type, ["x", *names], outputs, "node", **form.attributes)
    shape = [None] * form.x.ndim if form.dynamic else form.x.shape
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(form.x.dtype), shape)
    return build([node], [x], outputs, weights, form.opset)


def test_every_form_names_its_node(build: Callable[..., ModelProto], load: Callable[[ModelProto], ModuleOp]) -> None:
    """Whatever the form, what is emitted carries the layer's name and operator type."""
    for each in FORMS[::7]:
        ops = [op for op in load(model_of(each, build)).walk() if isinstance(op, nn.NNOp)]
        origins = [op.origin for op in ops]
        assert all(o is not None and (o.layer.data, o.op_type.data) == ("node", each.op_type) for o in origins)


@pytest.mark.parametrize(
    ("attributes", "values"),
    [
        ({"value_int": -3}, np.array(-3, np.int64)),
        ({"value_ints": [1, 2]}, np.array([1, 2], np.int64)),
        ({"value_float": 0.5}, np.array(0.5, np.float32)),
        ({"value_floats": [0.5, -1.0]}, np.array([0.5, -1.0], np.float32)),
        ({"value": helper.make_tensor("t", TensorProto.FLOAT16, [2], [0.5, 2.0])}, np.array([0.5, 2.0], np.float16)),
        ({"value": helper.make_tensor("t", TensorProto.BOOL, [2], [True, False])}, np.array([True, False])),
        ({"value": helper.make_tensor("t", TensorProto.INT8, [1, 2], [-1, 127])}, np.array([[-1, 127]], np.int8)),
        ({"value": helper.make_tensor("t", TensorProto.UINT64, [1], [2**63])}, np.array([2**63], np.uint64)),
        ({"value": helper.make_tensor("t", TensorProto.DOUBLE, [1], [0.1])}, np.array([0.1])),
        ({"value": helper.make_tensor("t", TensorProto.BFLOAT16, [1], [1.5])}, None),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_constant(
    attributes: dict[str, Any],
    values: np.ndarray | None,
    build: Callable[..., ModelProto],
    load: Callable[[ModelProto], ModuleOp],
) -> None:
    node: NodeProto = helper.make_node("Constant", [], ["y"], **attributes)
    found = run(load(build([node], [], ["y"])), {})["y"]
    if values is None:
        assert found.dtype.name == "bfloat16"
        assert found.astype(np.float32).tolist() == [1.5]
    else:
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)
