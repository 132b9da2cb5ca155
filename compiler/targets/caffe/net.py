"""A net under construction: its layers, and the blob names of the module's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import nn
from ...formats.caffe.file import NetLayer
from ...formats.caffe.schema import LayerParameter, Message, fill
from ...ir.unique_names import Names
from ...rewriting import Remarks
from ..graph import flat, label_of, source

Array = np.ndarray[Any, np.dtype[Any]]

Form = Literal["float", "fake-quant", "deploy"]


def layer_proto(
    name: str, kind: str, bottoms: Sequence[str], tops: Sequence[str], **params: dict[str, object]
) -> Message:
    """A LayerParameter; `params` are its messages `..._param` by name."""
    proto = LayerParameter(name=name, type=kind, bottom=bottoms, top=tops)
    fill(proto, dict(params))
    return proto


class Net:
    """Layers in the order in which they run. A blob has the name of its layer, an output its own name."""

    def __init__(self, form: Form, remarks: Remarks, block: Block, outputs: Sequence[SSAValue]):
        self.form = form
        self.remarks = remarks
        self.outputs: frozenset[SSAValue] = frozenset(outputs)
        self.consumers: dict[SSAValue, list[Operation]] = {}
        """The operations that compute with a value, in order."""
        self.quantized: dict[tuple[SSAValue, nn.QParamsAttr], SSAValue] = {}
        """The first quantization by value and parameters, which represents all equal ones."""
        self._last: dict[str, Operation] = {}
        for op in flat(block):
            self._last[label_of(op)] = op
            for value in dict.fromkeys(map(source, op.operands)):
                self.consumers.setdefault(value, []).append(op)
        self.names: Names = Names()
        self.blobs: Names = Names()
        self.layers: list[NetLayer] = []
        self._blobs: dict[SSAValue, str] = {}
        self._declared: dict[SSAValue, str] = {}

    def label(self, op: Operation) -> str:
        """The name of an operation's layer; if a layer became several operations, the last one has its name."""
        label = label_of(op)
        return label if self._last[label] is op else f"{label}/{op.name.partition('.')[2]}"

    def declare(self, value: SSAValue, name: str) -> None:
        """Fixes the blob of a value that is only an output."""
        self._declared[value] = name

    def declared(self, value: SSAValue) -> str | None:
        return self._declared.get(source(value))

    def is_read(self, value: SSAValue) -> bool:
        """Whether a value is an output, or an operation computes with it."""
        return value in self.outputs or bool(self.consumers.get(value))

    def bind(self, value: SSAValue, blob: str) -> None:
        self._blobs[value] = blob

    def blob(self, value: SSAValue) -> str | None:
        """The blob of a value; None for a constant, which has no layer."""
        return self._blobs.get(source(value))

    def identity(self, blob: str, name: str) -> None:
        """A layer that copies a blob to another name: `(0 + 1 * x)^1`, which is exact and in every Caffe."""
        self.layers.append(NetLayer(layer_proto(self.names.unique(name), "Power", [blob], [name])))
