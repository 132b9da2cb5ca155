"""`amct tune`: a search for the options that reach an accuracy."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..diagnostics import CompileError
from .amct_quantize import print_summary, refuse
from .shared import (
    IMAGE_OPTIONS,
    MODEL,
    add_data_and_reading,
    add_quantize_options,
    backend_options,
    data_options,
    quantize_options,
    quantizing_session,
)
from .tables import print_table, progress_bar, some

if TYPE_CHECKING:
    from ..flows.tune import Goal, Trial, Tuned

_DESCRIPTION = """\
Searches for options of amct quantize that reach a goal: how weights are rounded, whether channels are evened out and biases
corrected, which observer finds the ranges, and last which layers stay in float, the costliest first and as few as possible. It
stops at the first options that reach the goal. Options that are given hold for all trials.

The goal is an SQNR of the outputs, or with --labels the largest drop of the first output's top-1, in points. Both are measured
on samples that are held back from calibration as amct quantize does it, or on those of --test.

OUTDIR/tune.json has every trial, and OUTDIR/<stem>_qdq.onnx is the best model so far, at any time: the same command goes on where
a run was stopped. At the end the files of amct quantize are written, with the command line that writes them again. If no trial
reaches the goal, the best one is written and the exit status is 1."""

_GIVEN = (
    "config",
    "profile",
    "observer",
    "weight_bits",
    "weight_only",
    "group_size",
    "round_weights",
    "correct_bias",
    "skip_fusion",
    "skip_layers",
    "only_layers",
)
_LISTS = ("skip_layers", "only_layers")
_DATA = ("data", "data_types", *IMAGE_OPTIONS, "batch_num")
_DEST = {"inputs": "input_names"}
_READING = ("inputs", "outputs", "input_shape", "signature", "weights")


def add_parser(commands: Any) -> None:
    """The command `amct tune` and its options."""
    parser = commands.add_parser(
        "tune",
        help="search for options that reach an accuracy",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help=MODEL)
    add(
        "-o",
        dest="output",
        metavar="OUTDIR",
        type=Path,
        required=True,
        help="folder for the results, created if missing",
    )
    goal = parser.add_argument_group("the goal")
    add = goal.add_argument
    add("--sqnr", type=float, metavar="DB", help="SQNR of the outputs against the float model, in dB")
    add("--labels", type=Path, metavar="FILE.npy", help="integers, the class of each sample: top-1 is measured")
    add("--test", metavar="DATA", help="samples that measure, in the form of --data (default: held back from it)")
    add("--drop", type=float, metavar="POINTS", help="with --labels: points of top-1 that may be lost")
    add_quantize_options(parser.add_argument_group("options of all trials").add_argument)
    add_data_and_reading(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done, and if the goal is not reached."""
    from dataclasses import replace

    from ..flows.quantization import quantize_file
    from ..flows.tune import tune_file

    goal, options, data = _goal(args), quantize_options(args), data_options(args)
    running = backend_options(args)
    session = quantizing_session(args)
    with progress_bar() as session.on_progress:
        test = None if args.test is None else replace(data, data=args.test, batch_num=None)
        found = tune_file(args.model, options, data, args.output, session, goal, running, test)
    _print_trials(found)
    changes = found.best.changes
    skipped = (*options.skip_layers, *changes.get("skip_layers", ()))
    session = quantizing_session(args)
    with progress_bar() as session.on_progress:
        best = replace(options, **{**changes, "skip_layers": skipped})
        summary = quantize_file(args.model, best, data, args.output, session, running)
    print_summary(summary)
    print(f"to write these files again:\n  {_command(args, {**changes, 'skip_layers': skipped})}")
    refuse(summary.peer, summary.files["onnx"], args.model)
    if not found.best.reached:
        message = f"no trial reaches the goal: the best has {found.measure} {found.best.quality:.2f}"
        raise CompileError(message, where=str(args.model), hint="the best model was written")


def _goal(args: argparse.Namespace) -> Goal:
    """Raises CompileError for an incomplete goal and for labels that cannot be read."""
    import numpy as np

    from ..flows.evaluation import Labels
    from ..flows.tune import Goal

    if (args.labels is None) != (args.drop is None):
        raise CompileError("--labels and --drop belong together")
    if (args.sqnr is None) == (args.labels is None):
        hint = "give either --sqnr DB, or --labels FILE.npy and --drop POINTS"
        raise CompileError("one goal is needed", hint=hint)
    if args.labels is None:
        return Goal(sqnr=args.sqnr)
    try:
        labels = np.load(args.labels, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        raise CompileError(f"cannot be read as an array of numpy: {e}", where=str(args.labels)) from None
    return Goal(drop=args.drop, labels=Labels(labels, str(args.labels)))


def _print_trials(found: Tuned) -> None:
    rows = [_row(trial, trial is found.best) for trial in found.trials]
    print_table("trials", ("options", "layers in float", found.measure, "goal", "weights kB", "seconds", ""), rows)
    apart = "held back from calibration" if found.held_back else "the calibration samples: too few to hold some back"
    original = [("float model", f"{found.original:.2f} {found.measure}")] if found.original < float("inf") else []
    resumed = [("trials of an earlier run", str(found.resumed))] if found.resumed else []
    print_table("search", (), [*original, ("measured on", f"{found.samples} samples, {apart}"), *resumed])


def _row(trial: Trial, best: bool) -> tuple[str, ...]:
    options = " ".join(_flags({k: v for k, v in trial.changes.items() if k != "skip_layers"}))
    layers = list(trial.changes.get("skip_layers", ()))
    measured = f"{trial.quality:.2f}", "reached" if trial.reached else "missed", f"{trial.weight_bytes / 1000:,.1f}"
    return (
        options or "as given",
        some(layers) if layers else "-",
        *measured,
        f"{trial.seconds:.1f}",
        "best" if best else "",
    )


def _command(args: argparse.Namespace, changes: Mapping[str, Any]) -> str:
    """The command line of `amct quantize` that writes the same files."""
    given = {flag: value for flag in (*_GIVEN, *_DATA, *_READING) if (value := getattr(args, _DEST.get(flag, flag)))}
    flags = _flags({**given, **{name: value for name, value in changes.items() if value}})
    return shlex.join(["amct", "quantize", str(args.model), *flags, "-o", str(args.output)])


def _flags(options: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, value in options.items():
        found.append(f"--{name.replace('_', '-')}")
        if value is not True:
            found.append(str(value) if name not in _LISTS or isinstance(value, str) else ",".join(value))
    return found
