"""Canonicalization changes no number, ends, and leaves nothing to do."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of
from amct_opt.ir.functions import return_op
from amct_opt.ir.text import module_text
from amct_opt.runtime.executor import compile_block, run


@settings(max_examples=60)
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
    equivalence.assert_equivalent(module, equivalence.after(module, "canonicalize"), {"x": SPECIAL})


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
    (before,) = run(module, {"x": SPECIAL}).values()
    (after,) = run(equivalence.after(module, "canonicalize"), {"x": SPECIAL}).values()
    np.testing.assert_array_equal(np.signbit(after), np.signbit(before))
    np.testing.assert_array_equal(after, before)


def module_of(shape: tuple[int, ...], *steps: Callable[[SSAValue], nn.NNOp]) -> ModuleOp:
    """A function of one float32 argument, each step on the result of the one before; constants stand in front."""
    block = Block(arg_types=[TensorType(f32, shape)])
    value: SSAValue = block.args[0]
    for step in steps:
        op = step(value)
        block.add_ops([o for v in op.operands if isinstance(o := v.owner, nn.ConstantOp) and o.parent is None])
        block.add_op(op)
        value = op.results[0]
    block.add_op(ReturnOp(value))
    return ModuleOp([FuncOp("main", ([block.args[0].type], [value.type]), Region(block))])


def integers(seed: int, *shape: int) -> np.ndarray:
    """Small integers: sums of products are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


@settings(max_examples=60)
@given(
    pads=st.lists(st.sampled_from([0, 1, 1, 2]), min_size=4, max_size=4),
    own=st.sampled_from([[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0]]),
    kind=st.sampled_from([nn.ConvOp, nn.MaxPoolOp, nn.AveragePoolOp]),
    count=st.booleans(),
    stride=st.integers(1, 2),
    last=st.booleans(),
    value=st.sampled_from([0.0, 0.0, -np.inf]),
)
def test_pads(equivalence, pads, own, kind, count: bool, stride: int, last: bool, value: float) -> None:
    """A pad of space in front of each window; a quarter per element is exact, too."""
    layout = "nhwc" if last else "nchw"
    full = [*[0] * (1 + (not last)), *pads[:2], *[0] * (1 + last), *[0] * (not last), *pads[2:], *[0] * last]
    properties: dict[str, Any] = {"pads": own, "strides": [stride, stride], "layout": layout}

    def window(x: SSAValue) -> nn.NNOp:
        if kind is nn.ConvOp:
            return nn.ConvOp.make(x, nn.ConstantOp.of(integers(1, 2, 3, 2, 2), "w").result, **properties)
        flags: dict[str, Any] = {"count_include_pad": count} if kind is nn.AveragePoolOp else {}
        return kind.make(x, kernel=[2, 2], **properties, **flags)

    shape = (1, 5, 4, 3) if last else (1, 3, 5, 4)
    module = module_of(shape, lambda x: nn.PadOp.make(x, pads=full, value=value), window)
    after = equivalence.after(module, "canonicalize")
    equivalence.assert_equivalent(module, after, {"arg0": integers(0, *shape)})
    merged = not any(isinstance(op, nn.PadOp) for op in after.walk())
    below_kernel = all(a + b < 2 for a, b in zip(pads, own, strict=True))
    expected = {
        nn.ConvOp: value == 0,
        nn.MaxPoolOp: value != 0 and below_kernel,
        nn.AveragePoolOp: value == 0 and below_kernel and (count or not any(own)),
    }
    assert merged == (not any(pads) or expected[kind])


