"""Folding gives the kernels' own numbers, and what it knows of shapes holds at run time."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from xdsl.dialects.builtin import TensorType, f32, i64
from xdsl.ir import Block, SSAValue

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of
from amct_opt.ir.functions import main_function, return_op
from amct_opt.runtime.executor import Executable, RunError, compile_block
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.partial_shapes import Dimension, Linear, PartialShapes


@settings(max_examples=60)
@given(data=st.data())
def test_constant_inputs_fold_everything(equivalence, random_networks, data: st.DataObject) -> None:
    """A network on a constant is a constant, up to quantization, which stays."""
    module, x = data.draw(random_networks)
    constant = module.clone()
    block = main_function(constant).body.block
    inputs = nn.ConstantOp.of(x, "x")
    assert block.first_op is not None
    block.insert_op_before(inputs, block.first_op)
    block.args[0].replace_all_uses_with(inputs.result)
    if shape_of(block.args[0])[0] == DYNAMIC:
        constant = equivalence.after(constant, "infer-shapes")
    after = equivalence.after(constant, "fold-constants")
    expected, actual = Executable(module).run({"arg0": x}), Executable(after).run({"arg0": x})
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array)
    if not any(isinstance(op, nn.QuantizeOp) for op in module.walk()):
        assert {type(op) for op in main_function(after).body.block.ops} <= {nn.ConstantOp, type(block.last_op)}


SIZES = (2, 4, 6, 8)


@settings(max_examples=80)
@given(data=st.data())
def test_what_is_known_of_shapes_holds(data: st.DataObject) -> None:
    """Random arithmetic on the shape of `?x4x?x8`: each element known is the one that a run computes."""
    block = Block(arg_types=[TensorType(f32, (DYNAMIC, SIZES[1], DYNAMIC, SIZES[3]))])
    draw = data.draw
    shape = nn.ShapeOp.make(block.args[0])
    block.add_op(shape)
    values: list[SSAValue] = [shape.result]

    def constant(*numbers: int) -> nn.ConstantOp:
        op = nn.ConstantOp.of(np.array(numbers, np.int64), "k")
        block.add_op(op)
        return op

    for _ in range(draw(st.integers(1, 8))):
        x = values[draw(st.integers(0, len(values) - 1))]
        n = shape_of(x)[0]
        match draw(st.sampled_from(["gather", "slice", "concat", "arithmetic", "reverse", "cast", "lift"])):
            case "gather":
                index = constant(*draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=3)))
                op = nn.GatherOp.make(x, index.result)
            case "slice":
                start = draw(st.integers(0, n - 1))
                op = nn.SliceOp.make(x, starts=[start], ends=[draw(st.integers(start + 1, n))])
            case "concat":
                op = nn.ConcatOp.make([x, draw(st.sampled_from([values[0], constant(3, -1).result]))], axis=0)
            case "arithmetic":
                other = draw(st.sampled_from([constant(2).result, *[v for v in values if v.type == x.type]]))
                kind = draw(st.sampled_from([nn.AddOp, nn.SubOp, nn.MulOp, nn.MinOp, nn.MaxOp]))
                op = kind.make(*draw(st.permutations([x, other])))
            case "reverse":
                op = nn.SliceOp.make(x, starts=[-1], ends=[-(2**63) + 1], steps=[-1])
            case "cast":
                back = nn.CastOp.make(x, result_types=[TensorType(f32, (n,))])
                block.add_op(back)
                op = nn.CastOp.make(back.result, result_types=[TensorType(i64, (n,))])
            case _:
                lifted = nn.UnsqueezeOp.make(x, axes=[0])
                block.add_op(lifted)
                op = nn.ReshapeOp.make(lifted.result, to=[-1])
        block.add_op(op)
        values.append(op.results[0])

    known = PartialShapes()
    complete: dict[SSAValue, Any] = {
        op.results[0]: arrays for op in block.ops if (arrays := known.visit(op)) is not None
    }
    plan = compile_block(block, values)
    for value, array in zip(values, plan.run([np.zeros(SIZES, np.float32)]), strict=True):
        if value in complete:
            np.testing.assert_array_equal(complete[value][0], array)
        for element, actual in zip(known.elements(value) or [], array, strict=False):
            if isinstance(element, Dimension):
                assert element.value is block.args[0]
                assert actual == SIZES[element.axis]
            elif element is not None:
                assert element == actual
        for element, actual in zip(known.linear(value) or [], array, strict=False):
            if isinstance(element, Linear) and isinstance(element.base, Dimension):
                assert actual == element.factor * SIZES[element.base.axis] + element.offset


HEADS = """
func.func @main(%x: tensor<?x?x12xf32> {nn.name = "x"}) -> tensor<?x?x?x?xf32> {
  %s = nn.shape %x : (tensor<?x?x12xf32>) -> tensor<3xi64>
  %b, %l, %c = nn.split %s sizes [1, 1, 1] : (tensor<3xi64>) -> (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>)
  %h = nn.constant dense<3> : tensor<1xi64>
  %d = nn.div %c, %h : tensor<1xi64>
  %t = nn.concat %b, %l, %h, %d axis 0 : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4xi64>
  %r = nn.reshape %x, %t : (tensor<?x?x12xf32>, tensor<4xi64>) -> tensor<?x?x?x?xf32>
  %y = nn.transpose %r perm [0, 2, 1, 3] : tensor<?x?x?x?xf32>
  func.return %y : tensor<?x?x?x?xf32>
}
"""


@pytest.mark.parametrize("shape", [(1, 1, 12), (2, 5, 12), (3, 0, 12), (0, 4, 12)])
def test_attention_heads_of_any_size(equivalence, shape: tuple[int, ...]) -> None:
    module = equivalence.parse(HEADS)
    after = equivalence.after(module, "fold-constants")
    names = [op.name for op in main_function(after).body.block.ops]
    assert names == ["nn.reshape", "nn.transpose", "func.return"]
    assert shape_of(return_op(main_function(after)).operands[0]) == (DYNAMIC, 3, DYNAMIC, 4)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    equivalence.assert_equivalent(module, after, {"x": x})


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_sizes_in_another_order(equivalence, order: tuple[int, ...]) -> None:
    """Only a size in its own place is copied."""
    module = equivalence.parse(f"""
        func.func @main(%x: tensor<?x?x12xf32> {{nn.name = "x"}}) -> tensor<?x?x?xf32> {{
          %s = nn.shape %x : (tensor<?x?x12xf32>) -> tensor<3xi64>
          %i = nn.constant dense<{list(order)}> : tensor<3xi64>
          %t = nn.gather %s, %i : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
          %y = nn.reshape %x, %t : (tensor<?x?x12xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
          func.return %y : tensor<?x?x?xf32>
        }}""")
    after = equivalence.after(module, "fold-constants")
    x = np.arange(2 * 5 * 12, dtype=np.float32).reshape(2, 5, 12)
    equivalence.assert_equivalent(module, after, {"x": x})
    (reshape,) = [op for op in after.walk() if isinstance(op, nn.ReshapeOp)]
    # with two sizes out of their places neither can be written down
    assert (reshape.to is not None) == (order[0] == 0 or order[1] == 1)


@pytest.mark.parametrize("each", ["fold-constants", "canonicalize", "convert-layout=NCHW"])
def test_missing_weights_are_a_located_error(equivalence, each: str) -> None:
    """Each of these passes reads the numbers: to evaluate, to look for neutral ones, to transpose them."""
    module = equivalence.parse("""
        func.func @main(%x: tensor<1x5x13x1xf32>) -> (tensor<1x5x13x1xf32>, tensor<5x13xf32>) {
          %w = nn.constant #nn.external<"w", tensor<5x13xf32>> loc("here")
          %n = nn.neg %w : tensor<5x13xf32>
          %z = nn.constant #nn.external<"z", tensor<5x13x1xf32>> loc("there")
          %y = nn.mul %x, %z : (tensor<1x5x13x1xf32>, tensor<5x13x1xf32>) -> tensor<1x5x13x1xf32>
          %p = nn.max_pool %y kernel [1, 1] layout nhwc : tensor<1x5x13x1xf32>
          func.return %p, %n : tensor<1x5x13x1xf32>, tensor<5x13xf32>
        }""")
    with pytest.raises(CompileError, match=r"node 't?here': error: 'nn.constant' op weight '[wz]' names no file"):
        equivalence.after(module, each)


def test_a_shape_that_contradicts_is_a_located_error(equivalence) -> None:
    module = equivalence.parse("""
        func.func @main(%x: tensor<2x3xf32>) -> tensor<?x4xf32> {
          %t = nn.shape %x : (tensor<2x3xf32>) -> tensor<2xi64>
          %y = nn.reshape %x, %t : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<?x4xf32> loc("here")
          func.return %y : tensor<?x4xf32>
        }""")
    with pytest.raises(CompileError, match=r"node 'here': error: 'nn.reshape' op"):
        equivalence.after(module, "fold-constants")


def test_run_errors_are_no_fold_errors(equivalence) -> None:
    """What fails when run stays, to fail there."""
    module = equivalence.parse("""
        func.func @main() -> tensor<1xf32> {
          %a = nn.constant dense<1.0> : tensor<1xf32>
          %i = nn.constant dense<7> : tensor<1xi64>
          %y = nn.gather %a, %i : (tensor<1xf32>, tensor<1xi64>) -> tensor<1xf32>
          func.return %y : tensor<1xf32>
        }""")
    after = equivalence.after(module, "fold-constants")
    with pytest.raises(RunError):
        Executable(after).run({})
