"""The field table against TensorFlow's own declarations, field by field."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from amct_opt.formats.tensorflow.schema import DATA_TYPES, FIELDS, MESSAGES, SavedModel

from ...frameworks import later

MODULES = {
    "framework": "attr_value function graph node_def op_def tensor tensor_shape tensor_slice versions",
    "protobuf": "meta_graph saved_model saver tensor_bundle",
}
"""Of `tensorflow.core`."""


def theirs(name: str) -> Any:
    outer, *inner = name.split(".")
    modules = [
        import_module(f"tensorflow.core.{k}.{name}_pb2") for k, names in MODULES.items() for name in names.split()
    ]
    (found,) = [m for m in modules if outer in m.DESCRIPTOR.message_types_by_name]
    descriptor = found.DESCRIPTOR.message_types_by_name[outer]
    for each in inner:
        descriptor = descriptor.nested_types_by_name[each]
    return descriptor


def described(field: Any) -> tuple[Any, ...]:
    """Everything that decides how a field is encoded and read."""
    target = field.message_type or field.enum_type
    entry = field.message_type if field.message_type and field.message_type.GetOptions().map_entry else None
    return (
        field.name,
        field.number,
        field.type,
        field.is_repeated,
        field.is_packed,
        field.containing_oneof.name if field.containing_oneof else "",
        target.full_name if target else "",
        [described(f) for f in entry.fields] if entry else [],
    )


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name: str) -> None:
    ours, full = MESSAGES[name].DESCRIPTOR, theirs(name)
    assert ours.full_name == full.full_name
    assert len(ours.fields) == len(FIELDS[name])
    for field in ours.fields:
        assert described(field) == described(full.fields_by_name[field.name])


def test_element_types() -> None:
    assert dict(import_module("tensorflow.core.framework.types_pb2").DataType.items()) == DATA_TYPES


def test_other_enums() -> None:
    for name in ("SaverDef.CheckpointFormatVersion", "BundleHeaderProto.Endianness"):
        message, _, enum = name.partition(".")
        ours, full = (d.enum_types_by_name[enum] for d in (MESSAGES[message].DESCRIPTOR, theirs(message)))
        assert {v.name: v.number for v in ours.values} == {v.name: v.number for v in full.values}


def test_fields_outside_the_table_do_not_matter() -> None:
    full = later("tensorflow.core.protobuf.saved_model_pb2.SavedModel")(saved_model_schema_version=1)
    graph = full.meta_graphs.add()
    graph.graph_def.node.add(name="x", op="Const").experimental_debug_info.original_node_names.append("y")
    graph.object_graph_def.nodes.add().variable.name = "v"
    graph.collection_def["c"].node_list.value.append("n")
    graph.meta_info_def.stripped_op_list.op.add(name="Const")
    ours = SavedModel.FromString(full.SerializeToString())
    assert ours.meta_graphs[0].graph_def.node[0].name == "x"
    assert ours.SerializeToString(deterministic=True) == full.SerializeToString(deterministic=True)
