"""Random frozen graphs of TensorFlow, with channels last or first, as TensorFlow computes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .case import Array, Case
from .graph import Refused

BATCH = 2


@dataclass
class Builder:
    """Adds TensorFlow's operators to the graph that is being built; shapes are those that it infers."""

    tf: Any
    random: np.random.Generator

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, p: float) -> bool:
        return bool(self.random.random() < p)

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        return self.tf.constant(self.random.normal(0, scale, shape).astype(np.float32))

    def spread(self, *shape: int) -> Any:
        return self.tf.constant(self.random.uniform(0.5, 1.5, shape).astype(np.float32))


Step = Callable[[Builder, Any], Any]


def convolution(b: Builder, x: Any) -> Any:
    c, k = x.shape[-1], b.pick(1, 2, 3)
    out = b.pick(2, 4)
    padding: Any = b.pick("SAME", "VALID", [[0, 0], [1, 0], [1, 1], [0, 0]])
    y = b.tf.nn.conv2d(
        x, b.normal(k, k, c, out, scale=(k * k * c) ** -0.5), b.pick(1, 1, 2), padding, dilations=b.pick(1, 1, 1, 2)
    )
    return b.tf.nn.bias_add(y, b.normal(out, scale=0.1)) if b.chance(0.6) else y


def depthwise(b: Builder, x: Any) -> Any:
    c, k, stride = x.shape[-1], b.pick(1, 3), b.pick(1, 1, 2)
    weight = b.normal(k, k, c, b.pick(1, 1, 2), scale=1 / k)
    return b.tf.nn.depthwise_conv2d(x, weight, [1, stride, stride, 1], b.pick("SAME", "VALID"))


def transposed(b: Builder, x: Any) -> Any:
    n, h, w, c = x.shape
    k, stride = b.pick(2, 3), b.pick(1, 2)
    return b.tf.nn.conv2d_transpose(
        x, b.normal(k, k, 3, c, scale=c**-0.5), [n, h * stride, w * stride, 3], stride, "SAME"
    )


def batch_norm(b: Builder, x: Any) -> Any:
    c = x.shape[-1]
    if len(x.shape) == 4 and b.chance(0.7):
        return b.tf.compat.v1.nn.fused_batch_norm(
            x, b.spread(c), b.normal(c), b.normal(c), b.spread(c), epsilon=1e-3, is_training=False
        )[0]
    return b.tf.nn.batch_normalization(x, b.normal(c), b.spread(c), b.normal(c), b.spread(c), 1e-3)


def activation(b: Builder, x: Any) -> Any:
    nn, math = b.tf.nn, b.tf.math
    return b.pick(
        nn.relu, nn.relu, nn.relu6, nn.sigmoid, nn.tanh, nn.elu, nn.selu, nn.softplus, nn.swish, nn.leaky_relu, nn.gelu, math.erf,
        math.exp, math.abs, math.square, math.negative, nn.softsign, lambda y: math.sqrt(math.abs(y)), nn.softmax,
        nn.log_softmax,
        lambda y: math.rsqrt(math.square(y) + 1.0), lambda y: b.tf.clip_by_value(y, -1.0, 2.0), math.ceil, math.floor,
        lambda y: y * nn.relu6(y + 3.0) / 6.0,
    )(x)  # fmt: skip


def arithmetic(b: Builder, x: Any) -> Any:
    other = b.pick(
        x, b.normal(x.shape[-1]), b.normal(), b.normal(*x.shape), b.normal(*([1] * (len(x.shape) - 1)), x.shape[-1])
    )
    kind = b.pick(b.tf.add, b.tf.add, b.tf.multiply, b.tf.subtract, b.tf.maximum, b.tf.minimum)
    return kind(x, other) if b.chance(0.7) else kind(other, x)


