"""Quantization in TensorFlow: bit for bit in plain operators, on the same grid in FakeQuant nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, f16, f32, i8, i32

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.formats.tensorflow.schema import DATA_TYPES, GraphDef
from amct_opt.ir.dtypes import integer_range
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.targets.tensorflow import TfFakequantTarget

from ..operations import Array, const, module_of, nhwc, real, whole

U8, I16, I4 = IntegerType(8, Signedness.UNSIGNED), IntegerType(16), IntegerType(4)


def params(storage: Any, scale: Any, zero_point: Any = 0, axis: int | None = None) -> nn.QParamsAttr:
    return nn.QParamsAttr.of(storage, scale, zero_point, axis)


def quantized(x: Any, p: nn.QParamsAttr) -> Any:
    return nn.QuantizeOp.make(x, qparams=p).result


def dequantized(q: Any, p: nn.QParamsAttr, element: Any = f32) -> Any:
    return nn.DequantizeOp.make(q, qparams=p, result_types=[TensorType(element, q.type.get_shape())]).result


def rounded(x: Any, p: nn.QParamsAttr, element: Any = f32) -> Any:
    return dequantized(quantized(x, p), p, element)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """`written(module, nodes="plain", session=None)`: the file of a module."""

    def write(module: ModuleOp, nodes: str = "plain", session: Session | None = None) -> Path:
        path = tmp_path / "model.pb"
        assert TfFakequantTarget(nodes=nodes).write(module, path, session or new_session()) == [path]
        return path

    return write


def kinds(path: Path) -> Counter[str]:
    return Counter(n.op for n in GraphDef.FromString(path.read_bytes()).node)


def remarks(session: Session, rule: str) -> list[str]:
    return [r.reason for r in session.remarks if r.rule == rule]


# Plain operators

SCALES = np.asarray(np.random.default_rng(5).uniform(1, 2, 48) * 2.0 ** np.arange(-24, 24), np.float32)


def ties(scales: Array, count: int = 140) -> Array:
    """Numbers half-way between two integers on each grid, as far as float32 has them, and their neighbours: `[n, scales]`."""
    middle = np.asarray((np.arange(-count, count) + 0.5)[:, None] * scales.astype(np.float64), np.float32)
    return np.concatenate([middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))])


def test_ties_are_what_optimizers_get_wrong() -> None:
    """TensorFlow's optimizer would divide by a product with the reciprocal: on these numbers that is another integer."""
    x = ties(SCALES)
    assert np.mean(np.rint(x / SCALES) != np.rint(x * (np.float32(1) / SCALES))) > 0.05


@pytest.mark.parametrize(
    ("storage", "points"),
    [(i8, 0), (i8, -7), (U8, 130), (I16, 5), (I4, -8), (i32, 3)],
    ids=["i8", "i8-point", "u8", "i16", "i4", "i32"],
)
@pytest.mark.parametrize("per_channel", [True, False], ids=["channels", "tensor"])
def test_rounding_is_exact(storage: Any, points: int, per_channel: bool, written: Any, run_graph: Any) -> None:
    """Integers and reals, of ties, of numbers beyond both ends, of both infinities and zeros."""
    ends = np.array([np.inf, -np.inf, 0, -0.0, 3e38, -3e38, 1e-30], np.float32)
    x = np.concatenate([ties(SCALES, 400), np.tile(ends[:, None], len(SCALES))])
    low, high = integer_range(storage)
    various = [int(np.clip(points + i % 3, low, high)) for i in range(len(SCALES))]
    modules = [(x, params(storage, SCALES, various, 1))]
    if not per_channel:
        modules = [(x[:, i], params(storage, float(SCALES[i]), points)) for i in (3, 24, 40)]
    for array, p in modules:
        module = module_of(lambda v, p=p: (quantized(v, p), rounded(v, p)), [array])
        expected = run(module, {"x0": array})
        integers, reals = run_graph(written(module), {"x0": array}, list(expected))
        np.testing.assert_array_equal(integers, np.asarray(expected["y0"]).astype(integers.dtype))
        np.testing.assert_array_equal(reals.view(np.uint32), expected["y1"].view(np.uint32))


