"""`--standard-to-nn`: converts what other compilers write around `nn`, namely constants, arithmetic, reshapes and calls, to
`nn`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from ..dialects import nn
from ..dialects.nn.shapes import DYNAMIC, element_of, known, shape_of, static
from ..ir.dtypes import has_numpy_dtype
from ..rewriting import Remarks
from ..support.diagnostics import first_line

_LARGEST = 1 << 16
"""The maximum number of operations that calls may add: calls of calls could multiply without end."""


@dataclass(frozen=True)
class StandardToNnPass(ModulePass):
    """A table turns operations of arith, math and tensor on tensors into nn, after calls are inlined, in functions with nn.

    An operation that has no counterpart stays, with a remark. Module text is converted when it is read; other compilers put this
    pass before the others.
    """

    name = "standard-to-nn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        _inline(op, remarks)
        for function in _functions(op):
            if _contains_nn(function):
                for each in list(function.walk()):
                    _convert(each, remarks)
        remarks.flush()


def _functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]


def _contains_nn(function: FuncOp) -> bool:
    return any(isinstance(op, nn.NNOp | nn.ConstantOp | nn.FusedOp) for op in function.walk())


def _inline(module: ModuleOp, remarks: Remarks) -> None:
    """Replaces calls by the operations of the function that is called, and removes private functions that nothing calls.

    Does nothing in a module without nn.
    """
    if not any(isinstance(op, CallOp) for op in module.walk()):
        return
    functions = {f.sym_name.data: f for f in module.ops if isinstance(f, FuncOp)}
    if not any(map(_contains_nn, functions.values())):
        return
    added = 0
    names: dict[str, int] = {}
    for function in _functions(module):
        waiting = [(op, (function.sym_name.data,)) for op in function.walk() if isinstance(op, CallOp)][::-1]
        while waiting:
            call, callers = waiting.pop()
            callee = functions.get(name := call.callee.string_value())
            if (reason := _why_not_inlined(call, callee, callers)) is not None:
                remarks.missed(call, "inline", reason)
                continue
            assert callee is not None
            added += len(callee.body.block.ops)
            if added > _LARGEST:
                remarks.missed(call, "inline", f"calls would add more than {_LARGEST} operations")
                return
            number = names[name] = names.get(name, 0) + 1
            copies = _copied(call, callee, f".{number}" if number > 1 else "")
            remarks.applied(call, "inline", f"is a copy of @{name}")
            waiting += [(op, (*callers, name)) for op in reversed(copies) if isinstance(op, CallOp)]
    called = {op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)}
    for name, function in functions.items():
        if name in names and name not in called and function.sym_visibility == StringAttr("private"):
            function.detach()
            function.erase()


def _why_not_inlined(call: CallOp, callee: FuncOp | None, callers: Sequence[str]) -> str | None:
    name = call.callee.string_value()
    if callee is None or callee.is_declaration:
        return f"@{name} has no body in this module"
    if name in callers:
        return f"@{name} calls itself"
    if len(callee.body.blocks) != 1 or not isinstance(callee.body.block.last_op, ReturnOp):
        return f"@{name} is not one block that ends in func.return"
    given = ([v.type for v in call.arguments], [v.type for v in call.res])
    wanted = ([v.type for v in callee.body.block.args], [v.type for v in callee.body.block.last_op.arguments])
    return None if given == wanted else f"@{name} has other types than the call"


def _copied(call: CallOp, callee: FuncOp, suffix: str) -> list[Operation]:
    """Copies of the operations of a function in place of a call; names of layers get the suffix."""
    values: dict[SSAValue, SSAValue] = dict(zip(callee.body.block.args, call.arguments, strict=True))
    copies: list[Operation] = []
    for op in callee.body.block.ops:
        if isinstance(op, ReturnOp):
            Rewriter.replace_op(call, copies, [values.get(v, v) for v in op.arguments])
            break
        copies.append(op.clone(values))
        for copy, original in zip(copies[-1].walk(), op.walk(), strict=True):
            copy.location = original.location
            if suffix and isinstance(origin := copy.properties.get("origin"), nn.OriginAttr):
                copy.properties["origin"] = origin.named(f"{origin.layer.data}{suffix}")
    return copies


def _convert(op: Operation, remarks: Remarks) -> None:
    """Replaces an operation on tensors by its counterpart, or leaves it with a remark."""
    if op.name.partition(".")[0] not in ("arith", "math", "tensor"):
        return
    if not any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
        return
    counterpart = _COUNTERPARTS.get(type(op))
    try:
        made = None if counterpart is None or not _has_arrays(op) else counterpart(op)
    except VerifyException as e:
        remarks.missed(op, "counterpart", f"'{op.name}' is not an operation of nn: {first_line(e)}")
        return
    if made is None:
        remarks.missed(op, "counterpart", f"'{op.name}' has no counterpart in nn for {', '.join(map(str, _types(op)))}")
        return
    made.location = op.location
    remarks.applied(op, "counterpart", f"is '{made.name}'")
    Rewriter.replace_op(op, made)


def _types(op: Operation) -> list[object]:
    return list(dict.fromkeys([*op.operand_types, *op.result_types]))


def _has_arrays(op: Operation) -> bool:
    """Whether all operands and results are tensors of elements that nn computes with; sizes may be other numbers."""
    computed = op.operands[:1] if isinstance(op, tensor.ReshapeOp | tensor.ExpandShapeOp) else op.operands
    values = (*computed, *op.results)
    return all(isinstance(v.type, TensorType) and has_numpy_dtype(element_of(v)) for v in values)


def _counts(op: Operation) -> bool:
    """Whether no element is a truth value, which arith counts with."""
    return all(element_of(v) != IntegerType(1) for v in (*op.operands, *op.results))


def _elementwise(kind: type[nn.NNOp]) -> Callable[[Operation], nn.NNOp | None]:
    return lambda op: kind.make(*op.operands, result_types=op.result_types) if _counts(op) else None


def _constant(op: arith.ConstantOp) -> nn.ConstantOp | None:
    return nn.ConstantOp(cast(Any, op.value)) if isinstance(op.value, DenseIntOrFPElementsAttr) else None


def _cast(op: tensor.CastOp) -> nn.ReshapeOp | None:
    """A reshape that copies the sizes that the result's type does not know."""
    if 0 in shape_of(op.dest):
        return None
    to = [d if known(d) else 0 for d in shape_of(op.dest)]
    return nn.ReshapeOp.make(op.source, to=to, result_types=[op.dest.type])


