"""Writing the two files: the prototxt as text, the caffemodel from its arrays without a copy of them in a message.

A caffemodel is read for names and blobs only, so it holds nothing else: parameters stand in the prototxt, where fork and
version do not change what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

import numpy as np
from google.protobuf import text_format

from ...diagnostics import CompileError
from ...files import replacing_all
from ...formats.wire import MOST_BYTES, varint
from .net import Array, NetLayer
from .schema import BlobProto, LayerParameter, NetParameter

_LAYER, _BLOBS = b"\xa2\x06", b"\x3a"
"""Keys of length-delimited fields, number * 8 + 2: NetParameter's `layer` (100), LayerParameter's `blobs` (7)."""
_RAW = {"float32": b"\x2a", "int8": b"\x52"}
"""Keys of the fields that hold bytes of an array: BlobProto's `data` (5, packed) and `int8_data` (10)."""
_PACKED = {"int32": "int32_data", "uint64": "uint64_data"}
"""The fields whose numbers are encoded one by one."""


def write_net(name: str, layers: Sequence[NetLayer], prototxt: Path, caffemodel: Path) -> list[Path]:
    """Both files, or none. Raises CompileError when the weights are more than protobuf reads in one file."""
    net = NetParameter(name=name or None)
    parts = [net.SerializeToString(), *chain.from_iterable(_layer(each) for each in layers)]
    size = sum(len(p) for p in parts)
    if size > MOST_BYTES:
        hint = "quantized weights take a quarter: --quantize and -t 'caffe{form=deploy}'"
        raise CompileError(
            f"would be of {size} bytes, Caffe reads up to {MOST_BYTES}", where=str(caffemodel), hint=hint
        )
    text = text_format.MessageToString(net, as_utf8=True) + "".join(map(_text, layers))
    with replacing_all(prototxt, caffemodel) as (readable, binary):
        readable.write(text.encode())
        for part in parts:
            binary.write(part)
    return [prototxt, caffemodel]


def _text(layer: NetLayer) -> str:
    inside = text_format.MessageToString(layer.proto, as_utf8=True)
    inside += f"{layer.text}\n" if layer.text else ""
    return f"layer {{\n{indent(inside, '  ')}}}\n"


def _layer(layer: NetLayer) -> list[bytes | memoryview]:
    """A layer as a field of the net, in pieces: what stands before an array, the array's bytes, and so on."""
    blobs = [_blob(b) for b in layer.blobs]
    head = LayerParameter(name=layer.proto.name, type=layer.proto.type).SerializeToString()
    inside: list[bytes | memoryview] = [head]
    for blob in blobs:
        inside += [_BLOBS + varint(len(blob.head) + len(blob.data)) + blob.head, blob.data]
    return [_LAYER + varint(sum(map(len, inside))), *inside]


class _Blob(NamedTuple):
    head: bytes
    data: memoryview


def _blob(array: Array) -> _Blob:
    """A blob as what stands before its array, and the array's bytes; a view where the array is contiguous."""
    proto = BlobProto()
    if array.ndim:
        proto.shape.dim.extend(array.shape)
    else:  # OpenCV reads no shape without axes; what blobs had before they had shapes means the same
        proto.num = proto.channels = proto.height = proto.width = 1
    if (field := _PACKED.get(array.dtype.name)) is not None:
        getattr(proto, field).extend(array.reshape(-1).tolist())
        return _Blob(proto.SerializeToString(), memoryview(b""))
    stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    size = prod(array.shape) * array.dtype.itemsize
    return _Blob(
        proto.SerializeToString() + _RAW[array.dtype.name] + varint(size), stored.reshape(-1).view(np.uint8).data
    )