def test_half_floats(written: Any, run_graph: Any) -> None:
    x = real(500, dtype=np.float16)
    module = module_of(lambda v: rounded(v, params(i8, 0.037, 4), f16), [x])
    expected = run(module, {"x0": x})["y0"]
    (actual,) = run_graph(written(module), {"x0": x}, ["y0"])
    assert actual.dtype == np.float16
    np.testing.assert_array_equal(actual, expected)


KERNEL = whole(8, 4, 3, 3, dtype=np.int8, low=-128, high=127)
DEPTHWISE = whole(8, 1, 3, 3, dtype=np.int8, low=-128, high=127)
EIGHT = np.linspace(0.01, 0.02, 8, dtype=np.float32)


def kernel(integers: Array, axis: int | None = 0, points: Any = 0) -> Any:
    p = params(i8, EIGHT if axis is not None else 0.01, points, axis)
    return dequantized(const(integers, np.int8), p)


WEIGHTS: dict[str, tuple[Callable[..., Any], Array, tuple[int, ...]]] = {
    # build, input, shape of the integers in the file
    "conv": (lambda x: nn.ConvOp.make(x, kernel(KERNEL)), real(1, 4, 5, 5), (3, 3, 4, 8)),
    "conv-nhwc": (lambda x: nn.ConvOp.make(x, kernel(KERNEL), layout="nhwc"), nhwc(real(1, 4, 5, 5)), (3, 3, 4, 8)),
    "conv-points": (lambda x: nn.ConvOp.make(x, kernel(KERNEL, points=range(8))), real(1, 4, 5, 5), (3, 3, 4, 8)),
    "conv-1d": (lambda x: nn.ConvOp.make(x, kernel(KERNEL[..., 0])), real(1, 4, 5), (3, 4, 8)),
    "depthwise": (lambda x: nn.ConvOp.make(x, kernel(DEPTHWISE), groups=4), real(1, 4, 5, 5), (3, 3, 1, 8)),
    "groups": (lambda x: nn.ConvOp.make(x, kernel(KERNEL), groups=2), real(1, 8, 5, 5), (3, 3, 4, 8)),
    "transposed": (lambda x: nn.ConvTransposeOp.make(x, kernel(KERNEL)), real(1, 8, 5, 5), (3, 3, 4, 8)),
    "matmul": (lambda x: nn.MatMulOp.make(x, kernel(KERNEL[:, :, 0, 0], None)), real(3, 8), (8, 4)),
    "matmul-transposed": (
        lambda x: nn.MatMulOp.make(x, kernel(KERNEL[:, :, 0, 0]), transpose_b=True),
        real(3, 4),
        (4, 8),
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("nodes", ["plain", "fakequant"])
def test_weights(name: str, nodes: str, written: Any, run_graph: Any) -> None:
    """Integers in TensorFlow's order; with FakeQuant reals, which it needs."""
    build, x, shape = WEIGHTS[name]
    module = module_of(build, [x])
    expected = run(module, {"x0": x})["y0"]
    path = written(module, nodes)
    (actual,) = run_graph(path, {"x0": x}, ["y0"])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    stored = next(n for n in GraphDef.FromString(path.read_bytes()).node if n.name == "weight").attr["value"].tensor
    assert stored.dtype == DATA_TYPES["DT_INT8" if nodes == "plain" else "DT_FLOAT"]
    assert tuple(d.size for d in stored.tensor_shape.dim) == shape


def test_shared_weight(written: Any, run_graph: Any) -> None:
    """A weight is written once for all that want it in one order."""

    def build(x: Any) -> Any:
        w = kernel(KERNEL[:, :4])
        return nn.AddOp.make(nn.ConvOp.make(x, w), nn.ConvOp.make(x, w))

    x = real(1, 4, 5, 5)
    module = module_of(build, [x])
    path = written(module)
    assert [n.op for n in GraphDef.FromString(path.read_bytes()).node].count("Sub") == 0
    assert sum(n.name.startswith("weight") for n in GraphDef.FromString(path.read_bytes()).node) == 1
    expected = run(module, {"x0": x})["y0"]
    np.testing.assert_allclose(run_graph(path, {"x0": x}, ["y0"])[0], expected, rtol=0, atol=1e-4)


# FakeQuant


@pytest.mark.parametrize(("storage", "point"), [(i8, 0), (i8, -128), (i8, 127), (U8, 3), (I4, 2), (I16, -300)], ids=str)
def test_fake_quant_has_the_same_grid(storage: Any, point: int, written: Any, run_graph: Any) -> None:
    """Away from ties its results are those of the grid, in float32 up to the rounding of a product and a sum."""
    low, high = integer_range(storage)
    steps = np.arange(low - 5, high + 6)[:: 1 + (high - low) // 2000]
    for scale in SCALES[8:40:5]:
        x = np.asarray((steps + 0.3 - point) * scale, np.float32)
        module = module_of(lambda v, s=scale: rounded(v, params(storage, float(s), point)), [x])
        path = written(module, "fakequant")
        assert kinds(path) == {"Placeholder": 1, "Const": 2, "FakeQuantWithMinMaxVars": 1, "Identity": 1}
        expected = run(module, {"x0": x})["y0"]
        (actual,) = run_graph(path, {"x0": x}, ["y0"])
        np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-7 * np.abs(expected).max())


def test_fake_quant_rounds_halves_up(written: Any, run_graph: Any) -> None:
    """Where plain operators round 0.5 and 2.5 to even numbers, FakeQuant goes one step up."""
    x = np.array([0.5, 1.5, 2.5, -0.5], np.float32)
    module = module_of(lambda v: rounded(v, params(i8, 1.0)), [x])
    assert run_graph(written(module), {"x0": x}, ["y0"])[0].tolist() == [0, 2, 2, 0]
    assert run_graph(written(module, "fakequant"), {"x0": x}, ["y0"])[0].tolist() == [1, 2, 3, 0]


def test_fake_quant_per_channel(written: Any, run_graph: Any) -> None:
    x = real(300, 8)
    p = params(i8, EIGHT, [0, 1, 2, 3, -4, -5, 6, 7], -1 % 2)
    module = module_of(lambda v: rounded(v, p), [x])
    path = written(module, "fakequant")
    assert kinds(path)["FakeQuantWithMinMaxVarsPerChannel"] == 1
    expected = run(module, {"x0": x})["y0"]
    np.testing.assert_allclose(run_graph(path, {"x0": x}, ["y0"])[0], expected, rtol=0, atol=1e-6)


def test_read_back(written: Any) -> None:
    """Scales and zero points survive, to the bit."""
    x = real(2, 3)
    for scale in map(float, SCALES[::3]):
        p = params(i8, scale, 9)
        module = module_of(lambda v, p=p: rounded(v, p), [x])
        read = frontends.read(written(module, "fakequant"), new_session())
        (op,) = (op for op in read.walk() if isinstance(op, nn.QuantizeOp))
        assert op.qparams.data == p.data


LEFT: dict[str, tuple[Callable[[Any], Any], str]] = {
    "integers are used": (lambda x: quantized(x, params(i8, 0.1)), "are used"),
    "bits": (lambda x: rounded(x, params(i32, 0.1)), "2 to 16 bits"),
    "axis": (lambda x: rounded(x, params(i8, [0.1, 0.2], axis=0)), "last axis"),
    "another grid after": (lambda x: dequantized(quantized(x, params(i8, 0.1)), params(i8, 0.2)), "are used"),
}


@pytest.mark.parametrize("name", LEFT)
def test_left_plain(name: str, written: Any, run_graph: Any) -> None:
    """What a FakeQuant cannot express is written in plain operators, with a remark."""
    build, reason = LEFT[name]
    x, session = real(2, 3), new_session()
    module = module_of(build, [x])
    path = written(module, "fakequant", session)
    assert not any(kind.startswith("FakeQuant") for kind in kinds(path))
    assert any(reason in each for each in remarks(session, "plain"))
    expected = run(module, {"x0": x})
    for actual, wanted in zip(run_graph(path, {"x0": x}, list(expected)), expected.values(), strict=True):
        np.testing.assert_array_equal(actual, wanted)
