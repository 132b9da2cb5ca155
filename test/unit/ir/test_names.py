"""Names with any characters, and locations, survive the text."""

from typing import Any, cast

import pytest
from xdsl.dialects.builtin import ArrayAttr, FileLineColLoc, FusedLoc, ModuleOp, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Operation

from amct_opt.dialects import nn
from amct_opt.ir.functions import dimension_names, input_names, main_function, output_names
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.unique_names import Names
from amct_opt.rewriting import fused_location
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import describe

NAMES = [
    "conv1", "layer1/conv:0", "层", "ünïcode é", 'quo"te', "back\\slash", "new\nline\ttab", "", "\u202ertl",
    "\x00\x7f", "😀", "#1<>{}", "a\\22b",
]  # fmt: skip
forms = pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])


def parse(text: str) -> ModuleOp:
    return parse_module(new_session(), text, "net.mlir")


def roundtrip(module: ModuleOp, generic: bool, locations: bool = False) -> ModuleOp:
    text = module_text(module, generic=generic, locations=locations)
    again = parse(text)
    assert module_text(again, generic=generic, locations=locations) == text
    return again


def ops(module: ModuleOp, cls: type[Operation]) -> list[Operation]:
    return [op for op in module.walk() if isinstance(op, cls)]


@forms
@pytest.mark.parametrize("name", NAMES)
def test_any_name(name: str, generic: bool) -> None:
    quoted = StringAttr(name)
    attributes = f", {{{quoted} = {quoted}}}" if name else ""
    module = parse(f"""
        func.func @main(%x: tensor<?x2xf32> {{nn.name = {quoted}, nn.dims = [{quoted}, ""]}})
            -> (tensor<?x2xf32> {{nn.name = {quoted}}}) {{
          %o = nn.observe %x as {quoted} by "min-max" group {quoted} from <onnx, {quoted}, {quoted}{attributes}>
            : tensor<?x2xf32> loc({quoted}("net.onnx":0:0))
          %y = nn.opaque %o framework "onnx" op_type {quoted} : (tensor<?x2xf32>) -> tensor<?x2xf32>
          func.return %y : tensor<?x2xf32>
        }}
        """)
    again = roundtrip(module, generic, locations=True)
    function = main_function(again)
    assert input_names(function) == [name]
    assert output_names(function) == [name]
    assert function.arg_attrs is not None
    assert dimension_names(function.arg_attrs.data[0]) == [name, ""]
    (observe,) = ops(again, nn.ObserveOp)
    assert isinstance(observe, nn.ObserveOp)
    assert observe.origin is not None
    assert observe.group is not None
    assert (observe.point.data, observe.group.data) == (name, name)
    assert (observe.origin.op_type.data, observe.origin.layer.data) == (name, name)
    assert observe.origin.attributes.data == ({name: StringAttr(name)} if name else {})
    assert isinstance(observe.location, NameLoc)
    assert observe.location.desc.data == name


def test_names_are_readable() -> None:
    module = parse('%c = nn.constant #nn.external<"\\E5\\B1\\82 \\22x\\22 \\0A", tensor<1xi8>, "0x00">')
    assert r'#nn.external<"层 \"x\" \0A"' in module_text(module)


def test_bytes_that_are_no_text_stay_bytes() -> None:
    module = parse('builtin.module attributes {raw = "\\FF\\00"} {}')
    assert r'raw = "\FF\00"' in module_text(module)


LOCATIONS = [
    ("unknown", "<unknown location>"),
    ('"net.onnx":0:0', "net.onnx"),
    ('"a b.mlir":3:14', "a b.mlir:3:14"),
    ('"conv1"', "node 'conv1'"),
    ('"conv1"("net.onnx":0:0)', "net.onnx: node 'conv1'"),
    ('"outer"("inner"("net.onnx":0:0))', "net.onnx: node 'inner': node 'outer'"),
    ('fused["conv1"("net.onnx":0:0), "bn1"("net.onnx":0:0)]', "net.onnx: node 'conv1' + net.onnx: node 'bn1'"),
    ('fused["层", fused["a", "b":1:2]]', "node '层' + node 'a' + b:1:2"),
    ('callsite("callee" at "caller")', "node 'callee'"),
]


@forms
@pytest.mark.parametrize(("text", "description"), LOCATIONS)
def test_locations(text: str, description: str, generic: bool) -> None:
    module = parse(f"%c = nn.constant dense<1> : tensor<1xi8> loc({text})")
    (constant,) = ops(roundtrip(module, generic, locations=True), nn.ConstantOp)
    assert f"loc({text})" in module_text(module, locations=True)
    assert describe(constant.location) == description


def test_an_operation_without_location_gets_its_place() -> None:
    module = parse("func.func @main() {\n\n  %c = nn.constant dense<1> : tensor<1xi8>\n  func.return }")
    (constant,) = ops(module, nn.ConstantOp)
    assert isinstance(constant.location, FileLineColLoc)
    assert describe(constant.location) == "net.mlir:3:3"


def test_fused_locations_of_one_place_are_named_once() -> None:
    module = parse('%c = nn.constant dense<1> : tensor<1xi8> loc(fused["a", "a"])')
    (constant,) = ops(module, nn.ConstantOp)
    assert isinstance(constant.location, FusedLoc)
    assert describe(constant.location) == "node 'a'"


def test_a_location_of_many_places_is_a_tree() -> None:
    """Each of 2,000 places is added by copying at most 32 parts of each depth; all are named, in order, after parsing as well."""
    module = parse("%c = nn.constant dense<1> : tensor<1xi8>")
    (constant,), (other,) = ops(module, nn.ConstantOp), ops(module.clone(), nn.ConstantOp)
    constant.location, names = UnknownLoc(), [f"l{i}" for i in range(2000)]
    for name in names:
        other.location = NameLoc(StringAttr(name), UnknownLoc())
        constant.location = fused_location(constant, other, other)
        places = constant.location
        assert not isinstance(places, FusedLoc) or len(cast(ArrayAttr[Any], places.locations)) <= 3 * 32
    constant.location = fused_location(constant, constant)
    (read,) = ops(roundtrip(module, generic=False, locations=True), nn.ConstantOp)
    assert describe(constant.location) == describe(read.location) == " + ".join(f"node '{name}'" for name in names)


def test_equal_names_are_numbered_on() -> None:
    """A thousand equal names take a thousand attempts, not one for each pair."""
    attempts = 0

    class Wanted(str):
        def __format__(self, _: str) -> str:
            nonlocal attempts
            attempts += 1
            return str(self)

    names = Names(["t_2"])
    given = [names.unique(Wanted("t")) for _ in range(1000)]
    assert given == ["t", "t_1", *(f"t_{i}" for i in range(3, 1001))]
    assert attempts == 1000
