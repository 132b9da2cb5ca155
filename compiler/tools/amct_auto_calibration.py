"""`amct auto-calibration`: leave layers in float that cost too much accuracy by the evaluator's metric, and quantize the rest."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..support.tables import print_table, progress_bar
from ..transforms.quantization.options import SessionOptions
from .amct_quantize import amct_roles
from .parser import add_command
from .shared import (
    add_amct_files,
    add_configuration,
    add_json,
    amct_imports,
    command_session,
    options_of,
    positive,
    print_json,
)

_DESCRIPTION = """\
AMCT's accuracy_based_auto_calibration. The evaluator is a Python file with an object or class that has
  calibration(model)              runs model.run({"input": array}) on calibration data
  evaluate(model)                 the metric of a model, float or quantized
  metric_eval(original, metric)   (ok, loss): whether the metric is good enough compared with the original's

First everything is quantized. If that is not good enough, layers are ranked by the cosine between their own float and
quantized results (or, with --sensitivity OutputSQNR, by the SQNR of the network's worst output when only one layer is quantized;
scores next to other numbers are an output of their own), and as few of the worst ones as possible stay in float. The command
writes the files of `amct calibration`, and
  accuracy_based_auto_calibration_final_config.json, _ranking_information.json and _record.json

--auto_nuq is AMCT's auto_nuq instead: no layer stays in floats, and as many of the heaviest layers as the metric allows get
weights of few levels (NUQ). Candidates are the layers to which the configuration gives few levels, else all that may have
them. The files next to are auto_nuq_final_config.json, _ranking_information.json (numbers in weights) and _record.json"""

_IN_FLOAT = ("layers in float", "float", "sensitivity, the worst first", "0.5 + 0.5 cosine")
_AT_OUTPUTS = (*_IN_FLOAT[:3], "SQNR dB of the outputs")
_FEW_LEVELS = ("layers with few levels", "few levels", "weights, the heaviest first", "numbers")
"""Labels in the report: what trials count, the chosen layers, the title of the ranking, and its measure."""


def add_parser(commands: Any) -> None:
    """The command `amct auto-calibration` and its options."""
    usage = "--model MODEL --evaluator FILE.py [options] --save_path PREFIX"
    summary = "quantize as many layers as an evaluator's metric allows"
    parser = add_command(commands, "auto-calibration", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add_amct_files(add)
    add("--evaluator", type=Path, required=True, help="a Python file, which is executed")
    add_configuration(add)
    add("--batch_num", type=positive, help="number of calibration runs (default: the configuration's, or 1)")
    add("--strategy", choices=["BinarySearch"], default="BinarySearch", help="how layers are searched")
    text = "how layers are ranked: by their own results (AMCT, default), or by what each costs at the network's outputs"
    add("--sensitivity", choices=["CosineSimilarity", "OutputSQNR"], default="CosineSimilarity", help=text)
    add("--auto_nuq", action="store_true", help="search for layers whose weights have few levels")
    add_json(add)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done; nothing is written then."""
    from ..amct.evaluators import evaluator_for
    from ..flows.auto_calibration import FEW_LEVELS, LEAST_IN_FLOAT, auto_calibrate_file
    from ..flows.sensitivity import ranked_at_outputs
    from ..support.files import scratch
    from ..transforms.quantization.recover.sensitivity import sensitivities

    at_outputs = args.sensitivity == "OutputSQNR"
    session = command_session(args)
    options_of(args, SessionOptions).give(session)
    session.imports = amct_imports(args)
    with progress_bar() as session.on_progress, scratch() as folder:
        found = auto_calibrate_file(
            args.model,
            args.save_path,
            args.evaluator,
            session,
            args.calibration_config,
            args.batch_num,
            load=lambda path: evaluator_for(path, args.model, session.imports, folder),
            strategy=FEW_LEVELS if args.auto_nuq else LEAST_IN_FLOAT,
            rank=ranked_at_outputs if at_outputs else sensitivities,
        )
    if args.json:
        print_json(args, {**found.data(), "files": amct_roles(args.save_path, found.files)})
        return
    counted, chosen, ranking, measure = _FEW_LEVELS if args.auto_nuq else _AT_OUTPUTS if at_outputs else _IN_FLOAT
    rows = [(str(len(t.layers)), str(t.metric), "yes" if t.ok else "no", str(t.loss)) for t in found.trials]
    print_table(f"trials (original: {found.original})", (counted, "metric", "ok", "loss"), rows)
    ranked = [
        (
            name,
            f"{value:.6f}" if isinstance(value, float) else str(value),
            chosen if name in found.chosen.layers else "",
        )
        for name, value in found.ranking.items()
    ]
    if ranked:
        print_table(ranking, ("layer", measure, ""), ranked)
    print_table("written", (), [("wrote", str(file)) for file in found.files])
