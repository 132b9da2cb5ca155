"""Canonicalization changes no number, ends, and leaves nothing to do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from compiler.dialects import nn
from compiler.runtime.executor import run
from compiler.text import module_text


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_networks(equivalence, random_networks, data: st.DataObject) -> None:
    module, x = data.draw(random_networks)
    after = equivalence.after(module, "canonicalize")
    equivalence.assert_equivalent(module, after, {"arg0": x})
    assert len(list(after.walk())) <= len(list(module.walk()))
    assert module_text(equivalence.after(after, "canonicalize")) == module_text(after)


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.5, -7.0, 6.0, 2.0**127, -(2.0**-126)], np.float32
)


@pytest.mark.parametrize(
    "chain",
    [
        "nn.clip %x min 0.0 max 6.0 | nn.relu | nn.relu6",
        "nn.clip %x min -1.0 max 3.5 | nn.relu | nn.clip max 2.0",
        "nn.clip %x min 1.0 max 2.0 | nn.clip min 3.0 max 4.0",
        "nn.clip %x min 2.0 max 1.0 | nn.relu6",
        "nn.relu6 %x | nn.clip min -1.0 max -0.5",
        "nn.neg %x | nn.neg | nn.abs | nn.abs | nn.floor | nn.floor",
    ],
)
def test_special_numbers(equivalence, chain: str) -> None:
    """NaN, infinities, subnormal numbers and zeros come through alike."""
    lines = []
    for i, step in enumerate(chain.split(" | ")):
        name, _, rest = step.partition(" ")
        operand = rest if rest.startswith("%x") else f"%v{i - 1} {rest}"
        lines.append(f"%v{i} = {name} {operand} : tensor<12xf32>")
    body = "\n".join(lines)
    last = f"%v{len(lines) - 1}"
    module = equivalence.parse(
        f"func.func @main(%x: tensor<12xf32>) -> tensor<12xf32> {{\n{body}\nfunc.return {last} : tensor<12xf32>\n}}"
    )
    equivalence.assert_equivalent(module, equivalence.after(module, "canonicalize"), {"arg0": SPECIAL})


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div", "pow"])
@pytest.mark.parametrize("number", ["0.0", "-0.0", "1.0"])
@pytest.mark.parametrize("left", [False, True])
def test_neutral_numbers_keep_every_bit(equivalence, kind: str, number: str, left: bool) -> None:
    operands = "%k, %x" if left else "%x, %k"
    module = equivalence.parse(f"""
        func.func @main(%x: tensor<12xf32>) -> tensor<12xf32> {{
          %k = nn.constant dense<{number}> : tensor<12xf32>
          %y = nn.{kind} {operands} : tensor<12xf32>
          func.return %y : tensor<12xf32>
        }}""")
    (before,) = run(module, {"arg0": SPECIAL}).values()
    (after,) = run(equivalence.after(module, "canonicalize"), {"arg0": SPECIAL}).values()
    np.testing.assert_array_equal(np.signbit(after), np.signbit(before))
    np.testing.assert_array_equal(after, before)


def chain(length: int, step) -> ModuleOp:
    block = Block(arg_types=[TensorType(f32, (2, 3))])
    value: SSAValue = block.args[0]
    for i in range(length):
        op = step(i, value)
        block.add_op(op)
        value = op.result
    block.add_op(ReturnOp(value))
    return ModuleOp([FuncOp("main", ([block.args[0].type], [value.type]), Region(block))])


def test_long_chains_collapse(equivalence) -> None:
    """A thousand pairs of transposes and negations are nothing; no depth of recursion, no round per pair."""
    transposes = chain(1000, lambda i, v: nn.TransposeOp.make(v, perm=[1, 0]))
    assert len(list(equivalence.after(transposes, "canonicalize").walk())) == 3
    negations = chain(1000, lambda i, v: nn.NegOp.make(v))
    assert len(list(equivalence.after(negations, "canonicalize").walk())) == 3
    across = chain(1002, lambda i, v: nn.SigmoidOp.make(v) if 0 < i < 1001 else nn.TransposeOp.make(v, perm=[1, 0]))
    assert not any(isinstance(op, nn.TransposeOp) for op in equivalence.after(across, "canonicalize").walk())


def test_dead_values_that_use_each_other_twice(equivalence) -> None:
    module = chain(1000, lambda i, v: nn.AddOp.make(v, v))
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    block = function.body.block
    block.last_op.operands[0] = block.args[0]
    assert len(list(equivalence.after(module, "canonicalize").walk())) == 3
