"""AMCT's document of TensorFlow fusions, row by row, on graphs that TensorFlow built, froze and ran.

Each case is a graph made twice, in a TF1 session and as a TF2 function, and goes through `amct-opt` as a frozen file. Three
results must be equal: TensorFlow's, ours of the graph as imported, and ours after the fusions; what the row says is gone must be
gone. Cases that break a condition must keep what they have, with the remark that names it.

Tolerance: sums of at most 108 products, rounded in another order, after factors of at most about 40: 2e-5 of the largest
output. The mistakes looked for (a factor, a shift, an axis) are of the size of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.ir.functions import body, main_function
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.tools import amct_opt

from ...frameworks import later, tf

tf1 = later("tensorflow.compat.v1")

Array = np.ndarray[Any, np.dtype[Any]]
Tensor = Any
"""Of TensorFlow."""

TOLERANCE = 2e-5
EPSILON = 1e-3


# What graphs are made of


class Parameters:
    """Seeded weights as variables: of the graph in a TF1 session; else of the program, made once for all builds of a graph."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.restart()

    def restart(self) -> None:
        """The same numbers again."""
        self.rng, self.taken = np.random.default_rng(0), 0

    def take(self, make: Callable[[], Any]) -> Any:
        if not tf1.executing_eagerly_outside_functions():
            return make()
        if self.taken == len(self.made):
            self.made.append(make())
        self.taken += 1
        return self.made[self.taken - 1]

    def variable(self, values: Array) -> Tensor:
        return self.take(lambda: tf.Variable(values.astype(np.float32)))

    def weight(self, *shape: int) -> Tensor:
        return self.variable(self.rng.normal(size=shape))

    def statistics(self, channels: int) -> list[Tensor]:
        """Scale (of both signs), offset, mean and variance (over three decades) of a batch norm."""
        return [self.variable(a) for a in self.numbers(channels)]

    def numbers(self, channels: int) -> list[Array]:
        scale, offset, mean = self.rng.normal(size=(3, channels)) + np.array([[0], [0], [1]])
        return [scale, offset, mean, 10.0 ** self.rng.uniform(-2, 1, channels)]


Builder = Callable[[Tensor, Parameters], Tensor]
"""From the placeholder to the output, or to a list of outputs."""


class Op(NamedTuple):
    """An operator with a weight: the shape of its input in the layout `last`, and how it is written."""

    shape: tuple[int, ...]
    write: Callable[..., Tensor]


def conv2d(x: Tensor, p: Parameters, layout: str = "last") -> Tensor:
    return tf.nn.conv2d(x, p.weight(3, 3, 3, 4), 1, "SAME", data_format=FORMATS[layout, 4])


def conv3d(x: Tensor, p: Parameters, layout: str = "last") -> Tensor:
    return tf.nn.conv3d(x, p.weight(2, 3, 2, 3, 4), [1] * 5, "VALID", data_format=FORMATS[layout, 5])


def depthwise(x: Tensor, p: Parameters, layout: str = "last") -> Tensor:
    """Two outputs per channel."""
    return tf.nn.depthwise_conv2d(x, p.weight(3, 3, 3, 2), [1] * 4, "SAME", data_format=FORMATS[layout, 4])


def deconv(x: Tensor, p: Parameters, layout: str = "last") -> Tensor:
    size = [2, 10, 12, 4] if layout == "last" else [2, 4, 10, 12]
    return tf.nn.conv2d_transpose(x, p.weight(3, 3, 4, 3), size, 2, "SAME", data_format=FORMATS[layout, 4])


def matmul(x: Tensor, p: Parameters, layout: str = "last") -> Tensor:
    return tf.matmul(x, p.weight(6, 4))


def batch_matmul(x: Tensor, p: Parameters, layout: str = "last") -> Tensor:
    return tf.raw_ops.BatchMatMulV2(x=x, y=p.weight(6, 4))


FORMATS = {("last", 4): "NHWC", ("first", 4): "NCHW", ("last", 5): "NDHWC", ("first", 5): "NCDHW"}

OPS = {
    "Conv2D": Op((2, 5, 6, 3), conv2d),
    "Conv3D": Op((2, 3, 5, 4, 3), conv3d),
    "DepthwiseConv2dNative": Op((2, 5, 6, 3), depthwise),
    "Conv2DBackpropInput": Op((2, 5, 6, 3), deconv),
    "MatMul": Op((5, 6), matmul),
    "BatchMatMul": Op((2, 5, 6), batch_matmul),
}


