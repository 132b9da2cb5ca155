"""`amct create-config`: writes AMCT's configuration of a model, to be edited and passed to `--quantize=config=`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..transforms.quantization.options import SessionOptions, SettingsOptions
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
    positive,
    print_json,
    protect,
)

_DESCRIPTION = """\
Lists every layer of MODEL that can be quantized, with its settings, as JSON in AMCT's form. It includes the settings of a
simplified configuration and of the options. If CONFIG does not end in .json, it is a simplified configuration with everything
that differs from AMCT's defaults."""


def add_parser(commands: Any) -> None:
    """The command `amct create-config` and its options."""
    usage, summary = "MODEL [options] -o CONFIG", "write the configuration of a model"
    parser = add_command(commands, "create-config", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help=MODEL)
    add("-o", "--output", metavar="CONFIG", type=Path, required=True, help="write the configuration here")
    add("--config", metavar="SIMPLE.cfg", help="a simplified configuration to start from")
    text = "how ranges are found: ifmr (default) or hfmg, with options such as 'hfmg{num-of-bins=2048}'"
    add("--observer", help=text)
    text = "number of calibration batches (default: all of the data; AMCT: 1)"
    add("--batch-num", type=positive, metavar="N", help=text)
    add("--activation-offset", choices=("true", "false"), help="whether activations have a zero point (default true)")
    add_options(parser, SettingsOptions, only=("skip_layers", "skip_layer_types", "only_layers"))
    add_options(parser, SessionOptions, only=("profile",))
    add_json(add)
    add_import_options(parser.add_argument_group("how the model is read").add_argument)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for an unreadable model or configuration, and for layers that the model does not have."""
    from dataclasses import replace

    from ..configuration.checks import check_observers
    from ..configuration.json_config import json_text
    from ..configuration.simplified_text import simplified_text
    from ..flows.saving import framework_of
    from ..frontends import files_of
    from ..lowering.ascend.profiles import like_amct
    from ..pipelines.passes import run_passes
    from ..support.files import replacing
    from ..transforms.canonicalization import SIMPLIFY
    from ..transforms.quantization.decide.layers import resolve
    from ..transforms.quantization.decide.non_uniform_layers import with_named_levels
    from ..transforms.quantization.profiles import profile_of
    from ..transforms.quantization.request import settings_of

    imports = import_options(args)
    configs = [] if args.config is None else [Path(args.config)]
    protect([args.output], reads=[*files_of(args.model, imports), *configs])
    observer = args.observer or (None if configs else "ifmr")
    offset = None if args.activation_offset is None else args.activation_offset == "true"
    settings = settings_of(replace(options_of(args, SettingsOptions), observer=observer, activation_offset=offset))
    if args.batch_num is not None:
        settings = replace(settings, batch_num=args.batch_num)
    module, session = load_module(args.model, imports, command_session(args))
    session.profile = args.profile or session.profile
    like_amct(module, session)
    run_passes(module, SIMPLIFY, session)
    check_observers(settings, session.observers)
    resolved = resolve(settings, module, profile_of(session))
    layers = [each.layer for each in resolved.able]
    if args.output.suffix.lower() == ".json":
        text = json_text(with_named_levels(resolved, session), layers, framework_of(args.model))
    else:
        text = simplified_text(resolved.settings)
    with replacing(args.output) as stream:
        stream.write(text.encode())
    if args.json:
        print_json(args, {"layers": [layer.name for layer in layers], "files": {"config": str(args.output)}})
    else:
        print(f"{args.output}: {len(layers)} layers")
