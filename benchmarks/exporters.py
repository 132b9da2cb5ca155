"""The table of `docs/language-models.md` about exporters: tiny decoders of each family with seeded weights, as optimum writes
them with their cache, quantized by each form of options, and 50 tokens decoded from each file.

    python benchmarks/exporters.py [FAMILY ...]

What optimum-onnx 0.1 needs has an environment under `.bench/`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from environments import environment
from tables import markdown

import amct_opt
from amct_opt.flows import latency

Array = np.ndarray[Any, np.dtype[Any]]

ENVIRONMENTS: Mapping[str, Sequence[Sequence[str]]] = {
    "optimum": (("torch==2.13.0", "optimum-onnx[onnxruntime]==0.1.0", "transformers<4.58"),),
}
"""What pip is asked for, by exporter."""
COMMON = (
    "vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, "
    "num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0"
)
FAMILIES: Mapping[str, str] = {
    "Qwen3": f"Qwen3ForCausalLM(Qwen3Config({COMMON}, head_dim=16, tie_word_embeddings=False))",
    "Gemma3": f"Gemma3ForCausalLM(Gemma3TextConfig({COMMON}, head_dim=16, sliding_window=16))",
    "Llama": f"LlamaForCausalLM(LlamaConfig({COMMON}))",
    "GPT-2": "GPT2LMHeadModel(GPT2Config(vocab_size=512, n_embd=64, n_layer=2, n_head=4, n_positions=128))",
    "Phi3": f"Phi3ForCausalLM(Phi3Config({COMMON}))",
    "SmolLM3": f"SmolLM3ForCausalLM(SmolLM3Config({COMMON}))",
    "Qwen3 MoE": f"Qwen3MoeForCausalLM(Qwen3MoeConfig({COMMON}, head_dim=16, num_experts=4, num_experts_per_tok=2, "
    "moe_intermediate_size=64))",
}
INT4: dict[str, Any] = {"weight_only": True, "weight_bits": 4, "group_size": 32}
FORMS: Mapping[str, tuple[bool, dict[str, Any]]] = {
    "int4": (False, INT4),
    "int4, `--matmul-nbits`": (False, {**INT4, "matmul_nbits": True}),
    "`--dynamic`": (False, {"dynamic": True}),
    "int4, `--round-weights gptq`": (True, {**INT4, "round_weights": "gptq"}),
    "int4, `--equalize`": (True, {**INT4, "equalize": True}),
    "int8": (True, {}),
    "int8, `--rotate`": (True, {"rotate": True}),
    "int8, `--quantize-cache`": (True, {"quantize_cache": True}),
    "`--dynamic --equalize`": (True, {"dynamic": True, "equalize": True}),
    "`--activation-format fp8-e4m3`": (True, {"activation_format": "fp8-e4m3"}),
    "int8, profile `ascend`": (True, {"profile": "ascend", "engine": "numpy"}),
    "int8, profile `ascend-a2`": (True, {"profile": "ascend-a2"}),
}
"""Whether a form has data, and its options."""
TYPES = {"tensor(float)": np.float32, "tensor(int8)": np.int8}
TOKENS = 50


def exported(family: str, folder: Path) -> Path:
    """The folder that optimum writes for a family."""
    python = environment("optimum", ENVIRONMENTS["optimum"])
    make = (
        f"import torch; from transformers import *; torch.manual_seed(0); {FAMILIES[family]}.save_pretrained('model')"
    )
    subprocess.run([python, "-c", make], cwd=folder, check=True, capture_output=True)
    command = [python.parent / "optimum-cli", "export", "onnx", "--model", "model"]
    command += ["--task", "text-generation-with-past", "decoder"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "decoder"


def empty_cache(session: Any, rows: int) -> dict[str, Array]:
    return {
        i.name: np.zeros([rows, i.shape[1], 0, i.shape[3]], TYPES[i.type])
        for i in session.get_inputs()
        if "past" in i.name
    }


def calibration(model: Path, rows: int = 16, tokens: int = 24) -> dict[str, Array]:
    """Random tokens, an empty cache, and what else the model takes."""
    session: Any = onnxruntime.InferenceSession(model)
    given = {
        "input_ids": np.random.default_rng(0).integers(3, 512, (rows, tokens)),
        "attention_mask": np.ones((rows, tokens), np.int64),
        "position_ids": np.tile(np.arange(tokens), (rows, 1)),
    }
    taken = {i.name for i in session.get_inputs()}
    return {**{name: array for name, array in given.items() if name in taken}, **empty_cache(session, rows)}


def decoded(model: Path) -> list[int]:
    """The tokens that are most likely one after the other, with the cache fed back."""
    session: Any = onnxruntime.InferenceSession(model)
    taken, outputs = {i.name for i in session.get_inputs()}, [o.name for o in session.get_outputs()]
    cache, tokens = empty_cache(session, 1), [3]
    for step in range(TOKENS):
        given = {
            "input_ids": np.array([tokens[-1:]]),
            "attention_mask": np.ones((1, step + 1), np.int64),
            "position_ids": np.array([[step]]),
        }
        inputs = {**{name: array for name, array in given.items() if name in taken}, **cache}
        results = dict(zip(outputs, session.run(None, inputs), strict=True))
        cache = {name: results[name.replace("past_key_values", "present")] for name in cache}
        tokens.append(int(results["logits"][0, -1].argmax()))
    return tokens[1:]


def outcome(decoder: Path, form: str, folder: Path) -> str:
    """The number of tokens that the file decodes, or for Ascend `written`; or the error. Weights are random: so are tokens."""
    has_data, options = FORMS[form]
    data = folder / "data.npz" if has_data else None
    try:
        given: dict[str, Any] = {"profile": "qdq", "effort": 0, **options}
        summary = amct_opt.quantize_file(decoder, folder / f"{list(FORMS).index(form)}", data, **given)
    except Exception as error:
        return f"**{type(error).__name__}**: {error}"
    if given["profile"] != "qdq":
        return "written" if "deploy" in summary.files else "**not written**"
    return str(len(decoded(summary.files["onnx"])))


def main(families: Sequence[str]) -> None:
    latency.SECONDS = 0
    rows: dict[str, list[str]] = {form: [] for form in FORMS}
    for family in families:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            decoder = exported(family, folder)
            arrays: Any = calibration(decoder / "model.onnx")
            np.savez(folder / "data.npz", **arrays)
            for form, cells in rows.items():
                print(family, form, file=sys.stderr)
                cells.append(outcome(decoder, form, folder))
    table = [[form, "yes" if FORMS[form][0] else "no", *cells] for form, cells in rows.items()]
    print(markdown(["options", "data", *families], table))


if __name__ == "__main__":
    main(sys.argv[1:] or list(FAMILIES))