def shape_in(op: str, layout: str) -> tuple[int, ...]:
    batch, *spatial, channels = OPS[op].shape
    return OPS[op].shape if layout == "last" else (batch, channels, *spatial)


def channels_of(x: Tensor, layout: str) -> int:
    return x.shape[-1 if layout == "last" else 1]


def fused_norm(x: Tensor, p: Parameters, version: str = "V3", layout: str = "last") -> Tensor:
    """The operator FusedBatchNorm of a version, for inference."""
    scale, offset, mean, variance = p.statistics(channels_of(x, layout))
    return norm_op(version)(
        x=x,
        scale=scale,
        offset=offset,
        mean=mean,
        variance=variance,
        epsilon=EPSILON,
        data_format=FORMATS[layout, len(x.shape)],
        is_training=False,
    )[0]


def norm_op(version: str) -> Callable[..., Sequence[Tensor]]:
    return getattr(tf.raw_ops, f"FusedBatchNorm{version}")


def biased(x: Tensor, p: Parameters, layout: str = "last") -> Tensor:
    return tf.nn.bias_add(x, p.weight(channels_of(x, layout)), "NHWC" if layout == "last" else "NC..")


def small_norm(x: Tensor, p: Parameters, center: bool, scale: bool, layout: str = "last") -> Tensor:
    """tf.keras.layers.BatchNormalization(fused=False), called with training=False."""
    tf_keras = pytest.importorskip("tf_keras")
    gamma, beta, mean, variance = map(tf1.constant_initializer, p.numbers(channels_of(x, layout)))
    norm = partial(
        tf_keras.layers.BatchNormalization,
        axis=-1 if layout == "last" else 1,
        epsilon=EPSILON,
        center=center,
        scale=scale,
        fused=False,
        gamma_initializer=gamma,
        beta_initializer=beta,
        moving_mean_initializer=mean,
        moving_variance_initializer=variance,
    )
    return p.take(norm)(x, training=False)


# The table


@dataclass(frozen=True)
class Case:
    """A graph, the flags it is compiled with, and what comes out."""

    name: str
    shape: tuple[int | None, ...]
    """Of the placeholder; None is unknown until run time, where it is 2."""
    build: Builder
    flags: str
    left: str
    """The operations of `nn` that are left."""
    refused: str = ""
    """The rule of the remark that says why something stays."""
    slow: bool = False


def after(*builders: Any) -> Builder:
    """The builders one after the other."""

    def build(x: Tensor, p: Parameters) -> Tensor:
        for each in builders:
            x = each(x, p)
        return x

    return build


VERSIONS = ("", "V2", "V3")
LAYOUTS = ("last", "first")


def conv_norm() -> Iterator[Case]:
    """Conv2D/Conv3D/DepthwiseConv2dNative + BN. FusedBatchNorm and V2 are defined for images only."""
    for op, versions in (("Conv2D", VERSIONS), ("Conv3D", ("V3",)), ("DepthwiseConv2dNative", VERSIONS)):
        for version in versions:
            for layout in LAYOUTS:
                write, norm = partial(OPS[op].write, layout=layout), partial(fused_norm, version=version, layout=layout)
                shape, name = shape_in(op, layout), f"{op}+FusedBatchNorm{version}, channels {layout}"
                old = version != "V3"
                yield Case(name, shape, after(write, norm), "--fuse-bn", "conv", slow=old and op != "Conv2D")
                bias = partial(biased, layout=layout)
                yield Case(f"{name}, BiasAdd", shape, after(write, bias, norm), "--fuse-bn", "conv", slow=old)


def to_space(x: Tensor, p: Parameters) -> Tensor:
    return tf.raw_ops.BatchToSpaceND(input=x, block_shape=[2, 2], crops=[[0, 1], [1, 0]])


def to_space_2d(x: Tensor, p: Parameters) -> Tensor:
    return tf.raw_ops.BatchToSpace(input=x, block_size=2, crops=[[0, 1], [1, 0]])


def batch_to_space_norm() -> Iterator[Case]:
    """Conv2D + BatchToSpace + BN."""
    for name, move in (("BatchToSpaceND", to_space), ("BatchToSpace", to_space_2d)):
        for version in VERSIONS:
            build = after(conv2d, move, partial(fused_norm, version=version))
            left = "conv batch_to_space"
            row = f"Conv2D+{name}+FusedBatchNorm{version}"
            yield Case(row, (4, 5, 6, 3), build, "--fuse-bn", left, slow=version != "V3")


