"""Arguments that `amct` does not take: one line, a hint, exit status 1."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        ((), "amct: error: the following arguments are required: COMMAND\n  hint: amct --help lists the options\n"),
        (
            ("quantize", "m.onnx"),
            "amct quantize: error: the following arguments are required: -o\n"
            "  hint: amct quantize --help lists the options\n",
        ),
        (
            ("quantize", "m.onnx", "-o", "out", "--dota=x.npz"),
            "amct: error: unrecognized arguments: --dota=x.npz\n  hint: did you mean --data?\n",
        ),
    ],
)
def test_refused(argv: tuple[str, ...], lines: str, amct_tool) -> None:
    result = amct_tool(*argv)
    assert (result.status, result.out, result.err) == (1, "", lines)


def test_unknown_commands_are_told_the_known_ones(amct_tool) -> None:
    result = amct_tool("quantise", "m.onnx")
    assert result.status == 1
    assert "invalid choice: 'quantise' (choose from " in result.err
    assert "quantize" in result.err
