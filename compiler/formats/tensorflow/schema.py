"""The messages of TensorFlow's files: graphs, SavedModels and checkpoints, with the fields that are read."""

from __future__ import annotations

from typing import Any

from ..protobuf import Enums, Fields, message_classes

_TYPES = (
    "DT_INVALID", "DT_FLOAT", "DT_DOUBLE", "DT_INT32", "DT_UINT8", "DT_INT16", "DT_INT8", "DT_STRING", "DT_COMPLEX64", "DT_INT64",
    "DT_BOOL", "DT_QINT8", "DT_QUINT8", "DT_QINT32", "DT_BFLOAT16", "DT_QINT16", "DT_QUINT16", "DT_UINT16", "DT_COMPLEX128",
    "DT_HALF", "DT_RESOURCE", "DT_VARIANT", "DT_UINT32", "DT_UINT64", "DT_FLOAT8_E5M2", "DT_FLOAT8_E4M3FN", "DT_FLOAT8_E4M3FNUZ",
    "DT_FLOAT8_E4M3B11FNUZ", "DT_FLOAT8_E5M2FNUZ", "DT_INT4", "DT_UINT4", "DT_INT2", "DT_UINT2", "DT_FLOAT4_E2M1FN",
)  # fmt: skip
"""Element types in the order of their numbers."""

REFERENCE = 100
"""The offset of the number of a reference type from that of its type."""

DATA_TYPES: dict[str, int] = {
    **{name: number for number, name in enumerate(_TYPES)},
    **{f"{name}_REF": number + REFERENCE for number, name in enumerate(_TYPES) if number},
}
"""TensorFlow's element types by name."""

ENUMS: Enums = {
    "DataType": DATA_TYPES,
    "SaverDef.CheckpointFormatVersion": {"LEGACY": 0, "V1": 1, "V2": 2},
    "BundleHeaderProto.Endianness": {"LITTLE": 0, "BIG": 1},
}

