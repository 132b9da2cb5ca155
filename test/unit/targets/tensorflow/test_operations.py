"""Every operation, written to a GraphDef and run by TensorFlow, computes what the interpreter computes.

The tolerance is that of operations.py. Cases here are those that TensorFlow needs another form for: other ranks, sizes that are
not known, channels second, groups.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i1

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.targets.tensorflow import TfFakequantTarget

from ..operations import CASES, Array, Case, X, const, nhwc, positive, real, whole

LINE, BOX = real(2, 4, 11), real(1, 4, 5, 6, 7)


def conv(weight: Array, **properties: Any) -> Callable[[Any], Any]:
    bias = real(weight.shape[0])
    return lambda x: nn.ConvOp.make(x, const(weight, weight.dtype), const(bias, weight.dtype, "bias"), **properties)


def transposed(weight: Array, **properties: Any) -> Callable[[Any], Any]:
    bias = real(weight.shape[1] * properties.get("groups", 1))
    return lambda x: nn.ConvTransposeOp.make(x, const(weight), const(bias, key="bias"), **properties)


CONVOLUTIONS: dict[str, Case] = {
    "conv-1d-groups": Case(conv(real(6, 2, 3), groups=2, pads=(1, 2), dilations=(2,)), (LINE,)),
    "conv-1d-depthwise": Case(conv(real(8, 1, 3), groups=4, strides=(2,)), (LINE,)),
    "conv-1d-depthwise-same": Case(conv(real(4, 1, 3), groups=4, auto_pad="same_upper"), (LINE,), dynamic=True),
    "conv-1d-same-lower": Case(conv(real(3, 4, 4), auto_pad="same_lower", strides=(3,)), (LINE,), dynamic=True),
    "conv-1d-nhwc": Case(conv(real(3, 4, 4), layout="nhwc", pads=(0, 1)), (nhwc(LINE),), dynamic=True),
    "conv-2d-same-upper": Case(conv(real(3, 4, 4, 3), auto_pad="same_upper", dilations=(2, 1)), (X,), dynamic=True),
    "conv-2d-pads-dynamic": Case(conv(real(3, 4, 2, 3), pads=(2, 0, 1, 1), strides=(2, 1)), (X,), dynamic=True),
    "conv-2d-groups": Case(conv(real(6, 2, 3, 3), groups=2, dilations=(2, 1), pads=(2, 1, 2, 1)), (X,)),
    "conv-2d-depthwise": Case(
        conv(real(8, 1, 3, 3), groups=4, strides=(2, 1), pads=(1, 0, 0, 2), dilations=(1, 2)), (X,), dynamic=True
    ),
    "conv-2d-depthwise-strides": Case(conv(real(4, 1, 3, 2), groups=4, strides=(2, 3), layout="nhwc"), (nhwc(X),)),
    "conv-2d-f64": Case(conv(real(3, 4, 3, 3, dtype=np.float64)), (X.astype(np.float64),)),
    "conv-2d-f16": Case(conv(real(3, 4, 2, 2, dtype=np.float16)), (X.astype(np.float16),)),
    "conv-2d-weight-input": Case(lambda x, w: nn.ConvOp.make(x, w, groups=4), (X, real(8, 1, 3, 3))),
    "conv-2d-large-stride": Case(conv(real(3, 4, 1, 1), strides=(3, 2), auto_pad="same_upper"), (X,)),
    "conv-3d-pads": Case(conv(real(3, 4, 2, 3, 3), pads=(1, 0, 1, 0, 1, 2), strides=(1, 2, 1)), (BOX,)),
    "conv-3d-groups": Case(conv(real(6, 2, 2, 2, 2), groups=2, dilations=(1, 2, 3)), (BOX,)),
    "conv-3d-depthwise": Case(conv(real(4, 1, 2, 2, 2), groups=4, auto_pad="same_upper"), (BOX,), dynamic=True),
    "conv-3d-same-lower": Case(conv(real(3, 4, 2, 2, 2), auto_pad="same_lower"), (BOX,), dynamic=True),
    "transposed-1d": Case(transposed(real(4, 3, 3), strides=(2,), pads=(1, 0), output_padding=(1,)), (LINE,)),
    "transposed-1d-dilated": Case(transposed(real(4, 3, 3), strides=(2,), dilations=(3,)), (LINE,), dynamic=True),
    "transposed-2d-dynamic": Case(transposed(real(4, 3, 3, 2), strides=(2, 3), pads=(1, 0, 0, 1)), (X,), dynamic=True),
    "transposed-2d-groups": Case(transposed(real(4, 3, 3, 3), groups=2, pads=(1, 1, 1, 1)), (X,)),
    "transposed-2d-depthwise": Case(
        transposed(real(4, 1, 3, 3), groups=2, pads=(1, 0, 1, 2), strides=(2, 2), dilations=(1, 2)), (X,)
    ),
    "transposed-2d-same-lower": Case(
        transposed(real(4, 2, 4, 3), strides=(2, 2), auto_pad="same_lower"), (X,), dynamic=True
    ),
    "transposed-2d-more-than-covered": Case(transposed(real(4, 2, 2, 2), strides=(2, 2), output_shape=(17, 13)), (X,)),
    "transposed-2d-large-padding": Case(
        transposed(real(4, 2, 2, 2), strides=(1, 2), dilations=(3, 3), output_padding=(2, 1)), (X,)
    ),
    "transposed-3d": Case(transposed(real(4, 2, 2, 3, 2), strides=(2, 1, 2), pads=(1, 0, 0, 0, 1, 1)), (BOX,)),
    "transposed-3d-groups": Case(transposed(real(4, 2, 2, 2, 2), groups=2, dilations=(1, 2, 1)), (BOX,), dynamic=True),
}

AVERAGES: dict[str, dict[str, Any]] = {
    "pads": {"kernel": (3, 2), "pads": (1, 0, 1, 1), "strides": (2, 1)},
    "pads-include": {"kernel": (3, 2), "pads": (1, 0, 1, 1), "strides": (2, 1), "count_include_pad": True},
    "ceil": {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "ceil_mode": True},
    "ceil-late": {"kernel": (2, 2), "strides": (3, 3), "pads": (0, 0, 2, 2), "ceil_mode": True},
    "same-upper": {"kernel": (2, 3), "strides": (2, 2), "auto_pad": "same_upper"},
    "same-upper-include": {"kernel": (2, 3), "strides": (2, 2), "auto_pad": "same_upper", "count_include_pad": True},
    "same-lower": {"kernel": (2, 3), "strides": (2, 2), "auto_pad": "same_lower"},
    "dilated": {"kernel": (2, 2), "dilations": (2, 3), "pads": (1, 1, 0, 1)},
}

POOLS: dict[str, Case] = {
    **{
        f"average-{key}{'-dynamic' * dynamic}": Case(
            lambda x, properties=properties: nn.AveragePoolOp.make(x, **properties), (X,), dynamic=dynamic
        )
        for key, properties in AVERAGES.items()
        for dynamic in (False, True)
    },
    **{
        f"max-{key}{'-dynamic' * dynamic}": Case(
            lambda x, properties=properties: nn.MaxPoolOp.make(x, **properties), (X,), dynamic=dynamic, exact=True
        )
        for key, properties in AVERAGES.items()
        if not key.endswith("include")
        for dynamic in (False, True)
    },
    "average-ceil-include": Case(
        lambda x: nn.AveragePoolOp.make(
            x, kernel=(2, 2), strides=(3, 3), pads=(1, 1, 2, 2), ceil_mode=True, count_include_pad=True
        ),
        (X,),
    ),
    "average-1d": Case(lambda x: nn.AveragePoolOp.make(x, kernel=(3,), pads=(1, 0), strides=(2,)), (LINE,)),
    "average-3d": Case(lambda x: nn.AveragePoolOp.make(x, kernel=(2, 2, 3), pads=(1, 0, 0, 0, 0, 1)), (BOX,)),
    "max-1d": Case(lambda x: nn.MaxPoolOp.make(x, kernel=(3,), pads=(1, 1), ceil_mode=True), (LINE,), exact=True),
    "max-3d": Case(
        lambda x: nn.MaxPoolOp.make(x, kernel=(2, 2, 3), pads=(1, 0, 0, 0, 0, 1)), (BOX,), dynamic=True, exact=True
    ),
    "max-3d-dilated": Case(lambda x: nn.MaxPoolOp.make(x, kernel=(2, 1, 3), dilations=(3, 1, 2)), (BOX,), exact=True),
    "max-4d": Case(lambda x: nn.MaxPoolOp.make(x, kernel=(2, 1, 2, 1)), (real(1, 2, 3, 3, 3, 3),), exact=True),
    "max-u8": Case(
        lambda x: nn.MaxPoolOp.make(x, kernel=(2, 2), dilations=(2, 2), pads=(1, 1, 1, 1)),
        (whole(1, 2, 4, 4, dtype=np.uint8, low=0, high=255),),
        exact=True,
    ),
    "max-below-zero": Case(
        lambda x: nn.MaxPoolOp.make(x, kernel=(3, 3), pads=(1, 1, 1, 1), auto_pad=None, dilations=(2, 2)),
        (-positive(1, 2, 5, 5),),
        exact=True,
    ),
    "global-average-3d": Case(nn.GlobalAveragePoolOp.make, (BOX,), dynamic=True),
    "global-max-rank-2": Case(nn.GlobalMaxPoolOp.make, (real(3, 4),), exact=True),
}


def four(dtype: Any = np.float32) -> list[Any]:
    return [const(each, dtype) for each in (*real(3, 4), positive(4))]


NORMALIZATIONS: dict[str, Case] = {
    "batch_norm-1d": Case(lambda x: nn.BatchNormOp.make(x, *four()), (LINE,)),
    "batch_norm-3d-nhwc": Case(lambda x: nn.BatchNormOp.make(x, *four(), layout="nhwc"), (nhwc(BOX),)),
    "batch_norm-inputs": Case(nn.BatchNormOp.make, (LINE, *real(3, 4), positive(4))),
    "batch_norm-inputs-2d": Case(nn.BatchNormOp.make, (X, *real(3, 4), positive(4))),
    "batch_norm-f64": Case(lambda x: nn.BatchNormOp.make(x, *four(np.float64)), (X.astype(np.float64),)),
    "instance_norm-1d": Case(lambda x: nn.InstanceNormOp.make(x, *map(const, real(2, 4))), (LINE,)),
    "instance_norm-f16": Case(
        lambda x: nn.InstanceNormOp.make(x, *(const(each, np.float16) for each in real(2, 4))), (X.astype(np.float16),)
    ),
    "group_norm-3d-nhwc": Case(
        lambda x: nn.GroupNormOp.make(x, *map(const, real(2, 4)), num_groups=2, layout="nhwc"),
        (nhwc(BOX),),
        dynamic=True,
    ),
    "layer_norm-dynamic": Case(
        lambda x: nn.LayerNormOp.make(x, const(real(3, 4)), axis=-2), (real(2, 3, 4),), dynamic=True
    ),
    "lrn-even": Case(lambda x: nn.LRNOp.make(x, size=2, alpha=0.3), (X,)),
    "lrn-line": Case(lambda x: nn.LRNOp.make(x, size=3, alpha=0.3, layout="nhwc"), (nhwc(LINE),)),
    "softmax-first": Case(lambda x: nn.SoftmaxOp.make(x, axis=0), (real(5),)),
    "log_softmax-middle": Case(lambda x: nn.LogSoftmaxOp.make(x, axis=1), (real(2, 5, 3),)),
}


def shaped(*sizes: int) -> Array:
    return np.array(sizes, np.int64)


def of_rank(n: int) -> list[Any]:
    return [TensorType(f32, [DYNAMIC] * n)]


MOVEMENT: dict[str, Case] = {
    "gather-constants": Case(lambda x: nn.GatherOp.make(x, const([[0, -1], [-3, 2]], np.int8), axis=-1), (real(2, 5),)),
    "gather-dynamic": Case(
        lambda x, i: nn.GatherOp.make(x, i, axis=1), (real(2, 5), np.array([-5, 4, -1], np.int32)), dynamic=True
    ),
    "gather-unsigned": Case(lambda x, i: nn.GatherOp.make(x, i), (real(4, 5), np.array([3, 1], np.uint8))),
    "gather-batches": Case(
        lambda x, i: nn.GatherOp.make(x, i, axis=2, batch_dims=1), (real(2, 3, 5), whole(2, 4, low=-5, high=5))
    ),
    "reshape-zeros": Case(
        lambda x, s: nn.ReshapeOp.make(x, s, result_types=of_rank(3)), (real(2, 3, 4), shaped(0, -1, 2))
    ),
    "reshape-zeros-shorter": Case(
        lambda x, s: nn.ReshapeOp.make(x, s, result_types=of_rank(2)), (real(2, 3, 4), shaped(0, -1))
    ),
    "reshape-zeros-longer": Case(
        lambda x, s: nn.ReshapeOp.make(x, s, result_types=of_rank(4)), (real(2, 3, 4), shaped(0, 0, 2, 2))
    ),
    "reshape-copies-dynamic": Case(lambda x: nn.ReshapeOp.make(x, to=(0, 0, 2, 2)), (real(2, 3, 4),), dynamic=True),
    "reshape-rest": Case(lambda x: nn.ReshapeOp.make(x, to=(0, -1)), (real(2, 3, 4),), dynamic=True),
    "reshape-bool": Case(lambda x: nn.ReshapeOp.make(x, to=(4, -1)), (whole(2, 6) > 0,)),
    "expand-dynamic": Case(lambda x: nn.ExpandOp.make(x, to=(3, 1, 4)), (real(2, 1),), dynamic=True),
    "flatten-empty": Case(lambda x: nn.FlattenOp.make(x, axis=1), (real(2, 3, 0),), dynamic=True),
    "flatten-dynamic": Case(lambda x: nn.FlattenOp.make(x, axis=-1), (real(2, 3, 4),), dynamic=True),
    "squeeze-dynamic": Case(lambda x: nn.SqueezeOp.make(x, axes=(-1, 0)), (real(1, 3, 1),), dynamic=True),
    "unsqueeze-ends": Case(lambda x: nn.UnsqueezeOp.make(x, axes=(-1, 0, 2)), (real(2, 3),), dynamic=True),
    "slice-empty": Case(lambda x: nn.SliceOp.make(x, starts=(2,), ends=(1,)), (real(3, 2),)),
    "slice-from-end": Case(
        lambda x: nn.SliceOp.make(x, starts=(-2, 5), ends=(2**40, 0), steps=(1, -3)), (real(4, 6),), dynamic=True
    ),
    "concat-one": Case(lambda x: nn.ConcatOp.make([x], axis=0), (real(2, 3),)),
    "concat-bool": Case(lambda x: nn.ConcatOp.make([x, x], axis=0), (whole(5) > 0,)),
    "pad-reflect-twice": Case(lambda x: nn.PadOp.make(x, pads=(0, 7, 0, 5), mode="reflect"), (real(2, 3),)),
    "pad-reflect-dynamic": Case(
        lambda x: nn.PadOp.make(x, pads=(0, 2, 0, 1), mode="reflect"), (real(2, 4),), dynamic=True
    ),
    "pad-edge-cut": Case(lambda x: nn.PadOp.make(x, pads=(2, -1, -1, 3), mode="edge"), (real(4, 4),)),
    "pad-wrap-twice": Case(lambda x: nn.PadOp.make(x, pads=(5, 0, 0, 1), mode="wrap"), (real(2, 4),)),
    "pad-nothing": Case(lambda x: nn.PadOp.make(x, pads=(0, 0, 0, 0)), (real(2, 4),)),
    "pad-bool": Case(lambda x: nn.PadOp.make(x, pads=(1, 2), value=1), (whole(5) > 0,)),
    "space_to_batch-3d": Case(
        lambda x: nn.SpaceToBatchOp.make(x, block=(5, 2, 7), pads=(0,) * 6, layout="nhwc"), (nhwc(BOX),)
    ),
    "depth_to_space-crd-nhwc": Case(
        lambda x: nn.DepthToSpaceOp.make(x, block=2, mode="crd", layout="nhwc"), (real(2, 2, 3, 8),)
    ),
    "arg_max-last": Case(
        lambda x: nn.ArgMaxOp.make(x, axis=1, last=True, keepdims=True), (whole(4, 9, high=1, low=-1, dtype=np.int64),)
    ),
    "arg_min-last-dynamic": Case(
        lambda x: nn.ArgMinOp.make(x, axis=-1, last=True), (whole(4, 9, high=1, low=-1),), dynamic=True
    ),
    "cast-bool-int": Case(lambda x: nn.CastOp.make(x, result_types=[TensorType(i1, [4])]), (whole(4),)),
}

ELEMENTS: dict[str, Case] = {
    "elu": Case(lambda x: nn.EluOp.make(x), (real(3, 4),)),
    "selu": Case(lambda x: nn.SeluOp.make(x), (real(3, 4),)),
    "gelu-f16": Case(lambda x: nn.GeluOp.make(x), (real(3, 4, dtype=np.float16),)),
    "min-nan": Case(nn.MinOp.make, (np.array([np.nan, 1], np.float32), np.array([1, np.nan], np.float32)), exact=True),
    "relu-nan": Case(nn.ReluOp.make, (np.array([np.nan, -np.inf, np.inf, -0.5], np.float32),), exact=True),
    "clip-nan": Case(lambda x: nn.ClipOp.make(x, min=0, max=1), (np.array([np.nan, -np.inf], np.float32),), exact=True),
    "pow-whole": Case(nn.PowOp.make, (whole(2, 3), whole(3, low=0, high=4, dtype=np.int64)), exact=True),
    "pow-real-exponent": Case(nn.PowOp.make, (whole(2, 3, low=1), real(3) * 0 + 2), exact=True),
    "matmul-int": Case(nn.MatMulOp.make, (whole(3, 4), whole(4, 5)), exact=True),
    "matmul-vector-right": Case(nn.MatMulOp.make, (real(2, 3, 4), real(4))),
    "matmul-vector-bias": Case(
        lambda a: nn.MatMulOp.make(a, const(real(4, 5)), const(real(5), key="bias")), (real(4),)
    ),
    "matmul-vector-transposed": Case(lambda a: nn.MatMulOp.make(a, const(real(5, 4)), transpose_b=True), (real(4),)),
}

IMAGE = real(2, 3, 4, 5)


def resize(dynamic: bool = False, image: Array = IMAGE, **properties: Any) -> Case:
    return Case(lambda x: nn.ResizeOp.make(x, **properties), (image,), dynamic)


_HALF: dict[str, Any] = {"mode": "nearest", "coordinates": "half_pixel", "nearest": "round_prefer_ceil"}
_START: dict[str, Any] = {"mode": "nearest", "coordinates": "asymmetric", "nearest": "floor"}
_CORNERS: dict[str, Any] = {"mode": "nearest", "coordinates": "align_corners", "nearest": "round_prefer_ceil"}

RESIZE: dict[str, Case] = {
    "nearest-dynamic": resize(True, scales=(1, 1, 2, 3), **_START),
    "nearest-sizes-dynamic": resize(True, sizes=(0, 0, 9, 7), **_START),
    "nearest-half": resize(sizes=(0, 0, 9, 7), **_HALF),
    "nearest-half-nhwc": resize(image=nhwc(IMAGE), sizes=(0, 9, 3, 0), **_HALF),
    "nearest-corners": resize(sizes=(0, 0, 9, 2), **_CORNERS),
    "nearest-odd-scale": resize(scales=(1, 1, 1.3, 0.77), **_START),
    "nearest-one-axis": resize(True, scales=(1, 1, 2, 1), **_START),
    "nearest-one-size": resize(True, sizes=(0, 0, 7, 0), **_HALF),
    "nearest-channels": resize(scales=(1, 2, 1, 1), **_START),
    "nearest-line": resize(image=LINE, scales=(1, 1, 2.5)),
    "nearest-int": resize(image=whole(1, 2, 3, 3), scales=(1, 1, 2, 2), **_START),
    "linear-dynamic": resize(True, scales=(1, 1, 2, 3), mode="linear"),
    "linear-nhwc": resize(image=nhwc(IMAGE), sizes=(2, 9, 3, 3), mode="linear", coordinates="asymmetric"),
    "linear-corners-one": resize(sizes=(2, 3, 1, 8), mode="linear", coordinates="align_corners"),
    "linear-everything": resize(sizes=(3, 4, 5, 6), mode="linear"),
    "linear-f16": resize(image=IMAGE.astype(np.float16), sizes=(0, 0, 5, 6), mode="linear"),
    "cubic-box": resize(image=BOX, scales=(1, 1, 1, 1.5, 1.5), mode="cubic"),
    "cubic-outside-nhwc": resize(image=nhwc(IMAGE), sizes=(0, 7, 9, 0), mode="cubic", exclude_outside=True),
}

PRODUCERS: dict[str, Callable[[Any], Any]] = {
    "conv": conv(real(4, 4, 3, 3), pads=(1, 0, 2, 1), layout="nhwc"),
    "groups": conv(real(4, 2, 3, 3), groups=2, pads=(1, 0, 2, 1), layout="nhwc"),
    "depthwise": conv(real(4, 1, 3, 3), groups=4, pads=(1, 0, 2, 1), layout="nhwc"),
    "depthwise-dilated": conv(real(4, 1, 3, 3), groups=4, auto_pad="same_upper", dilations=(2, 2), layout="nhwc"),
    "matmul": lambda x: nn.MatMulOp.make(x, const(real(4, 4)), const(real(4), key="bias")),
}
FOLLOWERS: dict[str, Callable[[Any], Any]] = {
    "batch_norm": lambda x: nn.BatchNormOp.make(x, *four(), layout="nhwc"),
    "relu": nn.ReluOp.make,
    "relu6": nn.Relu6Op.make,
    "leaky": nn.LeakyReluOp.make,
    "elu": nn.EluOp.make,
    "sigmoid": nn.SigmoidOp.make,
    "gelu": nn.GeluOp.make,
    "mul": lambda x: nn.MulOp.make(x, const(real(4))),
    "add": lambda x: nn.AddOp.make(x, const(real(1, 1, 1, 4))),
}


def chain(producer: Callable[[Any], Any], *followers: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def build(x: Any) -> Any:
        y = producer(x)
        for follower in followers:
            y = follower(y)
        return y

    return build


CHAINS = {
    f"{producer}-{'-'.join(followers)}": Case(
        chain(PRODUCERS[producer], *(FOLLOWERS[f] for f in followers)), (nhwc(X),)
    )
    for producer in PRODUCERS
    for followers in [*((f,) for f in FOLLOWERS), ("batch_norm", "relu"), ("add", "relu"), ("mul", "add", "relu")]
}
"""What TensorFlow's optimizer makes one kernel of, which has limits of its own."""

NEED_SIZES = {"conv_transpose-shape-dynamic"}
"""What TensorFlow can only have with sizes that are known; targets/test_errors.py has the errors."""

ALL = {
    **{k: c for k, c in CASES.items() if k not in NEED_SIZES},
    **CONVOLUTIONS,
    **POOLS,
    **NORMALIZATIONS,
    **{k: Case(c.build, c.arrays, c.dynamic, exact=True) for k, c in MOVEMENT.items()},
    **ELEMENTS,
    **{f"resize-{k}": c for k, c in RESIZE.items()},
    **CHAINS,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_operation(name: str, tmp_path: Path, run_graph: Any) -> None:
    case, path = ALL[name], tmp_path / "model.pb"
    module = case.module()
    expected = run(module, case.feeds)
    TfFakequantTarget().write(module, path, new_session())
    for actual, wanted in zip(run_graph(path, case.feeds, list(expected)), expected.values(), strict=True):
        case.check(actual, np.asarray(wanted))