def to_space_of_all(x: Tensor, p: Parameters) -> Tensor:
    return tf.raw_ops.BatchToSpaceND(input=x, block_shape=[2, 2, 1], crops=[[0, 1], [1, 0], [0, 0]])


def moved_norm() -> Iterator[Case]:
    """BN after operations that move elements, where the channels can be followed; beyond the document."""
    left = "conv unsqueeze batch_to_space squeeze"
    yield Case(
        "Conv2D+BatchToSpaceND of [2, 2, 1]+BN",
        (4, 5, 6, 3),
        after(conv2d, to_space_of_all, fused_norm),
        "--fuse-bn",
        left,
    )
    image, squeeze = partial(reshaped, shape=(5, 1, 1, 4)), partial(reshaped, shape=(5, 4))
    behind = after(matmul, image, fused_norm)
    squeezed = after(behind, lambda x, p: tf.squeeze(x, [1, 2]))
    yield Case("MatMul+Reshape+BN+Squeeze", (5, 6), squeezed, "--fuse-bn", "matmul")
    yield Case(
        "MatMul+BN, BN is an output", (5, 6), after(behind, also(squeeze)), "--fuse-bn", "matmul reshape reshape"
    )
    other = after(behind, partial(reshaped, shape=(10, 2)))
    yield Case("MatMul+BN, another shape", (5, 6), other, "--fuse-bn", "matmul reshape reshape")
    pairs = after(matmul, partial(reshaped, shape=(5, 1, 2, 2)), fused_norm, squeeze)
    yield Case("MatMul+BN of pairs of columns", (5, 6), pairs, "--fuse-bn", "matmul")
    turned = after(conv2d, lambda x, p: tf.transpose(x, [0, 3, 1, 2]), lambda x, p: fused_norm(x, p, "V3", "first"))
    yield Case("Conv2D+Transpose+BN", (2, 4, 4, 3), turned, "--fuse-bn", "conv transpose")
    upward = after(conv2d, lambda x, p: tf.nn.depth_to_space(x, 2), fused_norm)
    yield Case("Conv2D+DepthToSpace+BN", (2, 4, 4, 3), upward, "--fuse-bn", "conv depth_to_space")
    for keras in (True, False):
        norm = partial(small_norm, center=True, scale=True) if keras else partial(times, factor=[1.0, 2.0, 3.0, 4.0])
        steps = after(dense_on_sequence, norm)
        yield Case(
            f"Dense on a sequence+{'small BN' * keras or 'Mul'}",
            (None, 3, 6),
            steps,
            "--fuse-all",
            "transpose reshape matmul reshape",
        )


def dense_on_sequence(x: Tensor, p: Parameters) -> Tensor:
    """Keras's Dense on rank 3, with its bias."""
    return tf.nn.bias_add(tf.tensordot(x, p.weight(6, 4), [[2], [0]]), p.weight(4))


def atrous(x: Tensor, p: Parameters) -> Tensor:
    """A dilated convolution as SpaceToBatchND + Conv2D + BatchToSpaceND."""
    y = tf.raw_ops.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=[[2, 3], [2, 2]])
    y = tf.nn.conv2d(y, p.weight(3, 3, 3, 4), 1, "VALID")
    return tf.raw_ops.BatchToSpaceND(input=y, block_shape=[2, 2], crops=[[0, 1], [0, 0]])


def times(x: Tensor, p: Parameters, factor: Any = -0.75, first: bool = False) -> Tensor:
    k = np.asarray(factor, np.float32)
    return tf.multiply(k, x) if first else tf.multiply(x, k)


def computed_mul() -> Iterator[Case]:
    """OP (+ BiasAdd) + Mul, where the other input of Mul is a Const of empty shape."""
    for op in ("Conv2D", "MatMul", "DepthwiseConv2dNative", "Conv2DBackpropInput"):
        layouts = LAYOUTS if op.startswith(("Conv2D", "Depthwise")) and op != "Conv2DBackpropInput" else ("last",)
        for layout in layouts:
            left = "matmul" if op == "MatMul" else "conv_transpose" if op == "Conv2DBackpropInput" else "conv"
            write, bias = partial(OPS[op].write, layout=layout), partial(biased, layout=layout)
            shape, name = shape_in(op, layout), f", channels {layout}"
            yield Case(f"{op}+Mul{name}", shape, after(write, times), "--fuse-mul", left)
            first = partial(times, first=True)
            yield Case(f"{op}+BiasAdd+Mul{name}", shape, after(write, bias, first), "--fuse-mul", left)


