"""`amct evaluate --perplexity`: how well language models predict a text, side by side, and what they write by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import exp, inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..frontends.folders import model_in
from ..ir.array import Array
from ..session import Session
from ..support.diagnostics import CompileError, first_line
from ..support.files import refuse_pipe
from ..support.tables import Table, Tabled
from ..transforms.quantization.options import Device
from .decoder import Decoder, continued, decoder_of
from .labels import array_named
from .options import TextOptions
from .runnable import default_engine
from .tokenizing import token_ids

WINDOW = 128
"""Default number of tokens of a window, if neither the option, the rows of an array nor the model give one."""
PROMPTS = 4
"""Windows whose first halves are prompts of `decode`."""
_ARRAYS = (".npz", ".npy")
_LOGITS = 1 << 26
"""The most logits of a run, unless a single window has more."""
_INSTALL = "pip install 'amct-opt[text]'"


@dataclass(frozen=True)
class Predicted:
    """The predictions of a model for a text."""

    model: Path
    engine: str
    nats: Array
    """float64 [windows, tokens - 1]: the negative logarithm of the probability of each token that is predicted."""
    likeliest: Array
    """int32 [windows, tokens - 1]: the most likely token in place of each."""
    told: Sequence[Sequence[int]] = ()
    """The tokens that it writes after each prompt."""
    seconds: Sequence[float] = field(default=(), repr=False)
    """The time of each of these but the first ones, which take the prompts."""

    @property
    def perplexity(self) -> float:
        mean = float(self.nats.mean())
        return exp(mean) if mean < 700 else inf

    @property
    def speed(self) -> float | None:
        """Tokens per second, by the median of all steps."""
        return 1 / median(self.seconds) if self.seconds else None


@dataclass(frozen=True, repr=False)
class Perplexities(Tabled):
    """All models in order; each is compared with the first."""

    models: Sequence[Predicted]
    source: str
    decode: int = 0

    def agreeing(self, model: Predicted) -> float:
        """The share of places where the most likely token is the first model's."""
        return float((model.likeliest == self.models[0].likeliest).mean())

    def change(self, model: Predicted) -> tuple[float, float]:
        """The relative increase of the perplexity over the first model's, and its standard error: windows differ by
        chance, and both models read the same ones.
        """
        by_window = (model.nats - self.models[0].nats).mean(1)
        ratio = exp(min(float(by_window.mean()), 700))
        spread = float(by_window.std(ddof=1)) / len(by_window) ** 0.5 if len(by_window) > 1 else inf
        return ratio - 1, ratio * spread

    def same(self, model: Predicted) -> int:
        """The number of tokens it writes that are the first model's in the same place."""
        return sum(
            a == b
            for one, two in zip(self.models[0].told, model.told, strict=True)
            for a, b in zip(one, two, strict=True)
        )

    def until(self, model: Predicted) -> Sequence[int]:
        """The number of tokens it writes, after each prompt, before the first that is not the first model's."""
        return [
            next((i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b), len(one))
            for one, two in zip(self.models[0].told, model.told, strict=True)
        ]

    def __repr__(self) -> str:
        return f"Perplexities({', '.join(f'{x.model.name} {x.perplexity:.4g}' for x in self.models)}, on {self.source})"

    def tables(self) -> Sequence[Table]:
        """A table of perplexities and, with `decode`, one of the tokens that are written."""
        windows, tokens = self.models[0].nats.shape
        rows = [
            (
                str(each.model),
                each.engine,
                f"{each.perplexity:.4g}",
                *(
                    ("", "")
                    if each is self.models[0]
                    else (_percent(*self.change(each)), f"{100 * self.agreeing(each):.2f}")
                ),
            )
            for each in self.models
        ]
        title = f"{windows * tokens} tokens of {self.source}, in {windows} windows of {tokens + 1}"
        headers = ("model", "engine", "perplexity", "change %", "same next token %")
        note = "change: against the first model, and its standard error over windows" if len(rows) > 1 else ""
        found = [Table(title, headers, rows, note)]
        if self.decode:
            found.append(self._decoded())
        return found

    def _decoded(self) -> Table:
        count, prompts = self.decode, len(self.models[0].told)
        rows = [
            (
                str(each.model),
                each.engine,
                f"{self.same(each)} of {count * prompts}",
                ", ".join(map(str, self.until(each))),
                "" if each.speed is None else f"{each.speed:.1f}",
            )
            for each in self.models
        ]
        headers = ("model", "engine", "same tokens", "same until", "tokens/s")
        title = f"{count} tokens written after each of {prompts} prompts, the most likely one at each step"
        return Table(title, headers, rows, "same until: tokens before the first that differs, for each prompt")


