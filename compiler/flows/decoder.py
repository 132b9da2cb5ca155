"""Runs language models: token ids in, logits out, with the masks, positions and the cache that a file takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from .. import frontends
from ..data import input_types
from ..data.decoding import CACHED, LENGTH_AXIS, following
from ..data.inputs import Runnable
from ..ir.array import Array
from ..ir.dtypes import numpy_dtype
from ..ir.functions import main_function
from ..ir.verification import verify
from ..session import Session
from ..support.diagnostics import CompileError
from ..transforms.quantization.options import Device
from .runnable import Input, OnnxRuntime, named_engine, runnable

_TOKENS = "input_ids"


class Step(NamedTuple):
    """The results of a run."""

    logits: Array
    """[batch, tokens, vocabulary], float32 or another type of floats."""
    cache: Mapping[str, Array]
    """The inputs of the next run that contain this one's keys and values; empty without a cache."""


@dataclass(frozen=True)
class Decoder:
    """A model with its inputs, by role. Errors are located in its file."""

    path: Path
    engine: str
    model: Runnable
    inputs: Mapping[str, Input]
    tokens: str
    """The input of token ids, [batch, tokens]."""
    cached: Mapping[str, str]
    """The input of each part of the cache, by the part of its name that the output's name has, too."""

    @property
    def length(self) -> int | None:
        """The number of tokens that each run takes, if it takes one only."""
        return self.inputs[self.tokens].shape[1]

    @property
    def batch(self) -> int | None:
        """The number of rows that each run takes, if it takes one only."""
        return self.inputs[self.tokens].shape[0]

    def empty(self, rows: int) -> dict[str, Array]:
        """The cache before the first token."""
        return {name: self._no_tokens(self.inputs[name], rows) for name in self.cached.values()}

    def run(self, ids: Array, cache: Mapping[str, Array]) -> Step:
        """The logits of ids, int [rows, tokens], after the tokens in the cache.

        Raises CompileError, located, for outputs that are not logits and the cache with these tokens added.
        """
        rows, tokens = ids.shape
        past = next(iter(cache.values())).shape[LENGTH_AXIS] if cache else 0
        feed = dict(cache)
        for name, given in self.inputs.items():
            if name not in cache:
                feed[name] = self._given(name, ids, past).astype(given.dtype)
        try:
            outputs = self.model.run(feed)
        except CompileError as e:
            raise e.at(str(self.path)) from None
        return Step(self._logits(outputs, rows, tokens), self._next(outputs, cache, past + tokens))

    def _given(self, name: str, ids: Array, past: int) -> Array:
        return ids if name == self.tokens else following(name, len(ids), past, ids.shape[1])

    def _no_tokens(self, given: Input, rows: int) -> Array:
        batch, heads, _, size = given.shape
        return np.zeros((batch or rows, heads or 0, 0, size or 0), given.dtype)

    def _logits(self, outputs: Mapping[str, Array], rows: int, tokens: int) -> Array:
        for name, array in outputs.items():
            if array.ndim == 3 and array.shape[:2] == (rows, tokens) and not np.issubdtype(array.dtype, np.integer):
                return array
            if name == "logits":
                break
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items() if not CACHED.search(name))
        message = (
            f"has no logits [{rows}, {tokens}, vocabulary] for {tokens} tokens; its outputs are {shapes or 'a cache'}"
        )
        raise CompileError(message, where=str(self.path), hint="export the model with its language model head")

    def _next(self, outputs: Mapping[str, Array], cache: Mapping[str, Array], length: int) -> dict[str, Array]:
        given = {CACHED.sub("", name, count=1): (name, array) for name, array in outputs.items() if CACHED.search(name)}
        found: dict[str, Array] = {}
        for part, name in self.cached.items():
            output, array = given.get(part, ("", None))
            if array is None:
                message = f"input '{name}' is a cache, but no output has its values after the run"
                hint = f"name the output as the input, with present in place of past: {name.replace('past', 'present')}"
                raise CompileError(message, where=str(self.path), hint=hint)
            before = cache[name]
            expected = (*before.shape[:LENGTH_AXIS], length, *before.shape[LENGTH_AXIS + 1 :])
            if (array.shape, array.dtype) != (expected, before.dtype):
                message = (
                    f"output '{output}' is {array.dtype} {list(array.shape)}, but input '{name}' takes "
                    f"{before.dtype} {list(expected)} after {length} tokens"
                )
                raise CompileError(message, where=str(self.path))
            found[name] = array
        return found