def split_conv(
    x: Tensor, p: Parameters, layout: str = "last", joined: str = "ConcatV2", bias: bool = False, shared: bool = False
) -> Tensor:
    """A grouped convolution as Split, convolutions of two channels each, Concat; `shared` splits the weights, too."""
    rank = len(x.shape)
    axis = rank - 1 if layout == "last" else 1
    parts = tf.split(x, 3, axis)
    kernel = [3, 3, 2][: rank - 2]
    weights = tf.split(p.weight(*kernel, 2, 6), 3, rank - 1) if shared else [p.weight(*kernel, 2, n) for n in (2, 4, 2)]
    conv = tf.nn.conv2d if rank == 4 else tf.nn.conv3d
    made = [
        conv(part, w, [1] * rank, "SAME", data_format=FORMATS[layout, rank])
        for part, w in zip(parts, weights, strict=True)
    ]
    made = [biased(y, p, layout) for y in made] if bias else made
    if joined == "Concat":
        return tf.raw_ops.Concat(concat_dim=axis, values=made)
    return tf.raw_ops.ConcatV2(values=made, axis=axis)


GROUPS = "split conv conv conv concat"


def group_conv_norm() -> Iterator[Case]:
    """Split + Conv2D/Conv3D + Concat/ConcatV2 on the channels + BN."""
    shapes = {
        (2, "last"): (2, 5, 4, 6),
        (2, "first"): (2, 6, 5, 4),
        (3, "last"): (2, 4, 5, 3, 6),
        (3, "first"): (2, 6, 4, 5, 3),
    }
    for (space, layout), shape in shapes.items():
        for joined in ("Concat", "ConcatV2"):
            for version in VERSIONS if space == 2 else ("V3",):
                norm = partial(fused_norm, version=version, layout=layout)
                for bias in (False, True):
                    name = f"Split+Conv{space}D{'+BiasAdd' * bias}+{joined}+FusedBatchNorm{version}, channels {layout}"
                    write = partial(split_conv, layout=layout, joined=joined, bias=bias)
                    yield Case(name, shape, after(write, norm), "--fuse-bn", GROUPS, slow=version != "V3")
    write = partial(split_conv, shared=True)
    yield Case("Split of the weights, too", (2, 5, 4, 6), after(write, fused_norm), "--fuse-bn", GROUPS)


def plus(x: Tensor, p: Parameters, shape: Sequence[int] = (), op: str = "AddV2", first: bool = False) -> Tensor:
    """Add or AddV2 of a constant of this shape."""
    k = tf.constant(np.random.default_rng(1).normal(size=shape).astype(np.float32))
    return getattr(tf.raw_ops, op)(x=k, y=x) if first else getattr(tf.raw_ops, op)(x=x, y=k)


def computed_add() -> Iterator[Case]:
    """OP + Add/AddV2 of a constant: a scalar, one number per output channel, and that with axes of 1 before it."""
    for op in OPS:
        left = {"MatMul": "matmul", "BatchMatMul": "matmul", "Conv2DBackpropInput": "conv_transpose"}.get(op, "conv")
        channels, rank = 6 if op.startswith("Depthwise") else 4, len(OPS[op].shape)
        shapes = [(), (channels,), (*[1] * (rank - 1), channels)]
        for shape in shapes[1:] if op == "MatMul" else shapes:
            for add in ("Add", "AddV2"):
                build = after(OPS[op].write, partial(plus, shape=shape, op=add, first=add == "Add"))
                yield Case(f"{op}+{add} of {list(shape)}", OPS[op].shape, build, "--fuse-bias", left)
    for op, shape in (("Conv2D", (4, 1, 1)), ("DepthwiseConv2dNative", (1, 6, 1, 1)), ("Conv3D", (4, 1, 1, 1))):
        build = after(partial(OPS[op].write, layout="first"), partial(plus, shape=shape))
        name = f"{op}+AddV2 of {list(shape)}, channels first"
        yield Case(name, shape_in(op, "first"), build, "--fuse-bias", "conv")


