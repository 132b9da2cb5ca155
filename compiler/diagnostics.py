"""Messages of the compiler: located errors, remarks, and the check that every value is defined before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

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
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
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
            "module": r.module,
            "op": r.op,
            "reason": r.reason,
            "location": r.location,
        }
        for r in remarks
    ]
    # libyaml's, where PyYAML was built with it, takes a tenth of the time
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump_all(rows, Dumper=dumper, sort_keys=False, allow_unicode=True, explicit_start=True) if rows else ""


def verify(module: ModuleOp) -> None:
    """Verify op by op, then that values are defined before use, then groups of quantization points. Raises CompileError at the
    op that fails.

    xDSL's own `verify` prints the whole module into its error and does not check dominance.
    """
    from .dialects.nn.groups import check_groups

    for op in module.walk():
        try:
            op.verify_()
        except VerifyException as e:
            raise op_error(op, first_line(str(e))) from None
        for region in op.regions:
            _check_terminators(op, region)
    visible: set[SSAValue] = set()
    for region in module.regions:
        _check_order(region, visible)
    check_groups(module)


def first_line(message: str) -> str:
    """The first line of a message; when that ends in a colon, with the line that follows."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return " ".join(lines[:2] if lines[0].endswith(":") else lines[:1]) if lines else "invalid"


def _check_terminators(op: Operation, region: Region) -> None:
    if op.has_trait(NoTerminator):
        return
    for block in region.blocks:
        if block.last_op is None or not block.last_op.has_trait(IsTerminator, value_if_unregistered=True):
            raise op_error(op, "region does not end in a terminator")


def _check_order(region: Region, visible: set[SSAValue]) -> None:
    """Every operand is visible where it stands; `visible` are the values of enclosing regions, and left as it was."""
    dominance = DominanceInfo(region) if len(region.blocks) > 1 else None
    for block in region.blocks:
        before = [b for b in region.blocks if dominance is not None and dominance.strictly_dominates(b, block)]
        added = [v for b in before for v in _values(b)] + list(block.args)
        visible.update(added)
        for op in block.ops:
            if not visible.issuperset(op.operands):
                raise op_error(op, "uses a value that is not defined before it")
            isolated = op.has_trait(IsolatedFromAbove)
            for inner in op.regions:
                _check_order(inner, set() if isolated else visible)
            visible.update(op.results)
        visible.difference_update(added, _values(block))


def _values(block: Block) -> list[SSAValue]:
    return [*block.args, *(result for op in block.ops for result in op.results)]
