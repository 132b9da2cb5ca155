"""Every operation of `nn` and of `ascend` in linalg: it says why it has no form, or computes what the interpreter computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from amct_linalg.lowering import ConvertToLinalgPass
from xdsl.dialects.builtin import ModuleOp, StringAttr, f16, f32
from xdsl.dialects.func import FuncOp

import amct_opt
from amct_opt.dialects import ascend
from amct_opt.ir.dtypes import numpy_dtype
from amct_opt.ir.functions import input_names, main_function
from amct_opt.runtime.executor import run

from ..targets import test_deployed_operations as deployed
from ..targets.nets import Net
from ..targets.operations import CASES
from .native import called, compiled

Array = np.ndarray[Any, np.dtype[Any]]


class Sample(NamedTuple):
    """A module of one operation, its inputs, and the tolerance of its results, relative to the largest; 0: equal in every bit."""

    module: ModuleOp
    inputs: list[Array]
    tolerance: float


def of_nn() -> dict[str, Sample]:
    return {name: Sample(case.module(), list(case.arrays), 0 if case.exact else 1e-5) for name, case in CASES.items()}


def of_ascend(element: Any) -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    x = np.random.default_rng(0).normal(size=(2, 4, 3, 3)).astype(numpy_dtype(element))
    for name in deployed.CASES:
        if deployed.takes(name, element):
            net = Net(2, 4, 3, 3, element=element)
            op = deployed.CASES[name](net)
            net.block.add_op(op)
            kept = element == f16 and isinstance(op, ascend.MomentsOp)
            module = net.module(*(op.results[:1] if kept else op.results))
            samples[name] = Sample(module, [x], 1e-5 if element == f32 else 2e-3)
    return samples


def numbers(*shape: int, low: int = -128, high: int = 128, dtype: Any = np.int8) -> Array:
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


OFFSET: dict[str, Any] = {"offset_x": -5}
INTEGERS: dict[str, Callable[[Net, Any], Any]] = {
    "Deconvolution": lambda n, q: ascend.DeconvolutionOp.make(
        q,
        n.constant(numbers(4, 1, 3, 3), "w"),
        n.constant(numbers(2, dtype=np.int32), "b"),
        strides=(2, 2),
        pads=(1, 1, 1, 1),
        groups=2,
        **OFFSET,
    ),
    "Conv2DTranspose": lambda n, q: ascend.Conv2DTransposeOp.make(
        n.constant(np.zeros(4, np.int64), "size"),
        q,
        n.constant(numbers(4, 2, 2, 3), "w"),
        strides=(1, 1, 3, 2),
        pads=(1, 0, 0, 2),
        output_padding=(0, 0, 2, 0),
        data_format="NCHW",
        **OFFSET,
    ),
    "FullyConnection": lambda n, q: ascend.FullyConnectionOp.make(
        q, n.constant(numbers(5, 36), "w"), n.constant(numbers(5, dtype=np.int32), "b"), num_output=5, **OFFSET
    ),
    "AscendWeightQuant": lambda n, q: ascend.AscendWeightQuantOp.make(
        q, n.constant(numbers(4, 1, 1, low=-9, high=9), "o")
    ),
    "AscendQuantV2": lambda n, _: ascend.AscendQuantV2Op.make(
        n.x, deployed.typed(n, deployed.reals(4) * 40, "s"), deployed.typed(n, [3, -7, 0, 0.5], "o"), axis=1
    ),
    "AscendAntiQuantV2": lambda n, q: ascend.AscendAntiQuantV2Op.make(
        q, deployed.typed(n, deployed.reals(3), "s"), deployed.typed(n, [3, -7, 0.5], "o")
    ),
    "WeightQuantBatchMatmulV2": lambda n, _: ascend.WeightQuantBatchMatmulV2Op.make(
        n.add(ascend.CastOp, deployed.matrix(n), dst_type=1),
        n.constant(numbers(5, 9), "w"),
        n.constant(deployed.reals(3, 5).astype(np.float16) / 50, "s"),
        n.constant(deployed.reals(3, 5).astype(np.float16), "o"),
        transpose_weight=True,
        antiquant_group_size=4,
    ),
    "AscendRequantS16": lambda n, q: ascend.AscendRequantS16Op.make(
        n.add(
            ascend.AscendDequantS16Op,
            n.add(ascend.Conv2DOp, q, n.constant(numbers(4, 4, 2, 2), "w"), **SQUARE, **OFFSET),
            n.constant(deployed.reals(4) / 20, "s"),
            n.constant(numbers(4, dtype=np.int16), "b"),
            relu_flag=True,
        ),
        n.constant(deployed.reals(4) / 7, "r"),
        dual_output=True,
    ),
}


def wide(net: Net) -> Any:
    """x of int16."""
    return net.add(ascend.AscendQuantOp, net.x, scale=9000.0, offset=-32768.0, dst_type=6)


WIDE: dict[str, Callable[[Net, Any], Any]] = {
    "Conv2D of int16": lambda n, _: ascend.Conv2DOp.make(
        wide(n),
        n.constant(numbers(4, 2, 2, 2), "w"),
        n.constant(numbers(4, dtype=np.int32), "b"),
        **{**SQUARE, "pads": (1, 0, 0, 1)},
        groups=2,
        offset_x=-32768,
    ),
    "Conv2DTranspose of int16": lambda n, _: ascend.Conv2DTransposeOp.make(
        n.constant(np.zeros(4, np.int64), "size"),
        wide(n),
        n.constant(numbers(4, 2, 2, 3), "w"),
        strides=(1, 1, 3, 2),
        pads=(0, 0, 0, 0),
        data_format="NCHW",
        offset_x=-32768,
    ),
    "BatchMatMulV2 of int16": lambda n, _: ascend.BatchMatMulV2Op.make(
        wide(n), n.constant(numbers(3, 5), "w"), n.constant(numbers(5, dtype=np.int32), "b"), offset_x=-32768
    ),
}
SQUARE: dict[str, Any] = {"strides": (1, 1, 1, 1), "pads": (0, 0, 0, 0), "data_format": "NCHW"}


def of_integers() -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    x = np.random.default_rng(0).normal(size=(2, 4, 3, 3)).astype(np.float32)
    for name, build in (INTEGERS | WIDE).items():
        net = Net(2, 4, 3, 3)
        op = build(net, net.add(ascend.AscendQuantOp, net.x, scale=20.0, offset=3.0))
        net.block.add_op(op)
        samples[name] = Sample(net.module(*op.results), [x], 0 if name != "WeightQuantBatchMatmulV2" else 2e-3)
    return samples


SAMPLES: Mapping[str, Callable[[], dict[str, Sample]]] = {
    "nn": of_nn,
    "ascend": lambda: of_ascend(f32),
    "ascend of float16": lambda: of_ascend(f16),
    "ascend of integers": of_integers,
}

KEPT: Mapping[str, Mapping[str, str]] = {
    "nn": {
        "add-dynamic": "broadcast",
        "expand-operand": "broadcast",
        "matmul-batched-transposes": "broadcast",
        "conv-same-dynamic": "auto-pad",
        "conv_transpose-shape-dynamic": "auto-pad",
        "conv_transpose-same-dynamic": "auto-pad",
        "conv_transpose-same-narrow": "auto-pad",
        "group_norm-dynamic": "dynamic",
        "resize-sizes-kept-dynamic": "dynamic",
        "pow-int": "float",
    },
    "ascend": {},
    "ascend of float16": {},
    "ascend of integers": {},
}
"""What stays, and the rule that says why: sizes that only a run knows, and powers of integers."""


def lowered(sample: Sample) -> str | None:
    """The rule by which the operation of a sample stays; None if it is lowered."""
    session = amct_opt.new_session()
    module = sample.module.clone()
    ConvertToLinalgPass().apply(session, module)
    module.verify()
    return next((r.rule for r in session.remarks if r.kind == "missed"), None)


@pytest.mark.parametrize("dialect", SAMPLES)
def test_what_stays(dialect: str) -> None:
    found = {name: lowered(sample) for name, sample in SAMPLES[dialect]().items()}
    assert {name: rule for name, rule in found.items() if rule is not None} == KEPT[dialect]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", SAMPLES)
def test_numbers(dialect: str, tmp_path: Path) -> None:
    """All samples in one module, compiled once."""
    samples = {name: s for name, s in SAMPLES[dialect]().items() if name not in KEPT[dialect]}
    functions: list[FuncOp] = []
    for i, sample in enumerate(samples.values()):
        function = main_function(sample.module.clone())
        function.sym_name = StringAttr(f"sample{i}")
        function.detach()
        functions.append(function)
    native = compiled(ModuleOp(functions), amct_opt.new_session(), tmp_path)
    wrong: dict[str, str] = {}
    for i, (name, sample) in enumerate(samples.items()):
        names = input_names(main_function(sample.module))
        expected = list(run(sample.module, dict(zip(names, sample.inputs, strict=True))).values())
        for a, b in zip(called(native[f"sample{i}"], sample.inputs), expected, strict=True):
            if difference := apart(a, b, sample.tolerance):
                wrong[name] = difference
    assert wrong == {}


def apart(found: Array, expected: Array, tolerance: float) -> str:
    """What differs between two results; empty if nothing does."""
    if found.shape != expected.shape:
        return f"{found.shape} instead of {expected.shape}"
    if expected.dtype.kind in "biu":
        found = (
            found.view(expected.dtype) if found.dtype.itemsize == expected.itemsize else found.astype(expected.dtype)
        )
        return "" if np.array_equal(found, expected) else f"{np.count_nonzero(found != expected)} differ"
    a, b = found.astype(np.float64), expected.astype(np.float64)
    bound = tolerance * np.max(np.abs(b[np.isfinite(b)]), initial=1e-30)
    with np.errstate(invalid="ignore"):
        near = (a == b) | (np.abs(a - b) <= bound) | (np.isnan(a) & np.isnan(b))
    return "" if near.all() else f"{np.nanmax(np.abs(a - b))} apart, bound {bound}"
