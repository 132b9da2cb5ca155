"""Shrinks a model while something about it keeps failing: fewer operations, smaller sizes, plainer weights.

Any subset of operations is a model: values that come from outside become inputs, values that go outside become outputs.
Therefore operations are found by delta debugging (Zeller and Hildebrandt, 2002), without knowledge of the failure. Sizes become
smaller before, so that each test of the whole model takes little time. What is left is made plainer step by step; every step is
kept that still fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

M = TypeVar("M")

Changes = Iterator[tuple[str, Callable[[], "M | None"]]]
"""Smaller or plainer models, each with a name, made when they are called."""

_FIRST = 0.3
"""The part of the time after which operations are cut, even if sizes can still become smaller."""

SECONDS = 60.0
"""Default time limit of a reduction in seconds, apart from the test that runs when it ends."""


class Form(Protocol[M]):
    """A kind of models that can be cut and made plainer. Models are never changed in place."""

    def parts(self, model: M) -> tuple[int, Callable[[Sequence[int]], M | None]]:
        """The number of operations, and a function that cuts out some of them, by ascending index.

        The function returns None for operations that cannot be cut out, because a type is not known.
        """
        ...

    def sizes(self, model: M) -> Changes[M]:
        """Ways to make a model smaller with all its operations, each with a name; None as for `changes`."""
        ...

    def changes(self, model: M) -> Changes[M]:
        """Ways to make a model plainer, each with a name; None if one does not apply or gives an invalid model."""
        ...


@dataclass
class Reducer(Generic[M]):
    """A reduction: the test, the candidates that it may try, and the number of tests that were run."""

    form: Form[M]
    fails: Callable[[M], bool]
    seconds: float = SECONDS
    on_step: Callable[[M, int], None] | None = None
    """Called with every smaller model that still fails and the number of tests so far."""
    tests: int = 0
    _begin: float = field(default_factory=time.monotonic)

    def run(self, model: M) -> M:
        """The smallest model found that still fails; `model` itself if nothing smaller does."""
        model, size = self._plainer(model, self.form.sizes, _FIRST), -1
        while self.form.parts(model)[0] != size and not self._late():
            size = self.form.parts(model)[0]
            model = self._plainer(self._fewer(model), self.form.changes)
        return model

    def _late(self, part: float = 1) -> bool:
        return time.monotonic() - self._begin >= part * self.seconds

    def _test(self, model: M | None) -> bool:
        if model is None or self._late():
            return False
        self.tests += 1
        if not self.fails(model):
            return False
        if self.on_step is not None:
            self.on_step(model, self.tests)
        return True

    def _fewer(self, model: M) -> M:
        """Removes operations as long as the rest still fails."""
        count, cut = self.form.parts(model)

        def fails(kept: Sequence[int]) -> bool:
            return self._test(cut(kept))

        kept = _without_chunks(_window(list(range(count)), fails), fails)
        return model if len(kept) == count else cut(kept) or model

    def _plainer(self, model: M, changes: Callable[[M], Changes[M]], part: float = 1) -> M:
        """The model after every change that keeps it failing; changes run again until none of them helps, for a part of the
        time.
        """
        tried: set[str] = set()
        while not self._late(part):
            for name, change in changes(model):
                if name in tried or self._late(part):
                    continue
                tried.add(name)
                changed = change()
                if changed is not None and self._test(changed):
                    model = changed
                    break
            else:
                return model
        return model


def _window(kept: list[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """A run of neighbours that fails, found by halves that overlap: one cause is found in few tests, each half as large."""
    while len(kept) > 1:
        half = (len(kept) + 1) // 2
        step = max(1, half // 2)
        starts = sorted({*range(0, len(kept) - half, step), len(kept) - half})
        for start in starts:
            if fails(kept[start : start + half]):
                kept = kept[start : start + half]
                break
        else:
            return kept
    return kept


def _without_chunks(kept: list[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Takes operations away until no single one can go; larger chunks are tried first."""
    chunk = max(1, len(kept) // 2)
    while True:
        start, removed = 0, False
        while start < len(kept) and len(kept) > 1:
            rest = kept[:start] + kept[start + chunk :]
            if rest and fails(rest):
                kept, removed = rest, True
            else:
                start += chunk
        if chunk == 1 and not removed:
            return kept
        chunk = chunk if chunk == 1 else chunk // 2
