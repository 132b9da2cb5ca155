"""The verifier: every operation's own rules, terminators, and values defined before they are used."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError, first_line


def parse(text: str) -> ModuleOp:
    return parse_module(new_session(), text, "net.mlir")


def error_of(text: str) -> str:
    with pytest.raises(CompileError) as e:
        verify(parse(text))
    return str(e.value)


def graph(body: str) -> str:
    return f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\n}}"


def test_a_use_before_its_definition() -> None:
    text = graph("%a = nn.relu %b : tensor<2xf32>\n%b = nn.relu %x : tensor<2xf32>\nfunc.return %a : tensor<2xf32>")
    assert error_of(text) == "net.mlir:2:1: error: 'nn.relu' op uses a value that is not defined before it"


def test_a_use_of_its_own_result() -> None:
    assert "net.mlir:2:1" in error_of(graph("%a = nn.relu %a : tensor<2xf32>\nfunc.return %a : tensor<2xf32>"))


LOOP = """
  %c = arith.constant true
  %r = scf.if %c -> (tensor<2xf32>) {
    FIRST
    scf.yield %a : tensor<2xf32>
  } else {
    SECOND
  }
  LAST
  func.return %r : tensor<2xf32>"""


def branches(first: str, second: str, last: str = "") -> str:
    return graph(LOOP.replace("FIRST", first).replace("SECOND", second).replace("LAST", last))


def test_an_inner_region_sees_what_stands_before_it() -> None:
    inner = "%a = nn.relu %x : tensor<2xf32>"
    verify(parse(branches(inner, "scf.yield %x : tensor<2xf32>")))
    later = branches(
        "%a = nn.relu %late : tensor<2xf32>", "scf.yield %x : tensor<2xf32>", "%late = nn.relu %x : tensor<2xf32>"
    )
    assert "net.mlir:5:5: error: 'nn.relu' op uses a value that is not defined before it" in error_of(later)


def test_other_regions_see_nothing_of_a_region() -> None:
    """The parser refuses it in text; a rewrite may still do it."""
    module = parse(
        branches("%a = nn.relu %x : tensor<2xf32>", "%b = nn.relu %x : tensor<2xf32>\n scf.yield %b : tensor<2xf32>")
    )
    first, second = (op for op in module.walk() if isinstance(op, nn.ReluOp))
    second.operands[0] = first.result
    with pytest.raises(CompileError, match=r"net.mlir:8:5: .* not defined before it"):
        verify(module)


def test_an_operand_that_has_left_the_module() -> None:
    module = parse(graph("%a = nn.relu %x : tensor<2xf32>\nfunc.return %a : tensor<2xf32>"))
    (relu,) = (op for op in module.walk() if isinstance(op, nn.ReluOp))
    relu.detach()
    with pytest.raises(CompileError, match=r"value defined out of .*func\.return %a"):
        verify(module)


def test_blocks_use_what_dominates_them() -> None:
    text = """
    func.func @main(%x: tensor<2xf32>, %c: i1) -> tensor<2xf32> {
      %a = nn.relu %x : tensor<2xf32>
      cf.cond_br %c, ^left, ^right(%a : tensor<2xf32>)
    ^left:
      %b = nn.relu %a : tensor<2xf32>
      cf.br ^right(%b : tensor<2xf32>)
    ^right(%d: tensor<2xf32>):
      func.return RESULT : tensor<2xf32>
    }"""
    verify(parse(text.replace("RESULT", "%d")))
    assert "net.mlir:9:7: error: 'func.return' op uses a value" in error_of(text.replace("RESULT", "%b"))


def test_missing_terminators() -> None:
    assert error_of(graph("%a = nn.relu %x : tensor<2xf32>")) == (
        "net.mlir:1:1: error: 'func.func' op region does not end in a terminator"
    )


def test_a_terminator_in_the_middle() -> None:
    text = graph("func.return %x : tensor<2xf32>\nfunc.return %x : tensor<2xf32>")
    assert "net.mlir:2:1: error: 'func.return' op 'func.return' must be the last operation" in error_of(text)


def test_arguments_and_results_are_those_of_the_function() -> None:
    returned = "func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> { func.return %x : tensor<2xf32> }"
    assert "net.mlir:1:55: error: 'func.return' op" in error_of(returned)
    module = parse(graph("func.return %x : tensor<2xf32>"))
    function = main_function(module)
    assert isinstance(function, FuncOp)
    nn.set_type(function.body.block.args[0], nn.ConstantOp.of(np.zeros(3), "c").result.type)
    with pytest.raises(CompileError, match=r"'func\.func' op"):
        verify(module)


def test_the_error_is_one_line() -> None:
    message = error_of('%c = "nn.relu"() : () -> tensor<2xf32>')
    assert "\n" not in message
    assert message.startswith("net.mlir:1:1: error: 'nn.relu' op ")
    assert first_line("operand 'x' does not verify:\n  it is odd\nmore") == "operand 'x' does not verify: it is odd"
    assert first_line("\n\n") == "invalid"


def test_long_chains_are_no_problem() -> None:
    body = "\n".join(f"%v{i + 1} = nn.relu %v{i} : tensor<2xf32>" for i in range(3000))
    verify(parse(graph(f"%v0 = nn.relu %x : tensor<2xf32>\n{body}\nfunc.return %v3000 : tensor<2xf32>")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "error: the module has 0 functions and none is called @main"),
        ("func.func @a() { func.return }\nfunc.func @b() { func.return }", "has 2 functions and none is called @main"),
        ("func.func @main()", "has 0 functions"),
        (
            "func.func @main() {\n cf.br ^a\n^a:\n func.return\n}",
            "net.mlir:1:1: error: 'func.func' op is not a graph: it must be one block that ends in func.return",
        ),
    ],
)
def test_what_is_no_graph(text: str, message: str) -> None:
    with pytest.raises(CompileError) as e:
        main_function(parse(text))
    assert message in str(e.value)


def test_the_graph_is_main_or_the_only_function() -> None:
    assert main_function(parse("func.func @f() { func.return }")).sym_name.data == "f"
    two = "func.func @f() { func.return }\nfunc.func @main() { func.return }"
    assert main_function(parse(two)).sym_name.data == "main"