def image_norm(
    x: Tensor, p: Parameters, layout: str = "last", static: bool = True, bias: bool = False, version: str = "V3"
) -> Tensor:
    """MatMul (+ BiasAdd) + Reshape to an image + BN + Reshape back."""
    y = matmul(x, p)
    y = biased(y, p) if bias else y
    batch = 5 if static else tf.shape(y)[0]
    image = [batch, 1, 1, 4] if layout == "last" else [batch, 4, 1, 1]
    y = fused_norm(tf.reshape(y, image), p, version, layout)
    return tf.reshape(y, [batch, 4] if static else [-1, 4])


def matmul_norm() -> Iterator[Case]:
    """MatMul + BN in the eight cases of the document."""
    for bias in (False, True):
        for layout in LAYOUTS:
            for static in (False, True):
                for version in VERSIONS:
                    name = f"MatMul{'+BiasAdd' * bias}+FusedBatchNorm{version}, {FORMATS[layout, 4]}, "
                    name += "static shape" if static else "dynamic shape"
                    build = partial(image_norm, layout=layout, static=static, bias=bias, version=version)
                    shape = (5 if static else None, 6)
                    yield Case(name, shape, build, "--fuse-bn", "matmul", slow=version != "V3")


SMALL = "--fuse-small-bn --fuse-bn {}"
RULES = {"extended": "", "tf1.15": "--rules=tf1.15", "tf2.6": "--rules=tf2.6"}


def small_batch_norm() -> Iterator[Case]:
    """Conv (+ BiasAdd) + BN in small operations, in its four variants, under the rules of two versions of TensorFlow."""
    for center in (True, False):
        for scale in (True, False):
            for op, rules in (("Conv2D", ("tf1.15", "tf2.6", "extended")), ("Conv3D", ("tf2.6", "extended"))):
                for rule in rules:
                    for bias in (False, True):
                        name = f"{op}{'+BiasAdd' * bias}+small BN, center={center}, scale={scale}, {rule}"
                        norm = partial(small_norm, center=center, scale=scale)
                        build = after(OPS[op].write, *[biased] * bias, norm)
                        slow = rule == "extended" and bias
                        yield Case(name, OPS[op].shape, build, SMALL.format(RULES[rule]), "conv", slow=slow)
            large = after(conv2d, partial(small_norm, center=center, scale=scale))
            name = f"small BN to large BN, center={center}, scale={scale}"
            yield Case(name, OPS["Conv2D"].shape, large, "--fuse-small-bn --rules=tf1.15", "conv batch_norm")
    norm = partial(small_norm, center=True, scale=True)
    for op in ("Conv2D", "Conv3D"):
        name, build = f"{op}+small BN, channels first", partial(OPS[op].write, layout="first")
        first = partial(norm, layout="first")
        yield Case(name, shape_in(op, "first"), after(build, first), SMALL.format(RULES["tf2.6"]), "conv")
    for op in ("MatMul", "BatchMatMul"):
        name = f"{op}+small BN, extended"
        yield Case(name, OPS[op].shape, after(OPS[op].write, biased, norm), SMALL.format(""), "matmul")


def everything() -> Iterator[Case]:
    """`--fuse-all` on longer runs of the same."""
    norm = partial(small_norm, center=True, scale=True)
    yield Case("small BN by fuse-all", (2, 5, 6, 3), after(conv2d, biased, norm), "--fuse-all", "conv")
    chain = after(conv2d, plus, fused_norm, times, partial(plus, shape=(4,)))
    yield Case("Conv2D+Add+BN+Mul+Add", (2, 5, 6, 3), chain, "--fuse-all", "conv")
    yield Case("Split+Conv2D+Concat+small BN", (2, 5, 4, 6), after(split_conv, norm), "--fuse-all", GROUPS)
    yield Case("MatMul+BN by fuse-all", (None, 6), partial(image_norm, static=False), "--fuse-all", "matmul")
    yield Case("SpaceToBatch+Conv2D+BatchToSpace+BN", (2, 7, 8, 3), after(atrous, fused_norm), "--fuse-bn", ATROUS)
    yield Case("the same by canonicalize", (2, 7, 8, 3), after(atrous, fused_norm), "--canonicalize --fuse-all", "conv")


ATROUS = "space_to_batch conv batch_to_space"


# Conditions that do not hold


