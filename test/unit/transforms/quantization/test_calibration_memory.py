"""Calibration needs the same memory whatever the number of samples. benchmarks/calibration_memory.py measures ResNet-50."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from amct_opt.data import load_samples, samples
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.observers import OBSERVERS
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.calibrate import CalibratePass
from amct_opt.transforms.quantization.calibrate.observing import MOST

from ...values import parsed

SIZE = 4096


def net(observer: str) -> str:
    return f"""
func.func @main(%x: tensor<?x{SIZE}xf32> {{nn.name = "x"}}) -> (tensor<?x{SIZE}xf32> {{nn.name = "y"}}) {{
  %o = nn.observe %x as "a:0" by "{observer}" : tensor<?x{SIZE}xf32>
  %r = nn.relu %o : tensor<?x{SIZE}xf32>
  %p = nn.observe %r as "b:0" by "{observer}" : tensor<?x{SIZE}xf32>
  %y = nn.exp %p : tensor<?x{SIZE}xf32>
  func.return %y : tensor<?x{SIZE}xf32>
}}
"""


def peak(observer: str, data: Path, count: int) -> int:
    module, session = parsed(net(observer))
    tracemalloc.start()
    CalibratePass(str(data), samples=count).apply(session, module)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("observer", [*OBSERVERS, "ifmr{exact=true}"])
def test_peak_does_not_grow_with_the_samples(observer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred samples more, and less than a run's are kept, with objects that wait for the collector."""
    monkeypatch.setattr(samples, "_HASH_CHUNK", SIZE * 4)
    (tmp_path / "data").mkdir()
    values = np.random.default_rng(0).standard_t(4, size=(MOST + 200, SIZE)).astype(np.float32)
    np.save(tmp_path / "data" / "x.npy", values)
    options = observer.replace("ifmr{", "ifmr{search-step=0.1 ")
    peak(options, tmp_path / "data", 2)  # caches of all kinds
    few, many = (peak(options, tmp_path / "data", count) for count in (MOST, MOST + 200))
    assert many - few < MOST * SIZE * 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("stored", ["npy", "npz"])
def test_mapped_data_leaves_memory(stored: str, tmp_path: Path) -> None:
    """Reading 64 MiB piece by piece never has more of the file in memory than the piece that is hashed, 16 MiB."""
    values = np.ones((256, 256, 256), np.float32)
    if stored == "npy":
        np.save(tmp_path / "x.npy", values)
    else:
        np.savez(tmp_path / "x.npz", x=values)
    del values
    text = net("minmax").replace(f"?x{SIZE}x", "?x256x256x")
    function = main_function(parse_module(new_session(), text, "net.mlir"))
    before = resident()
    data = load_samples(tmp_path / f"x.{stored}", function)
    most = max(resident() for _ in data.batches())
    data.digest()
    assert max(most, resident()) - before <= 20 * 2**20


def resident() -> int:
    """Bytes of files that are in the memory of this process."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile")) * 1024
