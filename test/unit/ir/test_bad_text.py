"""Text that is not right ends in a located error, soon, whatever is wrong with it."""

import random
import re
from pathlib import Path

import pytest

from amct_opt.ir.functions import main_function
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

LIT = Path(__file__).parents[2] / "lit" / "dialects" / "nn"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage", "net.mlir:1:8: error: Operation garbage is not registered"),
        ("func.func @main() {", "net.mlir:1:20: error: "),
        ('%c = nn.constant #nn.external<"' + "a" * 60, "net.mlir:1:31: error: "),
        (
            "%c = nn.constant dense<1.0> : tensor<100000x100000xf32>",
            "net.mlir:1:31: error: too many elements for a constant",
        ),
        ("%c = nn.constant dense<99999999999999999999> : tensor<1xi8>", "net.mlir:1:60: error: Integer value 9999"),
        ("%c = nn.constant dense<1> : tensor<1xi65>", "net.mlir:1:29: error: a constant of i65 cannot be stored"),
        (
            "%c = nn.constant dense<1> : tensor<1xi4294967296>",
            "net.mlir:1:38: error: an integer has at most 16777215 bits",
        ),
        ("%c = nn.constant dense<1.0e39> : tensor<1xf32>", "net.mlir:1:47: error: "),
        ("\n\n  \N{NULL}", "net.mlir:3:3: error: "),
    ],
)
def test_mistakes_are_located(text: str, message: str) -> None:
    """A string that does not end would take xDSL's lexer 2^60 steps, the large constant 80 GB."""
    with pytest.raises(CompileError) as e:
        parse_module(new_session(), text, "net.mlir")
    assert str(e.value).startswith(message)


@pytest.mark.parametrize(
    ("first", "rest", "use"),
    [
        ('#a0 = ["x"]', "#a{} = [#a{}, #a{}, #a{}]", "module attributes {{x = #a{}}} {{}}"),
        ("!a0 = i32", "!a{} = tuple<!a{}, !a{}, !a{}>", "module attributes {{x = !a{}}} {{}}"),
        ('#a0 = loc("x")', "#a{} = loc(fused[#a{}, #a{}, #a{}])", "module {{}} loc(#a{})"),
    ],
)
def test_aliases_are_expanded_to_a_limit(first: str, rest: str, use: str) -> None:
    """Each line makes the text three times as long."""
    for lines, refused in ((8, False), (30, True)):
        text = "\n".join([first, *(rest.format(i + 1, i, i, i) for i in range(lines)), use.format(lines)])
        if refused:
            with pytest.raises(CompileError, match=r"net.mlir:\d+:\d+: error: takes too much memory when its aliases"):
                parse_module(new_session(), text, "net.mlir")
        else:
            module_text(parse_module(new_session(), text, "net.mlir"), locations=True)


def test_long_names_are_cut_in_messages() -> None:
    error = str(CompileError(f"'{'a' * 100_000}' is not a layer", where="net.onnx", hint="b" * 100_000))
    assert error.startswith("net.onnx: error: 'aaa")
    assert "aaa' is not a layer\n  hint: bbb" in error
    assert len(error) < 9000


def test_values_of_another_region() -> None:
    """xDSL does not miss what the region itself defines, and leaves the operand without an owner."""
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = nn.fused "ReLU" (%i = %a) : (tensor<4xf32>) -> tensor<4xf32> {
        %a = nn.neg %x : tensor<4xf32>
        %b = nn.relu %i : tensor<4xf32>
        nn.yield %b : tensor<4xf32>
      }
      func.return %y : tensor<4xf32>
    }"""
    with pytest.raises(CompileError, match=r"^net.mlir:\d+:\d+: error: .*not defined"):
        parse_module(new_session(), text, "net.mlir")


def test_an_empty_text_has_a_place() -> None:
    with pytest.raises(CompileError, match=r"^net.mlir:1:1: error: the module has 0 functions"):
        main_function(parse_module(new_session(), "", "net.mlir"))


TOKENS = re.compile(r'"[^"\n]*"|%\w+|[\w.#@!]+|\s+|.')
ODD = [
    "0", "-1", "99999999999999999999", "1.0e400", "nan", "?", "tensor<?x?xf32>", "tensor<0xf32>", "[]",
    '"\\FF"', '"', "i1",
]  # fmt: skip


def modules() -> list[str]:
    """The parts of all tests of the dialect, in the custom form, and the valid ones also in the generic form."""
    parts: list[str] = []
    for file in sorted(LIT.glob("*.mlir")):
        text = re.sub(r"^ *//(?! -----).*\n", "", file.read_text(), flags=re.MULTILINE)
        parts += re.split(r"^// -----\n", text, flags=re.MULTILINE)
        if file.name.startswith("ops-"):
            parts.append(module_text(parse_module(new_session(), text), generic=True))
    return parts


def test_random_damage_is_an_error_or_a_module() -> None:
    """Tokens lost, replaced, added: a located error, or a module whose text is a fixed point."""
    rng = random.Random(7)
    parts = modules()
    words = [token for part in parts for token in TOKENS.findall(part) if token.strip()] + ODD * 50
    refused = 0
    for _ in range(1500):
        tokens = TOKENS.findall(rng.choice(parts))
        for _ in range(rng.choice([1, 1, 2, 3])):
            at = rng.randrange(len(tokens))
            tokens[at : at + rng.choice([0, 1, 1])] = [rng.choice(words)] if rng.random() < 0.7 else []
        try:
            module = parse_module(new_session(), "".join(tokens), "net.mlir")
            verify(module)
        except CompileError as e:
            refused += e.where.startswith("net.mlir:")
            continue
        text = module_text(module)
        assert module_text(parse_module(new_session(), text, "net.mlir")) == text
    assert 300 < refused < 1500