def product(b: Builder, x: Any) -> Any:
    k, out = x.shape[-1], b.pick(1, 3, 4, 8)
    turned = b.chance(0.3) and len(x.shape) == 2
    weight = b.normal(*((out, k) if turned else (k, out)), scale=k**-0.5)
    y = (
        b.tf.linalg.matmul(x, weight, transpose_b=turned)
        if len(x.shape) == 2
        else b.tf.tensordot(x, weight, [[-1], [0]])
    )
    return b.tf.nn.bias_add(y, b.normal(out, scale=0.1)) if b.chance(0.5) else y


def scores(b: Builder, x: Any) -> Any:
    y = b.tf.nn.softmax(b.tf.linalg.matmul(x, x, transpose_b=True))
    return b.tf.linalg.matmul(y, x)


def pool(b: Builder, x: Any) -> Any:
    return b.pick(b.tf.nn.max_pool2d, b.tf.nn.avg_pool2d)(x, b.pick(2, 3), b.pick(1, 2), b.pick("SAME", "VALID"))


def reduction(b: Builder, x: Any) -> Any:
    rank = len(x.shape)
    kind = b.pick(
        b.tf.reduce_mean, b.tf.reduce_mean, b.tf.reduce_sum, b.tf.reduce_max, b.tf.reduce_min, b.tf.reduce_prod
    )
    axes = b.pick([1, 2] if rank == 4 else [1], [-1], [rank - 1], [1])
    return kind(x, axes, keepdims=b.chance(0.5))


def reshape(b: Builder, x: Any) -> Any:
    n, *rest = x.shape
    count = int(np.prod(rest))
    to = b.pick([n, count], [-1, count], [n, 1, 1, count], [n, count, 1], [n, -1, rest[-1]])
    return b.tf.reshape(x, to)


def moved(b: Builder, x: Any) -> Any:
    rank = len(x.shape)
    kind = b.pick("transpose", "pad", "slice", "split", "concat", "gather", "tile", "expand", "reverse", "mirror")
    if kind == "transpose":
        return b.tf.transpose(x, [0, *(1 + b.random.permutation(rank - 1)).tolist()])
    if kind == "pad":
        return b.tf.pad(x, [[0, 0]] + [[int(b.random.integers(2)), 1]] * (rank - 1), constant_values=b.pick(0, 0, 1.5))
    if kind == "mirror":
        mode = b.pick("REFLECT", "SYMMETRIC")
        if (
            mode == "REFLECT" and min(x.shape[1:]) < 2
        ):  # it has no second value, which TensorFlow finds only at run time
            raise Refused
        return b.tf.pad(x, [[0, 0]] + [[1, 1]] * (rank - 1), mode=mode)
    if kind == "slice":
        return b.pick(x[:, 1:], x[..., :-1], x[:, ::2], x[..., ::-1], x[:, -1], x[:, b.tf.newaxis])
    if kind == "split":
        return b.pick(*b.tf.split(x, 2, axis=-1))
    if kind == "concat":
        return b.tf.concat([x, b.pick(x, b.normal(*x.shape))], b.pick(-1, 1))
    if kind == "gather":
        return b.tf.gather(x, [0, 0, x.shape[-1] - 1], axis=-1)
    if kind == "tile":
        return b.tf.tile(x, [1] * (rank - 1) + [2])
    if kind == "expand":
        return b.tf.expand_dims(x, b.pick(1, -1))
    return b.tf.reverse(x, [b.pick(1, rank - 1)])


def resize(b: Builder, x: Any) -> Any:
    size = [d * 2 if b.chance(0.6) else d + 1 for d in x.shape[1:3]]
    v1 = b.tf.compat.v1.image
    if b.chance(0.5):
        return b.pick(v1.resize_bilinear, v1.resize_nearest_neighbor)(x, size, **b.pick({}, {"align_corners": True}))
    return b.pick(v1.resize_bilinear, v1.resize_nearest_neighbor)(x, size, half_pixel_centers=True)


