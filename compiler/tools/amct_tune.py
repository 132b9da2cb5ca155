"""`amct tune`: a search for the options that reach an accuracy."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..flows.options import ResultOptions
from ..pipelines.options import leaves
from ..support.diagnostics import CompileError
from ..support.files import refuse_overwriting
from ..support.tables import print_tables, progress_bar
from ..transforms.quantization.options import AllOptions
from .amct_quantize import print_summary, printed_data, refuse
from .amct_report import written
from .parser import add_command
from .shared import (
    add_json,
    add_model_and_folder,
    add_option,
    add_quantization,
    command_lines,
    note_target,
    options_of,
    print_json,
    quantize_settings,
    quantizing_session,
)

if TYPE_CHECKING:
    from ..flows.tune.goal import Goal

TUNED = "tuned.yaml"
"""The file with the options that were found."""

_DESCRIPTION = """\
Searches for options of amct quantize that reach a goal: how weights are rounded, whether channels are evened out and biases
corrected, which observer finds the ranges, and then which layers get more bits, as few as possible: weights of 4 or 8 bits where
--weight-bits asks for fewer, inputs or, in profile qdq, results of 16. Only if the most bits are too few do layers stay in
float, the costliest first and as few as possible. It stops at the first options that reach the goal; bits are saved as long as it
is reached. Options that are given hold for all trials; --weight-bits and --bits are where the search for widths begins, and
--layer-weight-bits and --layer-bits hold for their layers.

The goal is an SQNR of each output (--sqnr), the largest drop of the first output's top-1 in points (--labels, --drop) or of a
metric of yours (--evaluator FILE.py:FUNCTION, --drop), or the verdict of an evaluator as amct auto-calibration takes it
(--evaluator FILE.py). It is measured on samples that are held back from calibration as amct quantize does it, or on those of
--test; a function gets them by model.batches(). If fewer than 8 are held back, others judge the SQNR: the last 8 of those that
calibrate or, of fewer than 16, each half the trials of the other one. Of two SQNR that differ no more than samples do by chance,
the options that change less count as the better ones; the table has the least and the largest SQNR in single runs.

A budget limits the quantized model. Layers then get the widths that cost least within it, weights of 4 bits among them.
  bytes=150k        the ONNX file's arrays (weights, biases, scales, zero points) take at most 150,000 bytes; without its nodes
  MACs=2M           at most this many multiply-accumulates of convolutions and matrix products stay in float, for one sample
  ms=1.5            a run of the ONNX file takes at most 1.5 ms in onnxruntime, with one thread on this machine
  int8-layers=20    at least this many convolutions and matrix products compute on integers; weights of 4 bits count as well
k, M and G are thousands, millions and billions. What each layer costs by itself at each width is measured at the network's
outputs, an integer program (scipy) chooses the widths, and the result is measured again.

With --faster-than-float, layers that lose time in int8 are found first, as amct quantize finds them, and are float in all trials.
If the files of the best trial are not faster than float after all, they are not written.

