"""What `ascend` operations on floats (and on integers that are only moved) compute, said in `nn`.

One definition of each function serves both dialects: a kernel is that of the `nn` operation with the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.ir import Attribute, Block, SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend import AscendOp
from ...dialects.ascend.shape import index_list, one_index
from ...dialects.nn import NNOp
from ...dialects.nn.shapes import element_of, shape_of, tensor
from . import Array, Kernel, bare_kernel_for
from .ascend_cube import operand_order

Arrange = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class Meaning:
    """An `nn` operation, and which arrays it takes of those of the `ascend` operation; by default the first ones."""

    op: NNOp
    arrange: Arrange | None = None


def float_kernel(op: AscendOp) -> Kernel:
    """The kernel of what an operation means."""
    meaning = MEANINGS[type(op)](op)
    run = cast(Kernel, bare_kernel_for(meaning.op))
    if (arrange := meaning.arrange) is not None:
        return lambda *arrays: run(*arrange(arrays))
    count = len(meaning.op.operands)
    return run if count == len(op.operands) else lambda *arrays: run(*arrays[:count])


def stand_ins(types: Sequence[Attribute]) -> list[SSAValue]:
    """Values of these types: an operation that only carries a meaning must not use those of the module."""
    return list(Block(arg_types=types).args)


def _same(kind: type[NNOp], **properties: Any) -> Callable[[AscendOp], Meaning]:
    """An `nn` operation with the same operands."""
    return lambda op: Meaning(kind.make(*stand_ins(op.operand_types), **properties))


def _first(op: AscendOp, kind: type[NNOp], **properties: Any) -> Meaning:
    """An `nn` operation on the first operand; the others have become properties."""
    return Meaning(kind.make(*stand_ins(op.operand_types[:1]), **properties))


def _layout(channels_last: bool) -> str:
    return "nhwc" if channels_last else "nchw"


def _convolution(
    op: ascend.ConvolutionOp, kind: type[NNOp], weight: tuple[int, int], groups: int, **properties: Any
) -> Meaning:
    """`weight` holds the first two sizes of `nn`'s weight."""
    x, weight_index, *rest = operand_order(op)
    weight_type = tensor(element_of(op.filter_value), (*weight, *op.filter_sizes.kernel))
    types = [op.x_value.type, weight_type, *(op.operands[i].type for i in rest)]
    order = _filter_order(op)
    pads = (*(b for b, _ in op.pad_list), *(e for _, e in op.pad_list))
    geometry = {"strides": op.stride_list, "pads": pads, "dilations": op.dilation_list, "groups": groups}
    meaning = kind.make(*stand_ins(types), layout=_layout(op.channels_last), **geometry, **properties)
    return Meaning(meaning, lambda arrays: (arrays[x], order(arrays[weight_index]), *(arrays[i] for i in rest)))


def _filter_order(op: ascend.ConvolutionOp) -> Callable[[Array], Array]:
    """From the filter's axis order to that of `nn`'s weights."""
    if isinstance(op, ascend.DepthwiseConv2DOp):  # [kh, kw, C, M] to [C*M, 1, kh, kw]
        return lambda w: w.transpose(2, 3, 0, 1).reshape(-1, 1, *w.shape[:2])
    if op.channels_last:  # the last axis becomes the first
        return lambda w: w.transpose(w.ndim - 1, w.ndim - 2, *range(w.ndim - 2))
    return lambda w: w


def _grouped(op: ascend.GroupedOp) -> Meaning:
    sizes = op.filter_sizes
    return _convolution(op, nn.ConvOp, (sizes.out, sizes.channels), op.group_count)


def _depthwise(op: ascend.DepthwiseConv2DOp) -> Meaning:
    sizes = op.filter_sizes
    return _convolution(op, nn.ConvOp, (sizes.out, 1), sizes.channels)


