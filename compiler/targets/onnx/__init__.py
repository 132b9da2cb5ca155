"""ONNX files: the `nn` module as it stands, float or with QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ...diagnostics import CompileError
from ...dialects import nn
from ...functions import main_function
from ...rewriting import Remarks
from ...session import Session
from .. import Target
from ..layout import in_layout
from . import blocks, convolution, elementwise, linear, normalization, opaque, pooling, quantization, shape
from .file import external_file, write_model
from .graph import Form
from .integer_activations import with_integer_activations
from .layer import CONVERTERS
from .model import check, graph_of, metadata, model_of, skeleton

FAMILIES = (blocks, convolution, elementwise, linear, normalization, opaque, pooling, quantization, shape)
"""The modules that register the converters."""

FORM = Form("onnx", range(13, 22), CONVERTERS)


@dataclass(frozen=True)
class OnnxTarget(Target):
    """Writes `nn` to ONNX opset 13 to 21; regions of nn.fused are taken apart, observers left out with a remark.

    Weights go into the file, or beside it with `external` and where the file would reach 2 GB.
    """

    name = "onnx"
    ending = ".onnx"

    opset: int | None = None
    """17 when not given; 21 where integers of 4 or 16 bits are quantized to, which QuantizeLinear has from then on."""
    external: bool = False

    def __post_init__(self) -> None:
        if self.opset is not None:
            check_opset(self.opset, FORM)

    def files(self, path: Path) -> list[Path]:
        return [path, external_file(path)]

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        function = main_function(_written_form(in_layout(module, "NCHW", session), session))
        remarks = Remarks(session, self.name)
        graph, proto = graph_of(function, FORM, self.opset or _opset_for(function), remarks)
        model = model_of(graph, module)
        check(skeleton(model, proto, graph.initializers), function, remarks, path)
        remarks.flush()
        return write_model(model, proto, graph.initializers, path, external=self.external)


def _opset_for(function: FuncOp) -> int:
    widths = {
        op.qparams.data.storage.width.data for op in function.walk() if isinstance(op, (nn.QuantizeOp, nn.DequantizeOp))
    }
    return 21 if widths & {4, 16} else 17


def check_opset(opset: int, form: Form) -> None:
    """Raises CompileError for an opset that the form does not have."""
    if opset not in form.opsets:
        hint = f"opsets are {form.opsets[0]} to {form.opsets[-1]}"
        raise CompileError(f"target {form.target} does not write opset {opset}", hint=hint)


def _written_form(module: ModuleOp, session: Session) -> ModuleOp:
    """The module as the profile that it was quantized by has its activations in files."""
    name = metadata(module).get("amct_opt.profile", session.profile)
    if name not in session.profiles or not (profile := session.profiles[name]).unsigned_file:
        return module
    return with_integer_activations(module, profile)
