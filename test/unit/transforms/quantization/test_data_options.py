"""The options that name data, given in Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from amct_opt.data import from_batches
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.data import load
from amct_opt.transforms.quantization.options import DataOptions

from ...values import parsed

TEXT = """
func.func @main(%x: tensor<?x2xf32> {nn.name = "x"}) -> (tensor<?x2xf32> {nn.name = "y"}) {
  func.return %x : tensor<?x2xf32>
}
"""


def endless() -> Iterator[np.ndarray]:
    while True:
        yield np.zeros((1, 2), np.float32)


def test_samples_of_a_generator() -> None:
    module, session = parsed(TEXT)
    samples = from_batches(endless(), main_function(module), runs=5)
    assert load(DataOptions(samples), module, session).runs == 5
    assert load(DataOptions(samples, batch_num=5), module, session).runs == 5
    assert load(DataOptions(samples, samples=3), module, session).runs == 3
    with pytest.raises(CompileError, match="batches: error: holds samples for 5 runs, not 6 "):
        load(DataOptions(samples, batch_num=6), module, session)
    with pytest.raises(CompileError, match="batches: error: holds 5 samples, not 6"):
        load(DataOptions(samples, samples=6), module, session)


def test_an_endless_function_ends_with_batch_num(tmp_path) -> None:
    session = new_session()
    path = tmp_path / "calib.py"
    path.write_text("def endless():\n    while True:\n        yield {'x': [[1.0, 2.0]]}\n")
    options = DataOptions(f"{path}:endless", batch_num=4)
    assert load(options, parse_module(session, TEXT), session).runs == 4
    assert [f.name for f in options.files()] == ["calib.py"]
    both = DataOptions(f"{path}:endless", batch_num=2, samples=3)
    assert load(both, parse_module(session, TEXT), session).runs == 2


def test_samples_for_another_model() -> None:
    session = new_session()
    module, other = parse_module(session, TEXT), parse_module(session, TEXT.replace("?x2", "?x3"))
    samples = from_batches(endless(), main_function(module), runs=1)
    with pytest.raises(CompileError, match="the samples are for other inputs than the model's"):
        load(DataOptions(samples), other, session)
