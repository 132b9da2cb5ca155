"""The operations of `nn` in PyTorch: functions of tensors, with the semantics of the interpreter's kernels.

The module imports torch: only what `amct_opt.torch` asks for may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from importlib import import_module
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute, Operation

from ...dialects import nn
from ...dialects.nn.attributes import PadMode, ResizeMode
from ...dialects.nn.shape import reshaped
from ...dialects.nn.shapes import Shape, broadcast, shape_of
from ...ir.dtypes import numpy_dtype
from ...runtime.kernels.pooling import counts_for
from ...runtime.kernels.shape import flatten, resampled_axes
from ...runtime.windows import Window
from ...transforms.quantization.decide.recurrent import recurrent_at

torch: Any = import_module("torch")
F: Any = torch.nn.functional

Tensor = Any
Function = Callable[..., Any]
"""Takes a tensor per operand, gives the result, or a sequence of results."""
Maker = Callable[[Any], Function | None]
Unary = Callable[[Tensor], Tensor]

_Combine = Callable[[Tensor, Tensor], Tensor]


silu: Function = F.silu
"""x * sigmoid(x), rounded once."""


def dtype_of(element: Attribute) -> Any:
    """torch's type of an element type of MLIR."""
    return getattr(torch, numpy_dtype(element).name)


def function_of(op: Operation, points: Mapping[type[Operation], Maker]) -> Function | None:
    """The function of an operation, or of its expansion; quantization is one of those given. None if there is none."""
    if plain := _PLAIN.get(type(op)):
        return plain
    if (maker := points.get(type(op)) or _MADE.get(type(op))) is not None:
        return maker(op)
    if (expansion := nn.expanded(op)) is None:
        return None
    with expansion:
        made = {step: function for step in expansion.steps if (function := function_of(step, points)) is not None}
        numbers = {each: torch.from_numpy(np.array(each.array)) for each in expansion.constants}
    if len(made) < len(expansion.steps):
        return None

    def run(*operands: Tensor) -> Sequence[Tensor]:
        def number(constant: nn.ConstantOp) -> Tensor:
            return numbers[constant].to(operands[0].device)

        results = expansion.computed(operands, number, lambda step, xs: made[step](*xs))
        return results if len(results) > 1 else results[0]

    return run


def _recurrent(op: nn.OpaqueOp) -> Function | None:
    """An LSTM or a GRU that computes in integers once it is quantized: PyTorch's, whose gates are in another order."""
    layer = recurrent_at(op)
    if layer is None or layer.float_because is not None:
        return None
    is_lstm, biased = op.op_type.data == "LSTM", layer.place("bias") is not None
    order = [0, 2, 3, 1] if is_lstm else [1, 0, 2]

    def gates(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (len(order), -1))[order].flatten(0, 1)

    def run(x: Tensor, w: Tensor, r: Tensor, *rest: Tensor) -> Sequence[Tensor]:
        weights = [w[0], r[0], *(rest[0][0].chunk(2) if biased else ())]
        given = [*map(gates, weights)], biased, 1, 0.0, False, False, False
        states = rest[biased:]
        y, *last = torch.lstm(x, states, *given) if is_lstm else torch.gru(x, *states, *given)
        return y.unsqueeze(1), *last

    return run


def _in_layout(maker: Callable[[Any], Function]) -> Maker:
    """A maker of functions on `[N, C, ...]`, for the layout of the operation."""

    def made(op: nn.LayoutOp) -> Function:
        run = maker(op)
        if not op.channels_last:
            return run

        def moved(x: Tensor, *rest: Tensor) -> Tensor:
            return run(x.movedim(-1, 1), *rest).movedim(1, -1)

        return moved

    return made


def _per_channel(values: Tensor, rank: int) -> Tensor:
    return values.reshape(-1, *(1,) * (rank - 2))


