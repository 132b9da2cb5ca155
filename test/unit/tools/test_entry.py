"""How a tool starts."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from compiler.tools.entry import run_tool

THREADS = "OPENBLAS_NUM_THREADS"


@pytest.fixture(autouse=True)
def threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("3", "3")])
def test_products_run_in_one_thread_unless_the_user_says_how_many(
    given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numpy is loaded after the tool has begun, and its products, which would wait for each other in loops, take one thread."""
    monkeypatch.setenv(THREADS, given or "")  # is restored in the end
    if given is None:
        monkeypatch.delenv(THREADS)
    seen: list[str | None] = []

    def run(_: object) -> int:
        seen.append(os.environ.get(THREADS))
        return 0

    with pytest.raises(SystemExit):
        run_tool("tool", run)
    assert seen == [expected]