def blocks(b: Builder, x: Any) -> Any:
    return b.pick(b.tf.nn.space_to_depth, b.tf.nn.depth_to_space)(x, 2)


def residual(b: Builder, x: Any) -> Any:
    c = x.shape[-1]
    y = b.tf.nn.conv2d(x, b.normal(3, 3, c, c, scale=(9 * c) ** -0.5), 1, "SAME")
    y = batch_norm(b, y) if b.chance(0.6) else y
    y = y + x if b.chance(0.7) else x + y
    return b.tf.nn.relu(y) if b.chance(0.7) else y


def fake_quantized(b: Builder, x: Any) -> Any:
    return b.tf.quantization.fake_quant_with_min_max_args(x, -4.1, 3.9)


def layer_norm(b: Builder, x: Any) -> Any:
    mean, variance = b.tf.nn.moments(x, [-1], keepdims=True)
    return b.tf.nn.batch_normalization(x, mean, variance, b.normal(x.shape[-1]), b.spread(x.shape[-1]), 1e-3)


_ANY: tuple[Step, ...] = (
    activation, activation, arithmetic, arithmetic, product, product, reduction, reshape, moved, moved, layer_norm,
    fake_quantized,
)  # fmt: skip
STEPS: Mapping[int, tuple[Step, ...]] = {
    1: (activation, arithmetic),
    2: (product, product, *_ANY),
    3: (product, product, scores, *_ANY),
    4: (convolution, convolution, convolution, depthwise, transposed, batch_norm, batch_norm, residual, residual, pool, resize,
        blocks, *_ANY),
    5: (activation, arithmetic, reduction, reshape),
}  # fmt: skip
"""What may follow, by rank."""
_STARTS = ((8, 8, 3), (7, 6, 4), (12, 4), (16,), (8, 8, 1), (6, 8))


def tensorflow_file(seed: int, path: Path) -> Case:
    """Writes a frozen graph. Its outputs are called y0, y1, ..."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf1 = tf.compat.v1
    random = np.random.default_rng(seed)
    b = Builder(tf, random)
    start = b.pick(*_STARTS)
    x0 = random.normal(0, 1, (BATCH, *start)).astype(np.float32)
    with tf1.Graph().as_default() as graph, tf1.Session(graph=graph, config=_one_thread(tf1)) as session:
        x = tf1.placeholder(tf.float32, (BATCH, *start), "x")
        values = [x]
        for _ in range(int(random.integers(2, 12))):
            x = b.pick(*values) if b.chance(0.15) else x
            x = _step(b, x)
            values.append(x)
        chosen = [x, *(b.pick(*values[1:]) for _ in range(b.pick(0, 0, 1)))]
        outputs = [tf.identity(y, f"y{i}") for i, y in enumerate(chosen)]
        names = [y.op.name for y in outputs]
        frozen = tf1.graph_util.extract_sub_graph(graph.as_graph_def(), names)
        found: list[Array] = session.run(outputs, {"x:0": x0})
    path.write_bytes(frozen.SerializeToString(deterministic=True))
    kinds = tuple(f"op {kind}" for kind in sorted({n.op for n in frozen.node}))
    imports = {"inputs": ("x",), "outputs": tuple(names)}
    inputs = {"x": x0} if any(n.name == "x" for n in frozen.node) else {}
    return Case("tensorflow", path, inputs, dict(zip(names, found, strict=True)), traits=kinds, imports=imports)


def _one_thread(tf1: Any) -> Any:
    return tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)


def _step(b: Builder, x: Any) -> Any:
    for _ in range(8):
        steps = STEPS[len(x.shape)]
        try:
            y = steps[int(b.random.integers(len(steps)))](b, x)
        except (Refused, ValueError, ZeroDivisionError, IndexError):
            continue
        if len(y.shape) in STEPS and all(y.shape) and int(np.prod(y.shape)) < 20_000:
            return y
    return x