def also(then: Builder) -> Builder:
    """A value that is an output itself, and what follows it."""
    return lambda x, p: [x, then(x, p)]


def four_of(x: Tensor) -> Tensor:
    """Four numbers that are known at run time only."""
    return tf.reshape(x[0, :2, :2, 0], [4])


def norm_in_training(x: Tensor, p: Parameters) -> Tensor:
    scale, offset, *_ = p.statistics(4)
    empty = tf.zeros([0])
    return tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=empty, variance=empty, is_training=True)[0]


def conv_norm_by_value(x: Tensor, p: Parameters) -> Tensor:
    """The offset depends on the input."""
    scale, _, mean, variance = p.statistics(4)
    y = conv2d(x, p)
    return norm_op("V3")(x=y, scale=scale, offset=four_of(x), mean=mean, variance=variance, is_training=False)[0]


def norm_without_variance(x: Tensor, p: Parameters) -> Tensor:
    """Variance and epsilon of one channel are 0: the results are infinite or NaN."""
    scale, offset, mean, _ = p.statistics(4)
    flat = np.array([1, 0, 1, 1], np.float32)
    return norm_op("V3")(x=x, scale=scale, offset=offset, mean=mean, variance=flat, epsilon=0.0, is_training=False)[0]


def norm_of_rows(x: Tensor, p: Parameters) -> Tensor:
    """A batch norm of channels first on channels last: what it takes for channels are rows."""
    return fused_norm(x, p, layout="first")


def bias_of_rows(x: Tensor, p: Parameters) -> Tensor:
    return biased(x, p, "first")


def conv_bias_by_value(x: Tensor, p: Parameters) -> Tensor:
    return tf.nn.bias_add(conv2d(x, p), four_of(x))


def conv_by_value(x: Tensor, p: Parameters) -> Tensor:
    """The weight is made of the input."""
    return tf.nn.conv2d(x, tf.reshape(x[0, :3, :3, :], [3, 3, 3, 1]) * p.weight(1, 1, 1, 4), 1, "SAME")


def matmul_of_batches(x: Tensor, p: Parameters) -> Tensor:
    """A matrix for each of the batches, which AMCT does not quantize."""
    return tf.raw_ops.BatchMatMulV2(x=x, y=p.weight(2, 6, 4))


def relu(x: Tensor, p: Parameters) -> Tensor:
    return tf.nn.relu(x)


def fake_quant(x: Tensor, p: Parameters) -> Tensor:
    return tf.quantization.fake_quant_with_min_max_args(x, -8, 8)


def reshaped(x: Tensor, p: Parameters, shape: Sequence[int]) -> Tensor:
    return tf.reshape(x, shape)


def joined(*builders: Builder, axis: int = -1) -> Builder:
    """The branches side by side."""
    return lambda x, p: tf.concat([build(x, p) for build in builders], axis)


def product_also(x: Tensor, p: Parameters) -> list[Tensor]:
    """A batch norm by hand, the product inside of which is an output."""
    product = x * p.weight(4)
    return [product, product + p.weight(4)]


