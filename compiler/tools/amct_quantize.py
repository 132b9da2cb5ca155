"""`amct quantize`: reads a model and calibration data, writes int8 files and a summary, in one command."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..flows.options import ResultOptions
from ..support.diagnostics import CompileError
from ..support.tables import Table, numbered, print_table, print_tables, progress_bar
from ..transforms.quantization.options import AllOptions
from .amct_report import written
from .parser import add_command
from .shared import (
    add_json,
    add_model_and_folder,
    add_options,
    add_quantization,
    note_target,
    options_of,
    print_json,
    quantizing_session,
)

if TYPE_CHECKING:
    from ..examine.reports.advice import Advice
    from ..examine.reports.reading import Run
    from ..flows.peer import Peer
    from ..flows.summary import Layers, Summary
    from ..session import Session

_DESCRIPTION = """\
Imports MODEL, folds what can be folded, calibrates and quantizes it, and writes into OUTDIR:
  <stem>_qdq.onnx           the quantized model with QuantizeLinear/DequantizeLinear: any ONNX runtime runs it, on a CPU
                            faster with --profile cpu. If MODEL is a folder that optimum or onnxruntime-genai wrote,
                            the file keeps its name, and configuration and tokenizer are copied next to it
  <stem>_deploy_model.onnx  profiles ascend and ascend-a2: the integer model that ATC compiles for the NPU, in the format of
                            MODEL's framework (<stem>_quantized.pb of TensorFlow, <stem>_deploy_model.prototxt of Caffe)
  remarks.yaml              what every pass did to every layer, or why not
  summary.json              the result as data, with all that --verbose prints
  layers.json               the error of each layer and the histogram of each quantized value, on up to 16 samples
  report.html               all of this on one page, if the extra "report" is installed (see amct report)
With --also nn,ascend,record it writes <stem>_nn.mlir, the quantized module as text, <stem>_ascend.mlir, the module lowered to
Ascend operators (arrays of both in .safetensors files), and <stem>_record.txt, the parameters as AMCT records them, which
--config writes for Ascend in any case.

If there are 8 samples or more, the last tenth is held back from calibration to measure accuracy; with --batch-num, the
batches after the first N are. Accuracy is measured for the module as the target computes it: in Ascend's integers, or with
--profile qdq or ppq as integer kernels of ONNX runtimes do (amct run --integers).
If onnxruntime is installed, it times MODEL and the ONNX file, one thread each, and a warning says so if the file is slower.
It also runs the ONNX file with its default options on the samples that were held back, and on some others if these are fewer
than 8. The summary reports how far its outputs are from the interpreter's, and below 60 dB the first integers that differ: if a
few of them differ by one step, sums of floats were rounded the other way, and the layers after them amplified it; if all of them
differ, the file is wrong. A warning says so if onnxruntime is further from the simulation than that is from the float model.
If onnxruntime runs MODEL but not the file, the exit status is 1.
If no layer can be quantized, a warning says why, the files are those of the float model, and the exit status is 0."""

_ESSENTIAL = (
    *("-o", "--data", "--preprocess", "--labels", "--profile", "--num-samples", "--skip-layers", "--effort"),
    *("--weight-bits", "--weight-only", "--round-weights", "--faster-than-float"),
)
"""The options that most users need."""
_ATC = {".onnx": "--framework=5", ".pb": "--framework=3", ".prototxt": "--framework=0"}
"""The option of ATC for the format of a deployable file, by file ending."""
_MODEL_AT = 3
"""Position of a second model in the words of `amct evaluate MODEL --data DATA`."""
_LEAST_LOST, _MOST_LOST = 1.0, 5
"""Layers that lose less, in dB, are not printed, and at most this many are; the report has all of them."""


def add_parser(commands: Any) -> None:
    """The command `amct quantize` and its options."""
    usage, summary = "MODEL --data DATA [options] -o OUTDIR", "quantize a model: the whole path in one command"
    parser = add_command(commands, "quantize", usage, summary, _DESCRIPTION, run, _ESSENTIAL)
    add_model_and_folder(parser.add_argument)
    add = parser.add_argument_group(ResultOptions.GROUP).add_argument
    add_options(parser, ResultOptions)
    add("--no-report", action="store_true", help="write neither layers.json nor report.html")
    add_json(add)
    add_quantization(parser, without=())


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done; nothing is written then."""
    from ..flows.quantization import FileOptions, quantize_file
    from ..targets.onnx.quantization import NO_KERNEL
    from ..transforms.quantization.request import wanted_of

    session = quantizing_session(args)
    note_target(args, session)
    asked, results = options_of(args, AllOptions), options_of(args, ResultOptions)
    wanted = wanted_of(asked.quantization)
    reported: bool = not args.no_report
    options = FileOptions(wanted, asked.calibration, asked.running, results, reported, timed=True, page=reported)
    with progress_bar() as session.on_progress:
        summary = quantize_file(args.model, args.output, options, session)
    found = written(summary, args.output) if reported else None
    if args.json:
        print_json(args, printed_data(summary))
    else:
        print_summary(summary, found, session, args.verbose)
    hint = "all files were written"
    if any(remark.rule == NO_KERNEL for remark in session.remarks):
        hint += "; --simulate-formats writes numbers that onnxruntime runs"
    refuse(summary.peer, summary.files["onnx"], summary.model, hint)


