"""Inferred sizes are those that a run has."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of, static
from amct_opt.ir.functions import main_function, return_op
from amct_opt.runtime.executor import Executable
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.shape_inference import parse_input_shapes


@settings(max_examples=50)
@given(data=st.data())
def test_random_networks(equivalence, random_networks, data: st.DataObject) -> None:
    """With the input's sizes known all others are, and each is the run's."""
    module, x = data.draw(random_networks)
    after = equivalence.after(module, "infer-shapes=input-shape=arg0:2x4x5x4")
    equivalence.assert_equivalent(module, after, {"arg0": x})
    block = main_function(after).body.block
    values = [r for op in block.ops if isinstance(op, nn.NNOp) for r in op.results]
    assert all(static(shape_of(v)) for v in values)
    seen: dict[object, tuple[int, ...]] = {}
    Executable(after, watched=values).run({"arg0": x}, watch=lambda value, array: seen.update({value: array.shape}))
    assert seen == {v: shape_of(v) for v in values}


def test_types_are_all_that_changes(equivalence, random_networks) -> None:
    module = equivalence.parse("""
        func.func @main(%x: tensor<?x3xf32> {nn.name = "x", nn.dims = ["n", ""]}) -> (tensor<?x?xf32> {nn.name = "y"}) {
          %unused = nn.abs %x : (tensor<?x3xf32>) -> tensor<?x?xf32>
          %y = nn.relu %x {note = 1 : i64} : (tensor<?x3xf32>) -> tensor<?x?xf32>
          func.return %y : tensor<?x?xf32>
        }""")
    after = equivalence.after(module, "infer-shapes")
    assert [op.name for op in after.walk()] == [op.name for op in module.walk()]
    assert [op.attributes for op in after.walk()] == [op.attributes for op in module.walk()]
    before_function, function = main_function(module), main_function(after)
    assert (function.arg_attrs, function.res_attrs) == (before_function.arg_attrs, before_function.res_attrs)
    assert [shape_of(v) for v in return_op(function).operands] == [(DYNAMIC, 3)]


def test_input_shape_text() -> None:
    assert parse_input_shapes("a:1x?x3;scope/b:0:;c:7") == {"a": (1, DYNAMIC, 3), "scope/b:0": (), "c": (7,)}
    assert parse_input_shapes("-1x3") == {"": (DYNAMIC, 3)}


@pytest.mark.parametrize("text", ["a", "a:1x", "a:-2", "a:1,2", ":3", "a:1x²", "a:1 x2"])
def test_malformed_input_shape(text: str) -> None:
    with pytest.raises(CompileError, match="malformed"):
        parse_input_shapes(text)


def test_sizes_of_an_input_reach_a_named_dimension_of_another(equivalence) -> None:
    module = equivalence.parse("""
        func.func @main(%x: tensor<?x3xf32> {nn.name = "x", nn.dims = ["n", ""]},
                        %y: tensor<?x1xf32> {nn.name = "y", nn.dims = ["n", ""]}) -> tensor<?x3xf32> {
          %z = nn.add %x, %y : (tensor<?x3xf32>, tensor<?x1xf32>) -> tensor<?x3xf32>
          func.return %z : tensor<?x3xf32>
        }""")
    after = equivalence.after(module, "infer-shapes=input-shape=y:5x1")
    assert [shape_of(a) for a in main_function(after).body.block.args] == [(5, 3), (5, 1)]
    inputs = equivalence.random_inputs(after)
    assert np.shape(inputs["x"]) == (5, 3)
    equivalence.assert_equivalent(module, after, inputs)
