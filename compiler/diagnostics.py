"""What the compiler says: located errors, remarks, and the check that every value is defined before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
    NoneAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

RemarkKind = Literal["applied", "missed", "analysis"]


class CompileError(Exception):
    """A mistake in the input or its use: one located line and a hint. Tools print it and exit with status 1."""

    def __init__(self, message: str, *, where: str = "", hint: str = ""):
        self.message = message
        self.where = where
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        line = f"{self.where}: error: {self.message}" if self.where else f"error: {self.message}"
        return f"{line}\n  hint: {self.hint}" if self.hint else line


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
            parts = location.locations.data if isinstance(location.locations, ArrayAttr) else ()
            return " + ".join(dict.fromkeys(describe(part) for part in parts))
        case _:
            return "<unknown location>"


@dataclass(frozen=True)
class Remark:
    """What a pass did, or did not do, to one layer, and why.

    `rule` is the name of the pattern (applied) or of the condition that did not hold (missed), `reason` one sentence.
    """

    kind: RemarkKind
    pass_name: str
    rule: str
    layer: str
    op: str
    reason: str
    location: str

    def __str__(self) -> str:
        return f'{self.location}: remark: [{self.pass_name} {self.kind} {self.rule}] "{self.layer}": {self.reason}'


def remarks_yaml(remarks: Iterable[Remark]) -> str:
    """Remarks as YAML documents in the manner of LLVM's `-pass-remarks-output`."""
    import yaml

    rows = [
        {
            "kind": r.kind,
            "pass": r.pass_name,
            "rule": r.rule,
            "layer": r.layer,
            "op": r.op,
            "reason": r.reason,
            "location": r.location,
        }
        for r in remarks
    ]
    return yaml.safe_dump_all(rows, sort_keys=False, allow_unicode=True, explicit_start=True) if rows else ""


def verify(module: ModuleOp) -> None:
    """Verify op by op, then that values are defined before use. Raises CompileError at the op that fails.

    xDSL's own `verify` prints the whole module into its error and does not check dominance.
    """
    for op in module.walk():
        try:
            op.verify_()
        except VerifyException as e:
            raise op_error(op, _first_line(e)) from None
        for region in op.regions:
            _check_terminator(op, region)
    for block in _blocks(module):
        _check_dominance(block)


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _check_terminator(op: Operation, region: Region) -> None:
    if op.has_trait(NoTerminator) or len(region.blocks) != 1:
        return
    last = region.block.last_op
    if last is None or not last.has_trait(IsTerminator, value_if_unregistered=True):
        raise op_error(op, "region does not end in a terminator")


def _blocks(module: ModuleOp) -> Iterator[Block]:
    for op in module.walk():
        for region in op.regions:
            yield from region.blocks


def _check_dominance(block: Block) -> None:
    seen: set[SSAValue] = set(block.args)
    for op in block.ops:
        for operand in op.operands:
            if _block_of(operand) is block and operand not in seen:
                raise op_error(op, "uses a value before it is defined")
        seen.update(op.results)


def _block_of(value: SSAValue) -> Block | None:
    owner = value.owner
    if isinstance(value, BlockArgument):
        return value.block
    return owner.parent_block() if isinstance(owner, Operation) else None