def decoder_of(engine: str, path: Path, session: Session, device: Device = "cpu") -> Decoder:
    """The language model of a file. onnxruntime opens an ONNX file as it is, without a module.

    Raises CompileError, located, for a file that cannot be run, and for inputs that are neither token ids nor what follows
    from them: masks, positions, and caches that may be empty.
    """
    named = named_engine(engine, path)
    try:
        if named == "onnxruntime":
            model: Runnable = OnnxRuntime(path, device)
            inputs: Mapping[str, Input] = model.inputs
        else:
            module = frontends.read(path, session)
            verify(module)
            model = runnable(engine, path, module, session, device)
            inputs = {
                name: Input(tuple(None if n < 0 else n for n in type_.get_shape()), numpy_dtype(type_.element_type))
                for name, type_ in input_types(main_function(module)).items()
            }
    except CompileError as e:
        raise e if e.where else e.at(str(path)) from None
    return _decoder(path, named, model, inputs)


def _decoder(path: Path, engine: str, model: Runnable, inputs: Mapping[str, Input]) -> Decoder:
    cached = {CACHED.sub("", name, count=1): name for name in inputs if CACHED.search(name)}
    rest = {name: each for name, each in inputs.items() if name not in cached.values()}
    ids = [name for name, each in rest.items() if _is_ids(each) and "mask" not in name and "position" not in name]
    tokens = _TOKENS if _TOKENS in ids else next(iter(ids), None)
    where = str(path)
    if tokens is None:
        given = ", ".join(f"{name} {each}" for name, each in inputs.items())
        raise CompileError(f"no input is token ids, integers [batch, tokens]: it has {given}", where=where)
    for name, each in rest.items():
        if name != tokens and not (("mask" in name or "position" in name) and len(each.shape) == 2):
            known = "token ids, a mask [batch, tokens], position ids [batch, tokens] and a cache past_*"
            raise CompileError(f"input '{name}' {each} is not one of those of a decoder: {known}", where=where)
    for name in cached.values():
        _check_cache(name, inputs[name], where)
    return Decoder(path, engine, model, inputs, tokens, cached)


def _is_ids(given: Input) -> bool:
    return len(given.shape) == 2 and np.issubdtype(given.dtype, np.integer)


def _check_cache(name: str, given: Input, where: str) -> None:
    """Raises CompileError, located, for a cache that cannot be empty, or whose other sizes are unknown."""
    if len(given.shape) != 4:
        raise CompileError(f"input '{name}' {given} is not a cache [batch, heads, tokens, size]", where=where)
    _, heads, length, size = given.shape
    if length is not None:
        message = f"input '{name}' is a cache of {length} tokens, but the first run has none to give"
        raise CompileError(message, where=where, hint="export it with a dynamic number of tokens in the cache")
    if heads is None or size is None:
        message = f"input '{name}' {given} is a cache whose heads and sizes are known only at run time"
        raise CompileError(message, where=where)


def continued(decoder: Decoder, prompt: Array, count: int) -> tuple[list[int], list[float]]:
    """The `count` most likely tokens after a prompt, int [tokens], one after the other, and the seconds of each but the first.

    The cache of each run is fed to the next; without a cache each run takes all tokens.
    """
    rows = decoder.batch or 1
    cache: Mapping[str, Array] = decoder.empty(rows)
    ids: Sequence[int] = [int(each) for each in prompt]
    told: list[int] = []
    seconds: list[float] = []
    feed = ids
    while len(told) < count:
        start = perf_counter()
        step = decoder.run(np.tile(np.array(feed, np.int64), (rows, 1)), cache)
        token = int(np.argmax(step.logits[0, -1]))
        if told:
            seconds.append(perf_counter() - start)
        told.append(token)
        cache = step.cache
        feed = [token] if decoder.cached else [*ids, *told]
    return told, seconds
