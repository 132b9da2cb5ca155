"""`amct reduce`: the smallest part of a model on which a command still fails."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..support.diagnostics import CompileError
from ..support.files import scratch
from .parser import add_command
from .shared import MODEL, add_import_options, add_json, command_session, import_options, positive, print_json, protect

_DESCRIPTION = """\
Shrinks MODEL while a command keeps failing on it: takes operations away, then makes sizes smaller, weights plainer and attributes
defaults. Writes what is left as ONNX and as module text: the model to attach to a report.

The command fails the same way if its status (or signal) is the same, and the words of its last line that reports an error,
without names, numbers and paths. It is run by the shell, once per candidate, with the path of the candidate in place of {}.
An ONNX model stays ONNX, and candidates are .onnx files. Any other model (TensorFlow, Keras, Caffe) is read once, with the
options below, and reduced as a module: candidates are module text (.mlir). Either is written as ONNX and as module text in the
end."""


def add_parser(commands: Any) -> None:
    """The command `amct reduce` and its options."""
    usage, summary = "MODEL --command COMMAND -o OUT [options]", "shrink a model while a command keeps failing on it"
    parser = add_command(commands, "reduce", usage, summary, _DESCRIPTION, run)
    parser.add_argument("model", metavar="MODEL", type=Path, help=MODEL)
    add = parser.add_argument
    text = "the command, such as 'amct-opt {} --fuse-all -o /dev/null'; {} is the path of the candidate; required"
    add("--command", dest="line", metavar="COMMAND", required=True, help=text)
    add("-o", "--output", metavar="OUT", type=Path, required=True, help="write OUT.onnx and OUT.mlir; required")
    add("--any-failure", action="store_true", help="any failure will do, not only the same one")
    add("--seconds", metavar="N", type=positive, default=60, help="the most that the reduction may take (default: 60)")
    text = "the most that one run may take (default: 60)"
    add("--command-seconds", metavar="N", type=positive, default=60, help=text)
    add_json(add)
    add_import_options(parser.add_argument_group("how a model that is not ONNX is read").add_argument)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for unreadable models, and if the command does not fail."""
    from ..examine.reduction import Reducer
    from ..examine.reduction.candidates import Model, form_of, read
    from ..examine.reduction.command import Command, counted, write
    from ..examine.reduction.saving import save

    session = command_session(args)
    stem: Path = args.output.with_suffix("") if args.output.suffix in (".onnx", ".mlir") else args.output
    protect([stem.with_suffix(".onnx"), stem.with_suffix(".mlir")], [args.model])
    session.imports = import_options(args)
    given = read(args.model, session)
    with scratch() as folder:
        command = Command(args.line, folder, args.command_seconds)
        wanted = command.failure(given)
        if wanted is None:
            raise CompileError("the command does not fail on this model", where=str(args.model))

        def fails(model: Model) -> bool:
            found = command.failure(model)
            return found is not None and (args.any_failure or found == wanted)

        def show(model: Model, tests: int) -> None:
            if sys.stderr.isatty():
                print(f"\r{counted(model)} operations after {tests} runs  ", end="", file=sys.stderr)

        reducer = Reducer(form_of(given), fails, args.seconds, show)
        small = reducer.run(given)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    files = save(small, stem, session, write)
    before, after = counted(given), counted(small)
    if args.json:
        data = {"failure": str(wanted), "operations": {"before": before, "after": after}, "runs": reducer.tests}
        print_json(args, {**data, "files": {each.suffix[1:]: str(each) for each in files}})
        return
    print(f"{after} of {before} operations, after {reducer.tests} runs of the command, still fail: {wanted}")
    print("written:", ", ".join(map(str, files)))
