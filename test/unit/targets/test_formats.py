"""docs/conformance.md says what each format makes of each operation, and which operators are read: AMCT_UPDATE=1 writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from amct_opt.dialects import nn
from amct_opt.formats.onnx.operators import ROWS
from amct_opt.formats.rows import Row
from amct_opt.frontends.caffe.ops import CONVERTERS as CAFFE
from amct_opt.frontends.onnx import ops as ops  # registers the converters
from amct_opt.frontends.onnx.node import CONVERTERS as ONNX
from amct_opt.frontends.tensorflow.ops import CONVERTERS as TENSORFLOW
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets import Target, caffe, onnx, tensorflow
from amct_opt.targets.caffe import CaffeTarget
from amct_opt.targets.onnx import FORM, OnnxTarget
from amct_opt.targets.tensorflow import TfFakequantTarget

from .caffe.test_operations import FORMS
from .operations import CASES, Case, operations_of


class Adds(NamedTuple):
    """The method of a layer that adds a node, and the places of two arguments."""

    method: str
    operator: int
    name: int


FORMATS: Mapping[str, tuple[Target, Any, Adds, Mapping[str, Case]]] = {
    "ONNX": (OnnxTarget(opset=FORM.opsets[-1]), onnx.layer.OnnxLayer, Adds("emit", 0, 3), CASES),
    "TensorFlow": (TfFakequantTarget(), tensorflow.layer.TensorFlowLayer, Adds("emit", 0, 3), CASES),
    "Caffe": (
        CaffeTarget(),
        caffe.layer.CaffeLayer,
        Adds("_add", 1, 0),
        {**CASES, **{f"form-{name}": case for name, case in FORMS.items()}},
    ),
}
"""By format: the target, how nodes are added to its layers, and the cases to write."""

_SINCE: Mapping[type[nn.NNOp], Row] = {row.kind: row for row in ROWS if row.since > FORM.opsets[0]}
"""The operators that ONNX has not had from the first opset on that is written."""

_LEFT_OUT = (nn.ConstantOp, nn.FusedOp, nn.YieldOp, nn.ObserveOp, nn.OpaqueOp)
_QUANTIZED = (nn.QuantizeOp, nn.QuantizeFloatOp, nn.DequantizeOp, nn.DequantizeFloatOp, nn.ShiftAccumulatorOp)
_OPERATIONS = [op for op in nn.OPERATIONS if op not in (*_LEFT_OUT, *_QUANTIZED)]

_WRITTEN = """\
What `-t onnx`, `-t tf-fakequant` and `-t caffe` make of each operation of `nn`. Written by

    AMCT_UPDATE=1 python -m pytest test/unit/targets/test_formats.py

and checked by the same test, which writes every case of `test/unit/targets/operations.py`: that a file computes what the module
does, the tests next to it show. Each cell has the operators that the operation becomes (after a number: from that opset on).

* **expanded**: it is written as its expansion in simpler operations of `nn`, in all forms or in some.
* **refused**: an error at the operation says what the format lacks, for all forms or for some. Of what is expanded, a step may be
  refused.

Constants are data of files, regions of `nn.fused` are unpacked, observers are left out, and operators that are carried
(`nn.opaque`) go back to files of their own framework. [deploy.md](deploy.md) shows how quantized layers are written, and
[linalg.md](linalg.md#operations) has this table for upstream MLIR."""

_READ = """\
These operators are converted to `nn`, in all forms or in some. Of ONNX, those that ONNX itself defines as functions of these
(Attention, Celu) are converted, too. Everything else is carried as it is (`nn.opaque`), or an error says what it lacks.
Written and checked as the table above."""


def cells(name: str, folder: Path) -> dict[str, str]:
    """By operation, the operators and words of its cell."""
    target, layer, adds, cases = FORMATS[name]
    operators: dict[str, set[str]] = {}
    words: dict[str, set[str]] = {}
    for case in cases.values():
        with pytest.MonkeyPatch.context() as patch:
            nodes, expanded = _watch(layer, adds, patch)
            try:
                target.write(case.module(), folder / f"net{target.ending}", new_session())
            except CompileError as e:
                kinds = {op.name for op in operations_of(case)}
                for kind in {kind for kind in kinds if e.message.startswith(f"'{kind}' op")} or kinds:
                    words.setdefault(kind, set()).add("refused")
                continue
        for kind in expanded:
            words.setdefault(kind, set()).add("expanded")
        for kind in nodes.keys() - expanded:
            operators.setdefault(kind, set()).update(nodes[kind])
    return {op.name: _cell(op, operators.get(op.name, ()), words.get(op.name, set()), name) for op in _OPERATIONS}


def _cell(op: type[Any], operators: Iterable[str], words: set[str], name: str) -> str:
    since = _SINCE.get(op) if name == "ONNX" else None
    if since is not None and op in nn.expandable():
        words.add("expanded")
    opsets = {since.op_type: f" ({since.since})"} if since else {}
    return ", ".join(
        [*(f"{o}{opsets.get(o, '')}" for o in sorted(operators)), *(f"*{word}*" for word in sorted(words))]
    )


def _watch(layer: Any, adds: Adds, patch: pytest.MonkeyPatch) -> tuple[dict[str, set[str]], set[str]]:
    """The operators that are added for each operation, and the operations that are expanded, from now on.

    An operation is the nodes with its own name; if it has none (QuantizeLinear), all that are made for it.
    """
    found: dict[str, dict[bool, set[str]]] = {}
    nodes: dict[str, set[str]] = {}
    expanded: set[str] = set()
    add, by_steps = getattr(layer, adds.method), layer.expanded

    def added(self: Any, *args: Any, **kwargs: Any) -> Any:
        of_kind = found.setdefault(self.op.name, {True: set(), False: set()})
        of_kind[args[adds.name] == self.label].add(args[adds.operator])
        nodes[self.op.name] = of_kind[True] or of_kind[False]
        return add(self, *args, **kwargs)

    def stepped(self: Any, *args: Any) -> Any:
        expanded.add(self.op.name)
        return by_steps(self, *args)

    patch.setattr(layer, adds.method, added)
    patch.setattr(layer, "expanded", stepped)
    return nodes, expanded


@pytest.mark.slow
def test_operations_in_files(tmp_path: Path, conformance: Any) -> None:
    columns = {name: cells(name, tmp_path) for name in FORMATS}
    rows = {op.name: [columns[name][op.name] for name in FORMATS] for op in _OPERATIONS}
    assert all(all(row) for row in rows.values()), "no case shows what a format makes of an operation"
    table = [f"| `{kind}` | {' | '.join(row)} |" for kind, row in rows.items()]
    head = [f"| operation | {' | '.join(FORMATS)} |", f"|---|{'---|' * len(FORMATS)}"]
    conformance.hold("Operations in files", [_WRITTEN, "", *head, *table], _WRITTEN)


def test_operators_that_are_read(conformance: Any) -> None:
    names = {
        "ONNX": [op_type for domain, op_type in ONNX if not domain],
        **{domain: [op_type for d, op_type in ONNX if d == domain] for domain, _ in ONNX if domain},
        "TensorFlow": TENSORFLOW,
        "Caffe": CAFFE,
    }
    table = [f"| {name} | {', '.join(sorted(each))} |" for name, each in names.items()]
    conformance.hold("Operators that are read", [_READ, "", "| | operators |", "|---|---|", *table], _READ)