def refusals() -> Iterator[Case]:
    """One condition broken in each: graph, flags, what stays, and the rule of the remark."""
    square, matrix = (2, 4, 4, 3), (5, 6)
    norm, small = fused_norm, partial(small_norm, center=True, scale=True)
    image, back = partial(reshaped, shape=(5, 1, 1, 4)), partial(reshaped, shape=(5, 4))
    rows_first = partial(reshaped, shape=(1, 1, 4, 5))

    def case(name: str, shape: tuple[int, ...], build: Builder, flags: str, left: str, refused: str) -> Case:
        return Case(f"refused: {name}", shape, build, flags, left, refused)

    def bn(name: str, build: Builder, refused: str, left: str = "batch_norm", shape: tuple[int, ...] = square) -> Case:
        return case(f"BN, {name}", shape, build, "--fuse-bn", left, refused)

    yield bn("in training", after(conv2d, norm_in_training), "native", "opaque")
    yield bn("numbers of run time", conv_norm_by_value, "parameters-constant")
    yield bn("variance and epsilon 0", after(conv2d, norm_without_variance), "finite")
    yield bn("Conv2D is an output", after(conv2d, also(norm)), "result-used-once")
    yield bn("BiasAdd is an output", after(conv2d, biased, also(norm)), "result-used-once")
    yield bn("weight of run time", after(conv_by_value, norm), "weight-constant")
    yield bn("bias of run time", after(conv_bias_by_value, norm), "bias-constant")
    yield bn("bias of rows", after(conv2d, bias_of_rows, norm), "bias-along-channels")
    yield bn("norm of rows", after(conv2d, norm_of_rows), "normalizes-channels")
    yield bn("relu between", after(conv2d, relu, norm), "no-producer")
    yield case(
        "BN, by name", square, after(conv2d, norm), "--fuse-bn --skip-fusion=Conv2D", "batch_norm", "skip-fusion"
    )
    yield case("BN, by type", square, after(conv2d, norm), "--fuse-bn=skip-types=Conv2D", "batch_norm", "skip-types")
    yield case("BN, all of them", square, after(conv2d, norm), "--fuse-bn=do-fusion=false", "batch_norm", "do-fusion")

    yield bn("BatchToSpace is an output", after(conv2d, to_space, also(norm)), "result-used-once", shape=BATCHES)
    yield bn("of rows after BatchToSpace", after(conv2d, to_space, norm_of_rows), "normalizes-channels", shape=BATCHES)

    yield bn("Concat is an output", after(joined(conv2d, conv2d), also(norm)), "concat-used-once")
    yield bn("Concat of rows", after(joined(conv2d, conv2d, axis=1), norm), "joins-channels")
    yield bn("a branch of run time", after(joined(conv2d, conv_by_value), norm), "branches-constant")
    yield bn("a bias of rows", after(joined(conv2d, after(conv2d, bias_of_rows)), norm), "biases-along-channels")
    yield bn("a branch with Relu", after(joined(conv2d, after(conv2d, relu)), norm), "no-producer")

    image_also = after(matmul, image, also(after(norm, back)))
    yield bn("the image is an output", image_also, "result-used-once", shape=matrix)
    yield bn("rows among columns", after(matmul, rows_first, norm, back), "channels-followed", shape=matrix)

    def mul(name: str, build: Builder, refused: str, shape: tuple[int, ...] = square) -> Case:
        return case(f"Mul, {name}", shape, build, "--fuse-mul", "mul", refused)

    rows = [[0.5], [2.0], [-1.0], [3.0]]
    yield mul("Conv2D is an output", after(conv2d, also(times)), "result-used-once")
    yield mul("weight of run time", after(conv_by_value, times), "weight-constant")
    yield mul("bias of run time", after(conv_bias_by_value, times), "bias-constant")
    yield mul("bias of rows", after(conv2d, bias_of_rows, times), "bias-along-channels")
    yield mul("a factor per column", after(conv2d, partial(times, factor=rows)), "runs-along-channels")
    yield mul("Relu between", after(conv2d, relu, times), "no-producer")
    yield mul("no Const", after(conv2d, lambda x, p: x * tf.reduce_max(x)), "parameter-constant")

    def add(name: str, build: Builder, refused: str, shape: tuple[int, ...] = square) -> Case:
        return case(f"Add, {name}", shape, build, "--fuse-bias", "add", refused)

    first = partial(conv2d, layout="first")
    yield add("Conv2D is an output", after(conv2d, also(plus)), "result-used-once")
    yield add("a number per column", after(conv2d, partial(plus, shape=(4, 1))), "runs-along-channels")
    yield add("[C] after NCHW", after(first, partial(plus, shape=(4,))), "runs-along-channels", (2, 3, 4, 4))
    yield add("a number per row of MatMul", after(matmul, partial(plus, shape=(5, 1))), "runs-along-channels", matrix)
    yield add("Relu between", after(conv2d, relu, plus), "no-producer")
    only = "--fuse-bias=only-quantizable=true"
    batches = after(matmul_of_batches, partial(plus, shape=(4,)))
    yield case("Add, AMCT does not quantize the product", (2, 5, 6), batches, only, "add", "only-quantizable")
    yield add("from the placeholder", after(conv2d, lambda x, p: x + four_of(x)), "parameter-constant")

    def small_bn(name: str, rules: str, build: Builder, refused: str, shape: tuple[int, ...] = square) -> Case:
        return case(f"small BN, {name}", shape, build, f"--fuse-small-bn {RULES[rules]}", "add", refused)

    yield small_bn("rank 5 under tf1.15", "tf1.15", after(conv3d, small), "rank-of-amct", OPS["Conv3D"].shape)
    yield small_bn("rank 2 under tf1.15", "tf1.15", after(matmul, small), "rank-of-amct", matrix)
    yield small_bn("rank 2 under tf2.6", "tf2.6", after(matmul, small), "rank-of-amct", matrix)
    yield small_bn("rank 3 under tf2.6", "tf2.6", after(batch_matmul, small), "rank-of-amct", (2, 5, 6))
    yield small_bn("after Relu under tf1.15", "tf1.15", after(conv2d, relu, small), "behind-convolution")
    yield small_bn("after Relu under tf2.6", "tf2.6", after(conv2d, relu, small), "behind-convolution")
    folded = after(conv2d, partial(reshaped, shape=(2, 2, 2, 4, 4)), small)
    yield small_bn("of rank 5 after Conv2D", "tf2.6", folded, "behind-convolution")
    trained = after(fake_quant, conv2d, small)
    yield small_bn("trained with quantization", "tf2.6", trained, "not-trained-with-quantization")
    yield small_bn("an inner result is an output", "extended", after(conv2d, product_also), "inner-used-once")


