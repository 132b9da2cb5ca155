"""The form of a module for files: lowered, channels second; weights, AscendQuant and Conv1d as in AMCT's files. Same numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects import ascend, nn
from ...dialects.ascend.base import TRUE, i8
from ...dialects.nn.shapes import Shape, element_of, shape_of, tensor
from ...lowering.ascend import LowerToAscendPass
from ...lowering.ascend.chips.kernels import take_kernels
from ...lowering.ascend.weight_only import check_weights
from ...rewriting import erase_dead_constants, layer_of
from ...session import Session
from ..deployed import Made, rearranged, turn_weight
from ..graph import in_layout

_Op = TypeVar("_Op", bound=ascend.AscendOp)


def deployable(module: ModuleOp, session: Session) -> ModuleOp:
    """A copy of an `nn` or `ascend` module in the form of the file; operations without an `ascend` form stay in `nn`.

    Raises CompileError for a weight that is quantized by itself and would become floats.
    """
    module = in_layout(module, "NCHW", session).clone()
    check_weights(module, session)
    LowerToAscendPass().apply(session, module)
    take_kernels(module, session, "onnx-ascend")
    made: Made = {}
    for op in list(module.walk()):
        match op:
            case ascend.DepthwiseConv2DOp():
                _group_channels(op, made)
            case ascend.MatrixOp():
                turn_weight(op, made)
            case ascend.FullyConnectionOp():
                _turn_inner_product(op, made)
            case ascend.PadV3Op():
                _quantize_before(op)
            case ascend.SqueezeOp():
                _drop_added_axis(op, made)
            case _:
                pass
    erase_dead_constants(module)
    return module


def _group_channels(op: ascend.DepthwiseConv2DOp, made: Made) -> None:
    """A convolution with a group per channel: ONNX knows depthwise ones as such."""
    sizes, perm = op.filter_sizes, (2, 3, 0, 1)
    shape = (sizes.out, 1, *sizes.kernel)
    constant = nn.constant_of(op.filter) is not None
    grouped = (
        rearranged(op.filter, made, "depthwise", perm, shape) if constant else _rearranged_at_run_time(op, perm, shape)
    )
    properties: dict[str, Any] = {**op.properties, "groups": sizes.channels}
    given = {"location": op.location, "result_types": op.result_types}
    Rewriter.replace_op(op, ascend.Conv2DOp.make(op.x, grouped, op.bias, **given, **properties))


def _rearranged_at_run_time(op: ascend.DepthwiseConv2DOp, perm: Shape, shape: Shape) -> SSAValue:
    order, sizes = (nn.ConstantOp.of(np.array(v), f"{layer_of(op)}.filter", op.location) for v in (perm, shape))
    turned = ascend.TransposeOp.make(op.filter, order.result, origin=op.origin, location=op.location)
    reshaped = ascend.ReshapeOp.make(turned.y, sizes.result, origin=op.origin, location=op.location)
    Rewriter.insert_op([order, sizes, turned, reshaped], InsertPoint.before(op))
    return reshaped.y


def _turn_inner_product(op: ascend.FullyConnectionOp, made: Made) -> None:
    """The weight of Caffe's layer is stored `[num_output, K]`."""
    if op.is_transposed or (constant := nn.constant_of(op.w)) is None:
        return
    rows, columns = constant.array.shape
    op.operands[1] = rearranged(op.w, made, "transposed", (1, 0), (columns, rows))
    op.properties["transpose"] = TRUE


def _quantize_before(pad: ascend.PadV3Op) -> None:
    """Puts an AscendQuant before a Pad called `L_pad` that feeds the average pool L alone; the padding is the zero point."""
    value = nn.array_of(pad.constant_values)
    if pad.mode.data != "constant" or (value is not None and value.any()):
        return
    if not isinstance(quant := _only_user(pad.y), ascend.AscendQuantOp):
        return
    if not isinstance(pool := _only_user(quant.y), ascend.AveragingOp):
        return
    if layer_of(pad) != f"{layer_of(pool)}_pad" or quant.storage != i8:
        return
    before = _like(quant, pad.x)
    zero_point = nn.ConstantOp.of(np.array(quant.offset.value.data, np.int8), f"{layer_of(pad)}.value", pad.location)
    padded = _like(pad, before.y, pad.paddings, zero_point.result)
    Rewriter.insert_op([before, zero_point, padded], InsertPoint.before(quant))
    quant.y.replace_all_uses_with(padded.y)
    for op in (quant, pad):
        op.detach()
        op.erase()


def _like(op: _Op, *operands: SSAValue) -> _Op:
    """A copy of an operation on other operands."""
    properties: dict[str, Any] = op.properties
    return op.make(*operands, location=op.location, name=op.results[0].name_hint, **properties)


def _drop_added_axis(squeeze: ascend.SqueezeOp, made: Made) -> None:
    """Removes the axis that lowering adds to a convolution of one axis: ONNX has Conv1d, Ascend IR does not, so that only files
    have this form. The axis stays if the weight is computed at run time, or something else reads a value that has it.
    """
    last = squeeze.x.owner
    behind = [last] if isinstance(last, ascend.AscendDequantOp | ascend.AscendRequantOp) else []
    conv = behind[0].x.owner if behind else last
    if not isinstance(conv, ascend.Conv2DOp | ascend.Conv2DTransposeOp):
        return
    added, chain = conv.x_value.owner, [conv, *behind]
    if not isinstance(added, ascend.UnsqueezeOp) or added.origin != conv.origin:
        return
    if (nn.ints(added.axes), nn.ints(squeeze.axis)) != ((2,), (2,)):
        return
    if nn.constant_of(conv.filter_value) is None or conv.filter_sizes.kernel[0] != 1 or conv.pad_list[0] != (0, 0):
        return
    if any(_only_user(a.y) is not b for a, b in pairwise([*chain, squeeze])):
        return
    *outer, _, size = shape_of(conv.filter_value)
    weight = rearranged(conv.filter_value, made, "one axis", (0, 1, 2, 3), (*outer, size))
    for before, after in ((conv.filter_value, weight), (conv.x_value, added.x)):
        conv.operands[list(conv.operands).index(before)] = after
    for op in chain:
        Rewriter.replace_value_with_new_type(op.y, tensor(element_of(op.y), shape_of(squeeze.y)))
    chain[-1].y.name_hint = squeeze.y.name_hint
    squeeze.y.replace_all_uses_with(chain[-1].y)
    Rewriter.erase_op(squeeze)
    if not added.y.uses:
        Rewriter.erase_op(added)


def _only_user(value: SSAValue) -> Operation | None:
    users = [use.operation for use in value.uses]
    return users[0] if len(users) == 1 else None