def _padded(x: Tensor, begins: Sequence[int], ends: Sequence[int], value: float = 0.0) -> Tensor:
    """`x` with its last axes padded, or cut where a number is negative."""
    pairs = [size for pair in reversed([*zip(begins, ends, strict=True)]) for size in pair]
    return F.pad(x, pairs, value=value) if any(pairs) else x


def _conv(op: nn.ConvOp) -> Function:
    window = Window.of(op)
    zeros = (0,) * op.spatial_rank

    def run(x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
        pads = window.pads_for(x.shape[2:], weight.shape[2:])
        n = len(pads) // 2
        even = pads[:n] == pads[n:]
        inner = x if even else _padded(x, pads[:n], pads[n:])
        pad = pads[:n] if even else zeros
        return torch.convolution(
            inner, weight, bias, window.strides, pad, window.dilations, False, zeros, op.group_count
        )

    return run


def _conv_transpose(op: nn.ConvTransposeOp) -> Function:
    strides, dilations, zeros = op.stride_list, op.dilation_list, (0,) * op.spatial_rank

    def run(x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
        pads = op.resolved_pads(tuple(x.shape[2:]))
        if pads is None:
            raise ValueError("pads depend on a kernel size that is not known")
        n = len(pads) // 2
        if pads[:n] == pads[n:] and min(pads, default=0) >= 0:
            return torch.convolution(
                x, weight, bias, strides, pads[:n], dilations, True, op.output_padding_list, op.group_count
            )
        full = torch.convolution(x, weight, None, strides, zeros, dilations, True, zeros, op.group_count)
        ends = [extra - end for extra, end in zip(op.output_padding_list, pads[n:], strict=True)]
        y = _padded(full, [-begin for begin in pads[:n]], ends)
        return y if bias is None else y + _per_channel(bias, y.ndim)

    return run


def _matmul(op: nn.MatMulOp) -> Function:
    transpose_a, transpose_b = op.transpose_a is not None, op.transpose_b is not None

    def run(lhs: Tensor, rhs: Tensor, bias: Tensor = None) -> Tensor:
        if transpose_b and not transpose_a and rhs.ndim == 2 and (bias is None or bias.shape == rhs.shape[:1]):
            return F.linear(lhs, rhs, bias)  # whose sums begin with the bias
        y = (lhs.transpose(-1, -2) if transpose_a else lhs) @ (rhs.transpose(-1, -2) if transpose_b else rhs)
        return y if bias is None else y + bias

    return run


def _pooled(op: nn.PoolOp, combine: _Combine, fill: float) -> Function:
    """Combines the elements of all windows, axis by axis."""
    kernel, window, ceil = op.kernel_shape, Window.of(op), op.ceil_mode is not None

    def run(x: Tensor) -> Tensor:
        space = tuple(x.shape[2:])
        n, pads, out = len(space), window.pads_for(space, kernel), window.output_for(space, kernel, ceil)
        spans = [
            (o - 1) * stride + d * (k - 1) + 1
            for o, stride, d, k in zip(out, window.strides, window.dilations, kernel, strict=True)
        ]
        ends = [max(span - s - b, 0) for span, s, b in zip(spans, space, pads[:n], strict=True)]
        y = _padded(x, pads[:n], ends, fill)
        for axis, (k, stride, d, o) in enumerate(zip(kernel, window.strides, window.dilations, out, strict=True), 2):
            last = stride * (o - 1) + 1
            taps = [y[(slice(None),) * axis + (slice(d * i, d * i + last, stride),)] for i in range(k)]
            y = reduce(combine, taps)
        return y

    return run


_AVERAGES: Mapping[int, Function] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
"""PyTorch's averages, which sum in another order, by the number of spatial axes."""


def _average_pool(op: nn.AveragePoolOp) -> Function:
    sums, window, kernel = _pooled(op, torch.add, 0.0), Window.of(op), op.kernel_shape
    average = _AVERAGES.get(len(kernel)) if set(window.dilations) <= {1} else None
    ceil, included = op.ceil_mode is not None, op.count_include_pad is not None

    def run(x: Tensor) -> Tensor:
        space = tuple(x.shape[2:])
        pads, n = window.pads_for(space, kernel), len(kernel)
        even = pads[:n] == pads[n:] and all(2 * pad <= k for pad, k in zip(pads, kernel, strict=False))
        if average and even:
            return average(x, kernel, window.strides, pads[:n], ceil, included)
        y = sums(x)
        counts = counts_for(op, space, tuple(y.shape[2:]), pads)
        return y / torch.from_numpy(counts).to(y)

    return run


def _batch_norm(op: nn.BatchNormOp) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    epsilon = op.epsilon.value.data
    return lambda x, scale, offset, mean, variance: F.batch_norm(x, mean, variance, scale, offset, eps=epsilon)


def _instance_norm(op: nn.InstanceNormOp) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    epsilon = op.epsilon.value.data
    return lambda x, scale, bias: F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def _group_norm(op: nn.GroupNormOp) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    epsilon, groups = op.epsilon.value.data, op.num_groups.value.data
    return lambda x, scale, bias: F.group_norm(x, groups, scale, bias, epsilon)


def _layer_norm(op: nn.LayerNormOp) -> Function:
    epsilon, axis = op.epsilon.value.data, op.axis.value.data

    def run(x: Tensor, scale: Tensor, bias: Tensor = None) -> Tensor:
        shape = x.shape[axis % x.ndim :]
        if scale.shape == shape and (bias is None or bias.shape == shape):
            return F.layer_norm(x, shape, scale, bias, epsilon)
        y = F.layer_norm(x, shape, eps=epsilon) * scale
        return y if bias is None else y + bias

    return run


def _reduction(op: nn.ReduceOp) -> Unary:
    function, axes, keepdims = _REDUCTIONS[type(op)], op.axis_list(), op.keepdims is not None
    return lambda x: function(x, axes, keepdim=keepdims).to(x.dtype) if axes else x


def _product(x: Tensor, axes: Shape, keepdim: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keepdim)
    return x


def _arg(op: nn.ArgMaxOp | nn.ArgMinOp) -> Function:
    find = torch.argmax if isinstance(op, nn.ArgMaxOp) else torch.argmin
    axis, keepdims, last = op.axis.value.data, op.keepdims is not None, op.last is not None

    def run(x: Tensor) -> Tensor:
        found = find(x.flip(axis) if last else x, axis, keepdim=keepdims)
        return x.shape[axis] - 1 - found if last else found

    return run


def _slice(op: nn.SliceOp) -> Function:
    slices = op.slices(len(shape_of(op.input)))

    def run(x: Tensor) -> Tensor:
        x = x[tuple(slice(None) if (each.step or 1) < 0 else each for each in slices)]
        for axis, each in enumerate(slices):  # torch has no negative steps
            if (each.step or 1) < 0:
                x = _taken(x, range(*each.indices(x.shape[axis])), axis)
        return x

    return run


def _taken(x: Tensor, indices: Sequence[int], axis: int) -> Tensor:
    return x.index_select(axis, torch.tensor([*indices], dtype=torch.int64, device=x.device))


def _gather(op: nn.GatherOp) -> Function:
    axis, n = op.axis.value.data, op.batch_count

    def run(x: Tensor, indices: Tensor) -> Tensor:
        where, at, added = indices.long(), axis % x.ndim, indices.ndim - n
        if not n:
            return x[(slice(None),) * at + (where,)]
        sizes = where.shape[:n]
        batch = [
            torch.arange(size, device=x.device).reshape(-1, *(1,) * (n - 1 - i + added)) for i, size in enumerate(sizes)
        ]
        picked = x.movedim(at, n)[(*batch, where)]
        return picked.movedim([*range(n, n + added)], [*range(at, at + added)])

    return run


def _sizes(x: Tensor) -> Shape:
    """The numbers in a shape that a run has computed."""
    return tuple(x.tolist())


def _reshape(op: nn.ReshapeOp) -> Function:
    target, allow_zero = op.target(), op.allow_zero is not None

    def run(x: Tensor, shape: Tensor = None) -> Tensor:
        return x.reshape(reshaped(tuple(x.shape), _sizes(shape) if target is None else target, allow_zero))

    return run


def _expand(op: nn.ExpandOp) -> Function:
    target = op.target()

    def run(x: Tensor, shape: Tensor = None) -> Tensor:
        return x.expand(broadcast(tuple(x.shape), _sizes(shape) if target is None else target))

    return run


def _squeeze(op: nn.SqueezeOp) -> Unary:
    axes = None if op.axes is None else nn.ints(op.axes)
    return lambda x: x.squeeze() if axes is None else x.squeeze(axes)


def _unsqueeze(op: nn.UnsqueezeOp) -> Unary:
    axes = nn.ints(op.axes)
    return lambda x: reduce(torch.unsqueeze, sorted(axis % (x.ndim + len(axes)) for axis in axes), x)


def _pad(op: nn.PadOp) -> Function:
    pads, mode, value = nn.ints(op.pads), op.mode.data, op.value.value.data
    n = len(pads) // 2

    def run(x: Tensor) -> Tensor:
        if mode is PadMode.CONSTANT:
            return _padded(x, pads[:n], pads[n:], value)
        for axis, (begin, end) in enumerate(zip(pads[:n], pads[n:], strict=True)):
            if begin or end:
                inner = np.arange(max(-begin, 0), int(x.shape[axis]) + min(end, 0))
                x = _taken(x, np.pad(inner, (max(begin, 0), max(end, 0)), cast(Any, mode.value)).tolist(), axis)
        return x

    return run


def _resize(op: nn.ResizeOp) -> Function:
    exact = op.mode.data is ResizeMode.NEAREST

    def run(x: Tensor) -> Tensor:
        if not exact and not x.is_floating_point():
            raise ValueError("integers are resized by their nearest neighbours only")
        for axis, taps in resampled_axes(op, tuple(x.shape)):
            weights = torch.from_numpy(taps.weights).to(x).reshape(*taps.weights.shape, *(1,) * (x.ndim - 1 - axis))
            parts = [_taken(x, column.tolist(), axis) for column in taps.indices.T]
            x = parts[0] if exact else sum(part * weights[:, k] for k, part in enumerate(parts))
        return x

    return run


def _shape(op: nn.ShapeOp) -> Unary:
    part = slice(op.start.value.data, None if op.end is None else op.end.value.data)
    return lambda x: torch.tensor([*x.shape[part]], dtype=torch.int64, device=x.device)


def _cast(op: nn.CastOp) -> Unary:
    dtype = dtype_of(op.result.type.element_type)
    return lambda x: x.to(dtype)


def _hard_sigmoid(op: nn.HardSigmoidOp) -> Unary:
    alpha, beta = op.alpha.value.data, op.beta.value.data
    if np.float32(alpha) == np.float32(1 / 6) and beta == 0.5:
        return F.hardsigmoid  # which divides by 6
    return lambda x: (x * alpha + beta).clamp(0, 1)


_SELU = np.float32(1.6732632423543772), np.float32(1.0507009873554805)
"""PyTorch's alpha and gamma."""


def _selu(op: nn.SeluOp) -> Unary:
    alpha, gamma = op.alpha.value.data, op.gamma.value.data
    if (np.float32(alpha), np.float32(gamma)) == _SELU:
        return F.selu
    return lambda x: F.elu(x, alpha) * gamma


def _same(x: Tensor) -> Tensor:
    return x


def _div(lhs: Tensor, rhs: Tensor) -> Tensor:
    return lhs / rhs if lhs.is_floating_point() else torch.div(lhs, rhs, rounding_mode="trunc")


_REDUCTIONS: Mapping[type[nn.ReduceOp], Function] = {
    nn.ReduceMeanOp: torch.mean,
    nn.ReduceSumOp: torch.sum,
    nn.ReduceMaxOp: torch.amax,
    nn.ReduceMinOp: torch.amin,
    nn.ReduceProdOp: _product,
}

_PLAIN: Mapping[type[Operation], Function] = {
    # activations without parameters, by PyTorch's name
    **{
        kind: getattr(torch.nn, kind.PYTORCH)().forward
        for kind in nn.kinds(nn.ActivationOp)
        if issubclass(kind, nn.UnaryOp) and kind.get_irdl_definition().properties.keys() == {"origin"}
    },
    nn.ErfOp: torch.erf,
    nn.ExpOp: torch.exp,
    nn.LogOp: torch.log,
    nn.SinOp: torch.sin,
    nn.CosOp: torch.cos,
    nn.SqrtOp: torch.sqrt,
    nn.ReciprocalOp: torch.reciprocal,
    nn.NegOp: torch.neg,
    nn.AbsOp: torch.abs,
    nn.FloorOp: torch.floor,
    nn.CeilOp: torch.ceil,
    nn.RoundOp: torch.round,
    nn.NotOp: torch.logical_not,
    nn.AndOp: torch.logical_and,
    nn.OrOp: torch.logical_or,
    nn.AddOp: torch.add,
    nn.SubOp: torch.sub,
    nn.MulOp: torch.mul,
    nn.DivOp: _div,
    nn.PowOp: torch.pow,
    nn.MinOp: torch.minimum,
    nn.MaxOp: torch.maximum,
    nn.WhereOp: torch.where,
    nn.ObserveOp: _same,
}
"""Functions that are the same for every operation of a class."""

_MADE: Mapping[type[Operation], Maker] = {
    nn.ClipOp: lambda op: partial(torch.clamp, min=op.bounds[0], max=op.bounds[1]),
    nn.LeakyReluOp: lambda op: partial(F.leaky_relu, negative_slope=op.alpha.value.data),
    nn.HardSigmoidOp: _hard_sigmoid,
    nn.SeluOp: _selu,
    nn.EluOp: lambda op: partial(F.elu, alpha=op.alpha.value.data),
    nn.GeluOp: lambda op: partial(F.gelu, approximate="none" if op.tanh_approximation is None else "tanh"),
    nn.CompareOp: lambda op: getattr(torch, op.predicate.data.value),
    nn.CastOp: _cast,
    nn.ConvOp: _in_layout(_conv),
    nn.ConvTransposeOp: _in_layout(_conv_transpose),
    nn.MatMulOp: _matmul,
    nn.MaxPoolOp: _in_layout(lambda op: _pooled(op, torch.maximum, float("-inf"))),
    nn.AveragePoolOp: _in_layout(_average_pool),
    nn.BatchNormOp: _in_layout(_batch_norm),
    nn.InstanceNormOp: _in_layout(_instance_norm),
    nn.GroupNormOp: _in_layout(_group_norm),
    nn.LayerNormOp: _layer_norm,
    nn.SoftmaxOp: lambda op: partial(torch.softmax, dim=op.axis.value.data),
    nn.LogSoftmaxOp: lambda op: partial(torch.log_softmax, dim=op.axis.value.data),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    nn.ArgMaxOp: _arg,
    nn.ArgMinOp: _arg,
    nn.ConcatOp: lambda op: lambda *inputs: torch.cat(inputs, op.axis.value.data),
    nn.SplitOp: lambda op: partial(torch.split, split_size_or_sections=list(nn.ints(op.sizes)), dim=op.axis.value.data),
    nn.SliceOp: _slice,
    nn.GatherOp: _gather,
    nn.ReshapeOp: _reshape,
    nn.ExpandOp: _expand,
    nn.TransposeOp: lambda op: partial(torch.permute, dims=nn.ints(op.perm)),
    nn.FlattenOp: flatten,
    nn.SqueezeOp: _squeeze,
    nn.UnsqueezeOp: _unsqueeze,
    nn.PadOp: _pad,
    nn.ResizeOp: _resize,
    nn.ShapeOp: _shape,
    nn.OpaqueOp: _recurrent,
}
"""Functions that depend on an operation's attributes."""