BATCHES = (4, 4, 4, 3)
"""Enough of them for BatchToSpace of 2 by 2."""


# The tests

CASES = [
    case
    for rows in (
        *(conv_norm, batch_to_space_norm, moved_norm, computed_mul, group_conv_norm, computed_add, matmul_norm),
        *(small_batch_norm, everything, refusals),
    )
    for case in rows()
]


BEYOND = {
    "MatMul+Reshape+BN+Squeeze",
    "MatMul+BN, BN is an output",
    "MatMul+BN, another shape",
    "Conv2D+Transpose+BN",
    "Conv2D+DepthToSpace+BN",
    "Dense on a sequence+small BN",
    "Dense on a sequence+Mul",
    "MatMul+small BN, extended",
    "BatchMatMul+small BN, extended",
    "Conv2D+Add+BN+Mul+Add",
    "Split+Conv2D+Concat+small BN",
}
"""What is not AMCT's; everything else is fused by its rules to the letter."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.name, marks=[pytest.mark.slow] if c.slow else []) for c in CASES]
)
def test_row(case: Case, frozen: Callable[..., Any], tmp_path: Path) -> None:
    p, out, remarks = Parameters(), tmp_path / "out.mlir", tmp_path / "remarks.yaml"
    wide = "--rules" in case.flags or case.refused or case.name in BEYOND
    flags = case.flags if wide else f"{case.flags} --rules=amct"

    def network(x: Tensor) -> Tensor | list[Tensor]:
        p.restart()
        return case.build(x, p)

    x = np.random.default_rng(2).normal(size=[2 if d is None else d for d in case.shape]).astype(np.float32)
    expected = as_written(network, x)
    graph = frozen(network, x, signature=[tf.TensorSpec(case.shape, tf.float32)])

    assert amct_opt.run([str(graph.path), *flags.split(), "-o", str(out), "--remarks-output", str(remarks)]) == 0
    before, module = (frontends.read(path, new_session()) for path in (graph.path, out))
    for stage in (before, module):
        for actual, wanted in zip(run(stage, graph.inputs).values(), expected, strict=True):
            finite = np.isfinite(wanted)  # a variance of 0 gives Inf or NaN, as the order of operations has it
            bound = TOLERANCE * np.abs(wanted[finite]).max()
            np.testing.assert_allclose(actual[finite], wanted[finite], rtol=0, atol=bound)

    missed = {r["rule"] for r in yaml.safe_load_all(remarks.read_text()) if r["kind"] == "missed"}
    if case.name.startswith("refused"):
        assert case.left in kinds(module)
        assert case.refused in missed if case.refused else not missed
    else:
        assert sorted(kinds(module)) == sorted(case.left.split())
        assert not missed


def as_written(network: Callable[[Tensor], Any], x: Array) -> list[Array]:
    """TensorFlow's outputs, operation by operation.

    As a graph its optimizer makes one operation of Conv2D and BiasAdd or BN even where their data formats differ, which gives
    other numbers.
    """
    outputs = network(tf.constant(x))
    return [y.numpy() for y in (outputs if isinstance(outputs, list) else [outputs])]


def kinds(module: ModuleOp) -> list[str]:
    """The operations, constants left out."""
    names = (op.name.removeprefix("nn.") for op in body(main_function(module)).ops if op.name.startswith("nn."))
    return [name for name in names if name != "constant"]
