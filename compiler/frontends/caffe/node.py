"""The view of a Caffe layer for converters, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects import nn
from ...dialects.nn.shapes import axis_of, known, static
from ...formats.caffe.file import Blob
from ...formats.caffe.schema import Message, enum_name
from ..building import Binding, Constant, Converted, Sink, Unmapped
from ..naming import NamedLayer
from ..node import SourceNode
from .phases import TRAIN

Converter = Callable[["Node"], Converted]
"""Maps a layer to the values of its tops, in order. Raises Unmapped if `nn` has no equivalent."""

MANY = 1 << 20


@dataclass(frozen=True)
class Conversion:
    """The converter of a type of layers, and the allowed numbers of bottoms and tops."""

    convert: Converter
    bottoms: tuple[int, int]
    tops: tuple[int, int]


CONVERTERS: dict[str, Conversion] = {}
"""Converters by layer type."""


def converter(
    *types: str, bottoms: tuple[int, int] = (1, 1), tops: tuple[int, int] = (1, 1)
) -> Callable[[Converter], Converter]:
    """Registers the function that converts layers of these types."""

    def register(convert: Converter) -> Converter:
        CONVERTERS.update({name: Conversion(convert, bottoms, tops) for name in types})
        return convert

    return register


@dataclass(frozen=True)
class Shared:
    """The common data of all layers of one import."""

    weights: Mapping[str, Sequence[Blob]]
    weights_file: str
    """The source of the weights, empty if no file was given."""
    deployed: bool
    """Whether the net has AMCT's deploy form: some layer contains integers, or reads them as AntiQuant does."""
    sink: Sink = field(default_factory=Sink)
    parameters: dict[str, Constant] = field(default_factory=dict[str, Constant])
    """Parameters that layers share, by the name in `param`."""


class Node(SourceNode):
    """A layer with its bottoms bound. `proto` is the LayerParameter; the messages in it have Caffe's defaults."""

    def __init__(self, proto: Message, layer: NamedLayer, inputs: Sequence[Binding], shared: Shared):
        super().__init__(proto.type, layer, inputs, shared.sink)
        self.proto = proto
        self.shared = shared

    @property
    def tops(self) -> int:
        return len(self.proto.top)

    # Attributes

    def float(self, name: str, default: float) -> float:
        """A number in a field of a message, as in `elu_param.alpha`; without it the schema's default."""
        message, _, field = name.partition(".")
        return getattr(getattr(self.proto, message), field)

    @property
    def trains(self) -> bool:
        """Whether the layer declares the phase TRAIN itself, also in a net of inference."""
        return self.proto.HasField("phase") and self.proto.phase == TRAIN

    def axis_of(self, name: str, default: int) -> int:
        """An axis in a field of a message, counted from the start; without it the schema's default."""
        return self.axis(int(self.float(name, default)))

    def axis(self, axis: int, index: int = 0) -> int:
        """An axis of input `index`, counted from the start. Raises CompileError when out of range."""
        try:
            return axis_of(axis, len(self.shape(index)))
        except VerifyException as e:
            raise self.misfit(e) from None

    def size(self, axis: int, index: int = 0) -> int:
        """A size that must be known at import. Raises Unmapped otherwise."""
        size = self.shape(index)[axis]
        if not known(size):
            raise Unmapped(f"size {axis} of its input is not known before run time")
        return size

    # Parameters

    @property
    def blobs(self) -> Sequence[Blob] | None:
        """The layer's blobs; None if no layer in the weights has its name."""
        return self.shared.weights.get(self.proto.name)

    def parameters(self, **shapes: Sequence[int]) -> list[Constant]:
        """The blobs, in order, named by the arguments and with their shapes.

        Raises CompileError if they are missing, or their number or shapes differ.
        """
        if not all(map(static, shapes.values())):
            raise self.error("needs to know the sizes of its input, which its weights depend on")
        owned = [self._owner(i, name, shape) for i, (name, shape) in enumerate(shapes.items())]
        blobs = self.blobs
        if blobs is None and None in owned:
            raise self._without_weights()
        if blobs is not None and len(blobs) != len(shapes):
            wanted = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            raise self.error(f"has {len(blobs)} blobs, but it needs {len(shapes)}: {wanted}")
        if blobs is not None and self.layer.name != self.proto.name:
            raise self.error(f"has the name '{self.proto.name}' as others have; weights are found by the layer's name")
        rows = enumerate(zip(owned, shapes.items(), strict=True))
        return [owner or self._parameter(i, name, shape) for i, (owner, (name, shape)) in rows]

    def _owner(self, index: int, name: str, shape: Sequence[int]) -> Constant | None:
        """The parameter of an earlier layer with the same name."""
        shared = self._shared_name(index)
        constant = self.shared.parameters.get(shared)
        if constant is not None and constant.array.shape != tuple(shape):
            given = list(constant.array.shape)
            raise self.error(f"shares '{shared}' of shape {given} as its {name}, but it needs {list(shape)}")
        return constant

    def _shared_name(self, index: int) -> str:
        return self.proto.param[index].name if index < len(self.proto.param) else ""

    def _parameter(self, index: int, name: str, shape: Sequence[int]) -> Constant:
        blob = (self.blobs or [])[index]
        if not blob.fits(shape):
            raise self.error(f"has blob {index} ({name}) of shape {list(blob.dims)}, but it needs {list(shape)}")
        constant = Constant(f"{self.layer.name}.{name}", blob.shaped(shape))
        if shared := self._shared_name(index):
            self.shared.parameters[shared] = constant
        return constant

    def _without_weights(self) -> Exception:
        if not self.shared.weights_file:
            return self.error("has no weights", hint="--weights net.caffemodel gives them")
        message = f"has no weights: {self.shared.weights_file} holds none of a layer '{self.proto.name}'"
        return self.error(message, hint="weights are found by the layer's name")

    def row(self, constant: Constant, axis: int, rank: int) -> SSAValue:
        """A parameter along the axes from `axis` on, in a shape that broadcasts against a tensor of this rank."""
        shape = (*constant.array.shape, *(1,) * (rank - axis - constant.array.ndim))
        return self.sink.value(Constant(constant.key, constant.array.reshape(shape)))

    # Emitting

    def scalar(self, value: float, suffix: str = ".value") -> SSAValue:
        return self.constant(np.asarray(value, np.float32), suffix)

    def scaled(self, x: SSAValue, factor: float, shift: float = 0.0) -> SSAValue:
        """`x * factor + shift`, without steps that change nothing."""
        if factor != 1.0:
            x = self.emit(nn.MulOp, x, self.scalar(factor, ".scale")).result
        return x if shift == 0.0 else self.emit(nn.AddOp, x, self.scalar(shift, ".shift")).result

    @cached_property
    def origin(self) -> nn.OriginAttr:
        return nn.OriginAttr.of("caffe", self.op_type, self.layer.name, _provenance(self.proto))


