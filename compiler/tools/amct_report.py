"""`amct report`: one page about a finished run, and its errors for Model Explorer."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .parser import add_command
from .shared import add_json, print_json

if TYPE_CHECKING:
    from ..examine.reports.reading import Run
    from ..flows.summary import Summary

_DESCRIPTION = """\
Writes OUT/report.html about the folder that amct quantize wrote: summary, what to try next, the error of each layer along the
network, histograms of activations with clip lines, ranges of weights, every layer with decision, rule and reason, and what
recovery changed. The page contains everything that it needs and opens without a network.

Requires the extra "report": pip install 'amct-opt[report]'. amct quantize writes the page itself where it is installed."""


def add_parser(commands: Any) -> None:
    """The command `amct report` and its options."""
    usage, summary = "OUT [options]", "write one page about a finished run"
    parser = add_command(commands, "report", usage, summary, _DESCRIPTION, run)
    parser.add_argument("folder", metavar="OUT", type=Path, help="the folder that amct quantize wrote")
    text = "write OUT/model_explorer.json instead: the error of each layer, as node data for OUT's ONNX file in Model Explorer"
    parser.add_argument("--model-explorer", action="store_true", help=text)
    add_json(parser.add_argument)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for a folder that is not the result of a run, and for damaged files."""
    from ..flows.report import node_data_of, report_of

    role, write = ("model_explorer", node_data_of) if args.model_explorer else ("report", report_of)
    path = write(args.folder)
    if args.json:
        print_json(args, {"files": {role: str(path)}})
    else:
        print(path)


def written(summary: Summary, folder: Path) -> Run:
    """The run that was written; if it lacks the page, a note says how to get it."""
    from ..examine.reports.reading import read_run

    if "report" not in summary.files:
        print(f"note: no report.html: pip install 'amct-opt[report]', then amct report {folder}", file=sys.stderr)
    return read_run(folder)
