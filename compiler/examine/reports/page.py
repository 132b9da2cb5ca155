"""Draws the report: the data of the page, and the page around it, which opens without a network."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from math import isfinite
from typing import Any

from ...ir.metadata import tool_version
from ...support.diagnostics import CompileError, Remark
from ...support.tables import numbered
from ...transforms.quantization.options import RECOVERY
from .advice import GOOD, POOR, advice
from .network import QUANTIZING
from .reading import STAGES, DrawnLayer, Run

_MOST_LAYERS = 3000
"""Rows of the table; a larger network shows its worst layers."""
_MOST_DETAILS = 400
"""Most layers with drawings of their own."""
_MOST_REMARKS = 1000
_RECOVERY = frozenset(step.name for step in RECOVERY)


def page_of(run: Run, rounded: Sequence[tuple[str, str, str]] = ()) -> str:
    """The HTML of a run. `rounded` are layers that onnxruntime computes in float or rounds twice, why, and what mends that.

    Raises CompileError if plotly or jinja2 is missing.
    """
    jinja2, offline = imported("jinja2"), imported("plotly.offline")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    plotly = b64encode(gzip.compress(offline.get_plotlyjs().encode(), mtime=0)).decode()
    context = {**_contents(run), "rounded": rounded, "plotly": plotly, "drawn": _drawn(run)}
    return environment.get_template("report.html").render(context)


def imported(name: str) -> Any:
    """A module of the extra. Raises CompileError, with the command that installs it."""
    try:
        return import_module(name)
    except ImportError:
        hint = "pip install 'amct-opt[report]'"
        raise CompileError(f"the report requires {name.partition('.')[0]}, which is not installed", hint=hint) from None


def _contents(run: Run) -> dict[str, Any]:
    """The values for the template."""
    layers, notes = run.layers, list(run.absent)
    if len(layers) > _MOST_LAYERS:
        notes.append(
            f"The table and the points of the curve show the {_MOST_LAYERS} worst of {len(layers)} layers; "
            "summary.json lists all of them."
        )
    recovery = [_recovered(r) for r in run.remarks if r.pass_name in _RECOVERY]
    return {
        "run": run,
        "stages": STAGES,
        "verdict": _verdict(run),
        "answered": _answered(run),
        "latency": _latency(run),
        "advice": advice(run),
        "layers": _shown(layers),
        "total": len(layers),
        "counts": _counts(layers),
        "recovery": recovery[:_MOST_REMARKS],
        "others": [(title, rows[:_MOST_REMARKS], len(rows)) for title, rows in _other_remarks(run.remarks) if rows],
        "clipped": partial(_clipped, run),
        "notes": notes,
        "size": _size,
        "numbered": numbered,
        "version": tool_version(),
    }


def _verdict(run: Run) -> tuple[str, str]:
    """A word for the color, and a sentence."""
    if run.synthetic:
        return "unknown", "Measured on synthetic inputs: the figures say little about real data."
    worst = run.worst
    if worst is None or worst.sqnr is None:
        return (
            ("good", "All outputs equal those of the float model.")
            if run.outputs
            else ("unknown", "Nothing was measured.")
        )
    words = ((GOOD, "good", "follow the float model closely"), (POOR, "fair", "follow the float model"))
    word, verb = next(
        ((w, v) for limit, w, v in words if worst.sqnr >= limit), ("poor", "do not follow the float model")
    )
    apart = "held back from calibration" if run.held_back else "that also calibrated"
    where = f" in onnxruntime on {(run.onnxruntime or {}).get('processor', '')}" if worst.stage == "file" else ""
    on = f"{numbered(run.samples, 'sample')} {apart}"
    return word, f"The quantized outputs {verb}: {worst.sqnr:.1f} dB at the worst output{where}, on {on}."


def _latency(run: Run) -> str:
    """The time that the profile's engine takes for both models, if it was measured."""
    if len(run.latency) != 2:
        return ""
    before, after = run.latency
    return f"{before:.4g} ms in float, {after:.4g} ms for the ONNX file"


def _answered(run: Run) -> str:
    """The right answers in float and quantized, if there are labels."""
    found = {each.stage: each for each in run.answers}
    if not {"float", "fake_quantized"} <= found.keys():
        return ""
    whole, quantized = found["float"], found["fake_quantized"]
    on = numbered(whole.count, "sample")
    return f"Top-1 is {quantized.percent:.2f} % quantized and {whole.percent:.2f} % in float, on {on}."


