"""Caffe files: a prototxt and its caffemodel, float or in the two forms of AMCT's quantized models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import known, shape_of
from ...formats.caffe.file import NetLayer, write_net
from ...ir.functions import main_function
from ...rewriting import Remarks
from ...session import Session
from ...support.diagnostics import CompileError, describe
from .. import Target
from ..graph import flat, in_layout, named_ends, source
from . import convolution, elementwise, linear, normalization, opaque, pooling, quantization, rows, shape
from .layer import write_operation
from .net import Form, Net, layer_proto

FAMILIES = (convolution, elementwise, linear, normalization, opaque, pooling, quantization, rows, shape)
"""The modules that register the converters."""

_ENDING = ".prototxt"

_NAMES: dict[Form, tuple[str, str]] = {
    "float": ("", ""),
    "fake-quant": ("_fake_quant_model", "_fake_quant_weights"),
    "deploy": ("_deploy_model", "_deploy_weights"),
}
"""The suffixes that AMCT appends to a model's name: for the prototxt, for the caffemodel."""


@dataclass(frozen=True)
class CaffeTarget(Target):
    """Writes `nn` to a prototxt and its caffemodel; regions of nn.fused are unpacked, NHWC becomes NCHW.

    `form=float` is for modules whose activations are not quantized. For quantized ones, `form=fake-quant` is what AMCT's Caffe
    runs, `form=deploy` what Ascend's converter reads. The files have AMCT's names: `-o P.prototxt` gives
    `P_deploy_model.prototxt` and `P_deploy_weights.caffemodel`, or the same with `fake_quant`.
    """

    name = "caffe"
    ending = _ENDING
    graph_only = True
    activation_bits: ClassVar[frozenset[int]] = frozenset({8})

    form: Literal["float", "fake-quant", "deploy"] = "float"

    def files(self, path: Path) -> list[Path]:
        if path.suffix.lower() == ".caffemodel":
            raise CompileError(
                "is a name for the weights", where=str(path), hint=f"name the net: -o {path.stem}{_ENDING}"
            )
        model, weights = _NAMES[self.form]
        stem = path.name.removesuffix(_ENDING).removesuffix(model)
        return [path.with_name(f"{stem}{model}{_ENDING}"), path.with_name(f"{stem}{weights}.caffemodel")]

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        prototxt, caffemodel = self.files(path)
        remarks = Remarks(session, self.name)
        net = _net(main_function(in_layout(module, "NCHW", session)), self.form, remarks)
        remarks.flush()
        return write_net(_name(module), net.layers, prototxt, caffemodel)


def _name(module: ModuleOp) -> str:
    """The name of the source net, if the module keeps it."""
    entries = module.attributes.get("nn.metadata")
    name = entries.data.get("name") if isinstance(entries, DictionaryAttr) else None
    return name.data if isinstance(name, StringAttr) else ""


def _net(function: FuncOp, form: Form, remarks: Remarks) -> Net:
    block, inputs, outputs, results = named_ends(function)
    net = Net(form, remarks, block, results)
    if form != "float" and not any(isinstance(op, nn.QuantizeOp) for op in flat(block)):
        hint = "--quantize makes one; -t caffe writes float modules"
        raise CompileError(
            f"there is no {form} form of a module that is not quantized", where=describe(function.location), hint=hint
        )
    for name in dict.fromkeys((*inputs, *outputs)):
        net.blobs.unique(name)
    for argument, name in zip(block.args, inputs, strict=True):
        _input(net, function, argument, name)
    for value, name, count in zip(results, outputs, map(Counter(results).get, results), strict=True):
        if count == 1 and not net.consumers.get(value) and not isinstance(value, BlockArgument):
            owner = value.owner
            net.declare(source(owner.input) if isinstance(owner, nn.ShiftAccumulatorOp) else value, name)
    for op in flat(block):
        write_operation(op, net)
    _outputs(net, function, results, outputs)
    for op in block.walk():
        if isinstance(op, nn.ObserveOp):
            remarks.note(op, "observer", "is not quantized yet: written as the identity that it is")
    return net


def _input(net: Net, function: FuncOp, argument: BlockArgument, name: str) -> None:
    """An Input layer. Caffe requires sizes; an unknown batch is written as 1."""
    sizes = shape_of(argument)
    if not all(map(known, sizes[1:])):
        message = f"input '{name}' has unknown sizes, which Caffe's Input layer does not allow"
        raise CompileError(message, where=describe(function.location), hint=f"--input-shape '{name}:1,...' gives sizes")
    if 0 in sizes:
        raise CompileError(f"input '{name}' has no elements", where=describe(function.location))
    if sizes and not known(sizes[0]):
        net.remarks.note(function, f"batch-{name}", f"input '{name}' is written with a batch of 1, Caffe reshapes nets")
    dims = [d if known(d) else 1 for d in sizes]
    proto = layer_proto(net.names.unique(name), "Input", [], [name], input_param={})
    proto.input_param.shape.add(dim=dims)
    net.layers.append(NetLayer(proto))
    net.bind(argument, name)


def _outputs(net: Net, function: FuncOp, results: Sequence[SSAValue], outputs: Sequence[str]) -> None:
    """Writes an output. Caffe's outputs are unread blobs: a value that is read, or has another name, is copied."""
    for value, name in zip(results, outputs, strict=True):
        if (blob := net.blob(value)) is None:
            raise CompileError(
                f"output '{name}' is a constant, which no layer of Caffe gives", where=describe(function.location)
            )
        if blob == name and isinstance(value, BlockArgument):
            continue
        if blob != name:
            net.identity(blob, name)
