"""Converts fake quantization in exported programs, which training writes, to quantize and dequantize by its present scales.

Training writes operators that quantize, observe and learn (`torch.ao`, torchao, Horizon's plugin), or rounding and bounds between
two scalings (LSQ, PACT, AMCT's modules). The integers of constants must survive, therefore this runs before anything is folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .nodes import arguments_of, edited, operator_name, substitute, target_of

_CONSTANT_RULES = frozenset(
    {
        *("abs", "add", "clamp", "clamp_min", "clone", "detach", "div", "exp", "exp2", "maximum", "mul", "neg", "pow"),
        *("reciprocal", "reshape", "round", "softplus", "sqrt", "sub", "to", "unsqueeze", "view"),
    }
)
"""The operators that compute scales from parameters; none of them makes large tensors of small ones."""
_PASSED = frozenset({"detach", "alias", "clone"})
_SAME = 1e-6
"""The relative distance between a scale and the reciprocal of the factor before the rounding: both are float32."""


class _Points(NamedTuple):
    """A quantized value with its parameters. Along `axis` scale and zero point are nodes of one number per channel, else
    numbers.
    """

    x: Any
    scale: Any
    zero: Any
    low: int
    high: int
    axis: int | None


def with_plain_points(torch: Any, program: Any) -> Any:
    """A copy of the program, on the same weights, in which fake quantization is operators of `quantized_decomposed`.

    Bounds within those of the integers become bounds of the value. Operators that observe round by the scale that they have now,
    those that are switched off are left out. Forms that are not known stay as they are.
    """
    rounding = ("round", "dequantize_per_tensor")
    if not any(operator_name(node) in rounding or _fakes(node) for node in program.graph.nodes):
        return program

    def edit(graph: Any, signature: Any) -> None:
        values = _Values(torch, program)
        for node in list(graph.nodes):
            points = _operator_points(node, values) or _written_points(node, values) or _narrow_pair(torch, node)
            if points is not None:
                substitute(graph, signature, node, {_result(node): _quantized(torch, graph, node, points)})
            elif _fakes(node) and not _switched_on(arguments_of(node), values):
                substitute(graph, signature, node, {_result(node): arguments_of(node)["self"]})

    return edited(torch, program, edit)


class _Values:
    """The numbers of nodes that depend on parameters alone, and vary along one axis at most, as factors do."""

    def __init__(self, torch: Any, program: Any):
        self._torch = torch
        signature = program.graph_signature
        keys = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self._inputs = {name: program.state_dict.get(key, program.constants.get(key)) for name, key in keys.items()}
        for name, key in signature.inputs_to_lifted_tensor_constants.items():
            self._inputs[name] = program.constants[key]

    def of(self, value: Any) -> Any:
        """A number or node as a float32 or integer array; None if it is not known."""
        tensor = self._tensor(value)
        return None if tensor is None else tensor.detach().cpu().numpy()

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, bool | int | float):
            return self._torch.tensor(value)
        if not isinstance(value, self._torch.fx.Node):
            return None
        if "val" in value.meta and sum(size != 1 for size in value.meta["val"].shape) > 1:
            return None
        if value.op == "placeholder":
            return self._inputs.get(value.name)
        if operator_name(value) not in _CONSTANT_RULES:
            return None
        nodes = {node: self._tensor(node) for node in value.all_input_nodes}
        if any(tensor is None for tensor in nodes.values()):
            return None
        arguments, named = self._torch.fx.node.map_arg((value.args, value.kwargs), nodes.__getitem__)
        with self._torch.no_grad():
            return value.target(*arguments, **named)


def _result(node: Any) -> Any:
    """The values that an operator computes: next to them, some return a mask."""
    if len(target_of(node)._schema.returns) == 1:
        return node
    return next((user for user in node.users if user.args[1:] == (0,)), node)


def _operator_points(node: Any, values: _Values) -> _Points | None:
    """The points of an operator that fake-quantizes; None for other nodes, and for operators that are switched off."""
    if not _fakes(node):
        return None
    given = arguments_of(node)
    if not _switched_on(given, values):
        return None
    scale, zero = values.of(given["scale"]), values.of(given["zero_point"])
    low, high = given["quant_min"], given["quant_max"]
    if not _are_scales(scale) or zero is None or not _in_bytes(low, high):
        return None
    axis = given.get("axis", given["ch_axis"] if given.get("per_row_fake_quant") else None)
    if axis is not None:
        return _Points(given["self"], given["scale"], given["zero_point"], low, high, axis)
    if scale.size != 1 or zero.size != 1:
        return None
    learned = int(np.clip(np.rint(zero.reshape(())), low, high))  # a zero point that is learned is real
    return _Points(given["self"], float(scale.reshape(())), learned, low, high, None)


def _fakes(node: Any) -> bool:
    """Whether a node is an operator of fake quantization by given factors."""
    name = operator_name(node)
    if "fake_quant" not in name and "fq_helper" not in name:
        return False
    return {"self", "scale", "zero_point", "quant_min", "quant_max"} <= arguments_of(node).keys()


def _switched_on(given: Mapping[str, Any], values: _Values) -> bool:
    flag = values.of(given.get("fake_quant_on", given.get("fake_quant_enabled", 1)))
    return flag is None or bool(flag.all())


def _are_scales(scale: Any) -> bool:
    return scale is not None and bool(np.isfinite(scale).all() and (scale > 0).all())


def _in_bytes(low: float, high: float) -> bool:
    """Whether bounds are integers of 8 bits, signed or not."""
    return int(low) == low and int(high) == high and (0 <= low < high <= 255 or -128 <= low < high <= 127)


def _written_points(node: Any, values: _Values) -> _Points | None:
    """The points that scaling, rounding, bounds and scaling back are, with a zero point around the bounds; None for others."""
    for back in _scaled(node, values):
        value, off = _shifted(back.x, values)
        value, bounds = _bounded(value, values)
        value, zero = _shifted(value, values)
        value = _rounded(value)
        if bounds is None and value is not None:
            value, bounds = _bounded(value, values)
            bounds = None if bounds is None else (bounds[0] + zero, bounds[1] + zero)
        if (
            bounds is None
            or not _in_bytes(*bounds)
            or off != -zero
            or zero != int(zero)
            or not _are_scales(back.factor)
        ):
            continue
        for there in _scaled(value, values):
            if _reciprocal(there.factor, back.factor):
                return _scaled_points(there.x, back, int(zero), (int(bounds[0]), int(bounds[1])))
    return None


def _reciprocal(first: Any, second: Any) -> bool:
    """Whether two factors cancel, apart from the rounding of the reciprocal."""
    return first.size in (1, second.size) and bool(np.allclose(first * second, 1, rtol=_SAME, atol=0))


def _scaled_points(x: Any, back: _Scaled, zero: int, bounds: tuple[int, int]) -> _Points | None:
    """The points of two scalings; None for scales along several axes. Scales of channels have no zero points."""
    if back.factor.size == 1:
        return _Points(x, float(back.factor.reshape(())), zero, *bounds, None)
    axis = _axis(x, back.factor)
    return None if axis is None or zero or back.divided else _Points(x, back.node, 0, *bounds, axis)


class _Scaled(NamedTuple):
    """A value that is multiplied by a constant, or divided by one."""

    x: Any
    factor: Any
    node: Any
    """The node of the constant."""
    divided: bool


def _scaled(node: Any, values: _Values) -> Iterator[_Scaled]:
    """The ways to read a node as a value times a constant."""
    if operator_name(node) == "div" and not node.kwargs and (by := values.of(node.args[1])) is not None and np.all(by):
        yield _Scaled(node.args[0], 1 / by.astype(np.float64), node.args[1], divided=True)
    if operator_name(node) == "mul":
        for x, constant in (node.args, node.args[::-1]):
            if (factor := values.of(constant)) is not None:
                yield _Scaled(x, factor.astype(np.float64), constant, divided=False)


def _axis(x: Any, scale: Any) -> int | None:
    """The axis of x along which a scale varies; None for scales along several axes."""
    varying = [axis for axis in range(-scale.ndim, 0) if scale.shape[axis] > 1]
    return len(x.meta["val"].shape) + varying[0] if len(varying) == 1 else None


def _shifted(node: Any, values: _Values) -> tuple[Any, float]:
    """Splits `x + number` into the value and the number; the node itself and 0 for other nodes."""
    sign = {"add": 1, "sub": -1}.get(operator_name(node))
    shift = None if sign is None else values.of(node.args[1])
    if sign is None or shift is None or shift.size != 1:
        return node, 0.0
    return node.args[0], sign * float(shift.reshape(()))


def _bounded(node: Any, values: _Values) -> tuple[Any, tuple[float, float] | None]:
    """The value that two numbers bound, and the numbers; the node itself and None for other nodes."""
    if operator_name(node) not in ("clamp", "hardtanh") or len(node.args) != 3:
        return node, None
    low, high = (values.of(bound) for bound in node.args[1:])
    if low is None or high is None or low.size != 1 or high.size != 1:
        return node, None
    return node.args[0], (float(low.reshape(())), float(high.reshape(())))


def _rounded(node: Any) -> Any:
    """The value that is rounded, directly or past the gradient as `x + (round(x) - x).detach()`; None for other nodes."""
    if operator_name(node) == "round" and len(node.args) == 1 and not node.kwargs:
        return node.args[0]
    if operator_name(node) != "add":
        return None
    for x, moved in (node.args, node.args[::-1]):
        change = _passed(moved)
        if operator_name(change) != "sub" or operator_name(rounded := _passed(change.args[0])) != "round":
            continue
        if _passed(rounded.args[0]) is _passed(x) is _passed(change.args[1]):
            return rounded.args[0]
    return None


def _passed(node: Any) -> Any:
    """The value that a node passes on, without its gradient or as a copy."""
    while operator_name(node) in _PASSED:
        node = node.args[0]
    return node


def _quantized(torch: Any, graph: Any, node: Any, points: _Points) -> Any:
    """A new node of the quantized value. Integers up to 127 are signed, as Ascend's are, whatever their lower bound."""
    import_module("torch.ao.quantization.fx._decomposed")  # defines the operators
    aten, ours = torch.ops.aten, torch.ops.quantized_decomposed
    dtype = torch.int8 if points.high <= 127 else torch.uint8
    ends = torch.iinfo(dtype)
    with graph.inserting_before(node):
        call = partial(_call, graph, _result(node))
        if points.axis is None:
            x = _bounded_value(torch, graph, points, dtype)
            settings = (points.scale, points.zero, ends.min, ends.max, dtype)
            q = call(ours.quantize_per_tensor.default, x, *settings)
            return call(ours.dequantize_per_tensor.default, q, *settings)
        scales = call(aten.reshape.default, points.scale, [-1])
        zeros = call(aten.full_like.default, scales, 0) if isinstance(points.zero, int) else points.zero
        settings = (scales, zeros, points.axis, points.low, points.high, dtype)
        q = call(ours.quantize_per_channel.default, points.x, *settings)
        return call(ours.dequantize_per_channel.default, q, *settings)


