"""`--fold-constants`: evaluates everything that is known at compile time, with the runtime's own kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ..dialects import nn
from ..dialects.nn.shapes import Shape, merge_shape, tensor, tensor_of
from ..ir.dtypes import numpy_dtype
from ..rewriting import Refusal, Remarks, erase_dead_constants
from ..runtime.kernels import Array
from ..support.diagnostics import op_error
from .dead_code import erase_dead
from .evaluation import HALF_WEIGHTS, MAX_ELEMENTS, evaluated, is_constant, widens_half
from .partial_shapes import PartialShapes, expand_target, known_sizes, reshape_target
from .shape_inference import refine


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """One walk replaces operations on constants by their result, and shape operands by the property `to` where sizes suffice.

    Results are the kernels' own, bit for bit (including NaN and Inf). Quantized values stay quantized: quantize and dequantize
    are never evaluated, nor are operators that draw random numbers. A result of more than `max_elements` elements is
    folded only if it needs no more memory than its operands. Types are refined after folded operations. Raises CompileError,
    located, if a folded result contradicts the declared type.
    """

    name = "fold-constants"

    max_elements: int = MAX_ELEMENTS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        for function in [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]:
            folder = _Folder(remarks, self.max_elements)
            folder.fold_block(function.body.block)
            if folder.half_weights:
                function.attributes[HALF_WEIGHTS] = UnitAttr()
            function.update_function_type()
        erase_dead_constants(op)
        remarks.flush()


class _Folder:
    """Walks over a block in order, so that an operation sees folded and refined operands."""

    def __init__(self, remarks: Remarks, max_elements: int):
        self.remarks = remarks
        self.max_elements = max_elements
        self.shapes = PartialShapes()
        self.refined: set[SSAValue] = set()
        self.half_weights: bool = False

    def fold_block(self, block: Block) -> None:
        for op in list(block.ops):
            if isinstance(op, nn.NNOp | nn.FusedOp):
                self._visit(op)

    def _visit(self, op: nn.NNOp | nn.FusedOp) -> None:
        if any(o in self.refined for o in op.operands) and refine(op):
            self.refined.update(op.results)
        if (known := self.shapes.visit(op)) is not None:
            types = [tensor_of(r).element_type for r in op.results]
            arrays = [a.astype(numpy_dtype(t)) for a, t in zip(known, types, strict=True)]
            self._replace(op, arrays, "sizes")
        elif isinstance(op, nn.ReshapeOp | nn.ExpandOp) and op.shape is not None:
            self._fix_shape(op, op.shape)
        elif (arrays := self._evaluate(op)) is not None:
            self.half_weights |= widens_half(op)
            self._replace(op, arrays, "evaluate")

    def _evaluate(self, op: nn.NNOp | nn.FusedOp) -> list[Array] | None:
        """The results of an operation on constants; None, with a remark if there is a reason, if it must stay."""
        if not is_constant(op, {}):
            return None
        results = evaluated(op, {}, self.max_elements)
        if isinstance(results, Refusal):
            self.remarks.missed(op, *results)
            return None
        return results

    def _fix_shape(self, op: nn.ReshapeOp | nn.ExpandOp, shape: SSAValue) -> None:
        """Turns the shape operand into the property `to`, or at least refines the result's sizes by it."""
        if (constant := nn.constant_ints(shape)) is not None:
            self._set_shape(op, constant)
            return
        if (elements := self.shapes.elements(shape)) is None:
            return
        target = reshape_target(op, elements) if isinstance(op, nn.ReshapeOp) else expand_target(op, elements)
        if target is not None:
            self._set_shape(op, target)
            return
        # an expand's result may be larger than what its operand says
        if isinstance(op, nn.ReshapeOp) and _learn(op, known_sizes(elements)):
            self.refined.add(op.result)

    def _set_shape(self, op: nn.ReshapeOp | nn.ExpandOp, target: Sequence[int]) -> None:
        properties: dict[str, Any] = {**op.properties, "to": target}
        new = type(op).make(op.input, None, location=op.location, result_types=op.result_types, **properties)
        new.attributes.update(op.attributes)
        refine(new)
        self.remarks.applied(op, "static-shape", f"its shape operand is {list(target)}")
        self._insert(op, [new])
        if (arrays := self._evaluate(new)) is not None:
            self._replace(new, arrays, "evaluate")

    def _replace(self, op: nn.NNOp | nn.FusedOp, arrays: list[Array], rule: str) -> None:
        constants: list[Operation] = []
        for result, array in zip(op.results, arrays, strict=True):
            constants.append(nn.ConstantOp.of(array, result.name_hint or op.name.rpartition(".")[2], op.location))
        types = ", ".join(str(c.results[0].type) for c in constants)
        self.remarks.applied(op, rule, f"{op.name} folded to {types}")
        self._insert(op, constants)

    def _insert(self, op: Operation, replacements: list[Operation]) -> None:
        """Replaces `op` by operations of one result each."""
        block = cast(Block, op.parent)
        block.insert_ops_before(replacements, op)
        for old, new in zip(op.results, [r.results[0] for r in replacements], strict=True):
            if new.type != old.type:
                self.refined.add(new)
            new.name_hint = new.name_hint or old.name_hint
            old.replace_all_uses_with(new)
        erase_dead([op])


def _learn(op: nn.ReshapeOp, sizes: Shape) -> bool:
    """Merges these sizes into the declared result type; True if it changed. Raises CompileError, located."""
    declared = tensor_of(op.result)
    try:
        shape = merge_shape(declared.get_shape(), sizes, "declared and computed sizes")
    except VerifyException as e:
        raise op_error(op, str(e)) from None
    nn.set_type(op.result, tensor(declared.element_type, shape))
    return shape != declared.get_shape()
