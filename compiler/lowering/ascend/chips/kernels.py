"""Whether a chip has a kernel for an operation: by the row of its library that has the operation's element types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.ascend import AscendOp, CastOp
from ....dialects.ascend.base import data_type_number
from ....dialects.nn import constant_of, set_type
from ....dialects.nn.base import integer
from ....dialects.nn.shapes import element_of, shape_of, tensor
from ....rewriting import Refusal, Remarks
from ....session import Session
from ....transforms.quantization.options import CHIPS
from . import Operator, library

RULE = "chip-kernel"

_OF_CONSTANTS = {
    "Conv2DTranspose": ("Conv2DTransposeD", "input_size"),
    "Conv2DBackpropInput": ("Conv2DBackpropInputD", "input_size"),
    "ConcatV2": ("ConcatD", "concat_dim"),
    "StridedSliceV2": ("StridedSliceD", "begin"),
}
"""The operators that the graph compiler makes of others, and the operand that becomes an attribute if it is a constant."""
_PACKED = frozenset({"deq_scale", "req_scale"})
"""Operands that are float32 here and packed into uint64 in files."""


class Kernel(NamedTuple):
    """A kernel of a chip for an operation."""

    operator: str
    types: str
    """Element types of operands and results, as the chip computes them."""
    row: tuple[str, ...] | None
    """The row of the library; None where it is not known."""
    half: frozenset[str] = frozenset()
    """The ports that are float32 here and float16 on the chip, with a Cast between."""

    def __str__(self) -> str:
        return f"{self.operator} {self.types}{'' if self.row else ' (rows not known)'}"


def kernel_of(op: AscendOp, chip: str) -> Kernel | Refusal:
    """The kernel for an operation: one that takes its types, or float16 in place of float32; or why there is none."""
    name, types = op.name.removeprefix("ascend."), _types(op)
    other, operand = _OF_CONSTANTS.get(name, ("", ""))
    forms = (name, other) if operand and constant_of(getattr(op, operand)) is not None else (name,)
    names = [each for each in forms if each in library(chip)]
    known = {each: found for each in names if (found := library(chip)[each]) is not None}
    if not known and (reason := lacking(name, chip)) is not None:
        return Refusal(RULE, reason)
    for with_half in (False, True):
        for each, operator in known.items():
            for row in operator.rows or ():
                if (half := _halves(operator, row, types)) is not None and bool(half) == with_half:
                    on_chip = {port: "f16" if port in half else type_ for port, type_ in types.items()}
                    return Kernel(each, _text(op, on_chip), row, half)
    if not known or any(operator.rows is None for operator in known.values()):
        return Kernel(names[-1] if names else name, _text(op, types), None)
    return Refusal(RULE, f"chip {chip} has no {name} of {_text(op, types)}; rows: {'; '.join(_rows(known, types))}")


def lacking(operator: str, chip: str) -> str | None:
    """The reason why a chip has no kernel of an operator for any types: its library does not have it."""
    return f"chip {chip} has no {operator}" if library(chip).get(operator, operator) is None else None


def kernels(module: ModuleOp, chip: str) -> Iterator[tuple[AscendOp, Kernel | Refusal]]:
    """The kernels for the operations of a module, in order."""
    return ((op, kernel_of(op, chip)) for op in list(module.walk()) if isinstance(op, AscendOp))


def take_kernels(module: ModuleOp, session: Session, pass_name: str) -> list[tuple[AscendOp, Refusal]]:
    """Gives the operations of a module the types of the kernels of the session's chip, if there is one: float16, with a Cast
    on either side, where there is none of float32. Returns those without a kernel, which have remarks, and notes what is not
    known.
    """
    if (chip := session.chip) is None:
        return []
    if not library(chip):
        session.note(nothing_known(chip))
        return []
    found, remarks = list(kernels(module, chip)), Remarks(session, pass_name)
    unknown = dict.fromkeys(each.operator for _, each in found if isinstance(each, Kernel) and each.row is None)
    if unknown:
        session.note(f"chip {chip}: the element types of these operators are not known: {', '.join(unknown)}")
    for op, kernel in found:
        if isinstance(kernel, Refusal):
            remarks.missed(op, *kernel)
        elif kernel.half:
            _halve(op, kernel.half)
            remarks.applied(op, RULE, f"chip {chip} computes {kernel}")
    remarks.flush()
    return [(op, kernel) for op, kernel in found if isinstance(kernel, Refusal)]


def nothing_known(chip: str) -> str:
    """The note about a chip without data."""
    return f"chip {chip}: nothing is known about its kernels, so that no layer is refused for it"


def chips_without(operator: str, result: str) -> list[str]:
    """The chips of which it is known that no row of an operator has a result of this type."""
    found = {chip: library(chip).get(operator) for chip in CHIPS}
    return [chip for chip, each in found.items() if each and each.rows and all(row[-1] != result for row in each.rows)]


def _types(op: AscendOp) -> Mapping[str, str]:
    """The element types of ports by name, without absent ones, as a library has them."""
    definition = op.get_irdl_definition()
    values = {name: _values(op, name) for name, _ in (*definition.operands, *definition.results)}
    return {name: "ui64" if name in _PACKED else str(element_of(each[0])) for name, each in values.items() if each}


def _values(op: AscendOp, port: str) -> Sequence[SSAValue]:
    value = cast("SSAValue | Sequence[SSAValue] | None", getattr(op, port))
    return (value,) if isinstance(value, SSAValue) else value or ()


def _halves(operator: Operator, row: tuple[str, ...], types: Mapping[str, str]) -> frozenset[str] | None:
    """The ports of float32 that a row has in float16; None if it has other types. An absent port has any."""
    names = (port.rstrip("?[]") for port in (*operator.operands, *operator.results))
    pairs = [(port, types[port], wanted) for port, wanted in zip(names, row, strict=True) if port in types]
    other = {port for port, type_, wanted in pairs if type_ != wanted}
    halved = {port for port, type_, wanted in pairs if (type_, wanted) == ("f32", "f16")}
    return frozenset(halved) if other == halved else None


def _text(op: AscendOp, types: Mapping[str, str]) -> str:
    results = {name for name, _ in op.get_irdl_definition().results}
    sides = ([type_ for port, type_ in types.items() if (port in results) == of] for of in (False, True))
    return " -> ".join(" ".join(side) for side in sides)


def _rows(known: Mapping[str, Operator], types: Mapping[str, str]) -> list[str]:
    """The rows of operators, of the ports that an operation has, each once."""
    found: list[str] = []
    for each in known.values():
        names = [port.rstrip("?[]") for port in (*each.operands, *each.results)]
        given = len([port for port in names[: len(each.operands)] if port in types])
        for row in each.rows or ():
            own = [type_ for port, type_ in zip(names, row, strict=True) if port in types]
            found.append(f"{' '.join(own[:given])} -> {' '.join(own[given:])}")
    return list(dict.fromkeys(found))


def _halve(op: AscendOp, ports: frozenset[str]) -> None:
    """Makes ports of float32 float16, with a Cast on either side of the operation."""
    definition = op.get_irdl_definition()
    read = {value for name, _ in definition.operands if name in ports for value in _values(op, name)}
    for index, value in enumerate(op.operands):
        if value in read:
            op.operands[index] = _cast(op, value, InsertPoint.before(op), data_type_number(f16))
    if "dtype" in op.properties:
        op.properties["dtype"] = integer(data_type_number(f16))
    for result in [value for name, _ in definition.results if name in ports for value in _values(op, name)]:
        wide, hint = result.type, result.name_hint
        set_type(result, tensor(f16, shape_of(result)))
        uses = list(result.uses)
        back = _cast(op, result, InsertPoint.after(op), data_type_number(f32))
        set_type(back, wide)
        back.name_hint = hint
        for use in uses:
            use.operation.operands[use.index] = back


def _cast(op: AscendOp, value: SSAValue, at: InsertPoint, number: int) -> SSAValue:
    made = CastOp.make(value, dst_type=number, origin=op.origin, location=op.location)
    Rewriter.insert_op(made, at)
    return made.y
