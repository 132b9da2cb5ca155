"""The options of the files that `amct quantize` writes and of what it measures. `--help` loads this module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ..configuration.ranges import at_least
from ..pipelines.options import option
from ..support.diagnostics import CompileError

ALSO = ("nn", "ascend", "record")
"""Files that are written on request."""
Timed = Literal["onnxruntime", "openvino"]
"""The engines in which `amct benchmark` times files."""


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Options of files and measurements."""

    GROUP: ClassVar[str] = "results"

    also: tuple[str, ...] = option((), "FILE,...")
    """Further files: nn (the quantized module as text, <stem>_nn.mlir), ascend (the module lowered to Ascend operators,
    <stem>_ascend.mlir), record (AMCT's record of scales and offsets, <stem>_record.txt).
    """
    opset: int | None = option(None, "N")
    """Opset of the ONNX file; by default the model's, or the first newer one that can represent the quantized model."""
    matmul_nbits: bool = False
    """Write products with `group-size` as MatMulNBits of onnxruntime, which keeps weights packed, into the ONNX file."""
    quantize_cache: bool = False
    """The cache of a decoder, `past_*` and `present_*`, goes in and out as the integers that attention reads, a quarter of the
    memory; those of 4 bits as int8. What the model computes does not change. A cache that attention does not read as integers
    stays float, with a remark.
    """
    simulate_formats: bool = False
    """Write weights of `weight-format` into the ONNX file as the float32 numbers that they stand for. onnxruntime has no kernels
    for floats of 4 bits.
    """
    faster_than_float: bool = False
    """Return layers to float, those first that lose most time in int8, until onnxruntime takes less time for the ONNX file than
    for the float model, with one thread on this machine. If no file is faster, that is an error, and nothing is written.
    """
    effort: Literal[0, 1, 2] = option(1, group="recovery of accuracy")
    """How much is tried where the worst output has less than 20 dB, or less than 26 dB and 6 dB less than its layers predict or
    profile ascend gives: other ranges, float for the layers that cost most, `fit-ranges`, `round-weights`, `equalize`,
    uncorrected biases. 0: nothing; 1: until outputs are better than that, on few samples, in about three times the time at
    most; 2: everything, on all samples. What improves samples that decided nothing is kept. Nothing is tried with a
    configuration, a record, `weight-only` or `faster-than-float`, and no option that is given is changed.
    """
    recipe: Literal["detection"] | None = option(None, group="ranges and widths")
    """detection: 16 bits for activations of the layers that need them, as those of heads and depthwise convolutions often do, and
    8 for the rest. What 16 bits of each take off the noise of each output is measured, of scores apart from boxes; the fewest
    layers that take 90 % off the worst output get them. For profiles ascend, ascend-a2 (inputs) and qdq (results).
    """
    labels: str | None = option(None, "LABELS")
    """The class of each sample, of which right answers are counted: `folders` (the class of an image is its folder, numbered by
    the order of names), a table FILE.csv of path,label or of label, or integers in FILE.npy, FILE.npz or FILE.npz:KEY.
    """
    check: str | None = option(None, "[DATA]")
    """Run the module after each pass next to the one before it, layer by layer, and compare with what the pass promises
    (docs/checking.md); also what was read and written, with onnxruntime if it is installed. DATA: samples in the form of `data`;
    by default `amct quantize` takes those that measure, amct-opt synthetic ones. The first two runs are used.
    """

    def __post_init__(self) -> None:
        """Raises CompileError for a further file that does not exist."""
        if unknown := [each for each in self.also if each not in ALSO]:
            raise CompileError(f"also: '{unknown[0]}' is not one of {', '.join(ALSO)}", option="also")


AS_USUAL = ResultOptions()


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options of a text that judges language models."""

    GROUP: ClassVar[str] = "language models"

    perplexity: str = option("", "TEXT")
    """A text in UTF-8, with `tokenizer`, or token ids, one row or several: FILE.npy, FILE.npz or FILE.npz:KEY."""
    tokenizer: str | None = option(None, "FILE")
    """The `tokenizer.json` of the model, which makes token ids of the text."""
    window: int | None = option(None, "N")
    """Tokens that a model sees at a time: all but the first of each window are predicted from those before them. By default a row
    of ids, or 128 tokens of a text.
    """
    decode: int | None = option(None, "N")
    """Let each model write N tokens after each of four prompts, the most likely one at each step, and time it."""

    def __post_init__(self) -> None:
        """Raises CompileError for a window of one token, which predicts none."""
        if self.window is not None:
            at_least("window", self.window, 2)