def _bounded_value(torch: Any, graph: Any, points: _Points, dtype: Any) -> Any:
    """The value, within the bounds of its integers that their type does not have.

    A bound times the scale divided by it rounds to the bound again, so that no integer changes.
    """
    ends = torch.iinfo(dtype)
    low = (points.low - points.zero) * points.scale if points.low > ends.min else None
    high = (points.high - points.zero) * points.scale if points.high < ends.max else None
    if (low is None or (low == 0 and operator_name(points.x) == "relu")) and high is None:
        return points.x
    return _call(graph, points.x, torch.ops.aten.clamp.default, points.x, low, high)


def _call(graph: Any, like: Any, target: Any, *arguments: Any) -> Any:
    """A new node of the same module as another one."""
    node = graph.call_function(target, arguments)
    node.meta = dict(like.meta)
    return node


def _narrow_pair(torch: Any, node: Any) -> _Points | None:
    """The points of a quantize and dequantize whose integers have narrower bounds than their type, None for other nodes.

    ONNX does not know such bounds.
    """
    if operator_name(node) != "dequantize_per_tensor" or operator_name(node.args[0]) != "quantize_per_tensor":
        return None
    x, scale, zero, low, high, dtype = node.args[0].args
    ends = torch.iinfo(dtype)
    if (low, high) == (ends.min, ends.max) or not isinstance(scale, float) or not _in_bytes(low, high):
        return None
    return _Points(x, scale, zero, low, high, None)
