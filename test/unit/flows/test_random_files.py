"""What exporters write, at random, and what every stage makes of it, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path

import pytest

from .random_files import check


@pytest.mark.parametrize("seed", range(20))
def test_a_random_file(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 300, 20))
def test_many_random_files(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        check(seed, tmp_path)


@pytest.mark.parametrize("seed", [345, 840, 1021, 1574])
def test_a_file_that_the_optimizer_of_onnxruntime_breaks(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)
