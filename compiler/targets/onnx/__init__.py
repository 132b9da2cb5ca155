"""ONNX files: the `nn` module unchanged, float or with QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from onnx import GraphProto
from xdsl.dialects.builtin import ModuleOp

from ...dialects.nn import DequantizeFloatOp
from ...formats.onnx.file import external_file, write_model
from ...formats.onnx.schema import NEWEST_OPSET
from ...formats.onnx.tensors import stored_size
from ...ir.functions import main_function
from ...ir.metadata import metadata
from ...rewriting import Remarks
from ...session import Session
from ...support.diagnostics import CompileError
from ...transforms.quantization.profiles import Profile
from .. import Target
from ..graph import in_layout
from . import convolution, elementwise, linear, normalization, opaque, pooling, quantization, rows, shape
from .graph import Form, Graph
from .integer_activations import with_integer_activations, with_unsigned_activations
from .layer import CONVERTERS
from .model import check, model_of, skeleton, written_graph
from .nbits import OPERATORS, with_nbits
from .quantization import simulated

FAMILIES = (convolution, elementwise, linear, normalization, opaque, pooling, quantization, rows, shape)
"""The modules that register the converters."""

FORM = Form("onnx", range(13, NEWEST_OPSET + 1), CONVERTERS)

UNSIGNED_OPSET = 21
"""The first opset in which activations are uint8. If int8 kernels are slow (x86), onnxruntime stores int8 activations as uint8,
and then rejects the QuantizeLinear that it inserts after operators that move elements: it has `output_dtype` INT8 since opset 21.
"""


@dataclass(frozen=True)
class OnnxTarget(Target):
    """Writes `nn` to ONNX opset 13 to 26; regions of nn.fused are unpacked, observers are left out with a remark.

    Weights go into the file, or next to it with `external` and where the file would reach 2 GB.
    """

    name = "onnx"
    ending = ".onnx"
    graph_only = True

    opset: int | None = None
    """The opset of the file. Default: that of the source (17 if it is not ONNX), or the first after it that can express
    every operation.
    """
    external: bool = False
    matmul_nbits: bool = False
    """Products with weights in groups become onnxruntime's MatMulNBits, which keeps them packed and computes in float32; else
    DequantizeLinear and MatMul, which take opset 21.
    """
    simulate_formats: bool = False
    """Weights in number formats (`weight-format`) become the float32 numbers that they stand for, which every runtime reads; else
    DequantizeLinear, for which onnxruntime has kernels where they are floats of 8 bits with scales of float32.
    """

    def __post_init__(self) -> None:
        if self.opset is not None:
            check_opset(self.opset, FORM)

    def files(self, path: Path) -> list[Path]:
        return [path, external_file(path)]

    def check(self, module: ModuleOp, session: Session) -> None:
        silent = session.silent()
        written_graph(in_layout(module, "NCHW", silent), self._form(session), silent, self.opset)

    def _form(self, session: Session) -> Form:
        """The converters, those of the session first."""
        converters = with_nbits(CONVERTERS) if self.matmul_nbits else CONVERTERS
        if self.simulate_formats:
            converters = {**converters, DequantizeFloatOp: simulated}
        return replace(FORM, converters={**converters, **session.writers.get(self.name, {})})

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        if self.simulate_formats and not any(isinstance(op, DequantizeFloatOp) for op in module.walk()):
            session.warn("simulate-formats has nothing to do: no weight is in a number format")
        written, graph, proto, remarks = self._graph(module, session)
        model = model_of(graph, module)
        check(skeleton(model, proto, graph.initializers), main_function(written), remarks, path)
        own = remarks.flush()
        if self.matmul_nbits and not any(each.op_type in OPERATORS for each in proto.node):
            why = (f"'{each.layer}' {each.reason}" for each in own if each.rule == "matmul-nbits")
            nothing = "no product or table of embeddings has a weight of integers"
            session.warn(f"matmul-nbits has nothing to do: {next(why, nothing)}")
        return write_model(model, proto, graph.initializers, path, external=self.external)

    def stored_bytes(self, module: ModuleOp, session: Session) -> int:
        """Bytes of all arrays in the file that `write` makes of a module. Raises CompileError as it does."""
        _, graph, _, _ = self._graph(module, session)
        return sum(stored_size(each.array) for each in graph.initializers)

    def _graph(self, module: ModuleOp, session: Session) -> tuple[ModuleOp, Graph, GraphProto, Remarks]:
        """The module in its written form, and what `written_graph` gives for it."""
        written = _written_form(in_layout(module, "NCHW", session), session)
        graph, proto, remarks = written_graph(written, self._form(session), session, self.opset)
        if graph.opset < UNSIGNED_OPSET or (unsigned := with_unsigned_activations(written)) is written:
            return written, graph, proto, remarks
        return unsigned, *written_graph(unsigned, self._form(session), session, self.opset)


def check_opset(opset: int, form: Form) -> None:
    """Raises CompileError for an opset that the form does not support."""
    if opset not in form.opsets:
        hint = f"opsets are {form.opsets[0]} to {form.opsets[-1]}"
        raise CompileError(f"target {form.target} does not write opset {opset}", hint=hint, option="opset")


def _written_form(module: ModuleOp, session: Session) -> ModuleOp:
    """The module with activations in the form for files of its profile."""
    name = metadata(module).get("profile", session.profile)
    profile = cast(Profile, session.profiles[name]) if name in session.profiles else None
    if profile is None or profile.unsigned_file == "none":
        return module
    return with_integer_activations(module, profile)