def _transposed(op: ascend.TransposedOp) -> Meaning:
    sizes, groups = op.filter_sizes, op.group_count
    padding = op.output_padding_list
    weight = (sizes.channels, sizes.out // groups)
    return _convolution(op, nn.ConvTransposeOp, weight, groups, output_padding=padding)


def _matrix_product(op: ascend.MatrixOp) -> Meaning:
    a, b = op.transposes
    return _same(nn.MatMulOp, transpose_a=a, transpose_b=b)(op)


def _inner_product(op: ascend.FullyConnectionOp) -> Meaning:
    """x with the axes that are summed over as one; dynamic sizes are those of the arrays."""
    axis, columns = op.first_axis, shape_of(op.w)[0 if op.is_transposed else 1]
    x = tensor(element_of(op.x), (*shape_of(op.x)[:axis], columns))
    meaning = nn.MatMulOp.make(*stand_ins([x, *op.operand_types[1:]]), transpose_b=not op.is_transposed)
    return Meaning(meaning, lambda arrays: (arrays[0].reshape(*arrays[0].shape[:axis], -1), *arrays[1:]))


def _bias_add(op: ascend.BiasAddOp) -> Meaning:
    return _same(nn.BiasAddOp, layout=_layout(op.data_format.data == "NHWC"))(op)


def _pool(op: ascend.WindowOp, kind: type[NNOp], global_kind: type[NNOp], **properties: Any) -> Meaning:
    layout = _layout(op.channels_last)
    if op.is_global:
        return _first(op, global_kind, layout=layout)
    if op.is_same:
        padding: dict[str, Any] = {"auto_pad": "same_upper"}
    else:
        padding = {"pads": (*(b for b, _ in op.given_pads), *(e for _, e in op.given_pads))}
    window = {"kernel": op.window_shape, "strides": op.stride_list, "ceil_mode": op.rounds_up}
    return _first(op, kind, layout=layout, **window, **padding, **properties)


def _max_pool(op: ascend.WindowOp) -> Meaning:
    return _pool(op, nn.MaxPoolOp, nn.GlobalMaxPoolOp)


def _average_pool(op: ascend.AveragingOp) -> Meaning:
    return _pool(op, nn.AveragePoolOp, nn.GlobalAveragePoolOp, count_include_pad=op.counts_padding)


def _pooling(op: ascend.PoolingOp) -> Meaning:
    return _average_pool(op) if op.is_average else _max_pool(op)


def _prelu(op: ascend.PReluOp) -> Meaning:
    """The weight as a slope that broadcasts to x."""
    rank, (count,) = len(shape_of(op.x)), shape_of(op.weight)
    shape = (count, *(1,) * max(rank - 2, 0))
    meaning = nn.PReluOp.make(*stand_ins([op.x.type, tensor(element_of(op.weight), shape)]))
    return Meaning(meaning, lambda arrays: (arrays[0], arrays[1].reshape(-1, *shape[1:])))


def _elu(op: ascend.EluOp) -> Meaning:
    if op.scale.value.data == 1.0:
        return _first(op, nn.EluOp, alpha=op.alpha)
    return _first(op, nn.SeluOp, alpha=op.alpha, gamma=op.scale)


def _clip(op: ascend.ClipByValueOp) -> Meaning:
    low, high = (cast(Array, nn.array_of(bound)).item() for bound in op.operands[1:])
    return _first(op, nn.ClipOp, min=low, max=high)


def _reshape(op: ascend.ReshapeOp) -> Meaning:
    """Without ONNX's 0 for "as it was"."""
    return _same(nn.ReshapeOp, allow_zero=True)(op)


def _concat(op: ascend.ConcatV2Op) -> Meaning:
    axis = one_index("concat_dim", op.concat_dim)
    meaning = nn.ConcatOp.make(stand_ins([v.type for v in op.x]), axis=axis)
    return Meaning(meaning, lambda arrays: arrays[:-1])


def _gather(op: ascend.GatherV2Op) -> Meaning:
    negative = bool(op.negative_index_support.value.data)

    def arrange(arrays: Sequence[Array]) -> Sequence[Array]:
        x, indices, _ = arrays
        if not negative and indices.size and indices.min() < 0:
            raise ValueError(f"index {indices.min()} is negative, and negative_index_support is not set")
        return x, indices

    meaning = nn.GatherOp.make(*stand_ins(op.operand_types[:2]), axis=op.gather_axis, batch_dims=op.batch_dims)
    return Meaning(meaning, arrange)


def _slice(op: ascend.StridedSliceV2Op) -> Meaning:
    names = ("begin", "end", "axes", "strides")
    lists = (index_list(n, v) for n, v in zip(names, op.operands[1:], strict=True))
    return _first(op, nn.SliceOp, **dict(zip(("starts", "ends", "axes", "steps"), lists, strict=True)))


def _split(op: ascend.SplitVOp) -> Meaning:
    sizes, axis = index_list("size_splits", op.size_splits), one_index("split_dim", op.split_dim)
    return _first(op, nn.SplitOp, sizes=sizes, axis=axis)


def _pad(op: ascend.PadV3Op) -> Meaning:
    pairs, value = op.pairs, nn.array_of(op.constant_values)
    pads = (*(b for b, _ in pairs), *(e for _, e in pairs))
    return _first(op, nn.PadOp, pads=pads, mode=op.mode.data, value=0.0 if value is None else value.item())


def _reduction(kind: type[NNOp]) -> Callable[[ascend.ReduceOp], Meaning]:
    return lambda op: _first(op, kind, axes=op.axis_list, keepdims=op.keeps_axes)


def _lrn(op: ascend.LRNOp) -> Meaning:
    """`nn` divides alpha by the number of channels."""
    size = 2 * op.depth_radius.value.data + 1
    return _first(op, nn.LRNOp, size=size, alpha=op.alpha.value.data * size, beta=op.beta, bias=op.bias)


def _resize_image(mode: str) -> Callable[[ascend.ResizeImageOp], Meaning]:
    """TensorFlow's three ways to place elements; its nearest one is the next lower, that of aligned corners is rounded."""

    def make(op: ascend.ResizeImageOp) -> Meaning:
        aligned, centred = bool(op.align_corners.value.data), bool(op.half_pixel_centers.value.data)
        coordinates = "align_corners" if aligned else "half_pixel" if centred else "asymmetric"
        nearest = "round_prefer_ceil" if aligned or centred else "floor"
        return _first(op, nn.ResizeOp, sizes=op.sizes, mode=mode, coordinates=coordinates, nearest=nearest)

    return make


def _resize(op: ascend.ResizeOp) -> Meaning:
    scales, sizes = op.entries
    properties = {
        "scales": scales or None,
        "sizes": sizes or None,
        "mode": op.mode.data,
        "coordinates": op.coordinate_transformation_mode.data,
        "nearest": op.nearest_mode.data,
        "cubic_coeff": op.cubic_coeff_a,
        "exclude_outside": bool(op.exclude_outside.value.data),
    }
    return _first(op, nn.ResizeOp, **properties)


def _depth_to_space(op: ascend.DepthToSpaceOp) -> Meaning:
    mode, layout = op.mode.data.lower(), _layout(op.channels_last)
    return _first(op, nn.DepthToSpaceOp, block=op.block_size, mode=mode, layout=layout)


def _space_to_depth(op: ascend.SpaceToDepthOp) -> Meaning:
    return _first(op, nn.SpaceToDepthOp, block=op.block_size, layout=_layout(op.channels_last))


def _batch_blocks(kind: type[NNOp], borders: str) -> Callable[[ascend.BatchBlockOp], Meaning]:
    def make(op: ascend.BatchBlockOp) -> Meaning:
        block, pairs = op.blocks()
        listed = (*(b for b, _ in pairs), *(e for _, e in pairs))
        return _first(op, kind, block=block, layout="nhwc", **{borders: listed})

    return make


def _squeeze(op: ascend.SqueezeOp) -> Meaning:
    return _first(op, nn.SqueezeOp, axes=nn.ints(op.axis) or None)


MEANINGS: dict[type[AscendOp], Callable[[Any], Meaning]] = {
    ascend.Conv2DOp: _grouped,
    ascend.Conv3DOp: _grouped,
    ascend.DepthwiseConv2DOp: _depthwise,
    ascend.Conv2DTransposeOp: _transposed,
    ascend.Conv2DBackpropInputOp: _transposed,
    ascend.DeconvolutionOp: _transposed,
    ascend.MatMulV2Op: _matrix_product,
    ascend.BatchMatMulV2Op: _matrix_product,
    ascend.FullyConnectionOp: _inner_product,
    ascend.BiasAddOp: _bias_add,
    ascend.MaxPoolV3Op: _max_pool,
    ascend.AvgPoolV2Op: _average_pool,
    ascend.MaxPoolOp: _max_pool,
    ascend.AvgPoolOp: _average_pool,
    ascend.PoolingOp: _pooling,
    ascend.ReluOp: _same(nn.ReluOp),
    ascend.Relu6Op: _same(nn.Relu6Op),
    ascend.LeakyReluOp: lambda op: _first(op, nn.LeakyReluOp, alpha=op.negative_slope),
    ascend.EluOp: _elu,
    ascend.SigmoidOp: _same(nn.SigmoidOp),
    ascend.TanhOp: _same(nn.TanhOp),
    ascend.HardSwishOp: _same(nn.HardSwishOp),
    ascend.HardSigmoidOp: lambda op: _first(op, nn.HardSigmoidOp, alpha=op.alpha, beta=op.beta),
    ascend.GeluOp: _same(nn.GeluOp),
    ascend.SoftplusOp: _same(nn.SoftplusOp),
    ascend.MishOp: _same(nn.MishOp),
    ascend.ErfOp: _same(nn.ErfOp),
    ascend.ExpOp: _same(nn.ExpOp),
    ascend.SqrtOp: _same(nn.SqrtOp),
    ascend.RsqrtOp: _same(nn.RsqrtOp),
    ascend.ReciprocalOp: _same(nn.ReciprocalOp),
    ascend.LogOp: _same(nn.LogOp),
    ascend.SinOp: _same(nn.SinOp),
    ascend.CosOp: _same(nn.CosOp),
    ascend.FloorOp: _same(nn.FloorOp),
    ascend.CeilOp: _same(nn.CeilOp),
    ascend.RintOp: _same(nn.RoundOp),
    ascend.SoftsignOp: _same(nn.SoftsignOp),
    ascend.EqualOp: _same(nn.CompareOp, predicate="eq"),
    ascend.NotEqualOp: _same(nn.CompareOp, predicate="ne"),
    ascend.LessOp: _same(nn.CompareOp, predicate="lt"),
    ascend.LessEqualOp: _same(nn.CompareOp, predicate="le"),
    ascend.GreaterOp: _same(nn.CompareOp, predicate="gt"),
    ascend.GreaterEqualOp: _same(nn.CompareOp, predicate="ge"),
    ascend.LogicalAndOp: _same(nn.AndOp),
    ascend.LogicalOrOp: _same(nn.OrOp),
    ascend.LogicalNotOp: _same(nn.NotOp),
    ascend.NegOp: _same(nn.NegOp),
    ascend.AbsOp: _same(nn.AbsOp),
    ascend.PReluOp: _prelu,
    ascend.ClipByValueOp: _clip,
    ascend.AddOp: _same(nn.AddOp),
    ascend.SubOp: _same(nn.SubOp),
    ascend.MulOp: _same(nn.MulOp),
    ascend.RealDivOp: _same(nn.DivOp),
    ascend.MaximumOp: _same(nn.MaxOp),
    ascend.MinimumOp: _same(nn.MinOp),
    ascend.PowOp: _same(nn.PowOp),
    ascend.CastOp: lambda op: _first(op, nn.CastOp, result_types=op.result_types),
    ascend.BNInferOp: lambda op: _same(nn.BatchNormOp, epsilon=op.epsilon)(op),
    ascend.LRNOp: _lrn,
    ascend.SoftmaxV2Op: lambda op: _first(op, nn.SoftmaxOp, axis=op.softmax_axis),
    ascend.LogSoftmaxV2Op: lambda op: _first(op, nn.LogSoftmaxOp, axis=op.softmax_axis),
    ascend.ReshapeOp: _reshape,
    ascend.TransposeOp: lambda op: _first(op, nn.TransposeOp, perm=index_list("perm", op.perm)),
    ascend.FlattenOp: lambda op: _first(op, nn.FlattenOp, axis=op.axis),
    ascend.SqueezeOp: _squeeze,
    ascend.UnsqueezeOp: lambda op: _first(op, nn.UnsqueezeOp, axes=op.axes),
    ascend.ConcatV2Op: _concat,
    ascend.SplitVOp: _split,
    ascend.StridedSliceV2Op: _slice,
    ascend.GatherV2Op: _gather,
    ascend.PadV3Op: _pad,
    ascend.ReduceMeanOp: _reduction(nn.ReduceMeanOp),
    ascend.ReduceSumOp: _reduction(nn.ReduceSumOp),
    ascend.ReduceMaxOp: _reduction(nn.ReduceMaxOp),
    ascend.ReduceMinOp: _reduction(nn.ReduceMinOp),
    ascend.ReduceProdOp: _reduction(nn.ReduceProdOp),
    ascend.SeluOp: _same(nn.SeluOp),
    ascend.SelectOp: _same(nn.WhereOp),
    ascend.ResizeBilinearV2Op: _resize_image("linear"),
    ascend.ResizeNearestNeighborV2Op: _resize_image("nearest"),
    ascend.ResizeOp: _resize,
    ascend.DepthToSpaceOp: _depth_to_space,
    ascend.SpaceToDepthOp: _space_to_depth,
    ascend.SpaceToBatchNDOp: _batch_blocks(nn.SpaceToBatchOp, "pads"),
    ascend.BatchToSpaceNDOp: _batch_blocks(nn.BatchToSpaceOp, "crops"),
}