@settings(max_examples=60)
@given(
    block=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    begins=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    own=st.lists(st.integers(0, 1), min_size=4, max_size=4),
    crops=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    dilation=st.integers(1, 2),
    groups=st.sampled_from([1, 2]),
)
def test_dilation(equivalence, block, begins, own, crops, dilation: int, groups: int) -> None:
    n, size = len(block), 7
    ends = [-(size + p) % b for p, b in zip(begins, block, strict=False)]
    pads, crops = [*begins[:n], *ends], [*crops[:n], *crops[2 : 2 + n]]
    weight = nn.ConstantOp.of(integers(1, 4, 2 // groups, 2, 2), "w").result
    steps = (
        lambda x: nn.SpaceToBatchOp.make(x, block=block, pads=pads),
        lambda x: nn.ConvOp.make(x, weight, pads=own, dilations=[dilation, dilation], groups=groups),
        lambda x: nn.BatchToSpaceOp.make(x, block=block, crops=crops),
    )
    try:
        module = module_of((2, 2, size, size), *steps)
    except VerifyException:
        reject()  # crops or windows larger than what is there
    after = equivalence.after(module, "canonicalize")
    equivalence.assert_equivalent(module, after, {"arg0": integers(0, 2, 2, size, size)})
    n_own = [own[side + i] for side in (0, 2) for i in range(n)]
    formed = all(p + b * q >= c for p, b, q, c in zip(pads, [*block, *block], n_own, crops, strict=True))
    assert any(isinstance(op, nn.BatchToSpaceOp) for op in after.walk()) != formed


@settings(max_examples=60)
@given(data=st.data())
def test_reshapes_of_unknown_sizes(equivalence, data: st.DataObject) -> None:
    """Chains on `?x3x?x4`; the sizes of each step are those that it has at run time, or unknown."""
    x = np.arange(2 * 3 * 5 * 4, dtype=np.float32).reshape(2, 3, 5, 4)
    actual = x.shape
    block = Block(arg_types=[TensorType(f32, (DYNAMIC, 3, DYNAMIC, 4))])
    value: SSAValue = block.args[0]
    for _ in range(data.draw(st.integers(2, 5))):
        rank = len(actual)
        match data.draw(st.sampled_from(["unsqueeze", "squeeze", "flatten", "reshape", "transpose"])):
            case "unsqueeze":
                op = nn.UnsqueezeOp.make(value, axes=[data.draw(st.integers(0, rank))])
            case "squeeze":
                op = nn.SqueezeOp.make(value, axes=[i for i, d in enumerate(shape_of(value)) if d == 1])
            case "flatten":
                op = nn.FlattenOp.make(value, axis=data.draw(st.integers(0, rank)))
            case "transpose":
                op = nn.TransposeOp.make(value, perm=data.draw(st.permutations(range(rank))))
            case _:
                kept = data.draw(st.integers(0, rank))
                rest = prod(actual[kept:])
                front = data.draw(st.sampled_from([d for d in (1, 3, 4, 5) if rest % d == 0]))
                op = nn.ReshapeOp.make(value, to=[*[0] * kept, *data.draw(st.permutations([front, -1]))])
        block.add_op(op)
        value = op.result
        actual = compile_block(block, [value]).run([x])[0].shape
    block.add_op(ReturnOp(value))
    module = ModuleOp([FuncOp("main", ([block.args[0].type], [value.type]), Region(block))])
    equivalence.assert_equivalent(module, equivalence.after(module, "canonicalize"), {"arg0": x})


def test_long_chains_collapse(equivalence) -> None:
    """A thousand pairs of transposes and negations are nothing; no depth of recursion, no round per pair."""

    def transpose(value: SSAValue) -> nn.NNOp:
        return nn.TransposeOp.make(value, perm=[1, 0])

    transposes = module_of((2, 3), *[transpose] * 1000)
    assert len(list(equivalence.after(transposes, "canonicalize").walk())) == 3
    negations = module_of((2, 3), *[nn.NegOp.make] * 1000)
    assert len(list(equivalence.after(negations, "canonicalize").walk())) == 3
    across = module_of((2, 3), transpose, *[nn.SigmoidOp.make] * 1000, transpose)
    after = equivalence.after(across, "canonicalize")
    assert not any(isinstance(op, nn.TransposeOp) for op in after.walk())


def test_dead_values_that_use_each_other_twice(equivalence) -> None:
    """They are counted once each: by the ways that lead to them there are 2^100."""
    module = module_of((2, 3), *[lambda v: nn.AddOp.make(v, v)] * 100)
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    return_op(function).operands[0] = function.body.block.args[0]
    assert len(list(equivalence.after(module, "canonicalize").walk())) == 3
