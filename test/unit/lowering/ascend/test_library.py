"""The `ascend` dialect next to the operator library of a chip: what differs is marked, with its reason, in the chip's data.

AMCT_UPDATE=1 python -m pytest test/unit/lowering/ascend/test_library.py
"""

import json
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import groupby

import pytest
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, i1
from xdsl.irdl import OptOperandDef, VarOperandDef, VarResultDef

from amct_opt.dialects.ascend import OPERATIONS, AscendOp
from amct_opt.dialects.nn.attributes import RealsAttr, f32_text
from amct_opt.dialects.nn.properties import BOOL, INT, INTS, REAL, TEXT
from amct_opt.lowering.ascend.chips import Operator, library, marked

CHIP = "910b"
"""The chip whose library is known in full."""
KINDS = {BOOL: "bool", INT: "int", INTS: "listInt", REAL: "float", TEXT: "str"}
MARKS = {OptOperandDef: "?", VarOperandDef: "[]", VarResultDef: "[]"}
WORDS = {"": "required", "?": "optional", "[]": "any number", None: "none"}


def ports(names) -> dict[str, str]:
    """The marks of ports, by name."""
    return {each.rstrip("?[]"): each[len(each.rstrip("?[]")) :] for each in names}


def value(attribute) -> object:
    match attribute:
        case IntegerAttr(type=t):
            return bool(attribute.value.data) if t == i1 else attribute.value.data
        case FloatAttr():
            return pytest.approx(attribute.value.data, rel=1e-6)
        case StringAttr():
            return attribute.data
        case RealsAttr():
            return list(attribute.data)
        case DenseArrayBase():
            return list(attribute.get_values())
    raise TypeError(attribute)


def described(definition) -> tuple[str, object]:
    """Type and default of a property; a default of None for one that is required."""
    default = definition.default_value
    return KINDS.get(definition.constr, "listFloat"), None if default is None else value(default)


def differs(definition, text: str) -> str | None:
    """The difference between a property and an attribute of the library. A library that states no default has ours."""
    kind, default = described(definition)
    theirs, _, stated = text.partition(" = ")
    if kind != theirs.removesuffix("!"):
        return f"{kind} here, {theirs} in the library"
    if theirs.endswith("!"):
        return None if default is None else "has a default here, required in the library"
    if not stated or default == json.loads(stated):
        return None
    return f"{WORDS[''] if default is None else text_of(definition.default_value)} here, {stated} in the library"


def text_of(attribute) -> str:
    return f32_text(attribute.value.data) if isinstance(attribute, FloatAttr) else json.dumps(value(attribute))


def deviations(kind: type[AscendOp], known: Operator | None) -> Iterator[tuple[str, str]]:
    """What an operation has otherwise than the library's operator, by `Operator.name`."""
    name = kind.name.removeprefix("ascend.")
    if known is None:
        yield name, "only here"
        return
    definition = kind.get_irdl_definition()
    for ours, theirs in ((definition.operands, known.operands), (definition.results, known.results)):
        here, there = {port: MARKS.get(type(each), "") for port, each in ours}, ports(theirs)
        for port in dict.fromkeys([*here, *there]):
            if (mark := here.get(port)) != (other := there.get(port)):
                yield f"{name}.{port}", f"{WORDS[mark]} here, {WORDS[other]} in the library"
        order = [port for port in here if port in there]
        assert order == [port for port in there if port in here], f"{name}: its ports have another order"
    properties = {key: each for key, each in definition.properties.items() if key != "origin"}
    for key in dict.fromkeys([*properties, *known.attributes]):
        if key not in known.attributes or key not in properties:
            yield f"{name}.{key}", "only here" if key in properties else "only in the library"
        elif (text := differs(properties[key], known.attributes[key])) is not None:
            yield f"{name}.{key}", text


def all_deviations() -> list[tuple[str, str, str]]:
    """Name, difference and reason; the reason is empty where there is no mark."""
    known, reasons = library(CHIP), marked(CHIP)
    found = [pair for kind in OPERATIONS for pair in deviations(kind, known[kind.name.removeprefix("ascend.")])]
    reason = {name: next((reasons[each] for each in reasons if fnmatch(name, each)), "") for name, _ in found}
    return [(name, text, reason[name]) for name, text in found]


def test_every_operation_agrees_with_the_library_or_is_marked():
    assert [(name, text) for name, text, reason in all_deviations() if not reason] == []


def test_every_mark_is_of_a_deviation():
    names = [name for name, _, _ in all_deviations()]
    assert [mark for mark in marked(CHIP) if not any(fnmatch(name, mark) for name in names)] == []


def test_a_changed_default_is_a_deviation():
    """The comparison finds what it is for."""
    (kind,) = [each for each in OPERATIONS if each.name == "ascend.Elu"]
    known = library(CHIP)["Elu"]
    assert known is not None
    assert list(deviations(kind, known)) == []
    other = known._replace(operands=("x", "y?"), attributes={**known.attributes, "alpha": "float = 2.0"})
    assert [name for name, _ in deviations(kind, other)] == ["Elu.y", "Elu.alpha"]


def test_rows_have_a_type_for_each_port():
    for chip in (CHIP, "950"):
        for name, operator in library(chip).items():
            for row in (operator and operator.rows) or ():
                assert operator is not None
                assert len(row) == len(operator.operands) + len(operator.results), f"{chip}: {name}"


def table() -> str:
    """The deviations with one difference and one reason in one row, and how many have no mark."""
    found = sorted(all_deviations(), key=lambda each: (each[2], each[1]))
    rows = [
        f"| {', '.join(name for name, *_ in each)} | {text} | {reason} |"
        for (reason, text), each in groupby(found, key=lambda each: (each[2], each[1]))
    ]
    agree = len(OPERATIONS) - len({name.partition(".")[0] for name, *_ in found})
    unmarked = sum(not reason for *_, reason in found)
    head = (
        f"{agree} of {len(OPERATIONS)} operations agree. The others have {len(found)} deviations, "
        f"{unmarked} unmarked deviations among them."
    )
    return "\n".join([head, "", "| what | differs | reason |", "|---|---|---|", *rows])


def test_document_is_current(generated):
    generated("ascend.md", library=table())
