"""Deployable TensorFlow files in AMCT's form for ATC: layers between AscendQuant and AscendDequant, the rest in float."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ...formats.tensorflow.file import write_graph
from ...ir.functions import main_function
from ...rewriting import Remarks
from ...session import Session
from .. import Target
from ..deployed import warn_of_floats, weight_name
from ..tensorflow import FAMILIES as NN_FAMILIES, fill
from ..tensorflow.graph import Form, Graph
from ..tensorflow.layer import CONVERTERS as NN_CONVERTERS
from . import layers, movement, quantization
from .deployable import deployable
from .table import CONVERTERS

FAMILIES = (*NN_FAMILIES, layers, movement, quantization)
"""The modules that register the converters."""

FORM = Form({**NN_CONVERTERS, **CONVERTERS}, weight_name)


@dataclass(frozen=True)
class TfAscendTarget(Target):
    """Writes a quantized `nn` module, whose layers it lowers, or an `ascend` module in NHWC to a frozen GraphDef for ATC.

    TensorFlow itself does not have these operators.
    """

    name = "tf-ascend"
    ending = ".pb"
    graph_only = True
    activation_bits: ClassVar[frozenset[int]] = frozenset({8})

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        module = deployable(module, session)
        warn_of_floats(module, session)
        remarks = Remarks(session, self.name)
        graph = Graph(remarks, FORM)
        fill(graph, main_function(module))
        write_graph(graph.nodes, path)
        remarks.flush()
        return [path]
