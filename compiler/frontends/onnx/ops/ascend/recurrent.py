"""Converts LSTM and GRU on integers, which AMCT writes for ATC."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from .....dialects import ascend
from .....formats.deq_scale import unpack
from ....deployed import check_finite, check_offset, constant, marked, origin_of, unpack_input
from ...node import Constant, Converted, Node, converter

Convert = Callable[[Node], Converted]

_TYPES = {2: (-128, 127), 6: (-32768, 32767)}
"""quant_dtype, with the range of its offsets: int8 and int16."""
_ONLY = {"direction": "forward", "quant_sqrt_mode_x": 0, "quant_sqrt_mode_h": 0, "input_forget": 0}
"""Attributes that Ascend's operators take with one value."""


@converter("BasicLSTMInplaceFillWindowCache")
def lstm(node: Node) -> Converted:
    return _unpacked(node)(_lstm)(node)


def _lstm(node: Node) -> Converted:
    operands = _operands(node, ("x", "w", "r", "h", "c", "b"))
    return node.emit(ascend.BasicLSTMInplaceFillWindowCacheOp, *operands, **_attributes(node)).results


@converter("BasicGRUInplaceFillWindowCache")
def gru(node: Node) -> Converted:
    return _unpacked(node)(_gru)(node)


def _gru(node: Node) -> Converted:
    if node.int("linear_before_reset", 1) != 1:
        raise node.error("has linear_before_reset 0, which the operator does not compute")
    operands = _operands(node, ("x", "w", "r", "h", "b"))
    return node.emit(ascend.BasicGRUInplaceFillWindowCacheOp, *operands, **_attributes(node)).results


def _unpacked(node: Node) -> Callable[[Convert], Convert]:
    """Unpacks both weights if they have half as many bytes as x has channels; the function marks what a converter makes."""
    if not node.has(1) or node.array(1) is None or 2 * node.shape(1)[-1] != node.shape(0)[-1]:
        return lambda convert: convert
    for index in (1, 2):
        if node.has(index) and node.array(index) is not None:
            unpack_input(node, index, -1)
    return marked


def _operands(node: Node, names: tuple[str, ...]) -> list[SSAValue | None]:
    """The operands, the unpacked scales before the bias. Raises CompileError for other inputs, and for other types."""
    for i, what in enumerate(("sequence_lens", "clean_cache"), len(names)):
        if node.has(i):
            raise node.error(f"has the input {what}, which the interpreter does not have")
    for i, name in enumerate(names):
        if name != "b" and not node.has(i):
            raise node.error(f"has no input {name}")
    for i, what in ((1, "weight w"), (2, "weight r")):
        constant(node, i, what, "int8")
    bias = names.index("b")
    if node.has(bias):
        constant(node, bias, "bias", "int32")
    packed = constant(node, len(names) + 2, "parameter", "uint64")
    scale, shift, offset = unpack(packed.reshape(-1))
    if shift.any() or offset.any():
        raise node.error("has scales with a shift or the offset of a weight, which the operator does not have")
    scales = node.sink.value(Constant(f"{node.layer.name}.scale", scale))
    *given, bias_or_none = map(node.optional, range(len(names)))
    return [*given, scales, bias_or_none]


def _attributes(node: Node) -> dict[str, object]:
    """The properties of the operation. Raises CompileError for attributes that Ascend's operators do not take."""
    for name in ("activations", "activation_alpha", "activation_beta"):
        if name in node.attributes and len(node.attributes[name].floats) + len(node.attributes[name].strings):
            raise node.error(f"has {name}, which the operator does not take")
    for name, only in _ONLY.items():
        given = node.text(name, "forward") if isinstance(only, str) else node.int(name, 0)
        if given != only:
            raise node.error(f"has {name} {given}, but the operator takes {only}")
    if node.float("clip", -1.0) >= 0:
        raise node.error("has a clip, which the interpreter does not have")
    dtype = node.int("quant_dtype", 2)
    if dtype not in _TYPES:
        raise node.error(f"has quant_dtype {dtype}, but it must be 2 (int8) or 6 (int16)")
    numbers = {
        f"quant_{of}_{what}": node.float(f"quant_{of}_{what}", 0.0) for what in "xh" for of in ("scale", "offset")
    }
    for name, value in numbers.items():
        check_finite(node, name, value)
        if name.startswith("quant_offset"):
            check_offset(node, value, *_TYPES[dtype])
    return {"hidden_size": node.required_int("hidden_size"), "quant_dtype": dtype, "origin": origin_of(node), **numbers}
