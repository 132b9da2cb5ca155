"""`amct support`: which layers of a model can be quantized, which rule prevents it, and which Ascend operators compute them."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.tables import print_table
from ..transforms.quantization.options import SessionOptions
from .parser import add_command
from .shared import (
    MODEL,
    add_import_options,
    add_json,
    add_options,
    command_session,
    import_options,
    load_module,
    options_of,
    print_json,
)

if TYPE_CHECKING:
    from ..flows.support import LayerSupport

_DESCRIPTION = """\
Lists every layer of MODEL: whether it can be quantized (fully, its input tensor only, or not), the rule that keeps it in float,
and the Ascend operators that it is lowered to, in the model as amct quantize fuses it. If there are none, as for a layer
that is folded into another, the operators of its type are in brackets. With --chip there is a second table: the kernels that
compute each layer, with their element types, or why there is none. No data is needed, and nothing is written. docs/support.md
has the rules."""


def add_parser(commands: Any) -> None:
    """The command `amct support` and its options."""
    usage, summary = "MODEL [options]", "list which layers of a model can be quantized, and why others cannot"
    parser = add_command(commands, "support", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help=MODEL)
    add_options(parser, SessionOptions, only=("profile", "chip", "rules"))
    add_json(add)
    add_import_options(parser.add_argument_group("how the model is read").add_argument)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for an unreadable model and an unknown profile."""
    from ..flows.support import layers_of
    from ..pipelines.passes import run_passes
    from ..transforms.canonicalization import SIMPLIFY

    module, session = load_module(args.model, import_options(args), command_session(args))
    options_of(args, SessionOptions).give(session)
    run_passes(module, SIMPLIFY, session)
    layers = layers_of(module, session)
    if args.json:
        rows = [asdict(layer) for layer in layers]
        for row in rows if session.chip is None else ():
            del row["kernels"]
        print_json(args, {"layers": rows, "counts": _counts(layers)})
    else:
        _print_tables(layers)


def _print_tables(layers: list[LayerSupport]) -> None:
    rows = [(x.name, x.type, _ascend(x), x.quantizable, x.rule, x.reason) for x in layers]
    print_table("layers", ("layer", "type", "Ascend", "quantizable", "rule", "reason"), rows)
    if any(layer.kernels for layer in layers):
        print_table("kernels", ("layer", "on the chip"), [(x.name, "; ".join(x.kernels) or "-") for x in layers])
    print_table("summary", (), [(kind, str(count)) for kind, count in _counts(layers).items()])


def _ascend(layer: LayerSupport) -> str:
    named = ", ".join(layer.ascend_of_type)
    return ", ".join(layer.ascend) or (f"({named})" if named else "-")


def _counts(layers: list[LayerSupport]) -> dict[str, int]:
    """The number of layers for each kind of support, and the total."""
    found = Counter(layer.quantizable for layer in layers)
    return {**{kind: found[kind] for kind in ("fully", "tensor only", "no")}, "layers": len(layers)}