def perplexities(
    models: Sequence[Path],
    text: TextOptions,
    new_session: Callable[[int], Session],
    engine: str | None = None,
    device: Device = "cpu",
) -> Perplexities:
    """Score every model on the windows of a text, and let it write.

    The text is cut into windows of equal length; tokens that do not fill the last one are left out. Raises CompileError,
    located in the text, the tokenizer or a model.
    """
    engine = engine or default_engine(shared=False)
    ids = _ids(text)
    windows: Array | None = None
    found: list[Predicted] = []
    for i, path in enumerate(map(model_in, models)):
        session = new_session(i)
        decoder = decoder_of(engine, path, session, device)
        if windows is None:
            windows = _windows(ids, text, decoder)
        found.append(_predicted(decoder, windows, text, session))
    return Perplexities(found, text.perplexity, text.decode or 0)


def _predicted(decoder: Decoder, windows: Array, text: TextOptions, session: Session) -> Predicted:
    length = windows.shape[1]
    if decoder.length not in (None, length):
        message = f"takes {decoder.length} tokens at a time, but windows have {length}"
        raise CompileError(message, where=str(decoder.path), hint=f"give --window {decoder.length}")
    vocabulary = _vocabulary(decoder, length)
    if (worst := int(windows.max())) >= vocabulary:
        row, column = np.argwhere(windows >= vocabulary)[0]
        message = (
            f"token {row * length + column} has id {windows[row, column]}, beyond the {vocabulary} of {decoder.path}"
        )
        hint = "give the tokenizer that belongs to the model" if text.tokenizer else f"the largest id is {worst}"
        raise CompileError(message, where=str(text.tokenizer or text.perplexity), hint=hint)
    rows = decoder.batch or max(1, _LOGITS // (vocabulary * length))
    nats, likeliest = list[Array](), list[Array]()
    for start in range(0, len(windows), rows):
        part = windows[start : start + rows]
        ids = part if decoder.batch is None else part[np.arange(rows) % len(part)]
        logits = decoder.run(ids, decoder.empty(len(ids))).logits[: len(part), :-1]
        nats.append(_nats(logits, part[:, 1:]))
        likeliest.append(logits.argmax(2).astype(np.int32))
        session.progress(f"score: {decoder.path.name}", min(start + rows, len(windows)), len(windows))
    told, seconds = _told(decoder, windows, text.decode, session) if text.decode else ([], [])
    return Predicted(decoder.path, decoder.engine, np.concatenate(nats), np.concatenate(likeliest), told, seconds)


def _vocabulary(decoder: Decoder, length: int) -> int:
    """The number of logits, found by a run of the first id of all."""
    ids = np.zeros((decoder.batch or 1, decoder.length or min(length, 2)), np.int64)
    return decoder.run(ids, decoder.empty(len(ids))).logits.shape[2]


def _nats(logits: Array, tokens: Array) -> Array:
    """float64 [windows, tokens]: the negative logarithms of softmax, at the tokens."""
    own = np.take_along_axis(logits, tokens[:, :, None], 2)[:, :, 0].astype(np.float64)
    highest = logits.max(2, keepdims=True)
    sums = np.exp(logits.astype(np.float32) - highest).sum(2, dtype=np.float64)
    return np.log(sums) + highest[:, :, 0] - own


def _told(decoder: Decoder, windows: Array, count: int, session: Session) -> tuple[list[list[int]], list[float]]:
    """The tokens that a model writes after the first halves of some windows that lie apart, and the seconds of its steps."""
    if decoder.length is not None:
        message = f"takes {decoder.length} tokens at a time, so that it cannot go on after a prompt"
        raise CompileError(
            message, where=str(decoder.path), hint="export it with a dynamic number of tokens, or leave out --decode"
        )
    chosen = np.linspace(0, len(windows) - 1, min(PROMPTS, len(windows))).astype(int)
    told, seconds = list[list[int]](), list[float]()
    for done, row in enumerate(chosen):
        tokens, steps = continued(decoder, windows[row, : max(1, windows.shape[1] // 2)], count)
        told.append(tokens)
        seconds += steps
        session.progress(f"decode: {decoder.path.name}", done + 1, len(chosen))
    return told, seconds


def _windows(ids: Array, text: TextOptions, first: Decoder) -> Array:
    """int64 [windows, tokens]. Raises CompileError, located, if there is not one."""
    rows = ids if ids.ndim == 2 else ids[None]
    length = text.window or first.length or (ids.shape[1] if ids.ndim == 2 else WINDOW)
    if (count := rows.shape[1] // length) and len(rows):
        return np.ascontiguousarray(rows[:, : count * length].reshape(-1, length).astype(np.int64))
    message = f"has {rows.shape[1] if len(rows) else 0} tokens, too few for a window of {length}"
    hint = "give a longer text" if text.window is None and first.length else "give a longer text, or a shorter --window"
    raise CompileError(message, where=text.perplexity, hint=hint)


def _ids(text: TextOptions) -> Array:
    """The token ids of a text, int [tokens], or of an array, int [tokens] or [rows, tokens]. Raises CompileError, located."""
    name, _, _ = text.perplexity.partition(".npz:")
    if name == text.perplexity and Path(name).suffix.lower() not in _ARRAYS:
        return _tokenized(text)
    if text.tokenizer is not None:
        raise CompileError(
            "holds token ids, which need no tokenizer", where=text.perplexity, hint="leave out --tokenizer"
        )
    ids = array_named(text.perplexity)
    if ids.ndim not in (1, 2) or not np.issubdtype(ids.dtype, np.integer):
        message = f"token ids must be integers [tokens] or [rows, tokens], not {ids.dtype} {list(ids.shape)}"
        raise CompileError(message, where=text.perplexity)
    if ids.size and ids.min() < 0:
        raise CompileError(f"token id {ids.min()} is negative", where=text.perplexity)
    return ids


def _tokenized(text: TextOptions) -> Array:
    path = Path(text.perplexity)
    if not path.is_file():
        raise CompileError("there is no such file", where=str(path))
    if text.tokenizer is None:
        hint = "give --tokenizer tokenizer.json, or token ids as .npz or .npy"
        raise CompileError("a text needs the tokenizer of the model", where=str(path), hint=hint)
    tokenizer = Path(text.tokenizer)
    if not tokenizer.is_file():
        hint = "it is the file tokenizer.json of the model's folder"
        raise CompileError("there is no such tokenizer", where=str(tokenizer), hint=hint)
    if find_spec("tokenizers") is None:
        raise CompileError("a tokenizer requires tokenizers", where=str(tokenizer), hint=_INSTALL)
    refuse_pipe(path)
    try:
        content = path.read_text("utf-8")
    except (OSError, ValueError) as e:
        raise CompileError(f"cannot be read as text in UTF-8: {first_line(e)}", where=str(path)) from None
    try:
        return np.frombuffer(token_ids(tokenizer, content.encode()), np.int64)
    except ValueError as e:
        raise CompileError(str(e), where=str(tokenizer)) from None


def _percent(share: float, error: float) -> str:
    spread = "" if error == inf else f" ± {100 * error:.2f}"
    return f"{100 * share:+.2f}{spread}"


def perplexity_data(found: Perplexities) -> Mapping[str, Any]:
    """The result as plain data for JSON."""
    windows, tokens = found.models[0].nats.shape
    models = [
        {
            "model": str(each.model),
            "engine": each.engine,
            "perplexity": each.perplexity,
            "change": found.change(each)[0],
            "same_next": found.agreeing(each),
            "decoded": found.decode
            and {
                "same": found.same(each),
                "same_until": [*found.until(each)],
                "tokens_per_second": each.speed and round(each.speed, 2),
            },
        }
        for each in found.models
    ]
    return {
        "source": found.source,
        "windows": windows,
        "window": tokens + 1,
        "tokens": windows * tokens,
        "models": models,
    }