def _reshaped(value: SSAValue, result: OpResult) -> nn.ReshapeOp | None:
    """A reshape; None if more than one size is not known."""
    shape = shape_of(result)
    if shape.count(DYNAMIC) > 1:
        return None
    to = [d if known(d) else -1 for d in shape]
    return nn.ReshapeOp.make(value, to=to, allow_zero=0 in shape, result_types=[result.type])


def _regrouped(op: tensor.CollapseShapeOp | tensor.ExpandShapeOp) -> nn.ReshapeOp | None:
    return _reshaped(op.operands[0], op.result)


def _reshape(op: tensor.ReshapeOp) -> nn.ReshapeOp | None:
    """The shape is that of the result if it is known, otherwise an operand of 64 bits."""
    if static(shape_of(op.result)):
        return _reshaped(op.source, op.result)
    if element_of(op.shape) != IntegerType(64):
        return None
    return nn.ReshapeOp.make(op.source, op.shape, allow_zero=True, result_types=[op.result.type])


def _slice(op: tensor.ExtractSliceOp) -> nn.SliceOp | None:
    """Slices at places that are known, without dropped axes."""
    starts, sizes, steps = (
        [int(n) for n in each.get_values()] for each in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    if len(op.operands) > 1 or len(shape_of(op.result)) != len(starts) or any(s < 1 for s in steps):
        return None
    ends = [start + (size - 1) * step + 1 for start, size, step in zip(starts, sizes, steps, strict=True)]
    return nn.SliceOp.make(op.source, starts=starts, ends=ends, steps=steps, result_types=op.result_types)


_COUNTERPARTS: Mapping[type[Operation], Callable[[Any], nn.NNOp | nn.ConstantOp | None]] = {
    arith.ConstantOp: _constant,
    arith.AddfOp: _elementwise(nn.AddOp),
    arith.SubfOp: _elementwise(nn.SubOp),
    arith.MulfOp: _elementwise(nn.MulOp),
    arith.DivfOp: _elementwise(nn.DivOp),
    arith.AddiOp: _elementwise(nn.AddOp),
    arith.SubiOp: _elementwise(nn.SubOp),
    arith.MuliOp: _elementwise(nn.MulOp),
    arith.MinimumfOp: _elementwise(nn.MinOp),
    arith.MaximumfOp: _elementwise(nn.MaxOp),
    arith.NegfOp: _elementwise(nn.NegOp),
    arith.ExtFOp: _elementwise(nn.CastOp),
    arith.TruncFOp: _elementwise(nn.CastOp),
    arith.SIToFPOp: _elementwise(nn.CastOp),
    arith.FPToSIOp: _elementwise(nn.CastOp),
    math.AbsFOp: _elementwise(nn.AbsOp),
    math.CeilOp: _elementwise(nn.CeilOp),
    math.CosOp: _elementwise(nn.CosOp),
    math.ErfOp: _elementwise(nn.ErfOp),
    math.ExpOp: _elementwise(nn.ExpOp),
    math.FloorOp: _elementwise(nn.FloorOp),
    math.LogOp: _elementwise(nn.LogOp),
    math.PowFOp: _elementwise(nn.PowOp),
    math.RoundEvenOp: _elementwise(nn.RoundOp),
    math.RsqrtOp: _elementwise(nn.RsqrtOp),
    math.SinOp: _elementwise(nn.SinOp),
    math.SqrtOp: _elementwise(nn.SqrtOp),
    math.TanhOp: _elementwise(nn.TanhOp),
    tensor.CastOp: _cast,
    tensor.CollapseShapeOp: _regrouped,
    tensor.ExpandShapeOp: _regrouped,
    tensor.ReshapeOp: _reshape,
    tensor.ConcatOp: lambda op: nn.ConcatOp.make([*op.inputs], axis=op.dim.value.data, result_types=op.result_types),
    tensor.ExtractSliceOp: _slice,
}
