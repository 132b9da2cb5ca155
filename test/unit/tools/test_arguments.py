"""Command lines: what is refused, with one line, a hint that exists there, and status 2; how much is printed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import amct_opt
from amct_opt.tools import amct, amct_opt as opt

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, CALIB = DIGITS / "digits.onnx", DIGITS / "calib.npz"


@pytest.mark.parametrize(
    ("argv", "error", "hint"),
    [
        ("quantize m.onnx", " quantize: error: the following arguments are required: -o/--output",
         "usage: amct quantize MODEL --data DATA [options] -o OUTDIR"),
        ("quantize m.onnx -o out --dota=x.npz", " quantize: error: unrecognized arguments: --dota=x.npz", "did you mean --data?"),
        # nothing is suggested that only looks alike because of its dashes
        ("create-config m.onnx -o c.json --zzz", " create-config: error: unrecognized arguments: --zzz",
         "amct create-config --help lists the options"),
        ("quantize m.onnx -o out --budget bytes=9k --remarks=all",
         " quantize: error: unrecognized arguments: --budget bytes=9k --remarks=all",
         "--budget is an option of amct tune; --remarks is an option of amct-opt"),
        # its value is not taken for a command
        ("--budget bytes=9k tune", ": error: unrecognized arguments: --budget", "--budget is an option of amct tune"),
        ("quantise m.onnx", ": error: there is no command 'quantise'", "did you mean quantize?"),
        ("quantize m.onnx -o out --round-weights gtpq",
         " quantize: error: argument --round-weights: invalid choice: 'gtpq'", "did you mean gptq?"),
    ],
)  # fmt: skip
def test_refused(argv: str, error: str, hint: str, amct_tool) -> None:
    result = amct_tool(*argv.split())
    assert (result.status, result.out, result.err) == (2, "", f"amct{error}\n  hint: {hint}\n")


def test_without_a_command_there_is_help(amct_tool) -> None:
    result = amct_tool()
    assert (result.status, result.err) == (2, "")
    assert "quantize a model: the whole path in one command" in result.out


def test_options_of_other_commands_are_named() -> None:
    tool = amct.parser()
    commands = tool.commands()
    for name, command in commands.items():
        for option in frozenset[str]().union(*(other.options() for other in commands.values())) - command.options():
            if option.startswith("--"):
                owners = [other.prog for other in commands.values() if option in other.options()]
                hint = command.hint([f"{option}=3"])
                assert hint.startswith(f"{option} is an option of {owners[0]}"), f"{name} {option}"
                assert all(owner in hint for owner in owners)


def test_usage_is_one_line_with_all_that_is_required() -> None:
    for name, command in amct.parser().commands().items():
        usage = command.format_usage()
        assert usage.startswith(f"usage: amct {name} ")
        assert (usage.count("\n"), len(usage) < 130) == (1, True)
        for action in command.actions():
            if action.required:
                assert (action.option_strings or [str(action.metavar)])[0] in usage


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--fuse-bm", "did you mean --fuse-bn?"),
        ("--data=x", "--data is an option of passes, such as --quantize='data=...'"),
        ("--budget=x", "--budget is an option of amct tune"),
    ],
)
def test_usage_of_amct_opt(option: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.run(["m.mlir", option]) == 2
    assert capsys.readouterr().err == f"amct-opt: error: unrecognized arguments: {option}\n  hint: {hint}\n"


def test_version(amct_tool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        amct_tool("--version")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"amct-opt {amct_opt.__version__}\n")


def test_quiet_and_verbose(amct_tool, files) -> None:
    model = files.module()
    quiet = amct_tool("support", model, "-q")
    assert (quiet.status, quiet.err) == (0, "")
    assert "fc" in quiet.out, "the answer of a command that writes nothing"
    data = files.npz(x=np.ones((2, 2), np.float32))
    quiet = amct_tool("run", model, "--data", data, "-o", files.folder / "y.npz", "--quiet")
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")
    assert (files.folder / "y.npz").exists()
    wrong = amct_tool("run", model, "--data", files.folder / "none.npz", "-o", files.folder / "y.npz", "-q")
    assert wrong.status == 1
    assert wrong.err.startswith(f"{files.folder / 'none.npz'}: error: ")
    assert "remark: [" in amct_tool("support", MODEL, "--verbose").err


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quantize", "  weight-bits (2, 3, 4, 6, 7, 8)\n      Bits of weights, where the layer's type takes them;"),
        ("fuse-bn", "  only-quantizable (true, false, default false)\n      Fuse only around convolutions"),
        ("adapt-qat", "It has no options."),
    ],
)
def test_help_of_a_pass(name: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        opt.run(["--help", name])
    assert (ended.value.code, expected in capsys.readouterr().out) == (0, True)


def test_help_of_an_unknown_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.run(["--help=fuse-bm"]) == 1
    assert "no pass is called 'fuse-bm'" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, amct_tool, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        amct_tool("--print-completion", shell)
    script = capsys.readouterr().out
    assert all(word in script for word in ("sensitivity", "align-elementwise", "keep-float"))
    if shell != "bash" or not shutil.which("bash"):
        return
    (tmp_path / "amct.bash").write_text(script, "utf-8")
    function = re.search(r"complete .*-F (\S+) amct", script)
    assert function is not None
    ask = f"source amct.bash; COMP_WORDS=({{}}); COMP_CWORD={{}}; {function[1]}; echo ${{{{COMPREPLY[@]}}}}"
    for words, at, completed in (
        ("amct sens", 1, "sensitivity"),
        ("amct quantize --align-el", 2, "--align-elementwise"),
    ):
        done = subprocess.run(["bash", "-c", ask.format(words, at)], cwd=tmp_path, capture_output=True, text=True)
        assert (done.stdout.strip(), done.stderr) == (completed, "")


def test_help_of_quantize_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    """The options that most users need; all others are listed on demand."""
    shown = dict[str, str]()
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            amct.run(["quantize", option])
        shown[option] = capsys.readouterr().out
    assert shown["--help"].count("\n") < 60
    brief, whole = (set(re.findall(r"^  (-\S+)", text, re.MULTILINE)) for text in shown.values())
    assert brief < whole
    assert len(brief) == 12
    assert "--help-all shows all" in shown["--help"]
