"""What is left of a model is as small as its failure allows, whatever the model is, and still fails."""

from collections import Counter
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt import CompileError
from amct_opt.ir.functions import main_function

DIGITS = Path(__file__).parents[4] / "examples" / "digits" / "digits.onnx"


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def test_one_operation_is_left_of_one_that_fails() -> None:
    def fails(model: onnx.ModelProto) -> bool:
        try:
            module, _ = amct_opt.load(model)
        except CompileError:  # a window that does not fit is another failure
            return False
        return any(op.name == "nn.average_pool" for op in module.walk())

    small = amct_opt.reduce(DIGITS, fails)
    assert kinds(small) == {"AveragePool": 1}
    assert not small.graph.initializer
    onnx.checker.check_model(small, full_check=True)


def test_neighbours_that_fail_together_stay_connected() -> None:
    def fails(model: onnx.ModelProto) -> bool:
        makers = {name: node.op_type for node in model.graph.node for name in node.output}
        return any(n.op_type == "Relu" and makers.get(n.input[0]) == "BatchNormalization" for n in model.graph.node)

    small = amct_opt.reduce(onnx.load(DIGITS), fails)
    assert [node.op_type for node in small.graph.node] == ["BatchNormalization", "Relu"]
    assert max(size for weight in small.graph.initializer for size in weight.dims) == 1
    assert not any(numpy_helper.to_array(weight).any() for weight in small.graph.initializer)


def test_a_module_becomes_a_smaller_module() -> None:
    module, _ = amct_opt.load(DIGITS)

    def fails(candidate: ModuleOp) -> bool:
        names = [op.name for op in candidate.walk()]
        return "nn.conv" in names and "nn.average_pool" in names

    small = amct_opt.reduce(module, fails)
    left = Counter(op.name for op in main_function(small).body.block.ops)
    assert left == {"nn.constant": 1, "nn.conv": 1, "nn.average_pool": 1, "func.return": 1}
    assert amct_opt.parse(amct_opt.to_text(small)).module.is_structurally_equivalent(small)


def test_what_does_not_fail_is_not_reduced() -> None:
    with pytest.raises(CompileError, match="does not fail"):
        amct_opt.reduce(DIGITS, lambda _: False)


def test_time_is_limited() -> None:
    given = onnx.load(DIGITS)
    assert amct_opt.reduce(given, lambda _: True, seconds=0) is given