OUTDIR/tune.json has every trial, and OUTDIR/tune.onnx is the best model so far: the same command goes on where a run was stopped.
At the end the files of amct quantize take its place, all at once, with the command line that writes them again, and with its
options as a file for --settings, OUTDIR/tuned.yaml (with --trust-settings if the data are elsewhere). If no trial reaches the
goal within the budget, the best one is written and the exit status is 1."""


def add_parser(commands: Any) -> None:
    """The command `amct tune` and its options."""
    usage = "MODEL --data DATA (--sqnr DB | --labels LABELS --drop POINTS | --evaluator FILE.py) [options] -o OUTDIR"
    summary = "search for options that reach an accuracy"
    parser = add_command(commands, "tune", usage, summary, _DESCRIPTION, run)
    add_model_and_folder(parser.add_argument)
    add = parser.add_argument_group("the goal").add_argument
    add("--sqnr", type=float, metavar="DB", help="SQNR of each output against the float model, in dB")
    text = "a Python file with an evaluator of amct auto-calibration, or a function of it that takes a model and returns a number"
    add("--evaluator", metavar="FILE.py[:FUNCTION]", help=text)
    text = "with --labels or a function: points of top-1, or how much of its number, may be lost"
    add("--drop", type=float, metavar="POINTS", help=text)
    add_option(add, leaves(ResultOptions)["labels"])
    add("--test", metavar="DATA", help="samples that measure, in the form of --data (default: held back from it)")
    text = "bytes=N, MACs=N, int8-layers=N, ms=N, or several of them with commas: what the model may cost"
    add("--budget", metavar="BUDGET", help=text)
    add_option(add, leaves(ResultOptions)["faster_than_float"])
    add_option(add, leaves(ResultOptions)["also"])
    text = "what layers cost at the outputs: noise (default), or for classifiers the divergence of probabilities"
    add("--rank-by", choices=("sqnr", "kl"), default="sqnr", help=text)
    add_json(parser.add_argument)
    add_quantization(parser)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done, and if the goal is not reached."""
    from dataclasses import replace

    from ..flows.quantization import FileOptions, quantize_file
    from ..flows.tune import finish, tune_file
    from ..flows.tune.budget import UNLIMITED, Budget
    from ..flows.tune.network import merged
    from ..pipelines.options import values_of
    from ..transforms.quantization.request import wanted_of

    tuned: Path = args.output / TUNED
    refuse_overwriting([tuned], [] if args.settings is None else [args.settings])
    goal, asked = _goal(args), options_of(args, AllOptions)
    budget = UNLIMITED if args.budget is None else Budget.of(args.budget)
    options, data, running = asked.quantization, asked.calibration, asked.running
    session = quantizing_session(args)
    note_target(args, session)
    with progress_bar() as session.on_progress:
        test = None if args.test is None else replace(data, data=args.test, batch_num=None)
        faster: bool = args.faster_than_float
        asked_for = (options, data, args.output, session, goal, running, test, budget, args.rank_by, faster)
        found = tune_file(args.model, *asked_for)
    if not args.json:
        print_tables(found.tables())
    best = merged(merged(options, {"skip_layers": found.returned}), found.best.changes)
    changed = [*found.best.changes, *(["skip_layers"] if found.returned else [])]
    session = quantizing_session(args)
    with progress_bar() as session.on_progress:
        winning = _with(args, {**{name: values_of(best)[name] for name in changed}, "effort": 0})
        session.commands = command_lines(winning)
        results = options_of(winning, ResultOptions)
        beside = {TUNED: quantize_settings(winning, args.output).encode()}
        options = FileOptions(wanted_of(best), data, running, results, timed=True, page=True, beside=beside)
        summary = quantize_file(args.model, args.output, options, session)
    finish(args.output)
    run, again = written(summary, args.output), f"{session.commands['quantize']} {shlex.join(['-o', str(args.output)])}"
    if args.json:
        print_json(args, {**found.data(), "again": again, "settings": str(tuned), **printed_data(summary)})
    else:
        print_summary(summary, run, session, args.verbose)
        print(f"the options as a file: --settings {tuned} --trust-settings\nto write these files again:\n  {again}")
    refuse(summary.peer, summary.files["onnx"], summary.model)
    if not found.best.reached:
        goal_missed = "reaches the goal" if found.best.kept else "keeps the budget"
        message = f"no trial {goal_missed}: the best has {found.measure} {found.best.quality:.2f}"
        raise CompileError(message, where=str(args.model), hint="the best model was written")


def _goal(args: argparse.Namespace) -> Goal:
    """Raises CompileError for an incomplete goal, and for an evaluator that cannot be read."""
    from ..data import load_evaluator
    from ..flows.evaluation import Evaluator, Metric
    from ..flows.tune.goal import Goal

    evaluator: str = args.evaluator or ""
    verdict = evaluator.endswith(".py")
    scored = args.labels is not None or (evaluator and not verdict)
    if scored and args.drop is None:
        raise CompileError(
            "--drop is missing: how much may be lost", option="evaluator" if args.labels is None else "labels"
        )
    if args.drop is not None and not scored:
        hint = "give --labels LABELS or --evaluator FILE.py:FUNCTION with --drop"
        raise CompileError("--drop is of labels or a function", hint=hint, option="drop")
    if sum(each is not None for each in (args.sqnr, args.labels, args.evaluator)) != 1:
        hint = "give --sqnr DB, or --labels LABELS and --drop POINTS, or --evaluator FILE.py"
        raise CompileError("one goal is needed", hint=hint)
    if args.sqnr is not None:
        return Goal(sqnr=args.sqnr)
    if verdict:
        path = Path(evaluator)
        return Goal(evaluator=Evaluator(path, load_evaluator(path)))
    return Goal(drop=args.drop, score=Metric.of(evaluator) if args.labels is None else args.labels)


def _with(args: argparse.Namespace, changes: Mapping[str, Any]) -> argparse.Namespace:
    """The arguments with the options that were found. The labels are those of the search, not of all data."""
    words = {
        name: ",".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        for name, value in changes.items()
    }
    return argparse.Namespace(**{**vars(args), **words, "labels": None})
