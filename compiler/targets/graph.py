"""The common parts of graph formats: the operations to write, their layout, and the names of results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import nn
from ..dialects.nn.fused import computed, uses_of
from ..ir.functions import body, input_names, output_names, return_op
from ..session import Session
from ..support.diagnostics import CompileError, describe
from ..transforms.convert_layout import ConvertLayoutPass


def flat(block: Block) -> Iterator[Operation]:
    """The operations that compute, with nn.fused unpacked, without observers, constants and terminators."""
    for op in block.ops:
        if isinstance(op, nn.FusedOp):
            yield from flat(op.body.block)
        elif op is not block.last_op and not isinstance(op, nn.ConstantOp | nn.ObserveOp):
            yield op


def readers(value: SSAValue) -> Iterator[Operation]:
    """The readers of a value: the other direction of `source`."""
    for use in uses_of(value):
        if isinstance(op := use.operation, nn.ObserveOp):
            yield from readers(op.result)
        else:
            yield op


def source(value: SSAValue) -> SSAValue:
    """The original value, past observers and the borders of fused regions."""
    while isinstance(owner := (value := computed(value)).owner, nn.ObserveOp):
        value = owner.input
    return value


def label_of(op: Operation) -> str:
    """The source layer's name, otherwise the result's, otherwise the kind of operation."""
    origin = op.properties.get("origin")
    if isinstance(origin, nn.OriginAttr) and origin.layer.data:
        return origin.layer.data
    hints = (r.name_hint for r in op.results if r.name_hint)
    return next(hints, op.name.partition(".")[2])


def identity_of(constant: nn.ConstantOp) -> object:
    """Identifies a constant: equal for constants that are the same array of the same file, or the same operation."""
    return constant.value if isinstance(constant.value, nn.ExternalAttr) else constant


def number_of(value: SSAValue) -> nn.ConstantOp | None:
    """The constant of an expansion, which is in no block, that a value is."""
    constant = nn.constant_of(value)
    return constant if constant is not None and constant.parent is None else None


def named_ends(function: FuncOp) -> tuple[Block, list[str], list[str], list[SSAValue]]:
    """The block of a function, the names of its inputs and outputs, and its results. Raises CompileError unless the names are
    unique; an output may share the name of an input that it is.
    """
    block, inputs, outputs = body(function), input_names(function), output_names(function)
    results, where = [source(v) for v in return_op(function).operands], describe(function.location)
    for kind, names in (("inputs", inputs), ("outputs", outputs)):
        if twice := next((n for n in names if names.count(n) > 1), None):
            raise CompileError(f"two {kind} are called '{twice}'", where=where)
        if "" in names:
            raise CompileError(f"one of the {kind} has an empty name", where=where)
    arguments = dict(zip(inputs, block.args, strict=True))
    for name, value in zip(outputs, results, strict=True):
        if name in arguments and arguments[name] is not value:
            raise CompileError(f"an input and another value, an output, are both called '{name}'", where=where)
    return block, inputs, outputs, results


def in_layout(module: ModuleOp, to: Literal["NCHW", "NHWC"], session: Session) -> ModuleOp:
    """A module with only this layout: itself, or a converted copy with unchanged inputs and outputs."""
    last = to == "NHWC"
    if all(op.channels_last == last for op in module.walk() if isinstance(op, nn.LayoutOp)):
        return module
    copy = module.clone()
    ConvertLayoutPass(to).apply(session, copy)
    return copy


ELSEWHERE = {"ascend": "write the module before --lower-to-ascend, or this one with -t onnx-ascend or -t mlir"}
"""Hints for operations of other dialects."""
OTHERWISE = "-t mlir holds every dialect"
