"""What may follow in a random ONNX graph: each step adds one node, or the few nodes that exporters write for one layer.

A step need not be valid: onnxruntime refuses what is not, and the file then goes on with another step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import TensorProto

from .graph import File, Refused
from .onnx_spatial import (
    batch_norm,
    blocks,
    convolution,
    global_pool,
    grouped_by_hand,
    pad,
    pool,
    residual,
    resize,
    shared,
    shuffle,
    small_batch_norm,
    squeeze_and_excite,
    transposed_convolution,
)

Step = Callable[[File, str], str]


UNARY = (
    "Relu", "Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "HardSigmoid", "HardSwish",
    "Gelu", "Mish", "Celu", "ThresholdedRelu", "Abs", "Neg", "Exp", "Sin", "Cos", "Atan", "Erf", "Floor", "Ceil", "Round", "Sign",
    "Identity", "Dropout", "Shrink", "Reciprocal", "Sqrt", "Log", "Swish",
)  # fmt: skip


def activation(f: File, x: str) -> str:
    kind = f.pick(*UNARY)
    attributes: dict[str, object] = {}
    if kind in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu") and f.chance(0.5):
        attributes["alpha"] = float(f.pick(0.1, 0.5, 1.0, 1.5))
    if kind == "HardSigmoid" and f.chance(0.4):
        attributes = {"alpha": 1 / 6, "beta": 0.5}
    if kind == "Gelu" and f.chance(0.5):
        attributes["approximate"] = "tanh"
    return f.one(kind, [x], **attributes)


def prelu(f: File, x: str) -> str:
    shape = f.shape(x)
    return f.one("PRelu", [x, f.normal(*f.pick((shape[1], *[1] * (len(shape) - 2)), (1,), (shape[-1],)))])


def clip(f: File, x: str) -> str:
    low, high = f.pick((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0), (None, 0.5), (0.1, None), (-0.5, 6.0), (None, None))
    if f.opset < 11:
        return f.one("Clip", [x], **{k: v for k, v in {"min": low, "max": high}.items() if v is not None})
    bounds = ["" if v is None else f.constant(v, f.values[x].dtype) for v in (low, high)]
    while bounds and not bounds[-1]:
        bounds.pop()
    return f.one("Clip", [x, *bounds])


def composite_activation(f: File, x: str) -> str:
    """As exporters write the activations for which their opset has no operator."""
    kind = f.pick("silu", "gelu", "hardswish", "mish", "quick", "relu6", "square")
    if kind == "silu":
        return f.one("Mul", [x, f.one("Sigmoid", [x])])
    if kind == "gelu":
        y = f.one("Erf", [f.one("Div", [x, f.constant(2**0.5)])])
        return f.one("Mul", [f.one("Mul", [x, f.one("Add", [y, f.constant(1)])]), f.constant(0.5)])
    if kind == "hardswish":
        if f.opset < 11:
            return f.one("Mul", [x, f.one("HardSigmoid", [x], alpha=1 / 6, beta=0.5)])
        y = f.one("Clip", [f.one("Add", [x, f.constant(3)]), f.constant(0), f.constant(6)])
        return f.one("Div", [f.one("Mul", [x, y]), f.constant(6)])
    if kind == "mish":
        return f.one("Mul", [x, f.one("Tanh", [f.one("Softplus", [x])])])
    if kind == "quick":
        return f.one("Mul", [x, f.one("Sigmoid", [f.one("Mul", [x, f.constant(1.702)])])])
    if kind == "square":
        return f.one("Pow", [x, f.constant(f.pick(2, 2.0, 3, 1, 0.0))])
    return f.one("Min", [f.one("Relu", [x]), f.constant(6)])


def _other(f: File, x: str) -> str:
    """Something that broadcasts with x: a value, or a constant of one of many shapes."""
    shape = f.shape(x)
    if f.chance(0.5):
        return f.like(x)
    if f.chance(0.2):
        return f.pick(*(n for n, a in f.values.items() if a.dtype == f.values[x].dtype))
    channels = (shape[1], *[1] * (len(shape) - 2)) if len(shape) > 1 else shape
    full = (1, *channels) if len(shape) > 1 else shape
    return f.normal(
        *f.pick((), (1,), channels, full, shape[-1:], shape[1:], (1,) * (len(shape) + 1) if f.chance(0.1) else ())
    )


def arithmetic(f: File, x: str) -> str:
    kind = f.pick("Add", "Add", "Add", "Mul", "Mul", "Sub", "Div", "Max", "Min", "Pow", "Mod")
    other = _other(f, x)
    if kind == "Div":
        other = f.spread(*f.shape(other)) if f.chance(0.8) else other
    attributes = {"fmod": 1} if kind == "Mod" else {}
    return f.one(kind, [x, other] if f.chance(0.7) else [other, x], **attributes)


def several(f: File, x: str) -> str:
    return f.one(f.pick("Sum", "Max", "Min", "Mean"), [x, *(_other(f, x) for _ in range(f.int(0, 3)))])


def condition(f: File, x: str) -> str:
    test = f.one(f.pick("Less", "Greater"), [x, _other(f, x)])
    if f.chance(0.3):
        test = f.one("Not", [test])
    if f.chance(0.2):
        return f.one("Cast", [test], to=TensorProto.FLOAT)
    return f.one("Where", [test, x, _other(f, x)] if f.chance(0.7) else [test, f.constant(f.pick(0, -1e4)), x])


def concatenation(f: File, x: str) -> str:
    rank = len(f.shape(x))
    axis = f.int(0 if f.chance(0.1) else min(1, rank - 1), rank - 1)
    others = [f.like(x) for _ in range(f.pick(1, 1, 2, 0))]
    if f.chance(0.2):
        others.append(f.normal(*f.shape(x)))
    order = [x, *others]
    f.random.shuffle(order)
    return f.one("Concat", order, axis=axis - rank if f.chance(0.3) and f.opset >= 11 else axis)


def split(f: File, x: str) -> str:
    shape = f.shape(x)
    axis = f.int(min(1, len(shape) - 1), len(shape) - 1)
    size = shape[axis]
    if size < 2:
        raise Refused("too small")
    first = f.int(1, size - 1)
    given = axis - len(shape) if f.chance(0.3) and f.opset >= 11 else axis
    if f.opset < 13:
        parts = f.op("Split", [x], 2, axis=given, split=[first, size - first])
    elif f.opset >= 18 and f.chance(0.4):
        parts = f.op("Split", [x], 2, axis=given, num_outputs=2)
    else:
        parts = f.op("Split", [x, f.integers(first, size - first)], 2, axis=given)
    if f.chance(0.4) and f.shape(parts[0]) == f.shape(parts[1]):  # a gated linear unit
        return f.one("Mul", [parts[0], f.one("Sigmoid", [parts[1]])])
    return f.pick(*parts)


def slice_(f: File, x: str) -> str:
    shape = f.shape(x)
    axis = f.int(min(1, len(shape) - 1), len(shape) - 1)
    size = shape[axis]
    start, end = f.pick(
        (0, size - 1), (1, size), (-2, 2**31 - 1), (1, -1), (0, 2**63 - 1), (-1, -(2**31)), (0, size // 2)
    )
    given = axis - len(shape) if f.chance(0.3) and f.opset >= 10 else axis
    if f.opset < 10:
        return f.one("Slice", [x], starts=[start], ends=[end], axes=[given])
    step = -1 if end == -(2**31) else f.pick(1, 1, 2)
    inputs = [x, f.integers(start), f.integers(end), f.integers(given)]
    return f.one("Slice", [*inputs, f.integers(step)] if step != 1 or f.chance(0.5) else inputs)


def gather(f: File, x: str) -> str:
    shape = f.shape(x)
    axis = f.int(min(1, len(shape) - 1), len(shape) - 1)
    size = shape[axis]
    chosen = f.pick(np.int64(0), np.int64(-1), f.random.integers(-size, size, 3), f.random.integers(0, size, (2, 2)))
    return f.one("Gather", [x, f.constant(chosen, f.pick(np.int64, np.int32))], axis=f.pick(axis, axis - len(shape)))


def gather_elements(f: File, x: str) -> str:
    shape = f.shape(x)
    axis = len(shape) - 1
    if f.chance(0.4):
        values, indices = f.op("TopK", [x, f.integers(min(2, shape[axis]))], 2, axis=axis)
        return f.pick(values, f.one("GatherElements", [f.like(x), indices], axis=axis))
    return f.one("GatherElements", [x, f.constant(f.random.integers(0, shape[axis], shape), np.int64)], axis=axis)


def scatter(f: File, x: str) -> str:
    shape = f.shape(x)
    places = np.stack(np.meshgrid(*[np.arange(d) for d in (*shape[:1], 1)], indexing="ij"), -1)[:, 0]
    return f.one("ScatterND", [x, f.constant(places, np.int64), f.normal(shape[0], *shape[2:])])


def reduction(f: File, x: str) -> str:
    kind = f.pick("Mean", "Mean", "Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
    rank = len(f.shape(x))
    axes = sorted(
        f.random.choice(np.arange(min(1, rank - 1), rank), f.int(1, max(1, rank - 1)), replace=False).tolist()
    )
    if f.chance(0.3) and f.opset >= 11:
        axes = [a - rank for a in axes]
    keep = {"keepdims": f.pick(0, 1)} if f.chance(0.8) else {}
    since = 13 if kind == "Sum" else 18
    if f.opset >= since:
        if f.chance(0.05):
            return f.one(f"Reduce{kind}", [x], noop_with_empty_axes=f.pick(0, 1), **keep)
        return f.one(f"Reduce{kind}", [x, f.integers(*axes)], **keep)
    return f.one(f"Reduce{kind}", [x], axes=axes, **keep)


def arg(f: File, x: str) -> str:
    axis = f.int(0, len(f.shape(x)) - 1)
    y = f.one(f.pick("ArgMax", "ArgMin"), [x], axis=axis, keepdims=f.pick(0, 1))
    return f.one("Cast", [y], to=TensorProto.FLOAT)


def softmax(f: File, x: str) -> str:
    rank = len(f.shape(x))
    axis = f.pick(rank - 1, rank - 1, f.int(0, rank - 1))
    given = {"axis": axis - rank if f.chance(0.5) and f.opset >= 11 else axis} if f.chance(0.8) else {}
    return f.one(f.pick("Softmax", "Softmax", "Softmax", "LogSoftmax", "Hardmax"), [x], **given)


def norm(f: File, x: str) -> str:
    shape = f.shape(x)
    kind = f.pick("LayerNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "LRN",
                  "LpNormalization", "MeanVarianceNormalization", "RMSNormalization", "parts")  # fmt: skip
    if kind in ("LayerNormalization", "RMSNormalization"):
        axis = f.pick(-1, len(shape) - 1, -1 if len(shape) < 3 else -2)
        scale = shape[axis:] if axis < 0 else shape[-1:]
        inputs = [x, f.spread(*scale)]
        if kind == "LayerNormalization" and f.chance(0.7):
            inputs.append(f.normal(*scale))
        return f.one(kind, inputs, axis=axis, epsilon=1e-5)
    if kind == "InstanceNormalization":
        return f.one(kind, [x, f.spread(shape[1]), f.normal(shape[1])], epsilon=1e-3)
    if kind == "GroupNormalization":
        groups = 2
        size = shape[1] if f.opset >= 21 else groups
        return f.one(kind, [x, f.spread(size), f.normal(size)], num_groups=groups)
    if kind == "LRN":
        return f.one(kind, [x], size=f.pick(1, 3, 5), alpha=0.1, beta=0.75, bias=f.pick(1.0, 2.0))
    if kind == "LpNormalization":
        return f.one(kind, [x], axis=f.pick(-1, 1), p=f.pick(1, 2))
    if (
        kind == "MeanVarianceNormalization" and f.array(x).dtype == np.float32
    ):  # its definition has constants of this type
        return f.one(kind, [x], axes=[0, *range(2, len(shape))])
    last = {"axes": [-1]} if 11 <= f.opset < 18 else {}
    if f.opset < 11:
        last = {"axes": [len(shape) - 1]}
    axes = [f.integers(-1)] if f.opset >= 18 else []
    centred = f.one("Sub", [x, f.one("ReduceMean", [x, *axes], **last)])
    variance = f.one("ReduceMean", [f.one("Pow", [centred, f.constant(2)]), *axes], **last)
    y = f.one("Div", [centred, f.one("Sqrt", [f.one("Add", [variance, f.constant(1e-5)])])])
    return f.one("Add", [f.one("Mul", [y, f.spread(shape[-1])]), f.normal(shape[-1])])


def product(f: File, x: str) -> str:
    shape = f.shape(x)
    k = shape[-1]
    out = f.pick(1, 3, 4, 8)
    weight = f.normal(*f.pick((k, out), (k, out), (k, out), (k,), (*shape[:-2], k, out) if len(shape) > 2 else (k, out)),
                      scale=max(k, 1) ** -0.5)  # fmt: skip
    y = f.one("MatMul", [x, weight]) if f.chance(0.93) or len(shape) != 2 else f.one(
        "MatMul", [f.normal(3, shape[0]), x])  # fmt: skip
    if f.chance(0.5) and f.shape(y):
        y = f.one("Add", f.pick([y, f.normal(f.shape(y)[-1], scale=0.1)], [f.normal(f.shape(y)[-1], scale=0.1), y]))
    return y


def gemm(f: File, x: str) -> str:
    m, k = f.shape(x)
    out, turned = f.pick(1, 3, 4, 8), f.pick(0, 1)
    attributes: dict[str, object] = {"transB": turned} if turned or f.chance(0.5) else {}
    if f.chance(0.2):
        attributes["alpha"] = 0.5
    if f.chance(0.2):
        attributes["beta"] = f.pick(2.0, 0.0)
    a = x
    if f.chance(0.15):
        attributes["transA"], k, m = 1, m, k
    weight = f.normal(*((out, k) if turned else (k, out)), scale=max(k, 1) ** -0.5)
    shapes = ((out,), (out,), (out,), (1, out), (m, 1), (1,), ())
    bias = [f.normal(*f.pick(*shapes), scale=0.1)] if f.opset < 11 or f.chance(0.8) else []
    return f.one("Gemm", [a, weight, *bias], **attributes)


def scores(f: File, x: str) -> str:
    """A product of two values, as attention has it."""
    rank = len(f.shape(x))
    order = [*range(rank - 2), rank - 1, rank - 2]
    y = f.one("MatMul", [x, f.one("Transpose", [f.like(x)], perm=order)])
    if f.chance(0.5):
        y = f.one("Softmax", [f.one("Div", [y, f.constant(2)])], axis=rank - 1)
    return y


def einsum(f: File, x: str) -> str:
    rank = len(f.shape(x))
    letters = "abcde"[:rank]
    k = f.shape(x)[-1]
    equation, *others = f.pick(
        (f"{letters},{letters[-1]}z->{letters[:-1]}z", f.normal(k, 3)),
        (f"{letters}->{letters[::-1]}",),
        (f"...{letters[-1]},{letters[-1]}z", f.normal(k, 3)),
        (f"{letters},{letters}->{letters[:-1]}", f.like(x)),
    )
    return f.one("Einsum", [x, *others], equation=equation)


def attention(f: File, x: str) -> str:
    """Multi-head self-attention, as exporters write it in small operators."""
    _, rows, width = f.shape(x)
    heads = 2
    if width % heads:
        raise Refused("odd")
    to = f.integers(0, rows, heads, width // heads) if f.chance(0.5) else f.integers(-1, rows, heads, width // heads)

    def projected(perm: list[int]) -> str:
        y = f.one("MatMul", [x, f.normal(width, width, scale=width**-0.5)])
        y = f.one("Add", [f.normal(width, scale=0.1), y]) if f.chance(0.7) else y
        return f.one("Transpose", [f.one("Reshape", [y, to])], perm=perm)

    q, k, v = projected([0, 2, 1, 3]), projected([0, 2, 3, 1]), projected([0, 2, 1, 3])
    weights = f.one("MatMul", [f.one("Mul", [q, f.constant((width / heads) ** -0.5)]), k])
    if f.chance(0.4):
        mask = np.triu(np.full((rows, rows), f.pick(-np.inf, -1e9, float(np.finfo(np.float32).min)), np.float32), 1)
        weights = f.one("Where", [f.constant(mask < 0, np.bool_), f.constant(-1e9), weights]) if f.chance(0.4) else _masked(
            f, weights, mask)  # fmt: skip
    y = f.one("MatMul", [f.one("Softmax", [weights], axis=-1 if f.opset >= 13 else 3), v])
    y = f.one("Reshape", [f.one("Transpose", [y], perm=[0, 2, 1, 3]), f.integers(0, rows, width)])
    return f.one("Add", [x, f.one("MatMul", [y, f.normal(width, width, scale=width**-0.5)])])


def _masked(f: File, weights: str, mask: np.ndarray) -> str:
    before = f.wild
    f.wild = before or "mask"  # infinities of a mask are wanted
    try:
        return f.one("Add", [weights, f.constant(mask)])
    finally:
        f.wild = before


def feed_forward(f: File, x: str) -> str:
    width = f.shape(x)[-1]
    y = f.one("LayerNormalization", [x, f.spread(width), f.normal(width)], axis=-1) if f.opset >= 17 else x
    y = f.one("Add", [f.one("MatMul", [y, f.normal(width, 8, scale=width**-0.5)]), f.normal(8)])
    y = composite_activation(f, y)
    return f.one("Add", [x, f.one("MatMul", [y, f.normal(8, width, scale=8**-0.5)])])


def recurrent(f: File, x: str) -> str:
    _, rows, width = f.shape(x)
    kind, gates = f.pick(("LSTM", 4), ("LSTM", 4), ("GRU", 3), ("RNN", 1))
    way = f.pick("forward", "forward", "bidirectional", "reverse")
    d, hidden = (2 if way == "bidirectional" else 1), 3
    inputs = [
        f.one("Transpose", [x], perm=[1, 0, 2]) if f.chance(0.5) else x,
        f.normal(d, gates * hidden, width, scale=0.5),
        f.normal(d, gates * hidden, hidden, scale=0.5),
    ]
    batch = f.shape(inputs[0])[1]
    if f.chance(0.7):
        inputs.append(f.normal(d, 2 * gates * hidden, scale=0.2))
        if f.chance(0.4) and batch == rows:
            inputs += ["", f.constant(np.zeros((d, batch, hidden)))]
    attributes: dict[str, object] = {"linear_before_reset": f.pick(0, 1)} if kind == "GRU" else {}
    if way != "forward" or f.chance(0.3):
        attributes["direction"] = way
    y, last = f.op(kind, inputs, 2, hidden_size=hidden, **attributes)
    if f.chance(0.3):
        return last
    y = f.one("Transpose", [y], perm=[0, 2, 1, 3])
    if d == 1:
        return f.one("Squeeze", [y, f.integers(1)]) if f.opset >= 13 else f.one("Squeeze", [y], axes=[1])
    return y


def transpose(f: File, x: str) -> str:
    rank = len(f.shape(x))
    order = f.pick(
        [0, *(1 + f.random.permutation(rank - 1)).tolist()],
        [0, *range(2, rank), 1] if rank > 1 else [0],
        f.random.permutation(rank).tolist(),
    )
    return f.one("Transpose", [x], perm=order) if f.chance(0.93) else f.one("Transpose", [x])


def reshape(f: File, x: str) -> str:
    n, *rest = f.shape(x)
    count = int(np.prod(rest))
    to = f.pick(
        (-1, count), (0, -1), (n, count), (0, *rest[:1], -1), (n, 1, count), (-1, 1, 1, count), (0, -1, rest[-1])
    )
    if count % 4 == 0 and f.chance(0.4):
        to = f.pick((-1, 4, count // 4), (0, 2, 2, count // 4), (0, 4, -1), (-1, count // 4, 2, 2))
    return f.one("Reshape", [x, f.integers(*to)])


def flatten(f: File, x: str) -> str:
    rank = len(f.shape(x))
    return f.one(
        "Flatten", [x], **({"axis": f.pick(1, 1, f.int(0, rank), -1 if f.opset >= 11 else 1)} if f.chance(0.7) else {})
    )


def computed_reshape(f: File, x: str) -> str:
    """Shape, Gather, Concat, Reshape."""
    size = f.one("Gather", [f.one("Shape", [x]), f.constant(0, np.int64)], axis=0)
    size = f.one("Unsqueeze", [size, f.integers(0)]) if f.opset >= 13 else f.one("Unsqueeze", [size], axes=[0])
    return f.one("Reshape", [x, f.one("Concat", [size, f.integers(-1)], axis=0)])


def squeezed(f: File, x: str) -> str:
    shape = f.shape(x)
    rank = len(shape)
    ones = [i for i, d in enumerate(shape) if d == 1]
    kind, axis = ("Squeeze", f.pick(*ones)) if ones and f.chance(0.6) else ("Unsqueeze", f.int(1, rank))
    if f.chance(0.3) and f.opset >= 11:
        axis -= rank + (kind == "Unsqueeze")
    return f.one(kind, [x, f.integers(axis)]) if f.opset >= 13 else f.one(kind, [x], axes=[axis])


def repeated(f: File, x: str) -> str:
    shape = f.shape(x)
    if f.chance(0.4):
        return f.one("Tile", [x, f.integers(1, *(f.pick(1, 2) for _ in shape[1:]))])
    if f.chance(0.5):
        return f.one("Expand", [x, f.integers(*(f.pick(1, d) for d in shape))])
    return f.one("Expand", [x, f.integers(1, *(f.pick(2, 3) if d == 1 else d for d in shape[1:]))])


def cast(f: File, x: str) -> str:
    other = f.pick(TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)
    y = f.one("Cast", [x], to=other)
    if other in (TensorProto.FLOAT16, TensorProto.DOUBLE) and f.chance(0.5):
        y = f.one("Relu", [y])
    back = (
        TensorProto.FLOAT
        if f.dtype == np.float32
        else TensorProto.DOUBLE
        if f.dtype == np.float64
        else TensorProto.FLOAT16
    )
    return f.one("Cast", [y], to=back)


def cumulative(f: File, x: str) -> str:
    if f.opset >= 14 and f.chance(0.5) and len(f.shape(x)) > 1:
        return f.one("Trilu", [x], upper=f.pick(0, 1))
    return f.one(
        "CumSum", [x, f.constant(f.int(0, len(f.shape(x)) - 1), np.int64)], exclusive=f.pick(0, 1), reverse=f.pick(0, 1)
    )


def quantized(f: File, x: str) -> str:
    """QuantizeLinear and DequantizeLinear, as training leaves them."""
    scale, zero = f.constant(0.05, np.float32), f.constant(f.pick(0, 3), f.pick(np.int8, np.uint8))
    return f.one("DequantizeLinear", [f.one("QuantizeLinear", [x, scale, zero]), scale, zero])


_SPATIAL: tuple[Step, ...] = (
    convolution, convolution, convolution, convolution, residual, residual, shared, transposed_convolution, batch_norm,
    batch_norm, grouped_by_hand, small_batch_norm, squeeze_and_excite, prelu, pool, pool, global_pool, resize, pad,
)  # fmt: skip


_ANY: tuple[Step, ...] = (
    activation, activation, clip, composite_activation, arithmetic, arithmetic, several, condition, concatenation, concatenation,
    split, slice_, gather, gather_elements, reduction, reduction, arg, softmax, norm, transpose, transpose, reshape, flatten,
    computed_reshape, squeezed, repeated, cast, cumulative, einsum, quantized, scatter,
)  # fmt: skip
STEPS: Mapping[int, tuple[Step, ...]] = {
    0: (activation, arithmetic, several, squeezed),
    1: (activation, arithmetic, clip, product, concatenation, slice_, reduction, squeezed, softmax),
    2: (gemm, gemm, gemm, product, product, shared, batch_norm, norm, activation, *_ANY, pad, scores),
    3: (*_SPATIAL, *_ANY, product, product, product, scores, attention, attention, feed_forward, feed_forward, recurrent,
        recurrent),
    4: (*_SPATIAL, *_SPATIAL, *_ANY, blocks, shuffle, scores, product, product),
    5: (*_SPATIAL, *_ANY),
    6: (transpose, reshape, reduction, activation, arithmetic),
}  # fmt: skip
"""What may follow, by rank."""
