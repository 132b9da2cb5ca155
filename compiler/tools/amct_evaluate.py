"""`amct evaluate`: the accuracy of models, side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..flows.options import ResultOptions
from ..pipelines.options import leaves
from ..tables import print_tables, progress_bar
from ..transforms.quantization.options import ClusterOptions, DataOptions, EngineOptions, engine_named
from .parser import add_command
from .shared import (
    MODEL,
    add_import_options,
    add_json,
    add_option,
    add_options,
    command_session,
    import_options,
    options_of,
    print_json,
)

if TYPE_CHECKING:
    from ..flows.scoring import Scored, Scores
    from ..session import Session

_DESCRIPTION = """\
Runs every MODEL on the same samples and prints how often the label is the first output's largest value (top-1), or among its five
largest (top-5). A MODEL is a model, a written file, or an .mlir module of any stage; the others are compared with the first.

Shares have 95 % confidence intervals (Wilson's). Two models on the same samples differ only where one of them is right and the
other is not: `only first` and `only this` count these samples, and p is McNemar's exact test. If p is above 0.05, the difference
may well be chance, and more samples are needed to tell. --json has the test of every pair.

--evaluator measures anything else: FUNCTION(model) returns a number. model.run({"input": array}) gives arrays by output, and
model.batches() the inputs of --data."""


def add_parser(commands: Any) -> None:
    """The command `amct evaluate` and its options."""
    usage = "MODEL [MODEL ...] --data DATA (--labels LABELS | --evaluator FILE.py:FUNCTION) [options]"
    summary = "measure the accuracy of models, side by side"
    parser = add_command(commands, "evaluate", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add("models", metavar="MODEL", type=Path, nargs="+", help=MODEL)
    add_option(add, leaves(ResultOptions)["labels"])
    add("--evaluator", metavar="FILE.py:FUNCTION", help="a function that measures a model; FILE.py is executed")
    text = """what runs the models: onnxruntime for ONNX files and numpy, the interpreter, for others (the default where
onnxruntime is installed, without --cluster), numpy, or iree"""
    add("--engine", type=engine_named, choices=("numpy", "onnxruntime", "iree"), help=text)
    add_json(add)
    add_options(parser, DataOptions, without=("batch_num",))
    add_options(parser, EngineOptions, only=("device",))
    add_options(parser, ClusterOptions)
    reading = parser.add_argument_group("how the first MODEL is read").add_argument
    add_import_options(reading)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done."""
    from dataclasses import replace

    from ..diagnostics import CompileError
    from ..flows.evaluation import Metric
    from ..flows.scoring import evaluate_files
    from ..transforms.quantization.running import sharing_runner

    if (args.labels is None) == (args.evaluator is None):
        raise CompileError("either labels or a function must judge", hint="give --labels or --evaluator")
    if args.labels is not None and args.data is None:
        raise CompileError("labels need samples", hint="give --data")
    data, runner = options_of(args, DataOptions), sharing_runner(options_of(args, ClusterOptions))
    runner = replace(runner, device=args.device)
    metric = None if args.evaluator is None else Metric.of(args.evaluator)
    with progress_bar() as on_progress:

        def session_of(index: int) -> Session:
            session = command_session(args)
            session.on_progress = on_progress
            if not index:
                session.imports = import_options(args)
            return session

        scores = evaluate_files(args.models, data, session_of, args.labels, metric, args.engine, runner)
    if args.json:
        print_json(args, scores_data(scores))
        return
    print_tables(scores.tables())


def scores_data(scores: Scores) -> dict[str, Any]:
    """The scores as plain data for JSON."""
    return {
        "samples": scores.samples,
        "source": scores.source,
        "models": [_model_data(each) for each in scores.models],
        "pairs": [
            {
                "first": str(scores.models[i].model),
                "second": str(scores.models[j].model),
                "first_only": pair.first_only,
                "second_only": pair.second_only,
                "p": pair.p,
            }
            for (i, j), pair in scores.pairs().items()
        ],
    }


def _model_data(each: Scored) -> dict[str, Any]:
    return {
        "model": str(each.model),
        "engine": each.engine,
        "top1": each.top1 and each.top1.data(),
        "top5": each.top5 and each.top5.data(),
        "metric": each.metric,
        "seconds": round(each.seconds, 3),
    }
