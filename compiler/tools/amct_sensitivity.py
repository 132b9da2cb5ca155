"""`amct sensitivity`: which layers cost the network's accuracy when they are quantized."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.tables import print_tables, progress_bar
from ..transforms.quantization.options import AllOptions
from .parser import add_command
from .shared import MODEL, add_json, add_quantization, note_target, options_of, positive, print_json, quantizing_session

if TYPE_CHECKING:
    from ..flows.sensitivity import Sensitivity

_DESCRIPTION = """\
Quantizes MODEL as amct quantize does, writes nothing, and lists the quantized layers, the one that costs most first:
  alone    SQNR in dB of the outputs when only this layer is quantized: the lower, the more it costs; then the least and the
           largest of single runs
  spared   SQNR in dB of the outputs when only this layer stays in float; gain is the difference from the quantized network
  own      similarity of the layer's own results, float and quantized, from equal inputs (as amct auto-calibration ranks)

With --measure kl, alone and spared are the divergence of the outputs' probabilities in nats, for classifiers: the larger, the
more it costs. Outputs that are not probabilities are logits, whose softmax counts.

By default amct quantize corrects biases and rounds weights of few bits by mismatch, which makes up for the layers before. Next to
float layers there is nothing to make up for: alone and own are of weights rounded by gptq, and of biases as they are.

Samples are held back from calibration as amct quantize does it; the worst output of the network counts, and scores next to other
numbers are an output of their own. Values that do not depend on the layer are computed once for all layers."""


def add_parser(commands: Any) -> None:
    """The command `amct sensitivity` and its options."""
    usage, summary = "MODEL --data DATA [options]", "list which quantized layers cost accuracy at the network's outputs"
    parser = add_command(commands, "sensitivity", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help=MODEL)
    add(
        "--samples",
        dest="measured",
        type=positive,
        metavar="N",
        default=32,
        help="measure on at most N samples (default 32)",
    )
    text = "how outputs are compared with the float network's: SQNR in dB (default), or divergence of probabilities in nats"
    add("--measure", choices=("sqnr", "kl"), default="sqnr", help=text)
    add_json(add)
    add_quantization(parser)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for anything that cannot be done."""
    from ..flows.sensitivity import sensitivity_of

    session, asked = quantizing_session(args), options_of(args, AllOptions)
    note_target(args, session)
    data, running = asked.calibration, asked.running
    with progress_bar() as session.on_progress:
        found = sensitivity_of(args.model, asked.quantization, data, session, args.measured, running, args.measure)
    if args.json:
        print_json(args, _data(found))
    else:
        print_tables(found.tables())


def _data(found: Sensitivity) -> dict[str, Any]:
    from ..flows.summary import finite

    return {**finite(asdict(found)), "layers": [finite(asdict(each)) for each in found.layers]}
