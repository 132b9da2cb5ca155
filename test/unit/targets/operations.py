"""Operations on random numbers, one case or more for each: what every target is held to.

Tolerance: both sides compute in float32, by other formulas and orders. Elementwise functions are a few ulp off (erf and tanh
are polynomials in runtimes), sums of up to 72 products have an error of about sqrt(72) * 2^-24 < 1e-6 of their terms: 1e-5
of the largest value is ten times that. Data movement, integers and quantization are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerType, ModuleOp, Signedness, TensorType, f16, f32, f64, i1, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC
from amct_opt.ir.dtypes import element_type
from amct_opt.ir.functions import value_attributes
from amct_opt.ir.verification import verify

Array = np.ndarray[Any, np.dtype[Any]]
Build = Callable[..., Any]


# Numbers depend on shapes only, so that a case is the same wherever it is built. Rows of an array give several of one shape.


def real(*shape: int, dtype: Any = np.float32) -> Array:
    return np.asarray(np.random.default_rng(shape).normal(size=shape) * 2, dtype)


def positive(*shape: int) -> Array:
    return np.random.default_rng(shape).uniform(0.1, 4, shape).astype(np.float32)


def whole(*shape: int, dtype: Any = np.int32, low: int = -9, high: int = 9) -> Array:
    return np.random.default_rng(shape).integers(low, high, shape).astype(dtype)


def const(array: Any, dtype: Any = np.float32, key: str = "weight") -> Any:
    return nn.ConstantOp.of(np.array(array, dtype), key).result


def module_of(build: Build, arrays: Sequence[Array], dynamic: bool = False) -> ModuleOp:
    """`@main` with inputs x0, x1, ... like `arrays` (all sizes unknown if `dynamic`), its body and results from `build`.

    Operations that `build` makes on the way are found through operands, so it may nest calls.
    """
    shapes = [[DYNAMIC] * a.ndim if dynamic else a.shape for a in arrays]
    types = [TensorType(element_type(a.dtype), s) for a, s in zip(arrays, shapes, strict=True)]
    block = Block(arg_types=types)
    made = build(*block.args)
    results = [r for v in (made if isinstance(made, tuple) else (made,)) for r in _values(v)]
    for value in results:
        _place(value, block)
    block.add_op(ReturnOp(*results))
    names = [f"x{i}" for i in range(len(arrays))], [f"y{i}" for i in range(len(results))]
    attributes = [ArrayAttr([value_attributes(n) for n in group]) for group in names]
    function = FuncOp("main", (types, [r.type for r in results]), Region(block))
    function.arg_attrs, function.res_attrs = attributes
    module = ModuleOp([function])
    verify(module)
    return module


def _values(made: Operation | SSAValue) -> Sequence[SSAValue]:
    return made.results if isinstance(made, Operation) else (made,)


def _place(value: SSAValue, block: Block) -> None:
    """Put the operation after a value into the block, after those it depends on."""
    op = value.owner
    if not isinstance(op, Operation) or op.parent is not None:
        return
    for operand in op.operands:
        _place(operand, block)
    block.add_op(op)


@dataclass
class Case:
    build: Callable[..., Any]
    arrays: tuple[Array, ...]
    dynamic: bool = False
    """Built for unknown sizes."""
    since: int = 13
    """The first opset of ONNX that has it; an error, with this opset in the hint, before."""
    exact: bool = False

    def module(self) -> ModuleOp:
        return module_of(self.build, self.arrays, self.dynamic)

    @property
    def feeds(self) -> dict[str, Array]:
        return {f"x{i}": a for i, a in enumerate(self.arrays)}

    def check(self, actual: Array, wanted: Array, message: str = "") -> None:
        """Type, shape and numbers of a result, in the tolerance of this file."""
        assert actual.dtype == wanted.dtype, message
        assert actual.shape == wanted.shape, message
        if self.exact:
            np.testing.assert_array_equal(actual, wanted, message)
            return
        peak = float(np.max(np.abs(wanted), initial=1))
        limit = 2e-3 if wanted.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=limit * peak, err_msg=message)


UNARY: dict[str, Case] = {
    "relu": Case(nn.ReluOp.make, (real(2, 5),), exact=True),
    "relu-int": Case(nn.ReluOp.make, (whole(2, 5),), since=14, exact=True),
    "relu6": Case(nn.Relu6Op.make, (real(2, 5) * 4,), exact=True),
    "relu6-f16": Case(nn.Relu6Op.make, (real(2, 5, dtype=np.float16),), exact=True),
    "clip": Case(lambda x: nn.ClipOp.make(x, min=-0.5, max=1.25), (real(3, 4),), exact=True),
    "clip-below": Case(lambda x: nn.ClipOp.make(x, min=0.1), (real(3, 4),), exact=True),
    "clip-above": Case(lambda x: nn.ClipOp.make(x, max=0.1), (real(3, 4),), exact=True),
    "clip-nothing": Case(lambda x: nn.ClipOp.make(x), (real(3, 4),), exact=True),
    "clip-int": Case(lambda x: nn.ClipOp.make(x, min=-2, max=3), (whole(9),), exact=True),
    "leaky": Case(lambda x: nn.LeakyReluOp.make(x, alpha=0.3), (real(2, 5),)),
    "elu": Case(lambda x: nn.EluOp.make(x, alpha=0.7), (real(2, 5),)),
    "selu": Case(lambda x: nn.SeluOp.make(x, alpha=1.5, gamma=1.1), (real(2, 5),)),
    "hard_sigmoid": Case(lambda x: nn.HardSigmoidOp.make(x, alpha=0.3, beta=0.4), (real(2, 5),)),
    "hard_shrink": Case(lambda x: nn.HardShrinkOp.make(x, lambd=1.5), (real(4, 5) * 2,), exact=True),
    "hard_swish": Case(nn.HardSwishOp.make, (real(4, 5) * 2,)),
    "gelu": Case(nn.GeluOp.make, (real(4, 5),)),
    "gelu-tanh": Case(lambda x: nn.GeluOp.make(x, tanh_approximation=True), (real(4, 5),)),
    "sigmoid": Case(nn.SigmoidOp.make, (real(4, 5),)),
    "tanh": Case(nn.TanhOp.make, (real(4, 5),)),
    "softplus": Case(nn.SoftplusOp.make, (real(4, 5),)),
    "softsign": Case(nn.SoftsignOp.make, (real(4, 5),)),
    "mish": Case(nn.MishOp.make, (real(4, 5),)),
    "erf": Case(nn.ErfOp.make, (real(4, 5),)),
    "exp": Case(nn.ExpOp.make, (real(4, 5),)),
    "sin": Case(nn.SinOp.make, (real(4, 5),)),
    "cos": Case(nn.CosOp.make, (real(4, 5),)),
    "log": Case(nn.LogOp.make, (positive(4, 5),)),
    "sqrt": Case(nn.SqrtOp.make, (positive(4, 5),)),
    "rsqrt": Case(nn.RsqrtOp.make, (positive(4, 5),)),
    "reciprocal": Case(nn.ReciprocalOp.make, (positive(4, 5),)),
    "neg": Case(nn.NegOp.make, (real(4, 5),), exact=True),
    "abs": Case(nn.AbsOp.make, (real(4, 5),), exact=True),
    "floor": Case(nn.FloorOp.make, (real(4, 5),), exact=True),
    "ceil": Case(nn.CeilOp.make, (real(4, 5),), exact=True),
    "round": Case(nn.RoundOp.make, (np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997], np.float32),), exact=True),
    "not": Case(nn.NotOp.make, (whole(7) > 0,), exact=True),
    "softmax": Case(lambda x: nn.SoftmaxOp.make(x, axis=1), (real(2, 5, 3),)),
    "log_softmax": Case(lambda x: nn.LogSoftmaxOp.make(x, axis=-1), (real(2, 5, 3),)),
    "cast-int": Case(lambda x: nn.CastOp.make(x, result_types=[TensorType(i32, [6])]), (real(6) * 9,), exact=True),
    "cast-f16": Case(lambda x: nn.CastOp.make(x, result_types=[TensorType(f16, [6])]), (real(6),), exact=True),
    "cast-bool": Case(
        lambda x: nn.CastOp.make(x, result_types=[TensorType(i1, [3])]),
        (np.array([0, 0.5, -2], np.float32),),
        exact=True,
    ),
}

BINARY: dict[str, Case] = {
    "add": Case(nn.AddOp.make, (real(2, 3, 4), real(3, 1)), exact=True),
    "add-dynamic": Case(nn.AddOp.make, (real(2, 3, 4), real(3, 1)), dynamic=True, exact=True),
    "add-int8": Case(nn.AddOp.make, (*whole(2, 4, dtype=np.int8),), since=14, exact=True),
    "sub": Case(nn.SubOp.make, (real(2, 3), real(3)), exact=True),
    "mul": Case(nn.MulOp.make, (real(2, 3), real(3)), exact=True),
    "div": Case(nn.DivOp.make, (real(2, 3), positive(3))),
    "div-int": Case(nn.DivOp.make, (whole(8), whole(1, 8, low=1)[0]), exact=True),
    "min": Case(nn.MinOp.make, (real(2, 3), real(3)), exact=True),
    "max": Case(nn.MaxOp.make, (real(2, 3), real(3)), exact=True),
    "pow": Case(nn.PowOp.make, (positive(2, 3), real(3))),
    "pow-int": Case(nn.PowOp.make, (real(2, 3), whole(3, low=0, high=4))),
    "and": Case(nn.AndOp.make, (*(whole(2, 8) > 0),), exact=True),
    "or": Case(nn.OrOp.make, (*(whole(2, 8) > 0),), exact=True),
    "where": Case(nn.WhereOp.make, (whole(2, 4) > 0, real(4), real(2, 1)), exact=True),
    "prelu": Case(nn.PReluOp.make, (real(2, 3, 4), real(3, 1))),
    **{
        f"compare-{p.value}": Case(
            lambda a, b, p=p: nn.CompareOp.make(a, b, predicate=p), (*whole(2, 20, high=3, low=0),), exact=True
        )
        for p in nn.Predicate
    },
}

X = real(2, 4, 7, 6)
W = real(6, 4, 3, 3)


def conv(x: Any, **properties: Any) -> Any:
    return nn.ConvOp.make(x, const(W), const(W[:, 0, 0, 0], key="bias"), **properties)


def nhwc(a: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


WINDOWS: dict[str, Case] = {
    "conv": Case(conv, (X,)),
    "conv-dynamic": Case(conv, (X,), dynamic=True),
    "conv-strides": Case(lambda x: conv(x, strides=(2, 1), pads=(1, 0, 2, 1), dilations=(1, 2)), (X,)),
    "conv-nhwc": Case(lambda x: conv(x, layout="nhwc", pads=(1, 1, 1, 1)), (nhwc(X),)),
    "conv-same": Case(lambda x: conv(x, auto_pad="same_upper", strides=(2, 2)), (X,)),
    "conv-same-dynamic": Case(lambda x: conv(x, auto_pad="same_lower", strides=(2, 2)), (X,), dynamic=True),
    "conv-groups": Case(lambda x: nn.ConvOp.make(x, const(real(4, 2, 3, 3)), groups=2), (X,)),
    "conv-depthwise": Case(lambda x: nn.ConvOp.make(x, const(real(8, 1, 3, 3)), groups=4), (X,)),
    "conv-1d": Case(lambda x: nn.ConvOp.make(x, const(real(5, 4, 3)), strides=(2,)), (real(2, 4, 9),)),
    "conv-3d": Case(lambda x: nn.ConvOp.make(x, const(real(3, 2, 2, 2, 2))), (real(1, 2, 4, 4, 4),)),
    "conv-3d-nhwc": Case(
        lambda x: nn.ConvOp.make(x, const(real(3, 2, 2, 2, 2)), layout="nhwc"), (real(1, 4, 3, 5, 2),)
    ),
    "conv-weight-input": Case(nn.ConvOp.make, (X, real(2, 4, 3, 3))),
    "conv_transpose": Case(
        lambda x: nn.ConvTransposeOp.make(x, const(real(4, 3, 3, 3)), const(real(3), key="b")), (X,)
    ),
    "conv_transpose-strides": Case(
        lambda x: nn.ConvTransposeOp.make(
            x,
            const(real(4, 2, 3, 3)),
            groups=2,
            strides=(2, 3),
            pads=(1, 0, 1, 2),
            output_padding=(1, 0),
            dilations=(1, 2),
        ),
        (X,),
    ),
    "conv_transpose-shape": Case(
        lambda x: nn.ConvTransposeOp.make(x, const(real(4, 3, 3, 3)), strides=(2, 2), output_shape=(14, 12)), (X,)
    ),
    "conv_transpose-shape-dynamic": Case(
        lambda x: nn.ConvTransposeOp.make(x, const(real(4, 3, 3, 3)), strides=(2, 2), output_shape=(14, 12)),
        (X,),
        dynamic=True,
    ),
    "conv_transpose-same": Case(
        lambda x: nn.ConvTransposeOp.make(x, const(real(4, 3, 3, 3)), strides=(2, 2), auto_pad="same_upper"), (X,)
    ),
    "conv_transpose-same-dynamic": Case(
        lambda x: nn.ConvTransposeOp.make(x, const(real(4, 3, 3, 3)), strides=(2, 2), auto_pad="same_upper"),
        (X,),
        dynamic=True,
    ),
    "conv_transpose-same-narrow": Case(
        lambda x: nn.ConvTransposeOp.make(x, const(real(4, 3, 1, 1)), strides=(2, 2), auto_pad="same_upper"),
        (X,),
        dynamic=True,
    ),
    "conv_transpose-nhwc": Case(
        lambda x: nn.ConvTransposeOp.make(x, const(real(4, 3, 2, 2)), layout="nhwc", strides=(2, 2)), (nhwc(X),)
    ),
    "max_pool": Case(
        lambda x: nn.MaxPoolOp.make(x, kernel=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1)), (X,), exact=True
    ),
    "max_pool-ceil": Case(
        lambda x: nn.MaxPoolOp.make(x, kernel=(2, 2), strides=(2, 2), ceil_mode=True), (X,), exact=True
    ),
    "max_pool-ceil-pads": Case(
        lambda x: nn.MaxPoolOp.make(x, kernel=(3, 3), strides=(3, 3), pads=(1, 1, 1, 1), ceil_mode=True),
        (X,),
        exact=True,
    ),
    "max_pool-dilated": Case(lambda x: nn.MaxPoolOp.make(x, kernel=(2, 2), dilations=(2, 3)), (X,), exact=True),
    "max_pool-nhwc": Case(lambda x: nn.MaxPoolOp.make(x, kernel=(3, 3), layout="nhwc"), (nhwc(X),), exact=True),
    "max_pool-int8": Case(
        lambda x: nn.MaxPoolOp.make(x, kernel=(2, 2)), (whole(1, 2, 4, 4, dtype=np.int8),), exact=True
    ),
    "average_pool": Case(lambda x: nn.AveragePoolOp.make(x, kernel=(3, 3), pads=(1, 1, 1, 1)), (X,)),
    "average_pool-include": Case(
        lambda x: nn.AveragePoolOp.make(x, kernel=(3, 3), pads=(1, 1, 1, 1), count_include_pad=True), (X,)
    ),
    "average_pool-ceil": Case(lambda x: nn.AveragePoolOp.make(x, kernel=(2, 2), strides=(2, 2), ceil_mode=True), (X,)),
    "average_pool-ceil-include": Case(
        lambda x: nn.AveragePoolOp.make(
            x, kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1), ceil_mode=True, count_include_pad=True
        ),
        (X,),
    ),
    "average_pool-dilated": Case(lambda x: nn.AveragePoolOp.make(x, kernel=(2, 2), dilations=(2, 2)), (X,), since=19),
    "average_pool-same": Case(
        lambda x: nn.AveragePoolOp.make(x, kernel=(3, 3), strides=(2, 2), auto_pad="same_upper", layout="nhwc"),
        (nhwc(X),),
    ),
    "global_average": Case(nn.GlobalAveragePoolOp.make, (X,)),
    "global_average-nhwc": Case(lambda x: nn.GlobalAveragePoolOp.make(x, layout="nhwc"), (nhwc(X),)),
    "global_max": Case(nn.GlobalMaxPoolOp.make, (X,), exact=True),
}

LINEAR: dict[str, Case] = {
    "matmul": Case(nn.MatMulOp.make, (real(3, 4), real(4, 5))),
    "matmul-batched": Case(nn.MatMulOp.make, (real(2, 1, 3, 4), real(6, 4, 5))),
    "matmul-vector": Case(nn.MatMulOp.make, (real(4), real(4, 5))),
    "matmul-vectors": Case(nn.MatMulOp.make, (*real(2, 4),)),
    "matmul_integer": Case(
        nn.MatMulIntegerOp.make, (whole(2, 3, 4, dtype=np.int8), whole(4, 5, dtype=np.int8)), exact=True
    ),
    "matmul_integer-points": Case(
        lambda a: nn.MatMulIntegerOp.make(
            a, const(whole(4, 5, dtype=np.int8), np.int8), lhs_zero_point=128, rhs_zero_point=-3
        ),
        (whole(2, 3, 4, dtype=np.uint8, low=0, high=255),),
        exact=True,
    ),
    "gemm": Case(
        lambda a, b: nn.MatMulOp.make(a, b, const(real(5), key="bias"), transpose_a=True, transpose_b=True),
        (real(4, 3), real(5, 4)),
    ),
    "gemm-bias": Case(lambda a, b: nn.MatMulOp.make(a, b, const(real(5), key="bias")), (real(3, 4), real(4, 5))),
    "matmul-batched-transposes": Case(
        lambda a, b: nn.MatMulOp.make(a, b, const(real(5), key="bias"), transpose_a=True, transpose_b=True),
        (real(2, 4, 3), real(2, 5, 4)),
        dynamic=True,
    ),
    "matmul-rank-3-2": Case(
        lambda a: nn.MatMulOp.make(a, const(real(5, 4)), const(real(5), key="bias"), transpose_b=True), (real(2, 3, 4),)
    ),
    "bias_add": Case(lambda x: nn.BiasAddOp.make(x, const(real(4), key="bias")), (X,), exact=True),
    "bias_add-nhwc": Case(lambda x: nn.BiasAddOp.make(x, const(real(4)), layout="nhwc"), (nhwc(X),), exact=True),
    "bias_add-rank-2": Case(lambda x: nn.BiasAddOp.make(x, const(real(4))), (real(3, 4),), exact=True),
    "bias_add-input": Case(nn.BiasAddOp.make, (X, real(4)), exact=True),
}


def channels() -> tuple[Any, Any]:
    scale, bias = real(2, 4)
    return const(scale, key="scale"), const(bias, key="bias")


NORMALIZATIONS: dict[str, Case] = {
    "batch_norm": Case(
        lambda x: nn.BatchNormOp.make(x, *channels(), const(real(4)), const(positive(4)), epsilon=0.01), (X,)
    ),
    "batch_norm-nhwc": Case(
        lambda x: nn.BatchNormOp.make(x, *channels(), const(real(4)), const(positive(4)), layout="nhwc"), (nhwc(X),)
    ),
    "batch_norm-rank-2": Case(
        lambda x: nn.BatchNormOp.make(x, *channels(), const(real(4)), const(positive(4)), layout="nhwc"), (real(3, 4),)
    ),
    "batch_norm-f16": Case(
        lambda x: nn.BatchNormOp.make(x, *channels(), const(real(4)), const(positive(4))),
        (X.astype(np.float16),),
        since=15,
    ),
    "instance_norm": Case(lambda x: nn.InstanceNormOp.make(x, *channels(), epsilon=0.01), (X,)),
    "instance_norm-nhwc": Case(lambda x: nn.InstanceNormOp.make(x, *channels(), layout="nhwc"), (nhwc(X),)),
    "group_norm": Case(lambda x: nn.GroupNormOp.make(x, *channels(), num_groups=2, epsilon=0.01), (X,)),
    "group_norm-dynamic": Case(lambda x: nn.GroupNormOp.make(x, *channels(), num_groups=2), (X,), dynamic=True),
    "group_norm-nhwc": Case(lambda x: nn.GroupNormOp.make(x, *channels(), num_groups=2, layout="nhwc"), (nhwc(X),)),
    "layer_norm": Case(lambda x: nn.LayerNormOp.make(x, *channels(), epsilon=0.01), (real(2, 3, 4),)),
    "layer_norm-no-bias": Case(lambda x: nn.LayerNormOp.make(x, channels()[0]), (real(2, 3, 4),)),
    "layer_norm-axis": Case(
        lambda x: nn.LayerNormOp.make(x, const(real(3, 4)), const(real(4, 3).T, key="b"), axis=1), (real(2, 3, 4),)
    ),
    "layer_norm-broadcast": Case(
        lambda x: nn.LayerNormOp.make(x, const(real(4)), const(real(3, 1), key="b"), axis=1), (real(2, 3, 4),)
    ),
    "layer_norm-f64": Case(
        lambda x: nn.LayerNormOp.make(x, const(real(4), np.float64), const(-real(4), np.float64, "b")),
        (real(2, 3, 4, dtype=np.float64),),
    ),
    "lrn": Case(lambda x: nn.LRNOp.make(x, size=3, alpha=0.2, beta=0.6, bias=1.5), (X,)),
    "lrn-nhwc": Case(lambda x: nn.LRNOp.make(x, size=3, alpha=0.2), (nhwc(X),)),
}


def i64s(*values: int) -> Any:
    return const(values, np.int64, "shape")


MOVEMENT: dict[str, Case] = {
    "concat": Case(lambda a, b: nn.ConcatOp.make([a, b, a], axis=-1), (real(2, 3), real(2, 1))),
    "split": Case(lambda x: nn.SplitOp.make(x, axis=1, sizes=(1, 3, 2)), (real(2, 6),)),
    "split-one": Case(lambda x: nn.SplitOp.make(x, axis=0, sizes=(2,)), (real(2, 6),)),
    "slice": Case(
        lambda x: nn.SliceOp.make(x, starts=(1, -3), ends=(3, 100), axes=(2, 1), steps=(1, 2)), (real(2, 4, 5),)
    ),
    "slice-back": Case(
        lambda x: nn.SliceOp.make(x, starts=(-1,), ends=(-(2**40),), axes=(1,), steps=(-2,)), (real(2, 5),)
    ),
    "slice-first": Case(lambda x: nn.SliceOp.make(x, starts=(1,), ends=(2,)), (real(3, 2),), dynamic=True),
    "slice-steps-only": Case(lambda x: nn.SliceOp.make(x, starts=(0,), ends=(3,), steps=(2,)), (real(3, 2),)),
    "gather": Case(lambda x, i: nn.GatherOp.make(x, i, axis=1), (real(2, 5), np.array([[0, -1], [3, 2]], np.int64))),
    "gather-batches": Case(
        lambda x, i: nn.GatherOp.make(x, i, axis=1, batch_dims=1),
        (real(2, 5, 3), np.array([[0, -1], [3, 2]], np.int64)),
    ),
    "gather-batches-behind": Case(
        lambda x, i: nn.GatherOp.make(x, i, axis=-2, batch_dims=1),
        (real(2, 5, 3, 4), np.array([[[0, -1]], [[1, 2]]], np.int32)),
    ),
    "gather-batches-one": Case(
        lambda x, i: nn.GatherOp.make(x, i, axis=2, batch_dims=1), (real(2, 5, 3), np.array([1, -1], np.int64))
    ),
    "gather-int8": Case(lambda x, i: nn.GatherOp.make(x, i), (real(4, 5), np.array([3, -1], np.int8))),
    "reshape": Case(lambda x: nn.ReshapeOp.make(x, to=(0, -1, 2)), (real(2, 3, 4),)),
    "reshape-dynamic": Case(lambda x: nn.ReshapeOp.make(x, to=(0, -1, 2)), (real(2, 3, 4),), dynamic=True),
    "reshape-constant": Case(lambda x: nn.ReshapeOp.make(x, i64s(4, 6)), (real(2, 3, 4),)),
    "reshape-operand": Case(
        lambda x, s: nn.ReshapeOp.make(x, s, result_types=[TensorType(f32, [DYNAMIC, DYNAMIC])]),
        (real(2, 3, 4), np.array([4, 6], np.int64)),
    ),
    "reshape-operand-i32": Case(
        lambda x, s: nn.ReshapeOp.make(x, s, result_types=[TensorType(f32, [DYNAMIC, DYNAMIC])]),
        (real(2, 3, 4), np.array([4, 6], np.int32)),
    ),
    "reshape-zero": Case(
        lambda x: nn.ReshapeOp.make(x, to=(3, 0), allow_zero=True), (np.zeros((0, 3), np.float32),), since=14
    ),
    "reshape-zero-not-needed": Case(lambda x: nn.ReshapeOp.make(x, to=(3, 2), allow_zero=True), (real(2, 3),)),
    "expand": Case(lambda x: nn.ExpandOp.make(x, to=(2, 3, 4)), (real(3, 1),)),
    "expand-operand": Case(
        lambda x, s: nn.ExpandOp.make(x, s, result_types=[TensorType(f32, [DYNAMIC, DYNAMIC])]),
        (real(3, 1), np.array([3, 4], np.int64)),
    ),
    "transpose": Case(lambda x: nn.TransposeOp.make(x, perm=(2, 0, 1)), (real(2, 3, 4),)),
    "transpose-scalar": Case(lambda x: nn.TransposeOp.make(x, perm=()), (real(),)),
    "flatten": Case(lambda x: nn.FlattenOp.make(x, axis=2), (real(2, 3, 4),)),
    "flatten-0": Case(lambda x: nn.FlattenOp.make(x, axis=0), (real(2, 3, 4),), dynamic=True),
    "squeeze": Case(lambda x: nn.SqueezeOp.make(x, axes=(1, -1)), (real(2, 1, 3, 1),)),
    "squeeze-all": Case(lambda x: nn.SqueezeOp.make(x), (real(2, 1, 3, 1),)),
    "squeeze-none": Case(lambda x: nn.SqueezeOp.make(x, axes=()), (real(2, 1, 3, 1),)),
    "unsqueeze": Case(lambda x: nn.UnsqueezeOp.make(x, axes=(0, -1)), (real(2, 3),)),
    "unsqueeze-none": Case(lambda x: nn.UnsqueezeOp.make(x, axes=()), (real(2, 3),)),
    "pad": Case(lambda x: nn.PadOp.make(x, pads=(1, 0, 2, 1), value=-1.5), (real(2, 3),)),
    "pad-negative": Case(lambda x: nn.PadOp.make(x, pads=(0, -1, 1, 0)), (real(2, 3),)),
    "pad-int": Case(lambda x: nn.PadOp.make(x, pads=(1, 1), value=7), (whole(3, dtype=np.int64),)),
    "pad-reflect": Case(lambda x: nn.PadOp.make(x, pads=(0, 2, 0, 1), mode="reflect"), (real(2, 4),)),
    "pad-edge": Case(lambda x: nn.PadOp.make(x, pads=(1, 2, 0, 1), mode="edge"), (real(2, 4),)),
    "pad-wrap": Case(lambda x: nn.PadOp.make(x, pads=(0, 1, 3, 0, 0, 2), mode="wrap"), (real(2, 1, 3),)),
    "pad-wrap-negative": Case(lambda x: nn.PadOp.make(x, pads=(-1, 2, 0, 3), mode="wrap"), (real(3, 4),)),
    "pad-wrap-only-negative": Case(lambda x: nn.PadOp.make(x, pads=(0, -1, 0, -2), mode="wrap"), (real(3, 4),)),
    "pad-wrap-twice": Case(lambda x: nn.PadOp.make(x, pads=(0, 5, 0, 1), mode="wrap"), (real(2, 4),), since=19),
    "depth_to_space": Case(lambda x: nn.DepthToSpaceOp.make(x, block=2), (real(2, 8, 2, 3),)),
    "depth_to_space-crd": Case(lambda x: nn.DepthToSpaceOp.make(x, block=2, mode="crd"), (real(2, 8, 2, 3),)),
    "depth_to_space-nhwc": Case(lambda x: nn.DepthToSpaceOp.make(x, block=2, layout="nhwc"), (real(2, 2, 3, 8),)),
    "space_to_depth": Case(lambda x: nn.SpaceToDepthOp.make(x, block=2), (real(2, 3, 4, 6),)),
    "space_to_depth-nhwc": Case(lambda x: nn.SpaceToDepthOp.make(x, block=2, layout="nhwc"), (real(2, 4, 6, 3),)),
    "space_to_batch": Case(lambda x: nn.SpaceToBatchOp.make(x, block=(2, 3), pads=(1, 0, 0, 1)), (real(2, 3, 5, 8),)),
    "space_to_batch-nhwc": Case(
        lambda x: nn.SpaceToBatchOp.make(x, block=(2, 3), pads=(1, 0, 0, 1), layout="nhwc"), (real(2, 5, 8, 3),)
    ),
    "space_to_batch-dynamic": Case(
        lambda x: nn.SpaceToBatchOp.make(x, block=(2, 3), pads=(1, 0, 0, 1)), (real(2, 3, 5, 8),), dynamic=True
    ),
    "space_to_batch-one-axis": Case(lambda x: nn.SpaceToBatchOp.make(x, block=(2,), pads=(0, 0)), (real(2, 3, 4, 5),)),
    "batch_to_space": Case(lambda x: nn.BatchToSpaceOp.make(x, block=(2, 3), crops=(1, 0, 0, 1)), (real(12, 3, 3, 3),)),
    "batch_to_space-nhwc": Case(
        lambda x: nn.BatchToSpaceOp.make(x, block=(2, 3), crops=(1, 0, 0, 1), layout="nhwc"), (real(12, 3, 3, 4),)
    ),
    "batch_to_space-dynamic": Case(
        lambda x: nn.BatchToSpaceOp.make(x, block=(2, 3), crops=(1, 0, 0, 1)), (real(12, 3, 3, 4),), dynamic=True
    ),
    "batch_to_space-one-axis": Case(lambda x: nn.BatchToSpaceOp.make(x, block=(2,), crops=(0, 1)), (real(4, 3, 2, 5),)),
    "shape": Case(lambda x: nn.ShapeOp.make(x), (real(2, 3, 4),), dynamic=True),
    "shape-range": Case(lambda x: nn.ShapeOp.make(x, start=1, end=-1), (real(2, 3, 4, 5),), dynamic=True),
    "shape-start": Case(lambda x: nn.ShapeOp.make(x, start=-2), (real(2, 3, 4, 5),), dynamic=True),
}

REDUCTIONS: dict[str, Case] = {
    **{
        f"{op.name[3:]}-{key}": Case(lambda x, op=op, properties=properties: op.make(x, **properties), (real(2, 3, 4),))
        for op in (nn.ReduceMeanOp, nn.ReduceSumOp, nn.ReduceMaxOp, nn.ReduceMinOp, nn.ReduceProdOp)
        for key, properties in {
            "axes": {"axes": (0, -1)},
            "keep": {"axes": (1,), "keepdims": True},
            "all": {},
            "none": {"axes": ()},
        }.items()
    },
    **{
        f"{op.name[3:]}-{key}": Case(
            lambda x, op=op, properties=properties: op.make(x, **properties), (whole(2, 30, 4),)
        )
        for op in (nn.ArgMaxOp, nn.ArgMinOp)
        for key, properties in {"first": {"axis": 1}, "last": {"axis": -2, "keepdims": True, "last": True}}.items()
    },
}

IMAGE = real(1, 2, 4, 5)


def resize(**properties: Any) -> Case:
    return Case(lambda x: nn.ResizeOp.make(x, **properties), (IMAGE,))


RESIZE: dict[str, Case] = {
    "nearest": resize(scales=(1, 1, 2, 3), coordinates="asymmetric", nearest="floor"),
    "nearest-sizes": resize(sizes=(1, 2, 7, 3), nearest="round_prefer_ceil"),
    "sizes-kept": resize(sizes=(0, 2, 7, 3), mode="linear"),
    "sizes-kept-dynamic": Case(
        lambda x: nn.ResizeOp.make(x, sizes=(0, 0, 7, 3), mode="linear"), (IMAGE,), dynamic=True
    ),
    "linear": resize(scales=(1, 1, 1.5, 0.6), mode="linear"),
    "linear-align": resize(sizes=(1, 2, 9, 7), mode="linear", coordinates="align_corners"),
    "linear-pytorch": resize(sizes=(1, 2, 9, 1), mode="linear", coordinates="pytorch_half_pixel"),
    "cubic": resize(sizes=(1, 2, 8, 10), mode="cubic", cubic_coeff=-0.5),
    "cubic-outside": resize(sizes=(1, 2, 8, 10), mode="cubic", exclude_outside=True),
    "linear-symmetric": Case(
        lambda x: nn.ResizeOp.make(x, scales=(1, 1, 1.7, 1.3), mode="linear", coordinates="half_pixel_symmetric"),
        (IMAGE,),
        since=19,
    ),
}


def params(storage: Any, scale: Any = 0.05, zero_point: Any = 0, axis: int | None = None) -> Any:
    return nn.QParamsAttr.of(storage, scale, zero_point, axis)


U8, I16 = IntegerType(8, Signedness.UNSIGNED), IntegerType(16)
I4, I2 = IntegerType(4), IntegerType(2)
PER_CHANNEL = np.array([0.1, 0.02, 0.3, 0.5], np.float32)


def round_trip(x: Any, p: Any) -> Any:
    return nn.DequantizeOp.make(
        nn.QuantizeOp.make(x, qparams=p), qparams=p, result_types=[TensorType(f32, x.type.get_shape())]
    )


def dequantized(q: Any, p: Any, element: Any = f32) -> Any:
    return nn.DequantizeOp.make(q, qparams=p, result_types=[TensorType(element, q.type.get_shape())])


QUANTIZATION: dict[str, Case] = {
    "quantize": Case(lambda x: nn.QuantizeOp.make(x, qparams=params(i8, 0.05, -3)), (real(40) * 4,)),
    "quantize-ties": Case(
        lambda x: nn.QuantizeOp.make(x, qparams=params(i8, 0.5)), (np.arange(-5, 5, 0.25, dtype=np.float32),)
    ),
    "quantize-u8": Case(lambda x: nn.QuantizeOp.make(x, qparams=params(U8, 0.05, 128)), (real(40) * 4,)),
    "quantize-axis": Case(lambda x: nn.QuantizeOp.make(x, qparams=params(i8, PER_CHANNEL, (1, 2, 3, 4), 1)), (X,)),
    "quantize-long": Case(lambda x: nn.QuantizeOp.make(x, qparams=params(i8, positive(40), 3, 0)), (real(40, 2),)),
    "quantize-f16": Case(lambda x: nn.QuantizeOp.make(x, qparams=params(i8, 0.05)), (real(40, dtype=np.float16),)),
    "quantize-i16": Case(lambda x: nn.QuantizeOp.make(x, qparams=params(I16, 0.001, 5)), (real(40),), since=21),
    "fake": Case(lambda x: round_trip(x, params(i8, 0.05, -3)), (real(40) * 4,)),
    "dequantize": Case(lambda q: dequantized(q, params(i8, 0.05, -3)), (whole(40, dtype=np.int8, low=-128, high=127),)),
    "dequantize-axis": Case(
        lambda q: dequantized(q, params(i8, PER_CHANNEL, axis=0)), (whole(4, 5, dtype=np.int8, low=-128, high=127),)
    ),
    "dequantize-i32": Case(
        lambda q: dequantized(q, params(i32, PER_CHANNEL, axis=0)), (whole(4, low=-(2**30), high=2**30),)
    ),
    "dequantize-f16": Case(lambda q: dequantized(q, params(i8, 0.05), f16), (whole(40, dtype=np.int8),)),
    "dequantize-f64": Case(lambda q: dequantized(q, params(i8, 0.05), f64), (whole(40, dtype=np.int8),)),
    "dequantize-i4": Case(
        lambda x: nn.AddOp.make(x, dequantized(const(whole(5, 3, low=-8, high=8), ml_dtypes.int4), params(I4, 0.05))),
        (real(5, 3),),
        since=21,
    ),
    "dequantize-i2": Case(
        lambda x: nn.AddOp.make(x, dequantized(const(whole(5, 3, low=-2, high=2), ml_dtypes.int2), params(I2, 0.5))),
        (real(5, 3),),
        since=21,
    ),
}

CASES = {
    **UNARY,
    **BINARY,
    **WINDOWS,
    **LINEAR,
    **NORMALIZATIONS,
    **{k: Case(c.build, c.arrays, c.dynamic, c.since, exact=True) for k, c in {**MOVEMENT, **QUANTIZATION}.items()},
    **REDUCTIONS,
    **{f"resize-{k}": c for k, c in RESIZE.items()},
}


def operations_of(case: Case) -> list[Any]:
    """What a case is built of."""
    block = Block(arg_types=[TensorType(element_type(a.dtype), a.shape) for a in case.arrays])
    made = case.build(*block.args)
    pending, seen = [made if hasattr(made, "results") else made.owner], []
    while pending:
        op = pending.pop()
        seen.append(op)
        pending += [v.owner for v in op.operands if hasattr(v.owner, "results")]
    return seen
