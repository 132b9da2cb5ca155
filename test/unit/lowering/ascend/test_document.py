"""docs/ascend.md holds the operations as they are; its tables are written from their classes:

AMCT_UPDATE=1 python -m pytest test/unit/lowering/ascend/test_document.py
"""

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, i1
from xdsl.irdl import OptOperandDef, VarOperandDef, VarResultDef

from amct_opt.dialects.ascend import OPERATIONS, AscendOp, CubeOp
from amct_opt.dialects.nn.attributes import RealsAttr, f32_text, reals_text


def default(attribute) -> str:
    match attribute:
        case None:
            return "!"
        case IntegerAttr(type=t) if t == i1:
            return f"={'true' if attribute.value.data else 'false'}"
        case IntegerAttr():
            return f"={attribute.value.data}"
        case FloatAttr():
            return f"={f32_text(attribute.value.data)}"
        case StringAttr():
            return f'="{attribute.data}"'
        case RealsAttr():
            return f"={reals_text(attribute.data)}"
        case DenseArrayBase():
            return f"=[{', '.join(map(str, attribute.get_values()))}]"
    raise TypeError(attribute)


def mark(definition) -> str:
    return {OptOperandDef: "?", VarOperandDef: "[]", VarResultDef: "[]"}.get(type(definition), "")


def types(op: type[AscendOp]) -> str:
    sets = {name: " ".join(map(str, each)) for name, each in op.TYPES.items()}
    if issubclass(op, CubeOp):
        pairs = ((x if row.weight is None else f"{x} by {row.weight}", row.y) for x, row in op.ROWS.items())
        sets["rows"] = ", ".join(f"{operands} → {'/'.join(map(str, y))}" for operands, y in pairs)
    if len(set(sets.values())) == 1 and len(sets) > 1:
        return next(iter(sets.values()))
    return "; ".join(f"{name}: {each}" if len(sets) > 1 else each for name, each in sets.items())


def operations() -> str:
    lines = ["| operation | operands → results | attributes (`!` required) | element types |", "|---|---|---|---|"]
    for op in OPERATIONS:
        definition = op.get_irdl_definition()
        operands = ", ".join(f"{name}{mark(each)}" for name, each in definition.operands)
        results = ", ".join(f"{name}{mark(each)}" for name, each in definition.results)
        properties = {name: each for name, each in definition.properties.items() if name != "origin"}
        attributes = ", ".join(f"`{name}{default(each.default_value)}`" for name, each in properties.items())
        name = op.name.removeprefix("ascend.") + (" \\*" if op.DEVIATION else "")
        lines.append(f"| {name} | {operands} → {results} | {attributes} | {types(op)} |")
    return "\n".join(lines)


def deviations() -> str:
    rows = [f"| {op.name.removeprefix('ascend.')} | {op.DEVIATION} |" for op in OPERATIONS if op.DEVIATION]
    return "\n".join(["| operation | here, other than in the header |", "|---|---|", *rows])


def test_document_is_current(generated):
    generated("ascend.md", operations=operations(), deviations=deviations())


def test_every_operation_can_be_run():
    """An operation without a kernel would fail only when a model uses it."""
    from amct_opt.dialects.ascend import EXPANDED
    from amct_opt.runtime.kernels.ascend import OWN_KERNELS

    assert all(op.has_meaning() + (op in OWN_KERNELS) + (op in EXPANDED) == 1 for op in OPERATIONS)


def test_every_nn_operation_is_lowered():
    """But what is carried, points without parameters, constants, the steps that others are lowered with, and floats of 8 and 4
    bits, which Ascend's profiles refuse.
    """
    from amct_opt.dialects import nn
    from amct_opt.lowering.ascend.lower import LAYERS, Remaining, Row
    from amct_opt.lowering.ascend.rules import ROWS

    everywhere = [each for each in LAYERS if each not in (Row, Remaining) and not each.sources]
    taken = {root for each in everywhere for root in each.roots} | {op for op, source in ROWS if source is None}
    left = {op for op in nn.OPERATIONS if op not in taken}
    steps = {nn.ConstantOp, nn.QuantizeOp, nn.DequantizeOp, nn.FusedOp, nn.YieldOp}
    assert left - steps == {nn.OpaqueOp, nn.ObserveOp, nn.QuantizeFloatOp, nn.DequantizeFloatOp}
