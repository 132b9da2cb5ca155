"""The lowering patterns: listed and registered."""

import pytest

from amct_opt import CompileError
from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn.shapes import shape_of
from amct_opt.ir.text import module_text, parse_module
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.lowering.ascend.rules import Lowering
from amct_opt.pipelines.described import patterns, statement
from amct_opt.rewriting import Condition, condition
from amct_opt.session.universe import new_session
from amct_opt.tools.amct_opt import run


class SquareOfProduct(Lowering[nn.MulOp]):
    """Square"""

    def match(self, op):
        return op if isinstance(op, nn.MulOp) and op.lhs is op.rhs else None

    @condition
    def no_scalar(self, op: nn.MulOp) -> str | None:
        """the operand has axes"""
        return None if shape_of(op.lhs) else "it is a single number"

    def rewrite(self, build, op):
        return [build.add(ascend.SquareOp, op.lhs).y]


def test_a_registered_pattern_comes_first():
    text = """func.func @main(%x: tensor<3xf32>, %s: tensor<f32>) -> (tensor<3xf32>, tensor<f32>) {
      %y = nn.mul %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %z = nn.mul %s, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
      func.return %y, %z : tensor<3xf32>, tensor<f32>
    }"""
    session = new_session()
    session.register_pattern("lower-to-ascend", SquareOfProduct)
    module = parse_module(session, text)
    LowerToAscendPass().apply(session.clone(), module)
    assert "%y = ascend.Square %x" in module_text(module)
    assert "%z = ascend.Mul %s, %s" in module_text(module)
    listed = patterns("lower-to-ascend", session)
    assert listed[1:4] == ["square-of-product (nn.mul)", "  Square", "    no-scalar: the operand has axes"]
    assert "square-of-product (nn.mul)" not in patterns("lower-to-ascend", new_session())
    LowerToAscendPass().apply(session, module := parse_module(session, text))
    assert [(r.rule, r.reason) for r in session.remarks if r.kind == "missed"] == [
        ("no-scalar", "it is a single number")
    ]


@pytest.mark.parametrize(
    ("pass_name", "pattern", "message"),
    [
        ("lower-to-ascend", LowerToAscendPass.PATTERNS[0], "pattern 'eltwise' exists already"),
        ("calibrate", SquareOfProduct, "pass 'calibrate' tries no patterns of others"),
        ("lower-to-asend", SquareOfProduct, "no pass is called 'lower-to-asend'"),
    ],
)
def test_a_pattern_that_cannot_be_registered(pass_name, pattern, message):
    with pytest.raises(CompileError, match=message):
        new_session().register_pattern(pass_name, pattern)


def test_patterns_have_names_of_their_own():
    names = [each.name for each in LowerToAscendPass.PATTERNS]
    assert len(set(names)) == len(names)


def test_a_command_lists_patterns(capsys):
    assert run(["--list-patterns", "lower-to-ascend"]) == 0
    printed = capsys.readouterr().out.splitlines()
    row = printed.index("div (nn.div)")
    assert printed[row + 1 : row + 3] == ["  RealDiv", "    float-type: the operands are floats"]
    assert run(["--list-patterns", "fuse-bn"]) == 0
    assert "compute-batch-norm (nn.batch_norm)" in capsys.readouterr().out.splitlines()
    assert run(["--list-patterns", "quantize"]) == 0
    printed = capsys.readouterr().out
    assert "\n  quantize-convolution (nn.conv, nn.conv_transpose)\n" in printed.partition("\n--balance-channels\n")[0]
    assert "\n      bias-fits: " in printed.partition("\n--convert-observers\n")[2]
    assert run(["--list-patterns", "canonicaliz"]) == 1
    assert "no pass is called 'canonicaliz'" in capsys.readouterr().err


def listed() -> str:
    """The tables of docs/ascend.md: patterns in their order, and conditions with the patterns that ask them."""
    rows = ["| pattern | takes | does |", "|---|---|---|"]
    asked: dict[Condition, list[str]] = {}
    for each in LowerToAscendPass.PATTERNS:
        taken = [getattr(root, "name", root.__name__) for root in each.roots]
        if len(taken) > 5:
            taken = [f"{len(taken)} operations"]
        sources = "".join(f" of {framework} {layer}," for framework, layer in each.sources).rstrip(",")
        rows.append(f"| {each.name} | {', '.join(taken)}{sources} | {' '.join(statement(each).split())} |")
        for one in each.conditions:
            asked.setdefault(one, []).append(each.name)
    conditions = ["| condition | holds when | of |", "|---|---|---|"]
    for one, names in asked.items():
        conditions.append(f"| `{one.name}` | {' '.join(one.statement.split())} | {', '.join(names)} |")
    return "\n".join([*rows, "", *conditions])


def test_the_document_lists_patterns_and_conditions(generated):
    generated("ascend.md", patterns=listed())