def _badness(layer: DrawnLayer) -> float:
    return float("inf") if layer.error is None or layer.error.sqnr is None else layer.error.sqnr


def _shown(layers: Sequence[DrawnLayer]) -> list[tuple[int, DrawnLayer]]:
    """The worst layers, with their places, in the order of the network."""
    worst = sorted(enumerate(layers), key=lambda each: _badness(each[1]))[:_MOST_LAYERS]
    return sorted(worst, key=lambda each: each[0])


def _counts(layers: Sequence[DrawnLayer]) -> dict[str, int]:
    return {decision: sum(x.decision == decision for x in layers) for decision in ("quantized", "inside", "float")}


def _clipped(run: Run, layer: DrawnLayer) -> float | None:
    """The largest part of an input of a layer that is clipped."""
    if run.measured is None:
        return None
    seen = [run.measured.activations[p.index] for p in layer.points if p.index < len(run.measured.activations)]
    return max((each.clipped for each in seen if each is not None), default=None)


def _recovered(remark: Remark) -> dict[str, Any]:
    """A row of the table of recovery, with the dB before and after, rounded to draw, if they are finite."""
    known = remark.gain is not None and all(map(isfinite, remark.gain))
    before, after = (round(dB, 1) for dB in remark.gain) if remark.gain is not None and known else (None, None)
    return {**asdict(remark), "before": before, "after": after}


def _other_remarks(remarks: Iterable[Remark]) -> list[tuple[str, list[Remark]]]:
    """The remarks that are not about single layers of the quantized module, by title."""
    rows = list(remarks)
    quantized = {r.layer for r in rows if r.pass_name in QUANTIZING and r.kind == "applied" and r.rule == "quantized"}
    return [
        (
            "Quantized differently than requested",
            [r for r in rows if r.layer in quantized and r.pass_name in QUANTIZING and r.kind == "missed"],
        ),
        (
            "Not lowered to Ascend integers",
            [r for r in rows if r.pass_name == "lower-to-ascend" and r.kind == "missed"],
        ),
        ("Not fused", [r for r in rows if r.pass_name.startswith("fuse-") and r.kind == "missed"]),
        ("Merged into other layers", [r for r in rows if r.pass_name.startswith("fuse-") and r.kind == "applied"]),
    ]


def _drawn(run: Run) -> dict[str, Any]:
    """The data for the script that draws."""
    layers = run.layers
    detailed = [x for x in layers if x.points or x.weights]
    kept = sorted(detailed, key=_badness)[:_MOST_DETAILS]
    chosen = {id(x) for x in kept}
    measured = [(i, x.error.sqnr) for i, x in enumerate(layers) if x.error is not None]
    curve = [(i, x, x.error.sqnr) for i, x in _shown(layers) if x.error is not None]
    seen = () if run.measured is None else run.measured.activations
    shown = {p.index for x in kept for p in x.points}
    return {
        "curve": {
            "line": {"x": [i for i, _ in measured], "y": [sqnr for _, sqnr in measured]},
            "place": [i for i, _, _ in curve],
            "layer": [x.name for _, x, _ in curve],
            "op": [x.op for _, x, _ in curve],
            "decision": [x.decision for _, x, _ in curve],
            "sqnr": [sqnr for _, _, sqnr in curve],
            "drop": [x.drop for _, x, _ in curve],
        },
        "poor": POOR,
        "layers": [
            {
                "place": i,
                "name": x.name,
                "op": x.op,
                "drop": x.drop,
                "points": [vars(p) for p in x.points],
                "weights": vars(x.weights) if x.weights else None,
            }
            for i, x in enumerate(layers)
            if id(x) in chosen
        ],
        "left_out": len(detailed) - len(kept),
        "activations": {i: vars(a) for i, a in enumerate(seen) if a is not None and i in shown},
        "recovery": [
            {
                "layer": row["layer"],
                "pass": row["pass_name"],
                "before": row["before"],
                "after": row["after"],
                "kind": row["kind"],
            }
            for row in map(_recovered, (r for r in run.remarks if r.pass_name in _RECOVERY))
            if row["before"] is not None
        ][:_MOST_REMARKS],
    }


def _size(count: Any) -> str:
    return f"{count / 1000:,.1f} kB" if isinstance(count, int | float) else ""
