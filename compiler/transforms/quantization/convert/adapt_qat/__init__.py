"""`--adapt-qat`: turns models trained with fake quantization into the form that is lowered and written.

The rules are those of AMCT's `convert_qat_model`: data and weight of a layer both quantized, pairs that share factors, one
scale for data and for the weights of matrix products, symmetric constant weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import OpResult
from xdsl.passes import ModulePass

from .....dialects.nn import DequantizeOp, QuantizeOp
from .....dialects.nn.shapes import element_of
from .....ir.dtypes import is_float
from .....ir.functions import main_function
from .....rewriting import Remarks, erase_dead_constants, rewrite
from .....session import session_of
from .....support.diagnostics import op_error
from ...decide.sites import note_other_functions
from .factors import AbsorbFactors
from .integers import AdaptPattern, FoldQuantize, FoldTranspose, StoreSigned, erase_unused
from .layers import AdaptLayer, QuantizeAtLayer


@dataclass(frozen=True)
class AdaptQatPass(ModulePass):
    """Make quantize and dequantize of quantization-aware training what quantization after training would have left.

    Weights become integers, uint8 and uint16 become int8 and int16, float biases of quantized layers become int32. A layer that
    breaks a rule computes in float, with its weight still rounded to its grid, and gets a remark.
    """

    name = "adapt-qat"

    PATTERNS: ClassVar[tuple[type[AdaptPattern[Any]], ...]] = (
        FoldQuantize,
        FoldTranspose,
        StoreSigned,
        AbsorbFactors,
        QuantizeAtLayer,
        AdaptLayer,
    )
    """Patterns in order: each is applied to the whole module before the next one."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises CompileError, located, for float inputs other than float32 and for pairs with different factors."""
        session = session_of(ctx)
        remarks = Remarks(ctx, self.name)
        note_other_functions(op, remarks)
        _check_inputs(op)
        _check_pairs(op)
        for pattern in (*session.patterns_of(self.name), *self.PATTERNS):
            rewrite(op, pattern(remarks, op), erase_dead=False)
        erase_unused([o for o in op.walk() if isinstance(o, QuantizeOp | DequantizeOp)])
        erase_dead_constants(op)
        remarks.flush()


def _check_inputs(module: ModuleOp) -> None:
    """Raises CompileError for float inputs that are not float32."""
    function = main_function(module)
    for argument in function.body.block.args:
        if is_float(element := element_of(argument)) and element != f32:
            name = argument.name_hint or f"arg{argument.index}"
            raise op_error(function, f"has the input '{name}' of {element}: training's quantization is float32's")


def _check_pairs(module: ModuleOp) -> None:
    """Raises CompileError if quantize and dequantize of a pair have different factors."""
    for op in module.walk():
        if not isinstance(op, DequantizeOp) or not isinstance(op.input, OpResult):
            continue
        before = op.input.op
        if isinstance(before, QuantizeOp) and before.qparams != op.qparams:
            raise op_error(op, "has a different scale or zero point than the quantize before it", "pairs share factors")
