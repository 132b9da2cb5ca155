"""The tables of `docs/language-models.md` about exporters: tiny decoders of each family with seeded weights, as optimum,
onnxruntime-genai's builder and torch's dynamo exporter write them with their cache, quantized by each form of options, and 50
tokens decoded from each file.

    python benchmarks/exporters.py [optimum | genai | dynamo] [FAMILY ...]

What optimum-onnx 0.1 and onnxruntime-genai 0.18 need has environments under `.bench/`.
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
    "genai": (
        ("torch==2.13.0", "onnxruntime-genai==0.18.0", "onnxruntime", "transformers>=5", "onnx-ir", "onnxscript"),
    ),
}
"""What pip is asked for, by exporter; that of torch runs in the one of onnxruntime-genai."""
COMMON = (
    "vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, "
    "num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0"
)
FAMILIES: Mapping[str, str] = {
    "Qwen3": f"Qwen3ForCausalLM(Qwen3Config({COMMON}, head_dim=16, tie_word_embeddings=False))",
    "Gemma3": f"Gemma3ForCausalLM(Gemma3TextConfig({COMMON}, head_dim=16, sliding_window=16))",
    "Llama": f"LlamaForCausalLM(LlamaConfig({COMMON}))",
    "GPT-2": "GPT2LMHeadModel(GPT2Config(vocab_size=512, n_embd=64, n_layer=2, n_head=4, n_positions=128))",
    "Phi3": f"Phi3ForCausalLM(Phi3Config({COMMON}, original_max_position_embeddings=128))",
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


MAKE = """
import torch
from transformers import *
from tokenizers import Tokenizer, models
torch.manual_seed(0)
model = FAMILY
model.eval().save_pretrained("model")
words = Tokenizer(models.WordLevel({str(i): i for i in range(512)}, "0"))
PreTrainedTokenizerFast(tokenizer_object=words, unk_token="0").save_pretrained("model")
"""
DYNAMO = """
from pathlib import Path

class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, past):
        cache = DynamicCache(past)
        given = dict(attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
        return self.model(input_ids, **given).logits, [(each.keys, each.values) for each in cache.layers]

config, rows, new, old = model.config, 2, 3, 4
heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
past = [tuple(torch.randn(rows, heads, old, size) for _ in range(2)) for _ in range(config.num_hidden_layers)]
ids, mask = torch.ones(rows, new, dtype=torch.long), torch.ones(rows, old + new, dtype=torch.long)
parts = [f"{i}.{part}" for i in range(len(past)) for part in ("key", "value")]
dynamic = torch.export.Dim.DYNAMIC
two = {0: dynamic, 1: dynamic}
Path("decoder").mkdir()
torch.onnx.export(
    Decoder(), (ids, mask, ids, past), "decoder/model.onnx", dynamo=True,
    input_names=["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{each}" for each in parts)],
    output_names=["logits", *(f"present.{each}" for each in parts)],
    dynamic_shapes=(two, two, two, [({0: dynamic, 2: dynamic},) * 2 for _ in past]),
)
"""
COMMANDS: Mapping[str, str] = {
    "optimum": "optimum-cli export onnx --model model --task text-generation-with-past decoder",
    "genai": "python -m onnxruntime_genai.models.builder -i model -o decoder -p fp32 -e cpu",
}
"""The command of an exporter, in its environment; torch has none."""


def exported(exporter: str, family: str, folder: Path) -> Path:
    """The folder that an exporter writes for a family."""
    home = exporter if exporter in ENVIRONMENTS else "genai"
    python = environment(home, ENVIRONMENTS[home])
    make, command = MAKE.replace("FAMILY", FAMILIES[family]), COMMANDS.get(exporter, "").split()
    subprocess.run([python, "-c", make + ("" if command else DYNAMO)], cwd=folder, check=True, capture_output=True)
    if command:
        subprocess.run([python.parent / command[0], *command[1:]], cwd=folder, check=True, capture_output=True)
    return folder / "decoder"


def empty_cache(session: Any, rows: int) -> dict[str, Array]:
    return {
        i.name: np.zeros([rows, i.shape[1], 0, 16], TYPES[i.type]) for i in session.get_inputs() if "past" in i.name
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


def main(exporter: str, families: Sequence[str]) -> None:
    latency.SECONDS = 0
    rows: dict[str, list[str]] = {form: [] for form in FORMS}
    for family in families:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            decoder = exported(exporter, family, folder)
            arrays: Any = calibration(decoder / "model.onnx")
            np.savez(folder / "data.npz", **arrays)
            for form, cells in rows.items():
                print(family, form, file=sys.stderr)
                cells.append(outcome(decoder, form, folder))
    table = [[form, "yes" if FORMS[form][0] else "no", *cells] for form, cells in rows.items()]
    print(markdown(["options", "data", *families], table))


if __name__ == "__main__":
    given = sys.argv[1:]
    exporter = given.pop(0) if given and given[0] not in FAMILIES else "optimum"
    main(exporter, given or list(FAMILIES))
