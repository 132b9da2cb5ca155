"""`--adapt-qat`: turns models trained with fake quantization into the form that is lowered and written.

The rules are those of AMCT's `convert_qat_model`: data and weight of a layer both quantized, pairs that share factors, one
scale for data and for the weights of matrix products, symmetric constant weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from .....diagnostics import op_error
from .....dialects.nn import ConstantOp, DequantizeOp, QuantizeOp, array_of, constant_of, dequantize_of
from .....dialects.nn.shapes import element_of
from .....ir.dtypes import is_float
from .....ir.functions import main_function
from .....rewriting import Remarks, erase_dead_constants
from .....runtime.kernels import kernel_for
from .....session import session_of
from ...decide.sites import Site, note_other_functions, sites
from ...profiles import Row, profile_of
from ..pairs import quantize_at
from .bias import quantize_bias
from .factors import absorb_factors
from .integers import erase_unused, quantize_constants, store_signed, transpose_constants
from .rules import broken


@dataclass(frozen=True)
class AdaptQatPass(ModulePass):
    """Make quantize and dequantize of quantization-aware training what quantization after training would have left.

    Weights become integers, uint8 and uint16 become int8 and int16, float biases of quantized layers become int32. A layer that
    breaks a rule computes in float, with its weight still rounded to its grid, and gets a remark.
    """

    name = "adapt-qat"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises CompileError, located, for float inputs other than float32 and for pairs with different factors."""
        session = session_of(ctx)
        remarks = Remarks(ctx, self.name)
        note_other_functions(op, remarks)
        _check_inputs(op)
        _check_pairs(op)
        quantize_constants(op)
        transpose_constants(op)
        store_signed(op, remarks)
        absorb_factors(op, remarks)
        rows = profile_of(session).rows
        for site in sites(op, rows):
            if rows[type(site.compute)].weight is not None:
                _adapt(site, rows[type(site.compute)], remarks)
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


def _adapt(site: Site, row: Row, remarks: Remarks) -> None:
    """Quantize a layer, or leave a remark with the reason why not."""
    assert row.weight is not None
    quantize_at(site)
    data, weight = dequantize_of(site.activation), dequantize_of(site.operand(row.weight))
    if data is None and weight is None:
        return
    if (why := broken(site, row, data, weight)) is not None:
        remarks.missed(site.compute, *why)
        if weight is not None and constant_of(weight.input) is not None:
            site.set_operand(row.weight, _rounded(weight))
        return
    assert data is not None
    assert weight is not None
    kept = quantize_bias(site, row, data.qparams.data, weight.qparams.data)
    remarks.applied(site.compute, "quantized", "as it was trained")
    if kept is not None:
        remarks.note(site.compute, "int32-bias", kept)


def _rounded(weight: DequantizeOp) -> SSAValue:
    """A dequantized weight as a float constant."""
    array, constant, kernel = array_of(weight.input), constant_of(weight.input), kernel_for(weight)
    assert array is not None
    assert constant is not None
    assert kernel is not None
    made = ConstantOp.of(np.asarray(kernel(array)), constant.key, constant.location)
    Rewriter.insert_op(made, InsertPoint.after(constant))
    return made.result
