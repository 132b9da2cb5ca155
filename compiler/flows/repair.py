"""`amct check --fix`: repairs what needs no data in a quantized ONNX file of any tool; everything else in it stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from ..dialects.nn import NNOp, constant_of, dequantize_of
from ..frontends.onnx.graph import reads
from ..ir.array import Array
from ..rewriting import layer_of
from ..session import Session
from ..support.files import replacing
from ..transforms.quantization.convert.layer_weights import multiplied_layers
from ..transforms.quantization.decide.layers import channel_axis
from ..transforms.quantization.portable import channels_apart, inexact, least_scales
from ..transforms.quantization.profiles import QDQ
from .qdq_graph import RANGES, WEIGHTED, QdqGraph, read_quantized

_MOST = 2**31 - 1
"""The largest integer of a bias."""


def repair_file(path: Path, out: Path, session: Session) -> list[tuple[str, str]]:
    """Write the repaired file. Returns the layer of each repair, and what was done. What cannot be repaired stays as it is.

    - Weights whose sums of products may pass 16 bits get the smallest scales with which they do not.
    - The range of a Relu or Clip that begins below 0 begins at 0.
    - The inputs of a Concat get the scale of its result.
    - Biases get the scale of the sums that they are added to.

    Raises CompileError, located in the file, if it is not a quantized ONNX file, or takes more than 2 GB with its external data.
    """
    module, model = read_quantized(path, session)
    repair = _Repair(model.graph)
    done = [*repair.weights(module), *repair.ranges(), *repair.concats(), *repair.biases()]
    repair.finish()
    with replacing(out) as stream:
        stream.write(model.SerializeToString())
    return done


class _Repair:
    """A graph that changes by new constants: readers of the old ones that are not repaired keep them."""

    def __init__(self, graph: onnx.GraphProto):
        self._proto = graph
        self._graph = QdqGraph(graph)
        self._uneven = [node for node in graph.node if self._graph.times_of_bias(node) is not None]
        """The layers whose biases have other scales than their sums in the file."""

    def weights(self, module: ModuleOp) -> Iterator[tuple[str, str]]:
        """Repairs weights of int8 with zero points of 0 and scales per tensor or output channel."""
        nodes = {self._graph.layer(node): node for node in self._graph.nodes if node.op_type in WEIGHTED}
        for each in multiplied_layers(module, QDQ):
            node = nodes.get(layer_of(each.op))
            back = None if node is None else self._graph.dequantize(node.input[1])
            if back is None or self._graph.is_output(back) or not (wrong := _wrong(each.matrices, each.op)):
                continue
            found, least = self._stored(back), _least(each.op)
            if found is None or least is None or found[1].size != least.size:
                continue
            integers, scale = found
            larger = np.maximum(scale, least.reshape(scale.shape)).astype(scale.dtype)
            shape = [1] * integers.ndim
            if scale.size > 1:
                shape[_axis(back, integers.ndim)] = scale.size
            steps = np.rint(integers * (scale.astype(np.float64) / larger).reshape(shape))
            self._put(back, 0, np.clip(steps, -127, 127).astype(np.int8))
            self._put(back, 1, larger)
            yield layer_of(each.op), f"{wrong} output channels of its weight get larger scales"

    def ranges(self) -> Iterator[tuple[str, str]]:
        """Repairs the ranges of results that are never negative."""
        for node in self._graph.nodes:
            after = self._graph.after(node)
            if node.op_type not in RANGES or (node.op_type == "Clip" and not self._begins_at_0(node)):
                continue
            if any(each.op_type != "QuantizeLinear" for each in after):
                continue
            for point in after:
                ends, zero = self._graph.ends(point), self._graph.zero_point(point)
                if ends is None or zero is None or not ends[0] < 0 < ends[1] or not self._are_back(point):
                    continue
                info = np.iinfo(zero.dtype)
                scale = self._graph.scale(point)
                assert scale is not None, "it has ends"
                for each in (point, *self._graph.after(point)):
                    self._put(each, 1, np.asarray(ends[1] / (info.max - info.min), scale.dtype).reshape(scale.shape))
                    self._put(each, 2, np.full(zero.shape, info.min, zero.dtype))
                yield self._graph.layer(node), f"its range begins at 0 instead of {ends[0]:.4g}"

    def _begins_at_0(self, clip: NodeProto) -> bool:
        low = self._graph.array(clip.input[1]) if len(clip.input) > 1 else None
        return low is not None and bool(low.reshape(-1)[0] >= 0)

    def _are_back(self, point: NodeProto) -> bool:
        """Whether nothing but DequantizeLinear with its parameters reads the integers of a QuantizeLinear."""
        after = self._graph.after(point)
        alike = all(each.op_type == "DequantizeLinear" and each.input[1:] == point.input[1:] for each in after)
        return alike and not self._graph.is_output(point)

    def concats(self) -> Iterator[tuple[str, str]]:
        """Repairs inputs that nothing else reads."""
        for node in self._graph.nodes:
            after = self._graph.after(node)
            if node.op_type != "Concat" or len(after) != 1 or after[0].op_type != "QuantizeLinear":
                continue
            wanted = after[0].input[1:]
            backs = [back for name in node.input if (back := self._graph.dequantize(name)) is not None]
            changed = 0
            for back in backs:
                point = self._graph.makers.get(back.input[0])
                if point is None or point.op_type != "QuantizeLinear" or not self._alone(point, back):
                    continue
                if self._like(point, after[0]) and back.input[1:] != wanted:
                    for each in (point, back):
                        del each.input[1:]
                        each.input.extend(wanted)
                    changed += 1
            if changed:
                yield self._graph.layer(node), f"{changed} of {len(node.input)} inputs get the scale of its result"

    def _alone(self, point: NodeProto, back: NodeProto) -> bool:
        """Whether a DequantizeLinear is the only reader of its QuantizeLinear, and has one reader."""
        read_once = self._graph.after(point) == [back] and len(self._graph.after(back)) == 1
        return read_once and not (self._graph.is_output(point) or self._graph.is_output(back))

    def _like(self, point: NodeProto, other: NodeProto) -> bool:
        """Whether two QuantizeLinear have one scale each, which differ, and integers of one type."""
        ends, others = self._graph.ends(point), self._graph.ends(other)
        zero, zeros = self._graph.zero_point(point), self._graph.zero_point(other)
        if ends is None or others is None or zero is None or zeros is None:
            return False
        return ends != others and zero.dtype == zeros.dtype

    def biases(self) -> Iterator[tuple[str, str]]:
        """Repairs the scales of biases of int32, after those of inputs and weights."""
        for node in self._graph.nodes:
            times, sums = self._graph.times_of_bias(node), self._graph.scale_of_sums(node)
            if times is None or sums is None:
                continue
            back = self._graph.makers[node.input[2]]
            found = self._stored(back)
            if found is None or found[0].ndim != 1 or len(self._graph.after(back)) != 1 or self._graph.is_output(back):
                continue
            integers, scale = found
            steps = np.rint(integers * scale.astype(np.float64) / sums)
            if np.abs(steps).max(initial=0) > _MOST:
                continue
            self._put(back, 0, steps.astype(np.int32))
            self._put(back, 1, sums.astype(scale.dtype).reshape([] if sums.size == 1 else [-1]))
            self._put(back, 2, np.zeros(() if sums.size == 1 else sums.size, np.int32))
            _set_axis(back, 0)
            if node in self._uneven:
                yield self._graph.layer(node), f"its bias gets the scale of its sums instead of {times:.4g} times that"

    def _stored(self, back: NodeProto) -> tuple[Array, Array] | None:
        """The integers and the scale of a constant with a zero point of 0."""
        integers, scale, zero = self._graph.array(back.input[0]), self._graph.scale(back), self._graph.zero_point(back)
        return None if integers is None or scale is None or zero is None or zero.any() else (integers, scale)

    def _put(self, node: NodeProto, index: int, array: Array) -> None:
        """Gives a node a constant of its own."""
        while len(node.input) <= index:
            node.input.append("")
        name, count = f"{node.output[0]}.fixed{index}", 0
        while name in self._graph.constants or name in self._graph.makers:
            name, count = f"{node.output[0]}.fixed{index}_{count}", count + 1
        tensor = numpy_helper.from_array(array, name)
        self._proto.initializer.append(tensor)
        self._graph.constants[name] = tensor
        node.input[index] = name

    def finish(self) -> None:
        """Drops initializers that nothing reads any longer, here or in inner graphs."""
        read = {*self._graph.outputs, *(name for node in self._proto.node for name in reads(node))}
        kept = [each for each in self._proto.initializer if each.name in read]
        del self._proto.initializer[:]
        self._proto.initializer.extend(kept)


def _wrong(matrices: Array, layer: NNOp) -> int:
    """The output channels with sums that are not exact on every processor, in onnxruntime or OpenVINO."""
    return int(np.count_nonzero(inexact(matrices, layer) | inexact(channels_apart(matrices, layer), layer)))


def _least(layer: NNOp) -> Array | None:
    """The smallest scales of a layer's weight that make sums exact: of shape [] or [channels]. None for other scales."""
    back = dequantize_of(layer.operands[1])
    constant = None if back is None else constant_of(back.input)
    params = None if back is None else back.qparams.data
    if constant is None or params is None or params.block or params.axis not in (None, channel_axis(layer)):
        return None
    scales, _ = params.broadcastable(constant.array.shape)
    return least_scales(constant.array * scales, params.axis, layer)


def _axis(node: NodeProto, rank: int) -> int:
    """The axis of the scales of a DequantizeLinear whose input has this rank."""
    axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
    return axis % rank


def _set_axis(node: NodeProto, axis: int) -> None:
    kept = [each for each in node.attribute if each.name != "axis"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("axis", axis)])
