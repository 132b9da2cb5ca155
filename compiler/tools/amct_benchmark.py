"""`amct benchmark`: how long ONNX files take in onnxruntime or OpenVINO, and how much memory."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

from ..flows.options import Timed
from ..support.diagnostics import UsageError
from ..support.tables import print_tables
from .parser import add_command
from .shared import (
    add_batch,
    add_import_options,
    add_json,
    add_run_form,
    image_form,
    load_with,
    positive,
    print_json,
)

_DESCRIPTION = """\
Runs ONNX files in one engine on the same inputs, each in a process of its own and in turns, and prints for each: the median time
of a run, between which times the middle half of its runs lies, the ratio to the first file, and the most memory of its process.
The inputs are the first run of DATA, or random ones; integers among these are such that the first file accepts them."""


def add_parser(commands: Any) -> None:
    """The command `amct benchmark` and its options."""
    parser = add_command(
        commands,
        "benchmark",
        "MODEL [MODEL ...] [options]",
        "time ONNX files in onnxruntime or OpenVINO, side by side",
        _DESCRIPTION,
        run,
    )
    add = parser.add_argument
    add("models", metavar="MODEL", type=Path, nargs="+", help="an ONNX file")
    text = "arrays by input: an .npz or .npy file, a folder of .npy files or, with --preprocess, of images"
    add("--data", metavar="DATA", type=Path, help=text)
    add_batch(parser)
    text = "what runs them: onnxruntime (default) or openvino"
    add("--engine", choices=get_args(Timed), default="onnxruntime", help=text)
    add("--threads", metavar="N", type=positive, default=1, help="threads of the engine (default 1)")
    add("--warm-up", metavar="N", type=positive, default=2, help="runs of each file that do not count (default 2)")
    add("--rounds", metavar="N", type=positive, default=50, help="runs of each file that count (default 50)")
    add_run_form(parser)
    add_import_options(parser.add_argument_group("how the first file is read").add_argument)
    add_json(add)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for a file that the engine does not run, and inputs that do not fit."""
    import numpy as np

    from ..data import synthetic_samples
    from ..data.inputs import load_runs
    from ..flows.latency import benchmark
    from ..ir.functions import main_function
    from ..runtime.plan import RunError
    from ..support.diagnostics import CompileError

    if args.data is None and args.samples is not None:
        raise UsageError(
            "--num-samples: there are no samples without data", hint="give --data, or --batch for random inputs"
        )
    function = main_function(load_with(args, args.models[0])[0])
    if args.data is None:
        runs = list(synthetic_samples(function, count=args.batch or 1).batches())
        inputs = {name: np.concatenate([each[name] for each in runs]) for name in runs[0]} if args.batch else runs[0]
    else:
        inputs = load_runs(args.data, function, args.batch, image_form(args), args.samples).inputs[0]
    try:
        found = benchmark(
            args.models,
            inputs,
            threads=args.threads,
            warm_up=args.warm_up,
            rounds=args.rounds,
            engine=args.engine,
        )
    except RunError as e:
        hint = "these inputs are made up: give --data" if args.data is None else ""
        raise CompileError(e.message, where=e.where, hint=hint) from None
    if args.json:
        print_json(args, found.data())
    else:
        print_tables(found.tables())
