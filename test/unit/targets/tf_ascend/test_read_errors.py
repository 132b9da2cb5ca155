"""Deployed TensorFlow files that are malformed, or ask for what the interpreter does not do, end in one located line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.formats.tensorflow.attributes import attribute, make_node
from amct_opt.formats.tensorflow.schema import MESSAGES, GraphDef
from amct_opt.formats.tensorflow.tensors import tensor_proto
from amct_opt.ir.verification import verify
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

Change = Callable[[Any], object]

FLOAT = attribute(np.dtype(np.float32))


def const(name: str, array: Any) -> Any:
    tensor = MESSAGES["AttrValue"](tensor=tensor_proto(np.asarray(array)))
    return make_node("Const", [], {"dtype": attribute(np.asarray(array).dtype), "value": tensor}, name)


def placeholder(name: str, shape: list[int]) -> Any:
    sizes = MESSAGES["AttrValue"](shape={"dim": [{"size": s} for s in shape]})
    return make_node("Placeholder", [], {"dtype": FLOAT, "shape": sizes}, name)


def written(op_type: str, name: str, inputs: list[str], **attributes: Any) -> Any:
    return make_node(op_type, inputs, {"T": FLOAT, **{k: attribute(v) for k, v in attributes.items()}}, name)


def deployed() -> Any:
    """AscendQuant, Conv2D, BiasAdd and AscendDequant."""
    cast = {"SrcT": attribute(np.dtype(np.int32)), "DstT": FLOAT}
    nodes = [
        placeholder("x", [1, 5, 5, 3]),
        written("AscendQuant", "conv.quant", ["x"], scale=50.0, offset=-3.0, dst_type="INT8", quant_bits=8),
        const("weight", np.ones((3, 3, 3, 4), np.int8)),
        const("offset", np.zeros(1, np.int8)),
        written("AscendWeightQuant", "conv.weight_quant", ["weight", "offset"], dst_type="INT8"),
        written("Conv2D", "conv", ["conv.quant", "conv.weight_quant"], strides=[1, 1, 1, 1], padding="VALID"),
        const("bias", np.arange(4, dtype=np.int32)),
        make_node("Cast", ["bias"], cast, "conv/Cast"),
        written("BiasAdd", "conv/BiasAdd", ["conv", "conv/Cast"]),
        const("param", np.full(4, 0x3A83126F, np.uint64)),
        written("AscendDequant", "conv.dequant", ["conv/BiasAdd", "param"], ksize=[1, 1], data_format="NHWC"),
    ]
    return GraphDef(node=nodes)


def node(graph: Any, name: str) -> Any:
    return next(n for n in graph.node if n.name == name)


def with_attributes(name: str, **values: Any) -> Change:
    """Sets attributes of a node; None takes one away."""

    def change(graph: Any) -> None:
        found = node(graph, name)
        for key, value in values.items():
            if value is None:
                del found.attr[key]
            else:
                found.attr[key].CopyFrom(attribute(value))

    return change


def holding(name: str, array: Any) -> Change:
    return lambda graph: node(graph, name).CopyFrom(const(name, array))


def reading(name: str, *inputs: str) -> Change:
    def change(graph: Any) -> None:
        node(graph, name).input[:] = inputs

    return change


def through(op_type: str, value: str, **attributes: Any) -> Change:
    """Puts an operator after a value."""

    def change(graph: Any) -> None:
        for each in graph.node:
            each.input[:] = ["odd" if i == value else i for i in each.input]
        graph.node.append(written(op_type, "odd", [value], **attributes))

    return change


def pool(biased: bool = False, **attributes: Any) -> Change:
    """An average pool in the place of the convolution."""

    def change(graph: Any) -> None:
        window = {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
        node(graph, "conv").CopyFrom(written("AvgPool", "conv", ["conv.quant"], **window | attributes))
        if not biased:
            reading("conv.dequant", "conv", "param")(graph)
            graph.node.remove(node(graph, "conv/BiasAdd"))
        holding("param", np.full(1, 0x3A83126F, np.uint64))(graph)

    return change


BITS = 0x3A83126F
CASES: dict[str, tuple[Change, str, str]] = {
    "no parameter": (reading("conv.dequant", "conv"), "conv.dequant", "AscendDequant has no input 1"),
    "float parameter": (holding("param", np.ones(4, np.float32)), "conv.dequant", "of float32, but it must be uint64"),
    "matrix": (holding("param", np.ones((4, 1), np.uint64)), "conv.dequant", r"of shape \[4, 1\]"),
    "wrong length": (holding("param", np.full(3, BITS, np.uint64)), "conv.dequant", "4 and 3"),
    "shifts": (
        holding("param", np.array([0, 5, 5, 17], np.uint64) << np.uint64(32) | np.uint64(BITS)),
        "conv.dequant",
        r"not in \[0, 16\]: \[0, 5, 17\]",
    ),
    "weight offset": (holding("param", np.full(4, 0xFF << 40 | BITS, np.uint64)), "conv.dequant", "an offset"),
    "scale 0": (holding("param", np.zeros(4, np.uint64)), "conv.dequant", "not positive and finite"),
    "NaN": (holding("param", np.full(4, 0x7FC00000, np.uint64)), "conv.dequant", "not positive and finite"),
    "dequantized float": (
        reading("conv.dequant", "x", "param"),
        "conv.dequant",
        "the int32 result of a layer, not float32",
    ),
    "type": (with_attributes("conv.dequant", T=np.dtype(np.float64)), "conv.dequant", "gives float64"),
    "ksize": (with_attributes("conv.dequant", ksize=[2, 2]), "conv.dequant", r"ksize \[2, 2\], .* window of \[1, 1\]"),
    "data_format": (with_attributes("conv.dequant", data_format="NWHC"), "conv.dequant", "unknown data_format 'NWHC'"),
    "no scale": (with_attributes("conv.quant", scale=None), "conv.quant", "has no attribute 'scale'"),
    "negative scale": (with_attributes("conv.quant", scale=-1.0), "conv.quant", "positive and finite"),
    "infinite scale": (with_attributes("conv.quant", scale=float("inf")), "conv.quant", "the scale inf"),
    "integer scale": (with_attributes("conv.quant", scale=1), "conv.quant", "must be a number"),
    "offset": (
        with_attributes("conv.quant", offset=200.0),
        "conv.quant",
        r"200, but it must be an integer in \[-128, 127\]",
    ),
    "INT4": (with_attributes("conv.quant", dst_type="INT4"), "conv.quant", "gives INT4"),
    "bits": (with_attributes("conv.quant", quant_bits=4), "conv.quant", "has quant_bits = 4"),
    "INT4 weight": (with_attributes("conv.weight_quant", dst_type="INT4"), "conv.weight_quant", "gives INT4"),
    "float weight": (
        lambda graph: (
            graph.node.append(const("floats", np.ones((3, 3, 3, 4), np.float32))),
            reading("conv", "conv.quant", "floats")(graph),
        ),
        "conv",
        "has integer data and a weight of float32",
    ),
    "weight of int32": (holding("weight", np.ones((3, 3, 3, 4), np.int32)), "conv.weight_quant", "a weight of int32"),
    "offsets of int32": (holding("offset", np.zeros(1, np.int32)), "conv.weight_quant", "an? offset of int32"),
    "float bias": (holding("conv/Cast", np.ones(4, np.float32)), "conv/BiasAdd", "other than an int32 constant"),
    "second bias": (through("BiasAdd", "conv/BiasAdd"), "odd", "a layer that has a bias"),
    "padding": (with_attributes("conv", padding="FULL"), "conv", "unknown padding 'FULL'"),
    "strides": (with_attributes("conv", strides=[1]), "conv", "needs 4 strides"),
    "batch stride": (with_attributes("conv", strides=[2, 1, 1, 1]), "conv", "steps over batch or channels"),
    "channels": (holding("weight", np.ones((3, 3, 2, 4), np.int8)), "conv", "3 channels, a filter for 2"),
    "float operator": (through("Relu", "conv.quant"), "odd", "computes in float, and takes the result of AscendQuant"),
    "unknown operator": (through("Odd", "conv.quant"), "odd", "takes the result of AscendQuant"),
    "between": (through("Relu", "conv"), "odd", "AscendDequant must follow"),
    "antiquant of floats": (
        through("AscendAntiQuant", "x", scale=1.0, offset=0.0),
        "odd",
        "takes the result of AscendQuant, not float32",
    ),
    "offset of antiquant": (
        through("AscendAntiQuant", "conv.quant", scale=1.0, offset=-3.0),
        "odd",
        "the offset -3, its integers have the zero point -3",
    ),
    "window": (pool(ksize=[1, 3, 1]), "conv", "needs 4 window sizes"),
    "ksize of a pool": (pool(), "conv.dequant", r"ksize \[1, 1\], .* window of \[3, 3\]"),
    "pool that counts differently": (
        lambda graph: (pool(padding="SAME")(graph), with_attributes("conv.dequant", ksize=[3, 3])(graph)),
        "conv.dequant",
        "do not all count the same number",
    ),
    "bias of a pool": (pool(biased=True), "conv/BiasAdd", "takes none"),
}


def read(graph: Any, path: Path) -> None:
    path.write_bytes(graph.SerializeToString())
    verify(frontends.read(path, new_session()))


@pytest.mark.parametrize("case", CASES)
def test_located(case: str, tmp_path: Path) -> None:
    change, where, message = CASES[case]
    graph, path = deployed(), tmp_path / "bad.pb"
    change(graph)
    with pytest.raises(CompileError, match=message) as caught:
        read(graph, path)
    assert caught.value.where == f"{path}: node '{where}'"


def test_the_model_itself_is_sound(tmp_path: Path) -> None:
    read(deployed(), tmp_path / "good.pb")


def test_weights_with_offsets(tmp_path: Path) -> None:
    """An offset that is not 0 is subtracted from the weight."""
    graph = deployed()
    holding("offset", np.array([3], np.int8))(graph)
    read(graph, tmp_path / "good.pb")


def test_a_sum_that_is_not_dequantized(tmp_path: Path) -> None:
    graph, path = deployed(), tmp_path / "bad.pb"
    del graph.node[-2:]
    with pytest.raises(CompileError, match="AscendDequant must follow"):
        read(graph, path)
