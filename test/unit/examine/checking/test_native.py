"""Native code next to the interpreter: each operation on the same operands, within the bounds of its own rounding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from amct_linalg.iree import IreeModule
from onnx import numpy_helper

import amct_opt
from amct_opt.dialects.nn import AddOp, QuantizeOp
from amct_opt.examine.checking.native import NativeGraph, operations_apart

pytest.importorskip("iree.runtime")
pytestmark = pytest.mark.slow

DIGITS = Path(__file__).parents[4] / "examples" / "digits"
Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests share the code that they compile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def quantized() -> amct_opt.Loaded:
    """The digits network with quantize and dequantize: its convolutions are in float."""
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    amct_opt.run_pipeline(module, f'fuse-all,quantize{{data="{DIGITS / "calib.npz"}"}}', session)
    return amct_opt.Loaded(module, session)


def inputs() -> Mapping[str, Array]:
    return {"image": np.load(DIGITS / "heldout.npz")["image"][:8]}


def test_every_operation_is_within_its_bound(quantized: amct_opt.Loaded) -> None:
    """Sums have another order, which the bound explains; what is quantized on the same operands is equal."""
    found = operations_apart(NativeGraph(*quantized, IreeModule), [inputs()])
    assert (found.differing, found.beyond) == (0, 0)
    assert min(found.integers, found.floats) > 10_000
    assert 0 < found.share < 1


@pytest.mark.parametrize(("kind", "change"), [(QuantizeOp, 1), (AddOp, 1e-3)])
def test_what_is_wrong_is_counted(
    kind: type[Any], change: float, quantized: amct_opt.Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One element of a result that native code would compute otherwise."""
    graph = NativeGraph(*quantized, IreeModule)
    slot = next(row.results[0] for row in graph.program.rows if isinstance(row.op, kind))
    trace = graph.trace

    def wrong(given: Mapping[str, Array]) -> dict[int, Array]:
        values = trace(given)
        values[slot] = values[slot].copy()
        values[slot].flat[7] -= np.asarray(change, values[slot].dtype)
        return values

    monkeypatch.setattr(graph, "trace", wrong)
    found = operations_apart(graph, [inputs()])
    integer = kind is QuantizeOp
    assert (found.differing > 0, found.beyond > 0) == (integer, True)
    assert found.share > 1


def test_bisect_runs_native_code(quantized: amct_opt.Loaded) -> None:
    module, _ = quantized
    found = amct_opt.bisect(module, module, inputs(), engine="iree")
    assert found.first is None
    assert any(0 < each.largest <= each.bound for each in found.layers)


def test_bisect_names_the_layer_where_native_code_parts(amct_tool, tmp_path: Path) -> None:
    """The interpreter has another weight there."""
    model = onnx.load(DIGITS / "digits.onnx")
    weight = next(each for each in model.graph.initializer if each.name == "conv3.weight")
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.001), weight.name))
    onnx.save(model, tmp_path / "other.onnx")
    given = (DIGITS / "digits.onnx", tmp_path / "other.onnx", "--inputs", DIGITS / "heldout.npz")
    result = amct_tool("bisect", *given, "--engine", "iree")
    assert result.status == 1
    assert "node 'conv3': error: the models part here: layer 'conv3' (nn.conv)" in result.err
