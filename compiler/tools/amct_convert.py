"""`amct convert`: AMCT's convert_model and convert_qat_model: writes AMCT's files from known factors."""

from __future__ import annotations

import argparse
from typing import Any

from ..transforms.quantization.options import SessionOptions
from .amct_quantize import print_saved
from .parser import add_command
from .shared import add_amct_files, add_json, add_options, amct_imports, command_session, options_of

_DESCRIPTION = """\
Quantizes without calibration, with known scales and zero points:
  with --record_file   those of a record; layers that the record does not list stay in float
  otherwise            those that the model was trained with, in its QuantizeLinear and DequantizeLinear nodes

Writes the files that amct calibration writes, with the folder and prefix of --save_path: for ONNX P_fake_quant_model.onnx
and P_deploy_model.onnx, for TensorFlow P_fake_quant_model.pb and P_quantized.pb, next to P_quant.json and P_record.txt.
Files of an earlier run are overwritten, but never a file that was read."""


def add_parser(commands: Any) -> None:
    """The command `amct convert` and its options."""
    usage = "--model MODEL [--record_file RECORD] [options] --save_path PREFIX"
    summary = "quantize a model with known scales, or adapt one that was trained with quantization"
    parser = add_command(commands, "convert", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add_amct_files(add)
    add("--record_file", help="AMCT's record of scales and offsets, by layer")
    add_options(parser, SessionOptions, only=("chip",))
    add_json(add)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done; nothing is written then."""
    from ..flows.conversion import convert_file

    session = command_session(args)
    options_of(args, SessionOptions).give(session)
    session.imports = amct_imports(args)
    result = convert_file(args.model, args.record_file, args.save_path, session)
    print_saved(args, "conversion", result.layers, result.files)
