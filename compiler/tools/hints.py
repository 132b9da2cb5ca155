"""Hints in terms of the current command. Errors name options of `amct-opt`; other commands have fewer or different ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from ..support.diagnostics import CompileError

_HINT = "  hint: "
_OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*|-t)(?![\w-])")
_SETTING = re.compile(r"(?<![\w{-])([a-z][a-z-]*)=(true\b|(?=[\w.]))")
_OTHER_TOOL = re.compile(r"`(?!amct)[^`]*`")
"""A command of another tool, which hints quote: its options are not ours."""
_OPSET = re.compile(r"-t '?onnx\{opset=(\d+)\}'?")


def printed(error: CompileError, options: Collection[str], complete: Callable[[], Collection[str]]) -> str:
    """An error in the form that a command with these options prints; `complete` gives those of `amct-opt`."""
    lines = str(error).split("\n")
    fitted = [_fitted(line, options, complete) if line.startswith(_HINT) else line for line in lines]
    return "\n".join(line for line in fitted if line != _HINT)


def _fitted(line: str, options: Collection[str], complete: Callable[[], Collection[str]]) -> str:
    return _HINT + fitting(line.removeprefix(_HINT), options, complete)


def fitting(hint: str, options: Collection[str], complete: Callable[[], Collection[str]]) -> str:
    """A hint with the command's own options if it has them; else it names the command that does. Empty if no command has them.

    `resize=224`, an option of a pass, is `--resize 224` for a command that has it, and `weight-only=true` is `--weight-only`.
    AMCT's commands spell some with underscores (`--input_shape`), and `--opset 21` stands for `-t 'onnx{opset=21}'`. Quoted
    commands of other tools stay as they are.
    """
    others = iter(_OTHER_TOOL.findall(hint))
    return re.sub("``", lambda _: next(others), _in_own_options(_OTHER_TOOL.sub("``", hint), options, complete))


def _in_own_options(hint: str, options: Collection[str], complete: Callable[[], Collection[str]]) -> str:
    hint = _SETTING.sub(lambda m: f"--{m[1]}{'' if m[2] else ' '}" if f"--{m[1]}" in options else m[0], hint)
    if "--opset" in options:
        hint = _OPSET.sub(r"--opset \1", hint)
    own = _OPTION.sub(lambda m: _spelled(m[0], options), hint)
    named = set(_OPTION.findall(own))
    if named <= {*options} or "amct-opt" in own or "amct " in own:
        return own
    return f"with amct-opt: {hint}" if set(_OPTION.findall(hint)) <= {*complete()} else ""


def _spelled(option: str, options: Collection[str]) -> str:
    underscored = f"--{option[2:].replace('-', '_')}"
    return underscored if option not in options and underscored in options else option
