"""Nets of Caffe in Python, and what OpenCV computes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import text_format

from amct_opt.formats.caffe.schema import BlobProto, NetParameter

Array = np.ndarray[Any, np.dtype[Any]]


def fill(message: Any, values: Mapping[str, Any]) -> Any:
    """Sets fields, those of messages in it too, from Python values; enums by name."""
    message.SetInParent()
    for name, value in values.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if isinstance(value, Mapping):
            fill(getattr(message, name), value)
        elif isinstance(value, list | tuple):
            getattr(message, name).extend(value)
        elif isinstance(value, str) and field.enum_type is not None:
            setattr(message, name, field.enum_type.values_by_name[value].number)
        else:
            setattr(message, name, value)
    return message


def blob(array: Array) -> Any:
    proto = BlobProto(data=np.ravel(array).tolist())
    proto.shape.SetInParent()
    proto.shape.dim.extend(array.shape)
    return proto


class Net:
    """Collects layers. The text leaves the blobs out, the binary holds them, as Caffe's two files do."""

    def __init__(self, shape: Sequence[int] = (), name: str = "net", blob: str = "data"):
        self.proto = NetParameter(name=name)
        if shape:
            self.proto.layer.add(name=blob, type="Input", top=[blob]).input_param.shape.add(dim=shape)

    def add(
        self,
        name: str,
        kind: str,
        bottom: str | Sequence[str] = "data",
        top: str | Sequence[str] = "",
        blobs: Sequence[Array] = (),
        **params: Mapping[str, Any],
    ) -> str:
        """Adds a layer; returns the name of its first top, which is its own unless given."""
        bottoms = [bottom] if isinstance(bottom, str) else [*bottom]
        tops = [top or name] if isinstance(top, str) else [*top]
        layer = self.proto.layer.add(name=name, type=kind, bottom=bottoms, top=tops)
        layer.blobs.extend([blob(b) for b in blobs])
        for key, values in params.items():
            fill(getattr(layer, key), values)
        return tops[0]

    @property
    def text(self) -> str:
        bare = NetParameter()
        bare.CopyFrom(self.proto)
        for layer in (*bare.layer, *bare.layers):
            layer.ClearField("blobs")
        return text_format.MessageToString(bare)

    @property
    def binary(self) -> bytes:
        return self.proto.SerializeToString(deterministic=True)


def opencv(net: Net, inputs: Mapping[str, Array], layers: Sequence[str] = ()) -> list[Array]:
    """What OpenCV computes, without its fusions; `layers` are names of layers, not of blobs."""
    import cv2

    loaded = cv2.dnn.readNetFromCaffe(np.frombuffer(net.text.encode(), np.uint8), np.frombuffer(net.binary, np.uint8))
    loaded.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    loaded.enableFusion(False)
    loaded.enableWinograd(False)
    for name, array in inputs.items():
        loaded.setInput(array, name)
    return [np.array(a) for a in loaded.forward([*layers] or [net.proto.layer[-1].name])]
