"""Deployable ONNX files in AMCT's form for ATC: AscendQuant, layers on int8, AscendDequant, the rest in float."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx
from onnx import GraphProto, ModelProto, helper
from xdsl.dialects.builtin import ModuleOp

from ...formats.onnx.file import Initializer, external_file, write_model
from ...session import Session
from ...support.diagnostics import CompileError, Remark, first_line
from ...support.tables import numbered
from .. import Target
from ..deployed import note_int16, warn_of_floats, weight_name
from ..onnx import FAMILIES as NN_FAMILIES, check_opset
from ..onnx.graph import Form
from ..onnx.layer import CONVERTERS as NN_CONVERTERS
from ..onnx.model import check_carried, model_of, skeleton, written_graph
from . import convolution, elementwise, indexing, linear, pooling, quantization, recurrent, shape, weights
from .atc import Finding, findings
from .deployable import deployable
from .table import CONVERTERS, OPERATORS

FAMILIES = (
    *NN_FAMILIES,
    *(convolution, elementwise, indexing, linear, pooling, quantization, recurrent, shape, weights),
)
"""The modules that register the converters."""


FORM = Form("onnx-ascend", range(11, 18), {**NN_CONVERTERS, **CONVERTERS}, weight_name, inputs_are_nodes=True)


@dataclass(frozen=True)
class OnnxAscendTarget(Target):
    """Writes a quantized `nn` module, which it lowers, or an `ascend` module in NCHW to ONNX opset 11 to 17.

    Weights go into the file, or next to it with `external` and where the file would reach 2 GB.
    """

    name = "onnx-ascend"
    ending = ".onnx"
    graph_only = True
    activation_bits: ClassVar[frozenset[int]] = frozenset({4, 8, 16})

    opset: int | None = None
    """Default: 13, or the first after it that has every operation."""
    external: bool = False

    def __post_init__(self) -> None:
        if self.opset is not None:
            check_opset(self.opset, FORM)

    def files(self, path: Path) -> list[Path]:
        return [path, external_file(path)]

    def check(self, module: ModuleOp, session: Session) -> None:
        """Operators that are carried unchanged are known before the module is lowered."""
        check_carried(module, FORM, session, self.opset, start=13)

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        module = deployable(module, session)
        warn_of_floats(module, session)
        note_int16(module, session)
        graph, proto, remarks = written_graph(module, FORM, session, self.opset, start=13)
        model = model_of(graph, module)
        _check(skeleton(model, proto, graph.initializers), path)
        remarks.flush()
        _report(findings(_for_atc(model, proto, graph.initializers)), path, session)
        return write_model(model, proto, graph.initializers, path, external=self.external)


def _for_atc(model: ModelProto, graph: GraphProto, initializers: Sequence[Initializer]) -> ModelProto:
    """The whole model, its weights without their numbers."""
    whole = ModelProto()
    whole.CopyFrom(model)
    whole.graph.CopyFrom(graph)
    for name, array in initializers:
        whole.graph.initializer.add(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype))
    return whole


def _report(found: Sequence[Finding], path: Path, session: Session) -> None:
    """Reports what ATC does not take for sure in remarks, and warns if it refuses a node."""
    for each in found:
        if each.status != "confirmed":
            kind = "missed" if each.status == "refused" else "analysis"
            rule = f"atc-{each.rule}"
            session.remark(Remark(kind, FORM.target, rule, each.node, each.type, each.reason, str(path)))
    if refused := [each for each in found if each.status == "refused"]:
        first, count = refused[0], numbered(len(refused), "node")
        session.warn(
            f"ATC refuses {count} of {path.name}: {first.type} '{first.node}': {first.reason} (amct atc-check)"
        )


def _check(model: ModelProto, path: Path) -> None:
    """Runs onnx.checker on the structure, with Ascend's operators in a domain that it ignores; types are not checked."""
    for node in model.graph.node:
        if node.op_type in OPERATORS:
            node.domain = "ascend"
    model.opset_import.append(helper.make_opsetid("ascend", 1))
    try:
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
    except onnx.checker.ValidationError as e:
        raise CompileError(f"would not be a valid model: {first_line(e)}", where=str(path)) from e
