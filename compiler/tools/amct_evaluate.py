"""`amct evaluate`: the accuracy of models, side by side, or the perplexity of language models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..flows.options import ResultOptions, TextOptions
from ..pipelines.options import leaves
from ..support.tables import print_tables, progress_bar
from ..transforms.quantization.options import ClusterOptions, DataOptions, EngineOptions
from .parser import add_command
from .shared import (
    MODEL,
    add_engine,
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
    from ..flows.scoring import Scores
    from ..session import Session

_DESCRIPTION = """\
Runs every MODEL on the same samples and prints how often the label is the first output's largest value (top-1), or among its five
largest (top-5). A MODEL is a model, a written file, or an .mlir module of any stage; the others are compared with the first.

Shares have 95 % confidence intervals (Wilson's). Two models on the same samples differ only where one of them is right and the
other is not: `only first` and `only this` count these samples, and p is McNemar's exact test. If p is above 0.05, the difference
may well be chance, and more samples are needed to tell. --json has the test of every pair.

--evaluator measures anything else: FUNCTION(model) returns a number. model.run({"input": array}) gives arrays by output, and
model.batches() the inputs of --data.

--perplexity judges language models: how well each predicts a text, and how often its most likely next token is the first MODEL's.
Masks, positions and an empty cache of keys and values (past_*) are fed as the file asks for them. --decode N lets each model
write, with its cache fed back, and counts the tokens that the first MODEL writes as well, and tokens per second."""


def add_parser(commands: Any) -> None:
    """The command `amct evaluate` and its options."""
    usage = "MODEL [MODEL ...] (--labels LABELS | --evaluator FILE.py:FUNCTION | --perplexity TEXT) [options]"
    summary = "measure the accuracy of models, side by side"
    parser = add_command(commands, "evaluate", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add("models", metavar="MODEL", type=Path, nargs="+", help=MODEL)
    add_option(add, leaves(ResultOptions)["labels"])
    add("--evaluator", metavar="FILE.py:FUNCTION", help="a function that measures a model; FILE.py is executed")
    text = """what runs the models: onnxruntime for ONNX files and numpy, the interpreter, for others (the default where
onnxruntime is installed, without --cluster), openvino, numpy, iree, or an engine of a plugin"""
    add_engine(add, text, "onnxruntime")
    add_json(add)
    add_options(parser, TextOptions)
    add_options(parser, DataOptions, without=("batch_num",))
    add_options(parser, EngineOptions, only=("device",))
    add_options(parser, ClusterOptions)
    add_import_options(parser.add_argument_group("how the first MODEL is read").add_argument)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done."""
    from dataclasses import replace

    from ..flows.evaluation import Metric
    from ..flows.perplexity import perplexities, perplexity_data
    from ..flows.scoring import Scores, evaluate_files
    from ..support.diagnostics import CompileError
    from ..transforms.quantization.running import sharing_runner

    text = options_of(args, TextOptions)
    if sum(map(bool, (args.labels, args.evaluator, text.perplexity))) != 1:
        hint = "give --labels, --evaluator or --perplexity"
        raise CompileError("either labels, a function or a text must judge", hint=hint)
    unread = ("data", "cluster") if text.perplexity else ("tokenizer", "window", "decode")
    if useless := next((name for name in unread if getattr(args, name) is not None), None):
        raise CompileError(f"--{useless} is {'not ' if text.perplexity else ''}for --perplexity", option=useless)
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

        if text.perplexity:
            found = perplexities(args.models, text, session_of, args.engine, args.device)
        else:
            found = evaluate_files(args.models, data, session_of, args.labels, metric, args.engine, runner)
    if args.json:
        print_json(args, scores_data(found) if isinstance(found, Scores) else perplexity_data(found))
        return
    print_tables(found.tables())


def scores_data(scores: Scores) -> dict[str, Any]:
    """The scores as plain data for JSON."""
    return {
        "samples": scores.samples,
        "source": scores.source,
        "models": [
            {
                "model": str(each.model),
                "engine": each.engine,
                "top1": each.top1 and each.top1.data(),
                "top5": each.top5 and each.top5.data(),
                "metric": each.metric,
                "seconds": round(each.seconds, 3),
            }
            for each in scores.models
        ],
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
