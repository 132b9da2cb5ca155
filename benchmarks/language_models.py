"""The table of `docs/language-models.md` about 8 bits: MODEL CALIBRATION TEST, a decoder in ONNX and two arrays of token ids
`FILE.npz:KEY`, int64 [rows, tokens].

Each form is run by onnxruntime: perplexity on TEST, and the time of a run of one row with one thread, all forms in turns
(the lower quartile, because other programs may run).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from tables import markdown

import amct_opt
from amct_opt.flows import latency

FORMS: dict[str, dict[str, Any]] = {
    "`--data --no-equalize`": {"equalize": False},
    "`--data`": {},
    "`--data --equalize`": {"equalize": True},
    "`--dynamic`": {"dynamic": True},
    "`--dynamic --data --equalize`": {"dynamic": True, "equalize": True},
}
"""The options of `amct quantize --profile qdq`; those without `--dynamic` are followed by the same with `--quantize-cache`."""
ROUNDS = 1000
TYPES = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(int64)": np.int64}


def inputs(model: Path, ids: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """What a decoder takes with these tokens, int64 [rows, tokens], and an empty cache."""
    rows, tokens = ids.shape
    given = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "position_ids": np.tile(np.arange(tokens), (rows, 1)),
    }
    taken = onnxruntime.InferenceSession(model).get_inputs()
    return {
        i.name: given[i.name] if i.name in given else np.zeros((rows, i.shape[1], 0, i.shape[3]), TYPES[i.type])
        for i in taken
    }


def ids_of(text: str) -> np.ndarray[Any, Any]:
    file, _, key = text.rpartition(":")
    return np.load(file)[key]


def written(model: Path, calibration: str, folder: Path) -> dict[str, Path]:
    """The forms of a model, by their names in the table."""
    arrays: Any = inputs(model, ids_of(calibration))
    np.savez(folder / "data.npz", **arrays)
    cached = any("past" in i.name for i in onnxruntime.InferenceSession(model).get_inputs())
    found = {"float": model}
    for name, options in FORMS.items():
        for cache in (False, True)[: 2 if cached and "dynamic" not in options else 1]:
            given = None if name == "`--dynamic`" else folder / "data.npz"
            print(f"{name} {'with a cache of integers' if cache else ''}", file=sys.stderr)
            summary = amct_opt.quantize_file(
                model, folder / f"{len(found)}", given, profile="qdq", quantize_cache=cache, **options
            )
            found[f"{name[:-1]} --quantize-cache`" if cache else name] = summary.files["onnx"]
    found["onnxruntime's `quantize_dynamic`"] = folder / "dynamic.onnx"
    quantize_dynamic(model, folder / "dynamic.onnx", per_channel=True, weight_type=QuantType.QInt8)
    return found


def main(model: Path, calibration: str, test: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        files = written(model, calibration, Path(name))
        found = amct_opt.perplexity([*files.values()], test)
        row = ids_of(test)[:1]
        latency.SECONDS = 20
        times = latency.side_by_side({file: inputs(file, row) for file in files.values()}, ROUNDS).models
    rows = [
        (
            form,
            f"{each.perplexity:.3f}",
            f"{100 * found.change(each)[0]:+.2f}",
            f"{times[file].quartiles[0] * 1e3:.2f}",
        )
        for (form, file), each in zip(files.items(), found.models, strict=True)
    ]
    print(markdown(("form", "perplexity", "change %", f"ms, {row.shape[1]} tokens"), rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
