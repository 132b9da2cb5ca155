"""The context a compilation runs in: xDSL's `Context` plus what passes share and report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.context import Context

from .diagnostics import Remark


def _print_remark(remark: Remark) -> None:
    if remark.kind == "missed":
        print(remark, file=sys.stderr)


@dataclass(frozen=True)
class ImportOptions:
    """What frontends are told beside the model's file. Names are those of the source: layers, blobs, tensors."""

    inputs: tuple[str, ...] = ()
    """The inputs, in order; found in the model when not given (`--inputs`)."""
    outputs: tuple[str, ...] = ()
    """The outputs, in order; found in the model when not given (`--outputs`)."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """By input, in place of what the model declares; -1 is a size not known before run time (`--input-shape`)."""
    signature: str = ""
    """Of a SavedModel with several (`--signature`)."""
    weights: Path | None = None
    """The file with the weights, where that is another one (`--weights`)."""


@dataclass
class Session(Context):
    """One compilation: dialects, global options, and the remarks that its passes leave.

    Two sessions share nothing. Passes take any xDSL context and reach these through `session_of`.
    """

    skip_fusion: frozenset[str] = frozenset()
    """Layers that no fusion pass may touch (`--skip-fusion`)."""
    profile: str = "ascend"
    """The target profile that decides what is quantized, and how (`--profile`)."""
    imports: ImportOptions = ImportOptions()
    """How models are read."""
    remarks: list[Remark] = field(default_factory=list[Remark])
    on_remark: Callable[[Remark], None] | None = None
    on_progress: Callable[[str, int, int], None] | None = None
    """Told (phase, done, total) while data runs through the model."""

    def clone(self) -> Session:
        """A session with the same dialects and options, and remarks of its own."""
        session = copy(self)
        vars(session).update(vars(super().clone()))
        session.remarks = list(self.remarks)
        return session

    def warn(self, message: str) -> None:
        """Something the user must see whatever is printed else: one line on stderr."""
        print(f"warning: {message}", file=sys.stderr)

    def note(self, message: str) -> None:
        """What came of something that leaves no other trace on the screen: one line on stderr."""
        print(f"note: {message}", file=sys.stderr)

    def remark(self, remark: Remark) -> None:
        self.remarks.append(remark)
        if self.on_remark is not None:
            self.on_remark(remark)

    def progress(self, phase: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(phase, done, total)


def session_of(ctx: Context) -> Session:
    """The session that `ctx` is; under a foreign driver (plain xdsl-opt) one that prints missed remarks to stderr."""
    return ctx if isinstance(ctx, Session) else Session(on_remark=_print_remark)
