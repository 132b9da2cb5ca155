"""Scales and zero points by layer, as JSON: those of each input of a layer of a quantized `nn` module."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue

from ..dialects.nn import DequantizeOp, NNOp, QParams, is_layer
from ..dialects.nn.fused import outside
from ..ir.dtypes import numpy_dtype
from ..ir.functions import main_function
from ..rewriting import layer_of
from ..session import Session
from ..support.files import replacing
from . import Target


@dataclass(frozen=True)
class ScalesTarget(Target):
    """Writes the quantization parameters of every operand of every layer: `{"conv1": {"input": {...}, "weight": {...}}}`.

    An operand has a `type` (`int8`), a `scale` and a `zero_point`: numbers, or lists along `axis`; with `block` this many numbers
    along the axis share a scale. `real = (integer - zero_point) * scale`. Layers of a PyTorch model are the paths of its modules.
    Operands in float, and layers without any other, are left out; a warning reports if no layer is left.
    """

    name = "scales"
    ending = ".json"

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        listed = scales_of(module)
        if not listed:
            session.warn("no layer is quantized: the file of scales is empty")
        with replacing(path) as stream:
            stream.write(json.dumps(listed, indent=2, ensure_ascii=False).encode())
        return [path]


def scales_of(module: ModuleOp) -> dict[str, dict[str, Any]]:
    """The quantization parameters of operands, by layer and operand, in program order."""
    listed: dict[str, dict[str, Any]] = {}
    for op in main_function(module).body.walk():
        if not isinstance(op, NNOp) or not is_layer(op):
            continue
        for name, value in _operands(op):
            owner = value.owner
            if isinstance(value, OpResult) and isinstance(owner, DequantizeOp):
                listed.setdefault(layer_of(op), {})[name] = _described(owner.qparams.data)
    return listed


def _operands(op: NNOp) -> Iterator[tuple[str, SSAValue]]:
    """The operands with their names; those of one name have numbers (`inputs.0`)."""
    for name, _ in op.get_irdl_definition().operands:
        found: Any = getattr(op, name)
        if isinstance(found, SSAValue):
            yield name, outside(cast(SSAValue, found))
        elif found is not None:
            yield from ((f"{name}.{i}", outside(value)) for i, value in enumerate(found))


def _described(params: QParams) -> Mapping[str, Any]:
    return {
        "type": numpy_dtype(params.storage).name,
        "scale": params.scales().tolist(),
        "zero_point": params.zero_points().tolist(),
        **({} if params.axis is None else {"axis": params.axis}),
        **({} if params.block is None else {"block": params.block}),
    }
