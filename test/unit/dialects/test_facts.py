"""Facts of operations, by numbers and by their readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, f32, i8
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn.shapes import element_of
from amct_opt.flows.summary import describe_layers
from amct_opt.frontends.deployed import quantizer_of
from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.comparison import match_layers
from amct_opt.runtime.executor import run
from amct_opt.support.diagnostics import CompileError, Remark
from amct_opt.targets.fusion_info import FusionInfoTarget
from amct_opt.transforms.quantization.place.print_quant_points import quant_points

from ..targets.operations import CASES, Array, Case, module_of
from ..values import parsed

SHIFTED = """
func.func @main(%x: tensor<1x2x4x4xf32> {nn.name = "x"}) -> (tensor<1x2x4x4xf32> {nn.name = "y"}) {
  %w = nn.constant dense<0.5> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.shift_accumulator %c of <i32, scale = 0.5> by [2] from <onnx, "ShiftN", "conv.shift"> : tensor<1x2x4x4xf32>
  func.return %s : tensor<1x2x4x4xf32>
}
"""


def test_what_stands_between_layers_is_not_a_layer(tmp_path: Path) -> None:
    """The summary, the fusion information, `amct compare` and the list of points agree about the shift of a layer's sums."""
    module, session = parsed(SHIFTED, "shifted.mlir")
    summary = describe_layers(module, [])
    assert {**summary.others, **summary.inside, **summary.quantized_before} == {"nn.conv": 1}
    (file,) = FusionInfoTarget().write(module, tmp_path / "shifted.json", session)
    (graph,) = json.loads(file.read_text())["graph"]
    assert [op["name"] for op in graph["op"]] == ["conv"]
    assert match_layers(module, module)[0].keys() == {"conv"}
    assert [point.layer for point in quant_points(module, ASCEND)] == ["x", "conv"]


def test_a_layer_with_two_reasons_is_one_layer_in_float() -> None:
    """The list says both, the count and `float_layers` say one."""
    module, _ = parsed(SHIFTED, "shifted.mlir")
    reasons = [
        Remark("missed", "insert-observers", r, "conv", "nn.conv", r, "shifted.mlir") for r in ("table", "joint")
    ]
    layers = describe_layers(module, reasons)
    assert layers.left_in_float == tuple(reasons)
    assert layers.float_layers == [reasons[0]]


def computed(case: Case, arrays: Sequence[Array]) -> tuple[Any, list[Array]]:
    """The operation that gives the results of a case, and the results for these arrays."""
    module = module_of(case.build, arrays, case.dynamic)
    op = next(op for op in module.walk() if isinstance(op, ReturnOp)).operands[0].owner
    return op, list(run(module, {f"x{i}": a for i, a in enumerate(arrays)}).values())


REALS = {name: case for name, case in CASES.items() if case.arrays[0].dtype.kind == "f" and case.arrays[0].size}


def commutes(case: Case, function: Callable[[Array], Array]) -> bool:
    """Whether a function of single elements gives the same before as after an operation: applied to all that it moves, or to
    operand 0 otherwise.
    """
    op, results = computed(case, case.arrays)
    count = len(case.arrays) if isinstance(op, nn.ConcatOp) else 1
    _, others = computed(case, [*map(function, case.arrays[:count]), *case.arrays[count:]])
    return all(np.array_equal(function(a), b) for a, b in zip(results, others, strict=True))


def coarser(x: Array) -> Array:
    """Monotone, and steps by halves, as a quantization is: 0 is not kept."""
    return np.floor(x * 2).astype(x.dtype) + x.dtype.type(100)


SAME_IN_THIS_CASE = {"clip-nothing", *(f"reduce_{kind}-none" for kind in ("mean", "sum", "prod"))}
"""Operations that have nothing to do in the case: no bounds, no axes."""


def test_what_is_passive_picks_elements() -> None:
    """It gives nothing but elements of operand 0, before as after a monotone function; all other operations do not."""
    for name, case in REALS.items():
        op, results = computed(case, case.arrays)
        picks = all(np.isin(r, case.arrays[0]).all() for r in results) and commutes(case, coarser)
        assert op.is_passive == (picks and name not in SAME_IN_THIS_CASE), name


def test_what_only_moves_does_not_look_at_elements() -> None:
    """It commutes with every function of single elements, falling ones among them, where what picks by order does not."""
    for name, case in REALS.items():
        op, _ = computed(case, case.arrays)
        if isinstance(op, nn.MovingOp):
            assert op.only_moves == commutes(case, lambda x: 50 - x), name
        elif op.is_passive and not name.endswith("-none"):
            assert not commutes(case, lambda x: 50 - x), name


def test_what_is_homogeneous_scales_with_its_input() -> None:
    """To the last bit with a power of two, on operand 0 or on all that is moved; all other operations do not."""
    for name, case in REALS.items():
        op, _ = computed(case, case.arrays)
        if not isinstance(op, nn.CastOp) and name != "reduce_prod-none":
            assert op.is_homogeneous == commutes(case, lambda x: x * x.dtype.type(4)), name


