"""Where an ONNX model keeps its weights: in the raw data of the graph's initializers."""

from __future__ import annotations

from ...formats.wire import Field, Places, only, rewritten, text, without

_GRAPH = 7
"""ModelProto.graph"""
_INITIALIZER = 5
"""GraphProto.initializer"""
_NAME, _RAW_DATA = 8, 9
"""TensorProto.name, TensorProto.raw_data"""


def without_weights(data: memoryview) -> tuple[bytes, Places]:
    """The model without the bytes of its large initializers, and where these are in `data`.

    Raises MalformedError where `data` breaks off or is no protobuf message.
    """
    places: Places = {}

    def graph(field: Field) -> bytes:
        return rewritten(data, field, {_INITIALIZER: tensor})

    def tensor(field: Field) -> bytes:
        name, raw = text(data, only(data, field, _NAME)), only(data, field, _RAW_DATA)
        if raw is None or not name or name in places:
            return bytes(data[field.value : field.end])
        places[name] = raw.value, raw.end
        return without(data, field, raw)

    return rewritten(data, Field.whole(data), {_GRAPH: graph}), places