FIELDS: Fields = {
    "TensorShapeProto": {"dim": (2, "repeated TensorShapeProto.Dim"), "unknown_rank": (3, "bool")},
    "TensorShapeProto.Dim": {"size": (1, "int64"), "name": (2, "string")},
    "TensorProto": {
        "dtype": (1, "DataType"),
        "tensor_shape": (2, "TensorShapeProto"),
        "version_number": (3, "int32"),
        "tensor_content": (4, "bytes"),
        "float_val": (5, "packed float"),
        "double_val": (6, "packed double"),
        "int_val": (7, "packed int32"),
        "string_val": (8, "repeated bytes"),
        "scomplex_val": (9, "packed float"),
        "int64_val": (10, "packed int64"),
        "bool_val": (11, "packed bool"),
        "dcomplex_val": (12, "packed double"),
        "half_val": (13, "packed int32"),
        "uint32_val": (16, "packed uint32"),
        "uint64_val": (17, "packed uint64"),
        "float8_val": (18, "bytes"),
    },
    "AttrValue": {
        "list": (1, "oneof value AttrValue.ListValue"),
        "s": (2, "oneof value bytes"),
        "i": (3, "oneof value int64"),
        "f": (4, "oneof value float"),
        "b": (5, "oneof value bool"),
        "type": (6, "oneof value DataType"),
        "shape": (7, "oneof value TensorShapeProto"),
        "tensor": (8, "oneof value TensorProto"),
        "placeholder": (9, "oneof value string"),
        "func": (10, "oneof value NameAttrList"),
    },
    "AttrValue.ListValue": {
        "s": (2, "repeated bytes"),
        "i": (3, "packed int64"),
        "f": (4, "packed float"),
        "b": (5, "packed bool"),
        "type": (6, "packed DataType"),
        "shape": (7, "repeated TensorShapeProto"),
        "tensor": (8, "repeated TensorProto"),
        "func": (9, "repeated NameAttrList"),
    },
    "NameAttrList": {"name": (1, "string"), "attr": (2, "map<string, AttrValue>")},
    "NodeDef": {
        "name": (1, "string"),
        "op": (2, "string"),
        "input": (3, "repeated string"),
        "device": (4, "string"),
        "attr": (5, "map<string, AttrValue>"),
    },
    "OpDef": {
        "name": (1, "string"),
        "input_arg": (2, "repeated OpDef.ArgDef"),
        "output_arg": (3, "repeated OpDef.ArgDef"),
        "attr": (4, "repeated OpDef.AttrDef"),
        "is_stateful": (17, "bool"),
        "control_output": (20, "repeated string"),
    },
    "OpDef.ArgDef": {
        "name": (1, "string"),
        "type": (3, "DataType"),
        "type_attr": (4, "string"),
        "number_attr": (5, "string"),
        "type_list_attr": (6, "string"),
        "is_ref": (16, "bool"),
    },
    "OpDef.AttrDef": {"name": (1, "string"), "type": (2, "string"), "default_value": (3, "AttrValue")},
    "FunctionDef": {
        "signature": (1, "OpDef"),
        "node_def": (3, "repeated NodeDef"),
        "ret": (4, "map<string, string>"),
        "attr": (5, "map<string, AttrValue>"),
        "control_ret": (6, "map<string, string>"),
        "arg_attr": (7, "map<uint32, FunctionDef.ArgAttrs>"),
    },
    "FunctionDef.ArgAttrs": {"attr": (1, "map<string, AttrValue>")},
    "FunctionDefLibrary": {"function": (1, "repeated FunctionDef")},
    "VersionDef": {"producer": (1, "int32"), "min_consumer": (2, "int32"), "bad_consumers": (3, "repeated int32")},
    "GraphDef": {
        "node": (1, "repeated NodeDef"),
        "library": (2, "FunctionDefLibrary"),
        "version": (3, "int32"),
        "versions": (4, "VersionDef"),
    },
    "TensorInfo": {
        "name": (1, "oneof encoding string"),
        "dtype": (2, "DataType"),
        "tensor_shape": (3, "TensorShapeProto"),
    },
    "SignatureDef": {
        "inputs": (1, "map<string, TensorInfo>"),
        "outputs": (2, "map<string, TensorInfo>"),
        "method_name": (3, "string"),
    },
    "SaverDef": {
        "filename_tensor_name": (1, "string"),
        "save_tensor_name": (2, "string"),
        "restore_op_name": (3, "string"),
        "version": (7, "SaverDef.CheckpointFormatVersion"),
    },
    "MetaGraphDef": {
        "meta_info_def": (1, "MetaGraphDef.MetaInfoDef"),
        "graph_def": (2, "GraphDef"),
        "saver_def": (3, "SaverDef"),
        "signature_def": (5, "map<string, SignatureDef>"),
    },
    "MetaGraphDef.MetaInfoDef": {"tags": (4, "repeated string"), "tensorflow_version": (5, "string")},
    "SavedModel": {"saved_model_schema_version": (1, "int64"), "meta_graphs": (2, "repeated MetaGraphDef")},
    "TensorSliceProto": {"extent": (1, "repeated TensorSliceProto.Extent")},
    "TensorSliceProto.Extent": {"start": (1, "int64"), "length": (2, "oneof has_length_hack int64")},
    "BundleHeaderProto": {
        "num_shards": (1, "int32"),
        "endianness": (2, "BundleHeaderProto.Endianness"),
        "version": (3, "VersionDef"),
    },
    "BundleEntryProto": {
        "dtype": (1, "DataType"),
        "shape": (2, "TensorShapeProto"),
        "shard_id": (3, "int32"),
        "offset": (4, "int64"),
        "size": (5, "int64"),
        "crc32c": (6, "fixed32"),
        "slices": (7, "repeated TensorSliceProto"),
    },
}
"""Declared in https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core, in framework/ and protobuf/."""

Message = Any
"""One of these messages."""

MESSAGES: dict[str, type[Message]] = message_classes("tensorflow", "proto3", FIELDS, ENUMS)

GraphDef: type[Message] = MESSAGES["GraphDef"]
SavedModel: type[Message] = MESSAGES["SavedModel"]
NodeDef: type[Message] = MESSAGES["NodeDef"]
TensorProto: type[Message] = MESSAGES["TensorProto"]
TensorShapeProto: type[Message] = MESSAGES["TensorShapeProto"]
BundleHeaderProto: type[Message] = MESSAGES["BundleHeaderProto"]
BundleEntryProto: type[Message] = MESSAGES["BundleEntryProto"]
