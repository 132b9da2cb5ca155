"""`amct run`: execute a model, or a module at any stage, in the interpreter."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..transforms.quantization.options import CHIPS
from .parser import add_command
from .shared import (
    ENGINES,
    INTEGERS,
    MODEL,
    NAMES_OF_INPUTS,
    add_batch,
    add_engine,
    add_import_options,
    add_json,
    add_run_data,
    image_form,
    import_options,
    load_with,
    print_json,
    protect,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..session import Session

_DESCRIPTION = """\
Runs a model or an .mlir module (nn, quantized, or ascend) and writes its outputs by name.

Inputs that have the model's shapes are used unchanged. If the model takes fewer samples at a time (a fixed batch
of 1, say), it runs as often as the first axis requires, and the outputs are joined along their first axis."""


def add_parser(commands: Any) -> None:
    """The command `amct run` and its options."""
    usage, summary = "MODEL --inputs DATA [options] -o OUT.npz", "run a model or module on given inputs"
    parser = add_command(commands, "run", usage, summary, _DESCRIPTION, run)
    parser.add_argument("model", metavar="MODEL", type=Path, help=MODEL)
    add_run_data(parser, "--inputs")
    add_batch(parser)
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--fp16", action="store_true", help="round to float16, as a device without float32 does (ascend modules)"
    )
    text = "lower it, and compute with the element types of this chip's kernels: float16 where float32 has none"
    parser.add_argument("--chip", choices=CHIPS, help=text)
    modes.add_argument("--integers", action="store_true", help=INTEGERS)
    text = f"what runs it: {ENGINES}"
    add_engine(modes.add_argument, text, default="numpy")
    add_import_options(parser.add_argument_group("how the model is read").add_argument, inputs=NAMES_OF_INPUTS)
    add_json(parser.add_argument)
    parser.add_argument("-o", "--output", metavar="OUT.npz", type=Path, required=True, help="write the outputs here")


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for an unreadable model, inputs that do not fit, and a run that fails."""
    from ..data.inputs import load_runs, run_all
    from ..frontends import files_of
    from ..ir.functions import main_function
    from ..runtime.executor import Executable
    from ..runtime.half import in_half, require_ascend
    from ..runtime.integer_plan import in_integers
    from ..runtime.outputs import save_arrays
    from ..support.diagnostics import printable

    imports = import_options(args)
    protect([args.output], reads=[*files_of(args.model, imports), args.data])
    module, session = load_with(args, args.model, inputs=NAMES_OF_INPUTS)
    runs = load_runs(args.data, main_function(module), args.batch, image_form(args), args.samples)
    if args.chip is not None:
        _lower(module, session, args.chip)
    if args.fp16:
        require_ascend(module)
    rewrite = in_half if args.fp16 else in_integers if args.integers else None
    executable = Executable(module, rewrite=rewrite) if rewrite else session.engines[args.engine](module, session)
    outputs = run_all(executable, runs)
    save_arrays(args.output, outputs)
    if args.json:
        written = {name: {"type": str(each.dtype), "shape": list(each.shape)} for name, each in outputs.items()}
        print_json(args, {"runs": len(runs.inputs), "outputs": written, "files": {"outputs": str(args.output)}})
        return
    times = f" of {len(runs.inputs)} runs" if len(runs.inputs) > 1 else ""
    for name, array in outputs.items():
        print(printable(f"{args.output}: {name}{times}: {array.dtype} {list(array.shape)}"))


def _lower(module: ModuleOp, session: Session, chip: str) -> None:
    """Lowers a module in place to what a chip has kernels for. Raises CompileError, located, for an operation that has none."""
    from ..lowering.ascend import LowerToAscendPass
    from ..lowering.ascend.chips.kernels import take_kernels
    from ..pipelines.passes import run_passes
    from ..support.diagnostics import op_error

    session.chip = chip
    run_passes(module, [LowerToAscendPass()], session)
    for op, refusal in take_kernels(module, session, "run"):
        raise op_error(op, refusal.reason, hint="without --chip it runs as it is")
