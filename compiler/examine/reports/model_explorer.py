"""Node data for Model Explorer: the error of each layer on the graph of the ONNX file.

The form is `{graph: {"results": {node: {"value": number}}, "thresholds": [...]}}`. Its ONNX adapter names a graph by the name in
the file, and a node by the node's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...support.diagnostics import CompileError
from .reading import LAYERS, Run

_COLORS: Sequence[tuple[float, str]] = (
    (10, "#d32f2f"),
    (15, "#ff5722"),
    (20, "#ffa000"),
    (30, "#fdd835"),
    (40, "#aed581"),
    (1000, "#66bb6a"),
)
"""Up to this many dB a node has this color."""


def node_data(run: Run) -> dict[str, Any]:
    """SQNR in dB by node; layers with equal results are left out. Raises CompileError, located, without file or errors."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    file = run.folder / run.files.get("onnx", "")
    if not file.is_file():
        raise CompileError("the folder has no ONNX file, on whose graph errors are shown", where=str(run.folder))
    if run.measured is None:
        hint = "run amct quantize again, without --no-report"
        raise CompileError(
            f"the errors of layers were not measured: {LAYERS} is missing", where=str(run.folder), hint=hint
        )
    try:
        graph = ModelProto.FromString(file.read_bytes()).graph
    except DecodeError:
        raise CompileError("is not an ONNX file", where=str(file)) from None
    errors = run.measured.layers
    values = {node.name: error.sqnr for node in graph.node if (error := errors.get(node.name)) is not None}
    return {
        graph.name: {
            "results": {name: {"value": round(sqnr, 2)} for name, sqnr in values.items() if sqnr is not None},
            "thresholds": [{"value": value, "bgColor": color} for value, color in _COLORS],
        }
    }
