"""Messages of the compiler: located errors and remarks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
    NoneAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, which terminals interpret, line ends, characters that reverse the text around them, and halves of
characters.
"""


def printable(text: str) -> str:
    """Text in one line for a terminal: control characters and line ends are escaped as Python does (`\\n`, `\\x1b`).

    Names in models are any text. They pass through here wherever they are printed.
    """
    return _UNPRINTABLE.sub(lambda m: repr(m[0])[1:-1], text)


_LONGEST = 4000
"""Characters of a message that are shown."""


def shown(text: str) -> str:
    """A message in one line for a terminal, cut in the middle if a name in it is very long."""
    half = _LONGEST // 2
    return printable(text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}")


RemarkKind = Literal["applied", "missed", "analysis"]


class CompileError(Exception):
    """A mistake in the input or its use: one located line and a hint. Tools print it and exit with status 1.

    `option` is the option whose value is wrong, if it is one: a command finds its line in a settings file.
    """

    def __init__(self, message: str, *, where: str = "", hint: str = "", option: str = ""):
        self.message = message
        self.where = where
        self.hint = hint
        self.option = option
        super().__init__(str(self))

    def at(self, where: str) -> CompileError:
        """This error, located at a place."""
        return CompileError(self.message, where=where, hint=self.hint, option=self.option)

    def __str__(self) -> str:
        line = shown(f"{self.where}: error: {self.message}" if self.where else f"error: {self.message}")
        return f"{line}\n  hint: {shown(self.hint)}" if self.hint else line


class UsageError(CompileError):
    """A command line that is not one: an unknown command or option, a bad value, something missing. The exit status is 2."""


class CompileErrors(CompileError):
    """Several mistakes of one kind, each with its line."""

    def __init__(self, errors: Sequence[CompileError]):
        self.errors: tuple[CompileError, ...] = tuple(errors)
        super().__init__(errors[0].message, where=errors[0].where, hint=errors[0].hint)

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


def op_error(op: Operation, message: str, hint: str = "") -> CompileError:
    """An error about one operation, placed at its location."""
    return CompileError(f"'{op.name}' op {message}", where=describe(op.location), hint=hint)


def describe(location: Attribute) -> str:
    """A location as one short text: `net.mlir:3:5`, a layer name, or the parts of a fusion joined by `+`.

    A name inside a place (`"conv1"("net.onnx":0:0)`, how frontends say which file) reads `net.onnx: node 'conv1'`.
    """
    match location:
        case FileLineColLoc():
            line = location.line.data
            return f"{location.filename.data}:{line}:{location.column.data}" if line else location.filename.data
        case NameLoc(location=UnknownLoc() | NoneAttr()):
            return f"node '{location.desc.data}'"
        case NameLoc():
            return f"{describe(location.location)}: node '{location.desc.data}'"
        case CallSiteLoc():
            return describe(location.callee)
        case FusedLoc():
            parts = cast("ArrayAttr[Attribute]", location.locations)
            return " + ".join(dict.fromkeys(describe(part) for part in parts))
        case _:
            return "<unknown location>"


class Gain(NamedTuple):
    """SQNR in dB of a layer's output without a change and with it."""

    before: float
    after: float


@dataclass(frozen=True)
class Remark:
    """A remark: what a pass did, or did not do, to one layer, and why.

    `rule` is the name of the pattern (applied) or of the condition that did not hold (missed), `reason` one sentence.
    """

    kind: RemarkKind
    pass_name: str
    rule: str
    layer: str
    op: str
    reason: str
    location: str
    module: str = ""
    """The path of the layer's PyTorch module; empty where it has none."""
    gain: Gain | None = None
    """The change by a recovery, or, if the recovery was missed, the change that it would have made."""

    def __str__(self) -> str:
        rule = f"[{self.pass_name} {self.kind} {self.rule}]"
        return shown(f'{self.location}: remark: {rule} "{self.layer}": {self.reason}')


def remarks_yaml(remarks: Iterable[Remark]) -> str:
    """Remarks as YAML documents in the manner of LLVM's `-pass-remarks-output`."""
    import yaml

    rows = [
        {
            "kind": r.kind,
            "pass": r.pass_name,
            "rule": r.rule,
            "layer": r.layer,
            "module": r.module,
            "op": r.op,
            "reason": r.reason,
            "location": r.location,
            **({} if r.gain is None else {"gain": r.gain._asdict()}),
        }
        for r in remarks
    ]
    rows = [{key: _utf_8(value) for key, value in row.items()} for row in rows]
    # libyaml's, where PyYAML was built with it, takes a tenth of the time
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump_all(rows, Dumper=dumper, sort_keys=False, allow_unicode=True, explicit_start=True) if rows else ""


def _utf_8(text: object) -> object:
    """A text in which names of files that are not UTF-8 are escaped; other values as they are."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


def first_line(message: str | BaseException) -> str:
    """The first line of a message, or of an exception's; when that ends in a colon, with the line that follows. The name of an
    exception's type stands for a message that is empty or cannot be made.
    """
    if isinstance(message, BaseException):
        name = type(message).__name__
        try:
            message = str(message) or name
        except Exception:  # the exception's own code
            message = name
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return " ".join(lines[:2] if lines[0].endswith(":") else lines[:1]) if lines else "invalid"