def printed_data(summary: Summary) -> dict[str, Any]:
    """The data of summary.json, with the paths of files, the report among them."""
    from ..flows.summary import summary_data

    return {**summary_data(summary), "files": {role: str(path) for role, path in summary.files.items()}}


def print_summary(summary: Summary, measured: Run | None, session: Session, verbose: bool) -> None:
    """Print the result and what to do next; before them, if `verbose`, all tables and the layers that lose most."""
    from ..examine.reports.advice import advice
    from ..examine.reports.network import costliest

    if verbose:
        tables = [*summary.details()]
        if lost := costliest(() if measured is None else measured.layers, _LEAST_LOST, _MOST_LOST):
            rows = [(x.name, x.op, f"{x.error.sqnr:.2f}", f"{drop:.2f}") for drop, x in lost if x.error is not None]
            tables.insert(-1, Table("layers that lose most", ("layer", "operation", "SQNR dB", "lost dB"), rows))
        print_tables(tables)
    steps = _next_steps(summary, [] if measured is None else advice(measured), session)
    print_table("summary", (), [*summary.tables()[0].rows, *zip(("next", ""), steps, strict=False)])


def _next_steps(summary: Summary, found: Sequence[Advice], session: Session) -> list[str]:
    """The next step after a run: the first advice of its report, or the command that uses a good result."""
    if found:
        return [*filter(None, found[0])]
    if (deployable := summary.files.get("deploy")) is not None:
        words = ["atc", _ATC[deployable.suffix], f"--model={deployable}", f"--output={deployable.stem}"]
        if deployable.suffix == ".prototxt":
            name = f"{deployable.stem.removesuffix('_model')}_weights.caffemodel"
            words.append(f"--weight={deployable.with_name(name)}")
        return [shlex.join([*words, "--soc_version=SOC"])]
    words = shlex.split(session.commands["evaluate"])
    return [shlex.join([*words[:_MODEL_AT], str(summary.files["onnx"]), *words[_MODEL_AT:]])]


def refuse(peer: Peer | None, file: Path, source: Path, hint: str = "all files were written") -> None:
    """Raises CompileError, located in a written file, if onnxruntime cannot run it but can run its source."""
    from ..flows.peer import refused

    if peer is not None and refused(peer, source):
        message = f"onnxruntime {peer.version} does not run the file: {peer.failure}"
        raise CompileError(message, where=str(file), hint=hint)


def print_saved(
    args: argparse.Namespace, title: str, layers: Layers, files: Sequence[Path], runs: int | None = None
) -> None:
    """Print the outcome of layers and the written files of AMCT, and open the ONNX accuracy file in onnxruntime.

    `runs` calibrated. Raises CompileError as `refuse` does.
    """
    from ..flows.peer import described, peer_of
    from ..flows.summary import counted, layers_data, peer_data

    peers = {file: peer_of(file) for file in files if file.name.endswith("fake_quant_model.onnx")}
    if args.json:
        opened = {str(file): peer and peer_data(peer) for file, peer in peers.items()}
        written = {"onnxruntime": opened, "files": amct_roles(args.save_path, files)}
        print_json(args, {"layers": layers_data(layers), "runs": runs, **written})
    else:
        print_tables(layers.tables())
        rows = [
            ("fused", counted(Counter(r.rule for r in layers.fused))),
            ("quantized", f"{len(layers.quantized)} layers"),
            ("left in float", f"{len(layers.float_layers)} layers"),
            *(("wrote", str(file)) for file in files),
        ]
        if runs is not None:
            rows.append(("calibrated on", numbered(runs, "run")))
        print_table(title, (), rows)
        for file, peer in peers.items():
            print_table("onnxruntime", (), [(str(file), described(peer))])
    for file, peer in peers.items():
        refuse(peer, file, args.model)


def amct_roles(save_path: str, files: Iterable[Path]) -> dict[str, str]:
    """AMCT's files by the part of their names after the prefix: `deploy_model.onnx`, `record.txt`."""
    prefix = save_path.rpartition("/")[2]
    return {file.name.removeprefix(prefix).removeprefix("_"): str(file) for file in files}
