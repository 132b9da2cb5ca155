"""Finds the network in folders with a language model, as Hugging Face's optimum and onnxruntime-genai write them.

Sources: onnxruntime-genai's `genai_config.json` names the file of the decoder; optimum writes `model.onnx`, or the decoder of a
network up to three times: without a cache, with one, and both in one file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..support.diagnostics import CompileError
from ..support.files import read_text
from ..support.parsing import parsing

GENAI = "genai_config.json"
"""The configuration of onnxruntime-genai."""
DECODERS = ("decoder_model_merged.onnx", "decoder_with_past_model.onnx", "decoder_model.onnx")
"""optimum's files of one decoder, the most useful first."""


def model_in(path: Path) -> Path:
    """The ONNX file of the network in a folder; any other path unchanged, including the folder of a SavedModel.

    Raises CompileError, located in the folder or in its configuration, if no file or more than one may be meant.
    """
    if not path.is_dir() or any(path.glob("saved_model.pb*")):
        return path
    if (config := path / GENAI).is_file():
        return _decoder(config)
    found = sorted(path.glob("*.onnx"))
    names = [each.name for each in found]
    if len(names) > 1 and set(names) <= {*DECODERS}:
        return path / next(name for name in DECODERS if name in names)
    if len(names) > 1:
        hint = f"name one of them: {path / names[0]}"
        raise CompileError(f"has more than one model: {', '.join(names)}", where=str(path), hint=hint)
    if found:
        return found[0]
    if (inner := path / "onnx").is_dir() and any(inner.glob("*.onnx")):
        raise CompileError("has its models in a folder of its own", where=str(path), hint=f"name it: {inner}")
    if (path / "config.json").is_file():
        hint = "export it to ONNX first, with torch.onnx, optimum or onnxruntime-genai's model builder"
        raise CompileError("has no ONNX file", where=str(path), hint=hint)
    return path


def _decoder(config: Path) -> Path:
    """The file that a configuration of onnxruntime-genai names as the decoder."""
    with parsing(str(config)):
        held: Any = json.loads(read_text(config))
    try:
        name: Any = held["model"]["decoder"]["filename"]
    except (KeyError, TypeError, ValueError):
        raise CompileError("names no file of a decoder (model.decoder.filename)", where=str(config)) from None
    if not isinstance(name, str) or Path(name).name != name:
        raise CompileError(f"names {name!r} as the decoder, which is not a file of its folder", where=str(config))
    if not (config.parent / name).is_file():
        raise CompileError(f"names '{name}' as the decoder, and there is no such file", where=str(config))
    return config.parent / name
