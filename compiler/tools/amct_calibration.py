"""`amct calibration`: AMCT's command line: reads a model and raw data, writes AMCT's files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..pipelines.options import shapes
from ..support.diagnostics import CompileError
from ..support.tables import progress_bar
from ..transforms.quantization.options import EngineOptions, SessionOptions
from .amct_quantize import print_saved
from .parser import add_command
from .shared import (
    add_amct_files,
    add_configuration,
    add_json,
    add_options,
    amct_imports,
    command_session,
    options_of,
    positive,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..data import Samples
    from ..flows.calibration import Data, Shapes

_DESCRIPTION = """\
Takes the options of amct_onnx, amct_tensorflow and amct_caffe calibration; the ending of --model selects one of them.
Writes, with the folder and prefix P of --save_path:
  ONNX (and .mlir)  P_fake_quant_model.onnx   with QuantizeLinear and DequantizeLinear, for any ONNX runtime
                    P_deploy_model.onnx       with AscendQuant and AscendDequant, for ATC
  TensorFlow        P_quantized.pb            with AscendQuant and AscendDequant, for ATC
                    P_fake_quant_model.pb     quantization in TensorFlow's own operators, for TensorFlow
  Caffe             P_fake_quant_model.prototxt, P_fake_quant_weights.caffemodel
                    P_deploy_model.prototxt, P_deploy_weights.caffemodel
  all               P_quant.json              which layers of the source each layer contains
                    P_record.txt              scales and offsets of every quantized layer

Files of an earlier run are overwritten, but never a file that was read."""


def add_parser(commands: Any) -> None:
    """The command `amct calibration` and its options."""
    usage = "--model MODEL --input_shape NAME:SIZES --data_dir DIR --data_types TYPE [options] --save_path PREFIX"
    summary = "quantize a model with AMCT's options, to AMCT's files"
    parser = add_command(commands, "calibration", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add_amct_files(add)
    text = "shapes of the data, such as 'name1:n,c,h,w;name2:n,16'; -1 follows from the size of a file"
    add("--input_shape", default="", help=text)
    text = "a folder of raw binaries per input, separated by ;, in the order of --input_shape"
    add("--data_dir", default="", help=text)
    add("--data_types", default="", help="types of the data, one per input, separated by ;: 'float32;int64'")
    text = "a Python file, which is executed: its calibration(model) runs the model instead"
    add("--evaluator", type=Path, help=text)
    add_configuration(add)
    text = "number of calibration files, or of the evaluator's runs (default: the configuration's, or 1)"
    add("--batch_num", type=positive, help=text)
    add("--gpu_id", type=int, help="accepted from Caffe command lines and ignored, with a warning")
    add_json(add)
    add_options(parser, EngineOptions)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done; nothing is written then."""
    from ..flows.calibration import calibrate_file

    session = command_session(args)
    options_of(args, SessionOptions).give(session)
    given = _shapes(args)
    data = _evaluated(args) if args.evaluator is not None else _raw(args, given)
    session.imports = amct_imports(args)
    if args.gpu_id is not None:
        session.warn(f"--gpu_id {args.gpu_id} is ignored: everything is computed on the CPU")
    reads = frozenset[Path](filter(None, [args.evaluator]))
    with progress_bar() as session.on_progress:
        result = calibrate_file(
            args.model,
            args.save_path,
            data,
            session,
            args.calibration_config,
            args.batch_num,
            reads,
            given,
            options_of(args, EngineOptions),
        )
    print_saved(args, "calibration", result.layers, result.files, result.runs)


def _shapes(args: argparse.Namespace) -> Shapes:
    """--input_shape by input. TensorFlow inputs may be given by their tensor names, `images:0`."""
    from ..flows.saving import framework_of

    given = shapes(args.input_shape, ",", "--input_shape")
    if framework_of(args.model) != "tensorflow":
        return given
    return {name.removesuffix(":0"): shape for name, shape in given.items()}


def _raw(args: argparse.Namespace, data_shapes: Shapes) -> Data:
    """The files of --data_dir. Raises CompileError for options that are missing."""
    from ..data import Form, load_samples
    from ..ir.functions import main_function

    given = {"--input_shape": args.input_shape, "--data_dir": args.data_dir, "--data_types": args.data_types}
    if missing := [option for option, value in given.items() if not value]:
        raise CompileError(f"amct calibration needs {', '.join(missing)}", hint="or --evaluator")
    types: list[str] = args.data_types.split(";")
    form = Form(tuple(filter(None, types)), data_shapes)
    return lambda module, runs: load_samples(args.data_dir, main_function(module), form)


def _evaluated(args: argparse.Namespace) -> Data:
    """The data of the evaluator. Raises CompileError if other data is given as well."""
    from ..amct.evaluators import evaluator_for
    from ..data import calibration_runs
    from ..support.files import scratch

    for option in ("input_shape", "data_dir", "data_types"):
        if getattr(args, option):
            raise CompileError(f"--evaluator brings its own data: --{option} does not apply")

    def data(module: ModuleOp, runs: int) -> Samples:
        with scratch() as folder:
            evaluator = evaluator_for(args.evaluator, args.model, amct_imports(args), folder)
            return calibration_runs(evaluator, args.evaluator, module, runs)

    return data
