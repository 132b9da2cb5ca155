"""Random options: the profile, the passes, the quantization, and the formats that are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from amct_opt.ir.number_formats import ACTIVATION_FORMATS, NUMBER_FORMATS
from amct_opt.observers import OBSERVERS
from amct_opt.session.catalogue import PROFILES

FLOAT_PASSES = (
    "fold-constants", "canonicalize", "infer-shapes", "convert-layout=to=NCHW", "convert-layout=to=NHWC", "fuse-small-bn",
    "fuse-bn", "fuse-mul", "fuse-bias", "fuse-activation", "merge-group-conv", "lower-bn", "fuse-all",
)  # fmt: skip
"""None of them changes what a module computes."""
FLOAT_TARGETS = ("onnx", "onnx", "tf-fakequant", "caffe")
QUANTIZED_TARGETS = (
    "onnx-ascend",
    "tf-ascend",
    "tf-fakequant",
    "caffe{form=deploy}",
    "caffe{form=fake-quant}",
    "record",
)


SOMETIMES = {
    "text": 0.3, "float file": 0.5, "passes": 0.6, "quantized text": 0.3, "quantized file": 0.3, "quant dialect": 0.2,
    "qdq without optimization": 0.3, "read back qdq": 0.3, "deployed": 0.6, "ascend text": 0.3,
    "quantize again": 0.5, "variants": 0.3,
}  # fmt: skip
"""How often a check is made that is not made of each model."""
FORMS = ("again", "twice", "printed", "shards", "threads", "constants", "opset")
"""Forms of a model of which one is compared, next to two others, where `variants` are."""


@dataclass(frozen=True)
class Choices:
    """What is done to one model."""

    profile: str
    passes: tuple[str, ...]
    quantize: tuple[str, ...]
    float_target: str
    quantized_target: str
    opset: int | None
    batches: int
    checks: frozenset[str]
    """Those of `SOMETIMES` that are made."""
    forms: tuple[str, ...]
    """Those of `FORMS` that `variants` compare."""

    def traits(self) -> list[str]:
        """What is counted about it."""
        return [f"profile {self.profile}", *(f"option {each}" for each in self.quantize)]


def choices(seed: int) -> Choices:
    """The options that belong to a seed, whatever the model."""
    random = np.random.default_rng((seed, 1))

    def pick(*values: Any) -> Any:
        return values[int(random.integers(len(values)))]

    passes = tuple(pick(*FLOAT_PASSES) for _ in range(int(random.integers(1, 5))))
    profile = pick(*PROFILES)
    return Choices(
        profile=profile,
        passes=passes,
        quantize=tuple(_quantize(profile, random, pick)),
        float_target=pick(*FLOAT_TARGETS),
        quantized_target=pick(*QUANTIZED_TARGETS),
        opset=pick(None, None, *range(13, 25)),
        batches=pick(1, 2, 4),
        checks=frozenset(name for name, part in SOMETIMES.items() if random.random() < part),
        forms=(pick(*FORMS),),
    )


def _quantize(profile: str, random: np.random.Generator, pick: Any) -> list[str]:
    """Options of `--quantize` that the profile has; the most usual are none."""
    if random.random() < 0.3:
        return []
    if random.random() < 0.08:
        formats = [f"weight-format={name}" for name in NUMBER_FORMATS]
        formats += [f"activation-format={name}" for name in ACTIVATION_FORMATS]
        stored = pick("", "", "group-size=16", "group-size=32", "weight-bits=2 group-size=16", *formats)
        return ["weight-only=true", *filter(None, [stored, pick("", "weight-search=true")])]
    several = {
        "observer": pick(*OBSERVERS),
        "bits": pick(4, 8, 8, 16),
        "weight-bits": pick(3, 4, 6, 7, 8),
        "channel-wise": pick("true", "false"),
        "activation-offset": pick("true", "false"),
        "round-weights": pick("gptq", "mismatch", "adaround"),
        "correct-bias": "true",
        "equalize": "true",
        "engine": pick("numpy", "onnxruntime"),
    }
    several |= _of_layers(pick) if profile.startswith("ascend") else _of_values(pick)
    chosen = random.choice(list(several), int(random.integers(1, 4)), replace=False)
    options = [f"{name}={several[name]}" for name in sorted(chosen.tolist())]
    if "joint-quant=true" in options and random.random() < 0.5:
        options.append("shift=true")
    return options


def _of_layers(pick: Any) -> dict[str, Any]:
    return {
        "dmq": pick(0.2, 0.5, 0.8),
        "fakequant-precision-mode": "FORCE_FP16_QUANT",
        "joint-quant": pick("true", "false"),
    }


def _of_values(pick: Any) -> dict[str, Any]:
    return {
        "activation-type": pick("Relu", "Relu,Clip,LeakyRelu"),
        "fuse-activation": pick("true", "false"),
        "fuse-passive-op": pick("true", "false"),
        "align-elementwise": pick("large", "output", "none"),
        "align-concat": pick("large", "output", "none"),
        "align-pooling": pick("input", "output", "none"),
        "align-resize": pick("input", "output", "none"),
        "force-alignment-overlap": pick("true", "false"),
    }
