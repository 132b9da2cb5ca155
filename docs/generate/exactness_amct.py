"""Writes the part of docs/measured/exactness.md on AMCT: `exactness_amct.py FOLDER HERE [NETWORK/CASE ...]` (some minutes).

FOLDER has what AMCT for PyTorch wrote: per network `model.pt2` and `calib.npz`, per case `config.json`, `record.txt`,
`net_deploy_model.onnx`, `batch_num.txt` and, unless the defaults are meant, `quant.cfg`. Ours are made from the same model, data
and configuration, the deployable file from AMCT's record. HERE has, by case, the `record.txt` that AMCT wrote of the same on the
processor that runs this script, with as many threads. Rows of cases that are not named stay.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from amct_opt import Loaded, frontends
from amct_opt.amct import shared
from amct_opt.configuration.record import LayerRecord, read_record
from amct_opt.flows.calibration import calibration_options
from amct_opt.flows.conversion import convert_file
from amct_opt.flows.network import simplify_and_fuse
from amct_opt.lowering.ascend.profiles import like_amct
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.support.files import scratch
from amct_opt.targets.record import RecordTarget
from amct_opt.transforms.quantization.options import AUTOMATIC, DataOptions
from amct_opt.transforms.quantization.quantize import quantize
from amct_opt.transforms.quantization.request import request_of

_NAMED = 2
"""Layers up to this number are named."""
PAGE = Path(__file__).parents[1] / "measured/exactness.md"
BEGIN, END = "<!-- begin amct (generated) -->", "<!-- end amct (generated) -->"
FIELDS = ("scale_d", "offset_d", "scale_w", "tensor_balance_factor")
HEAD = (
    "| case | config keys | scale_d | offset_d | scale_w | factors | weights | biases | parameters | record, same processor |",
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
)


def numbers(layers: Mapping[str, LayerRecord], field: str) -> Iterator[tuple[str, int, float]]:
    for name, layer in layers.items():
        found = getattr(layer, field)
        for i, value in enumerate(found if isinstance(found, tuple) else () if found is None else (found,)):
            yield name, i, value


def differing(real: Mapping[Any, Any], ours: Mapping[Any, Any]) -> str:
    """How many entries differ or are only on one side; for floats with the largest relative difference, and the layers if they
    are few.
    """
    bad = [key for key in real.keys() | ours.keys() if real.get(key) != ours.get(key)]
    both = [(real[key], ours[key]) for key in bad if isinstance(real.get(key), float) and key in ours]
    most = max((abs(a - b) / abs(a) for a, b in both), default=0.0)
    count = f"{len(bad)} of {len(real)}"
    if not both:
        return count
    layers = list(dict.fromkeys(key[0] for key in bad))
    return f"{count}, {most:.0e}" + (f" ({', '.join(layers)})" if len(layers) <= _NAMED else "")


def records(real: Path, ours: Path) -> list[str]:
    sides = read_record(real).layers, read_record(ours).layers
    cells: list[str] = []
    for field in FIELDS:
        a, b = ({(name, i): value for name, i, value in numbers(side, field)} for side in sides)
        as_float = field != "offset_d"
        cells.append(
            differing(*({k: float(np.float32(v)) if as_float else v for k, v in x.items()} for x in (a, b)))
            if a
            else ""
        )
    return cells


def integers(path: Path) -> Mapping[str, Mapping[tuple[str, int], int]]:
    """The int8, int32 and uint64 numbers of a deployable file, by layer."""
    model = onnx.load(path)
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    found: dict[str, dict[tuple[str, int], int]] = {"int8": {}, "int32": {}, "uint64": {}}
    for node in model.graph.node:
        given = [arrays[name] for name in node.input if name in arrays]
        if node.op_type != "AscendDequant" and not any(each.dtype == np.int8 for each in given):
            continue
        for each in given:
            if str(each.dtype) in found:
                rows = enumerate(each.reshape(-1).tolist())
                found[str(each.dtype)].update({(node.name, i): value for i, value in rows})
    return found


def loaded(model: Path) -> Loaded:
    session = new_session()
    session.prints = ()
    return Loaded(frontends.read(model, session), session)


def batches(calib: Path, runs: int) -> str:
    """A file of a function that gives the samples in this many runs."""
    return (
        f"import numpy as np\ndef batches():\n    arrays = dict(np.load({str(calib)!r}))\n"
        f"    parts = [np.split(array, {runs}) for array in arrays.values()]\n"
        "    yield from (tuple(each) if len(each) > 1 else each[0] for each in zip(*parts))\n"
    )


def beside(here: Path, ours: Path) -> str:
    """Whether two records have the same layers in the same order and, of these, the numbers that differ, by field."""
    sides = [read_record(at).layers for at in (here, ours)]
    if list(sides[0]) != list(sides[1]):
        return "other layers, or another order"
    found = [
        f"{field} {cell}" for field, cell in zip(FIELDS, records(here, ours), strict=True) if cell[:2] not in ("", "0 ")
    ]
    return ", ".join(found) or "equal"


def row(case: Path, here: Path, work: Path) -> str:
    model, runs = case.parent / "model.pt2", int((case / "batch_num.txt").read_text())
    simple = case / "quant.cfg"
    shared.create_config(loaded(model), work / "config.json", None, *_defaults(simple, runs), framework="pytorch")
    real, ours = (json.loads((at / "config.json").read_text()) for at in (case, work))
    record = _record(model, case, runs, work)
    cells, last = [differing(real, ours), *records(case / "record.txt", record)], beside(here / "record.txt", record)
    try:
        session = new_session()
        session.prints = ()
        convert_file(model, str(case / "record.txt"), f"{work}/net", session)
    except CompileError as e:
        return (
            "| " + " | ".join([f"{case.parent.name}/{case.name}", *cells, f"refused: {e.message}", "", "", last]) + " |"
        )
    if not real.get("do_fusion", True):  # which the record does not say
        return "| " + " | ".join([f"{case.parent.name}/{case.name}", *cells, "", "", "", last]) + " |"
    pairs = [integers(at / "net_deploy_model.onnx") for at in (case, work)]
    cells += [differing(*(each[kind] for each in pairs)) for kind in ("int8", "int32", "uint64")]
    return "| " + " | ".join([f"{case.parent.name}/{case.name}", *cells, last]) + " |"


def _defaults(simple: Path, runs: int) -> tuple[int, bool, Path | None]:
    return (1, True, simple) if simple.exists() else (runs, True, None)


def _record(model: Path, case: Path, runs: int, work: Path) -> Path:
    """The record that ours is calibrated to."""
    module, session = loaded(model)
    like_amct(module, session)
    request = request_of(calibration_options(str(case / "config.json")), session)
    function = work / "batches.py"
    function.write_text(batches(case.parent / "calib.npz", runs))
    simplify_and_fuse(request, module, session)
    quantize(module, request, DataOptions(f"{function}:batches", batch_num=runs), AUTOMATIC, session)
    RecordTarget(flavour="pytorch").write(module, work / "record.txt", session)
    return work / "record.txt"


def main(folder: str, here: str, *cases: str) -> None:
    root = Path(folder)
    named = cases or sorted(f"{p.parent.parent.name}/{p.parent.name}" for p in root.glob("*/*/net_deploy_model.onnx"))
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    rows = {m[1]: line for line in old.splitlines() if (m := re.match(r"\| (\w[^|]*/[^| ]*) \|", line))}
    for case in named:
        if not (root / case / "batch_num.txt").exists():
            continue
        with scratch() as work:
            rows[case] = row(root / case, Path(here) / case, work)
        print(rows[case], flush=True)
        table = "\n".join([*HEAD, *(rows[name] for name in sorted(rows))])
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
