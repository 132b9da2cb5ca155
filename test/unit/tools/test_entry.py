"""How a tool starts."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from amct_opt.tools.entry import run_tool

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


_FOLD = """
import sys
from amct_opt.ir.text import parse_module
from amct_opt.transforms.fusion.fuse_bn import FuseBnPass
from amct_opt.universe import new_session

session = new_session()
text = "func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> { func.return %x : tensor<1xf32> }"
FuseBnPass().apply(session, parse_module(session, text))
loaded = {name for name in sys.modules if name.startswith("amct_opt.")}
print([name for name in loaded if "configuration" in name or "transforms.quantization" in name])
"""


def test_fusion_without_a_configuration_loads_neither_that_nor_quantization() -> None:
    done = subprocess.run([sys.executable, "-c", _FOLD], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