_LEFT_OUT = frozenset({"num_output", "bias_term", "eps", "engine", "moving_average_fraction", "force_nd_im2col"})
_GEOMETRY = ("kernel_", "stride", "pad")

_SCALARS: dict[type, Callable[[Any], Attribute]] = {
    bool: lambda v: IntegerAttr(int(v), i64),
    int: lambda v: IntegerAttr(v, i64),
    float: lambda v: FloatAttr(v, f32),
    str: StringAttr,
}


def _provenance(layer: Message) -> dict[str, Attribute]:
    """The fields of a layer's `..._param` messages by name, in MLIR; dilations of one are the default."""
    kept: dict[str, Attribute] = {}
    for outer, message in layer.ListFields():
        if not outer.name.endswith("_param"):
            continue
        for inner, value in message.ListFields():
            attribute = None if _is_left_out(inner.name) else _attribute(message, inner, value)
            if attribute is not None:
                kept[inner.name] = attribute
    return dict(sorted(kept.items()))


def _is_left_out(name: str) -> bool:
    return name in _LEFT_OUT or name.startswith(_GEOMETRY) or name.endswith("filler")


def _attribute(message: Message, field: Any, value: Any) -> Attribute | None:
    if isinstance(value, bytes):
        return None
    if hasattr(value, "extend"):
        numbers = list(value)
        if not all(isinstance(n, int | float) for n in numbers) or (field.name == "dilation" and set(numbers) == {1}):
            return None
        if all(isinstance(n, int) for n in numbers):
            return DenseArrayBase.from_list(i64, numbers)
        return nn.RealsAttr(tuple(numbers))
    if field.message_type is not None or value == field.default_value:
        return None
    return StringAttr(enum_name(message, field.name)) if field.enum_type is not None else _SCALARS[type(value)](value)
