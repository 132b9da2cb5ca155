"""`amct check`: what an engine computes in float or wrongly in a quantized ONNX file of any tool, and what mends it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ..flows.options import Timed
from ..support.tables import Table, print_tables
from .parser import add_command
from .shared import add_batch, add_json, add_run_form, command_session, image_form, print_json

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..ir.array import Array

_DESCRIPTION = """\
Examines a quantized ONNX file of any tool for an engine, and lists by layer: what the engine computes in float, and why; sums
that some processors compute wrongly; weights of -128; biases and Concat whose scales disagree; and what mends each. What is in
float is what the engine says after it has loaded the file. The rest follows from the file, for all processors.

With --data, also ranges that clip or waste bits, sums that do leave 16 bits, and how far the outputs on this processor are from
what the file specifies. --fix repairs sums, biases, and the ranges of Relu, Clip and Concat. The status is 1 if the engine
refuses the file, or does not compute what it says on some processor."""


def add_parser(commands: Any) -> None:
    """The command `amct check` and its options."""
    usage, summary = (
        "MODEL --for ENGINE [options]",
        "list what an engine gets wrong in a quantized ONNX file of any tool",
    )
    parser = add_command(commands, "check", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="an ONNX file with QuantizeLinear and DequantizeLinear")
    text = "the engine: onnxruntime or openvino, on the processor; it must be installed"
    add("--for", dest="engine", choices=get_args(Timed), required=True, help=text)
    text = "arrays by input: an .npz or .npy file, a folder of .npy files or, with --preprocess, of images"
    add("--data", metavar="DATA", type=Path, help=text)
    text = "write a copy with the repairs that need no data, and examine the copy"
    add("--fix", metavar="FILE", type=Path, help=text)
    add_batch(parser)
    add_run_form(parser)
    add_json(add)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for a file that is not quantized, without the engine, and if the engine computes something else."""
    from ..data.inputs import load_runs
    from ..flows.check import WRONG, check_file
    from ..flows.repair import repair_file
    from ..ir.functions import main_function
    from ..support.diagnostics import CompileError

    def runs(module: ModuleOp) -> Sequence[Mapping[str, Array]]:
        return load_runs(args.data, main_function(module), args.batch, image_form(args), args.samples).inputs

    repairs = [] if args.fix is None else repair_file(args.model, args.fix, command_session(args))
    path = args.fix or args.model
    found = check_file(path, args.engine, command_session(args), None if args.data is None else runs)
    if args.json:
        print_json(args, {**found.data(), "repairs": [{"layer": layer, "change": change} for layer, change in repairs]})
    else:
        print_tables([*([Table("repaired", ("layer", "what changes"), repairs)] if repairs else []), *found.tables()])
        if not found.findings:
            print("nothing was found")
    if wrong := [each for each in found.findings if each.kind in WRONG]:
        message = f"{wrong[0].layer}: {wrong[0].title}"
        raise CompileError(message, where=str(path), hint=f"{wrong[0].mend} mends it")
