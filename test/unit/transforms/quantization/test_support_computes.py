"""A layer is called fully quantizable if, and only if, it is quantized and the lowering computes it in integers.

Random ONNX layers, of one to four axes of space, with attributes inside and outside what Ascend IR can say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, i8, i32

from amct_opt import frontends
from amct_opt.dialects.ascend import AscendOp
from amct_opt.dialects.nn import FusedOp, NNOp
from amct_opt.dialects.nn.shapes import element_of
from amct_opt.flows.support import LayerSupport, layers_of
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.pipelines.passes import run_passes
from amct_opt.rewriting import layer_of
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.transforms.canonicalization import SIMPLIFY
from amct_opt.transforms.fusion.fuse_all import FuseAllPass
from amct_opt.transforms.quantization.quantize import QuantizePass

from .test_aligned_ranges import random_network


class Layer(NamedTuple):
    """One node called L, on x of a shape, with weights of shapes."""

    op_type: str
    shape: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...] = ()
    attributes: dict[str, Any] = {}
    element: type[Any] = np.float32


ELEMENTS = st.sampled_from([np.float32, np.float32, np.float32, np.float16, np.float64])
RANKS = st.sampled_from([1, 2, 2, 2, 3, 4])
SMALL = st.integers(1, 3)


def per_axis(rank: int, each: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    return st.lists(each, min_size=rank, max_size=rank)


@st.composite
def pools(draw: st.DrawFn) -> Layer:
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    kernel = draw(per_axis(rank, st.sampled_from([1, 2, 3, 16])))
    dilations = draw(st.sampled_from([[1] * rank, [1] * rank, [2] * rank]))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": draw(per_axis(rank, SMALL)),
        "dilations": dilations,
        "count_include_pad": draw(st.integers(0, 1)),
        "ceil_mode": draw(st.integers(0, 1)),
    }
    if draw(st.booleans()):
        attributes["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    else:
        attributes["pads"] = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    sizes = [draw(st.integers((k - 1) * d + 1, (k - 1) * d + 6)) for k, d in zip(kernel, dilations, strict=True)]
    return Layer("AveragePool", (1, 2, *sizes), (), attributes, draw(ELEMENTS))


@st.composite
def convolutions(draw: st.DrawFn) -> Layer:
    rank = draw(RANKS)
    kernel, group = draw(per_axis(rank, SMALL)), draw(st.sampled_from([1, 2]))
    dilations = draw(per_axis(rank, st.integers(1, 2)))
    attributes: dict[str, Any] = {
        "group": group,
        "strides": draw(per_axis(rank, st.sampled_from([1, 2, 2, 64]))),
        "dilations": dilations,
        "pads": draw(per_axis(2 * rank, st.integers(0, 2))),
    }
    weights: list[tuple[int, ...]] = [(4, 4 // group, *kernel)]
    if draw(st.booleans()):
        weights.append((4,))
    sizes = [draw(st.integers((k - 1) * d + 1, 7)) for k, d in zip(kernel, dilations, strict=True)]
    return Layer("Conv", (1, 4, *sizes), tuple(weights), attributes, draw(ELEMENTS))


@st.composite
def transposed(draw: st.DrawFn) -> Layer:
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    group, strides = draw(st.sampled_from([1, 2])), draw(per_axis(rank, SMALL))
    kernel, sizes = draw(per_axis(rank, SMALL)), draw(per_axis(rank, st.integers(2, 4)))
    attributes: dict[str, Any] = {"group": group, "strides": strides}
    if draw(st.booleans()):
        full = [s * (n - 1) + k for s, n, k in zip(strides, sizes, kernel, strict=True)]
        attributes["output_shape"] = [draw(st.integers(max(1, f - 2), f + 2)) for f in full]
    else:
        attributes["dilations"] = draw(st.sampled_from([[1] * rank, [2] * rank]))
    weights = [(4, 4 // group, *kernel), *([(4,)] if draw(st.booleans()) else [])]
    return Layer("ConvTranspose", (1, 4, *sizes), tuple(weights), attributes, draw(ELEMENTS))


@st.composite
def products(draw: st.DrawFn) -> Layer:
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    weight = draw(st.sampled_from([(5, 4), (5, 4), (5,), (2, 5, 4)]))
    if len(weight) == 3 and batch:
        batch = (*batch[:-1], 2, 3)
    return Layer("MatMul", (*batch, 5), (weight,), {}, draw(ELEMENTS))


@st.composite
def gemms(draw: st.DrawFn) -> Layer:
    turned, shape = draw(st.integers(0, 1)), draw(st.sampled_from([(2, 5), (5, 2)]))
    transposed = int(shape == (5, 2))
    bias = draw(st.sampled_from([(), ((4,),), ((1, 4),), ((2, 4),), ((1,),)]))
    attributes = {"transA": transposed, "transB": turned, "alpha": draw(st.sampled_from([1.0, 0.5]))}
    return Layer("Gemm", shape, ((4, 5) if turned else (5, 4), *bias), attributes, draw(ELEMENTS))


def written(layer: Layer, path: Path) -> Path:
    rng, names = np.random.default_rng(0), [f"w{i}" for i in range(len(layer.weights))]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(layer.element))
    graph = helper.make_graph(
        [helper.make_node(layer.op_type, ["x", *names], ["y"], name="L", **layer.attributes)],
        "single",
        [helper.make_tensor_value_info("x", kind, layer.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [
            numpy_helper.from_array(rng.normal(size=shape).astype(layer.element), name)
            for name, shape in zip(names, layer.weights, strict=True)
        ],
    )
    opset = helper.make_opsetid("", 19)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)
    return path


def tried(path: Path) -> tuple[LayerSupport, ModuleOp, ModuleOp, set[str]]:
    """What is said of the layer, the quantized module, the lowered one, and the names of what remarks call quantized."""
    session = new_session()
    module = frontends.read(path, session)
    (said,) = [each for each in layers_of(module, session) if each.name == "L"]
    run_passes(module, [QuantizePass()], session)
    lowered = module.clone()
    run_passes(lowered, [LowerToAscendPass()], session)
    return said, module, lowered, {r.layer for r in session.remarks if r.rule == "quantized"}


def in_integers(module: ModuleOp) -> bool:
    return any(
        isinstance(op, AscendOp) and element_of(op.results[0]) == i32 and i8 in map(element_of, op.operands)
        for op in module.walk()
        if op.results
    )


def assert_agrees(layer: Layer, folder: Path) -> bool:
    """Whether the layer computes in integers, once it is sure that what is said of it is true, and its numbers are right."""
    said, quantized, lowered, called = tried(written(layer, folder / "layer.onnx"))
    integer = in_integers(lowered)
    assert (said.quantizable == "fully") == integer == ("L" in called), said
    x = np.random.default_rng(1).normal(size=layer.shape).astype(layer.element)
    (expected,), (actual,) = (run(module, {"x": x}).values() for module in (quantized, lowered))
    np.testing.assert_allclose(actual, expected, rtol=2e-2 if layer.element is np.float16 else 1e-5, atol=2e-2)
    return integer


@pytest.mark.parametrize(
    "layers",
    [pools(), convolutions(), transposed(), products(), gemms()],
    ids=lambda s: s.wrapped_strategy.definition.__name__ if hasattr(s, "wrapped_strategy") else None,
)
def test_said_and_done_agree(layers: st.SearchStrategy[Layer], tmp_path: Path) -> None:
    @settings(
        max_examples=8,
        suppress_health_check=cast(list[HealthCheck], list(HealthCheck)),
        derandomize=True,
        database=None,
    )
    @given(layers)
    def agrees(layer: Layer) -> None:
        assert_agrees(layer, tmp_path)

    agrees()


KNOWN = {
    "pool over one axis": (Layer("AveragePool", (2, 4, 8), (), {"kernel_shape": [2]}), True),
    "pool over three axes": (Layer("AveragePool", (2, 4, 4, 4, 4), (), {"kernel_shape": [2, 2, 2]}), False),
    "dilated pool": (Layer("AveragePool", (2, 4, 6, 6), (), {"kernel_shape": [2, 2], "dilations": [2, 2]}), False),
    "large pool": (Layer("AveragePool", (2, 4, 16, 16), (), {"kernel_shape": [16, 16]}), False),
    "vector": (Layer("MatMul", (5,), ((5, 4),)), True),
    "beyond coverage": (
        Layer("ConvTranspose", (2, 4, 3, 3), ((4, 3, 2, 2),), {"strides": [2, 2], "output_shape": [7, 7]}),
        False,
    ),
    "wide steps": (Layer("Conv", (1, 2, 70, 70), ((3, 2, 1, 1),), {"strides": [64, 64]}), False),
    "double": (Layer("Conv", (1, 2, 4, 4), ((3, 2, 1, 1),), {}, np.float64), False),
}


@pytest.mark.parametrize("case", KNOWN)
def test_known_layers(case: str, tmp_path: Path) -> None:
    layer, integer = KNOWN[case]
    assert assert_agrees(layer, tmp_path) == integer


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["qdq", "ppq"])
@pytest.mark.parametrize("first", [0, 6])
def test_said_and_done_agree_where_values_are_quantized(profile: str, first: int, tmp_path: Path) -> None:
    """Random networks: whether an operation is quantized depends on what stands around it."""
    for seed in range(first, first + 6):
        graph, outputs = random_network(seed)
        session = new_session()
        session.profile = profile
        module = frontends.read(graph.save(tmp_path / "network.onnx", *outputs), session)
        run_passes(module, SIMPLIFY, session)
        said = {layer.name: layer for layer in layers_of(module, session)}
        run_passes(module, [FuseAllPass(), QuantizePass()], session)
        rules = {r.layer: r.rule for r in session.remarks if (r.pass_name, r.kind) == ("insert-observers", "missed")}
        for region in (op for op in module.walk() if isinstance(op, FusedOp)):
            begin, *others = map(layer_of, region.body.block.ops)
            rules.update({name: rules[begin] for name in others if begin in rules and name in said})
        left = said.keys() & {layer_of(op) for op in module.walk() if isinstance(op, NNOp)}
        assert {name for name, layer in said.items() if layer.quantizable == "fully"} == left - rules.keys()
        assert {name: said[name].rule for name in rules} == rules
