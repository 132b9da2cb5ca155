"""The driver of rewriting: patterns by root, dead operations, and the garbage collector set aside."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.dialects.builtin import f32, f64
from xdsl.dialects.test import TestOp as Op
from xdsl.ir import Operation

from amct_opt.dialects import nn
from amct_opt.rewriting import FusionPattern, Remarks, rewrite
from amct_opt.session.universe import new_session

TEXT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.relu %x : tensor<4xf32>
  %b = nn.relu6 %a : tensor<4xf32>
  %y = nn.add %b, %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class Nothing:
    pass


class Asked(FusionPattern[Nothing]):
    """Counts what it is asked about."""

    name = "asked"
    roots = (nn.ReluOp, nn.AddOp)

    def __init__(self, remarks: Remarks):
        super().__init__(remarks)
        self.seen = Counter[str]()

    def match(self, op: Operation) -> Nothing | None:
        self.seen[op.name] += 1
        assert not gc.isenabled()
        if self.seen.total() > 100:
            raise RecursionError("never ends")
        return None

    def rewrite(self, m: Nothing, folded: Any) -> list[Operation]:
        raise AssertionError("nothing matches")


class Failing(Asked):
    def match(self, op: Operation) -> Nothing | None:
        raise LookupError(op.name)


@pytest.fixture
def remarks() -> Remarks:
    return Remarks(new_session(), "test")


def test_patterns_are_asked_about_their_roots_only(equivalence: Any, remarks: Remarks) -> None:
    pattern = Asked(remarks)
    assert not rewrite(equivalence.parse(TEXT), pattern)
    assert pattern.seen == {"nn.relu": 1, "nn.add": 1}


def test_the_collector_comes_back(equivalence: Any, remarks: Remarks) -> None:
    with pytest.raises(LookupError):
        rewrite(equivalence.parse(TEXT), Failing(remarks))
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(equivalence: Any, remarks: Remarks) -> None:
    gc.disable()
    try:
        rewrite(equivalence.parse(TEXT), Asked(remarks))
        assert not gc.isenabled()
    finally:
        gc.enable()


DEAD = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.relu %x : tensor<4xf32>
  %b = nn.add %a, %x : tensor<4xf32>
  %c = nn.relu6 %b : tensor<4xf32>
  %y = nn.relu %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


def test_what_only_dead_operations_use_is_dead(equivalence: Any, remarks: Remarks) -> None:
    module = equivalence.parse(DEAD)
    assert rewrite(module, Asked(remarks))
    assert [op.name for op in module.walk() if isinstance(op, nn.NNOp)] == ["nn.relu"]


def test_dead_operations_stay_where_they_are_to(equivalence: Any, remarks: Remarks) -> None:
    module = equivalence.parse(DEAD)
    assert not rewrite(module, Asked(remarks), erase_dead=False)
    assert len([op for op in module.walk() if isinstance(op, nn.NNOp)]) == 4


def test_a_dead_chain_is_erased_in_one_sweep(equivalence: Any, remarks: Remarks) -> None:
    """Also if its operations read the one before them twice: patterns are asked about each operation once."""
    chain = [f"%a{i} = nn.add %a{i - 1}, %a{i - 1} : tensor<4xf32>" for i in range(1, 60)]
    module = equivalence.parse(
        TEXT.replace("%y = nn.add", "\n".join(["%a0 = nn.relu %x : tensor<4xf32>", *chain, "%y = nn.add"]))
    )
    pattern = Asked(remarks)
    assert rewrite(module, pattern)
    assert pattern.seen["nn.add"] <= len(chain) + 2
    assert len([op for op in module.walk() if isinstance(op, nn.NNOp)]) == 3


def test_many_operands_look_like_few() -> None:
    """What replaces one of them copies no others, but the operation shows what it would without."""
    values = Op(result_types=[f32, f64] * 20).results
    op = Op(operands=values)
    for i in range(0, len(values), 2):
        op.operands[i] = values[i + 1]
    expected = [values[i | 1] for i in range(len(values))]
    other = Op(operands=expected)
    assert [*op.operands] == expected
    assert op.operands == other.operands
    assert other.operands == op.operands
    assert hash(op.operands) == hash(other.operands)
    assert op.ops == other.ops
    assert op.ops.types == (f64,) * len(values)
    assert (op.operands[-1], op.operands[1:3]) == (expected[-1], tuple(expected[1:3]))
    assert not any(value.uses for value in values[::2])
    assert {(use.operation, use.index) for use in values[1].uses} == {(op, 0), (op, 1), (other, 0), (other, 1)}
    copy = op.clone()
    assert [*copy.operands] == expected
    op.operands = values
    assert [*op.operands] == [*values]
    values[1].replace_all_uses_with(values[0])
    for each in (op, other, copy):
        each.drop_all_references()
    assert not any(value.uses for value in values)