def same_for_three(case: Case) -> bool:
    """Whether three samples together give what each gives; where a case has several rows these are one sample of three."""
    rows = len(case.arrays[0])
    whole = [np.concatenate([a, np.roll(a, 1), np.flip(a)]) for a in case.arrays]
    parts = [[a[i : i + rows] for a in whole] for i in range(0, 3 * rows, rows)]
    try:
        together = computed(case, whole)[1]
        apart = [np.concatenate(part) for part in zip(*(computed(case, part)[1] for part in parts), strict=True)]
    except (CompileError, VerifyException, ValueError):
        return False
    if any(len(a) != 3 * rows for a in together):
        return False
    return all(a.shape == b.shape and np.allclose(a, b, atol=1e-6) for a, b in zip(together, apart, strict=True))


def test_what_acts_by_sample_gives_for_three_what_it_gives_for_each() -> None:
    for name, case in CASES.items():
        if case.dynamic or not all(a.size and a.ndim and len(a) == len(case.arrays[0]) for a in case.arrays):
            continue  # operands without samples
        if name.startswith("cast") or name in ("dequantize-i2", "dequantize-i4"):
            continue  # sizes that the case declares
        op, _ = computed(case, case.arrays)
        assert op.acts_by_sample == same_for_three(case), name


def test_what_keeps_shape_gives_that_of_operand_0() -> None:
    """For all shapes of a case; operations that do not claim it change the shape in one of their cases, or broadcast."""
    changing: set[str] = set()
    for case in CASES.values():
        op, results = computed(case, case.arrays)
        if results[0].shape != case.arrays[0].shape:
            assert not op.KEEPS_SHAPE, op
            changing.add(op.name)
    kept = {kind.name for kind in nn.kinds(nn.NNOp) if kind.KEEPS_SHAPE}
    named = {computed(case, case.arrays)[0].name for case in CASES.values()}
    broadcasting = {kind.name for kind in nn.kinds(nn.ElementwiseOp)}
    assert named - changing - broadcasting <= kept


def test_an_axis_that_is_kept_apart_depends_on_it_entry_by_entry() -> None:
    """Other numbers in the first entry of the axis change the first entry of the axis after it, and nothing else."""
    claimed: set[type] = set()
    for name, case in REALS.items():
        op, results = computed(case, case.arrays)
        for axis in range(case.arrays[0].ndim):
            if (behind := op.axis_behind(axis)) is None:
                continue
            claimed.add(type(op))
            first = np.arange(case.arrays[0].shape[axis]) == 0
            place = first.reshape([-1 if i == axis else 1 for i in range(case.arrays[0].ndim)])
            _, others = computed(case, [np.where(place, 3 - case.arrays[0], case.arrays[0]), *case.arrays[1:]])
            for a, b in zip(results, others, strict=True):
                assert a.shape[behind] == len(first), name
                np.testing.assert_array_equal(np.delete(a, 0, behind), np.delete(b, 0, behind), name)
    assert claimed > {nn.PadOp, nn.ResizeOp, nn.GatherOp, nn.TransposeOp, nn.MaxPoolOp, nn.ReduceMeanOp, nn.MulOp}


MOVED = """
func.func @main(%x: tensor<1x8x4x4xf32> {nn.name = "x"}) -> (tensor<1x2x8x8xf32> {nn.name = "y"}) {
  %q = nn.quantize %x by <i8, scale = 0.05, zero_point = 3> : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.05, zero_point = 3> : (tensor<1x8x4x4xi8>) -> tensor<1x8x4x4xf32>
  %m = nn.depth_to_space %d block 2 : (tensor<1x8x4x4xf32>) -> tensor<1x2x8x8xf32>
  %i = nn.constant dense<[[[[3]], [[-7]]], [[[100]], [[1]]]]> : tensor<2x2x1x1xi8>
  %w = nn.dequantize %i by <i8, scale = [0.01, 0.02], axis = 0> : (tensor<2x2x1x1xi8>) -> tensor<2x2x1x1xf32>
  %c = nn.conv %m, %w : (tensor<1x2x8x8xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x8x8xf32>
  func.return %c : tensor<1x2x8x8xf32>
}
"""


def test_a_layer_computes_in_integers_behind_whatever_is_passive() -> None:
    """Not only after operations that a list in the lowering names."""
    module, session = parsed(MOVED, "moved.mlir")
    x = {"x": np.random.default_rng(3).normal(size=(1, 8, 4, 4)).astype(np.float32)}
    expected = run(module, x)["y"]
    make_pass("lower-to-ascend").apply(session, module)
    (conv,) = (op for op in module.walk() if isinstance(op, ascend.Conv2DOp))
    assert element_of(conv.x) == i8
    np.testing.assert_allclose(run(module, x)["y"], expected, rtol=1e-6)


def test_the_zero_point_of_a_deployed_layer_is_found_behind_whatever_is_passive() -> None:
    x = Block(arg_types=[TensorType(f32, [1, 8, 4, 4])]).args[0]
    quant = ascend.AscendQuantOp.make(x, scale=20.0, offset=3.0)
    moved = nn.DepthToSpaceOp.make(quant.results[0], block=2)
    joined = nn.ConcatOp.make([moved.result, moved.result], axis=1)
    assert quantizer_of(joined.result) is quant
    assert quantizer_of(nn.ReluOp.make(joined.result).result) is None
