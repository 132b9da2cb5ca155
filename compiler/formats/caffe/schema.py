"""The part of Caffe's protobuf schema that is read and written, as tables of fields.

Numbers are those of BVLC's and OpenCV's schema. Above 144 forks number their layers' parameters differently, so what is not in
both is matched by its name in the prototxt only, and has a number of ours; a `.caffemodel` is read for names and weights alone.

Next to it stands what the files of AMCT hold: parameters of the layers Quant, AntiQuant and DeQuant, integer blobs. Their
names are those that AMCT's layers for Caffe and Ascend's converter read; their numbers are not public, and ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..protobuf import message_classes

Message = Any
"""A protobuf message, as declared by the tables."""

_OURS = 500_000
"""Numbers from here on are ours and occur in no file."""

FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "NetParameter": {
        "name": (1, "string"),
        "layers": (2, "repeated V1LayerParameter"),
        "input": (3, "repeated string"),
        "input_dim": (4, "repeated int32"),
        "force_backward": (5, "bool = false"),
        "state": (6, "NetState"),
        "debug_info": (7, "bool = false"),
        "input_shape": (8, "repeated BlobShape"),
        "layer": (100, "repeated LayerParameter"),
    },
    "NetState": {"phase": (1, "Phase = TEST"), "level": (2, "int32 = 0"), "stage": (3, "repeated string")},
    "NetStateRule": {
        "phase": (1, "Phase"),
        "min_level": (2, "int32"),
        "max_level": (3, "int32"),
        "stage": (4, "repeated string"),
        "not_stage": (5, "repeated string"),
    },
    "BlobShape": {"dim": (1, "packed int64")},
    "BlobProto": {
        "num": (1, "int32 = 0"),
        "channels": (2, "int32 = 0"),
        "height": (3, "int32 = 0"),
        "width": (4, "int32 = 0"),
        "data": (5, "packed float"),
        "diff": (6, "packed float"),
        "shape": (7, "BlobShape"),
        "double_data": (8, "packed double"),
        "double_diff": (9, "packed double"),
        "int8_data": (10, "bytes"),
        "int32_data": (11, "packed int32"),
        "uint64_data": (12, "packed uint64"),
    },
    "QuantParameter": {"scale": (1, "float"), "offset": (2, "bytes"), "with_offset": (3, "bool")},
    "DeQuantParameter": {"channel_wise": (1, "bool")},
    "FillerParameter": {
        "type": (1, "string = constant"),
        "value": (2, "float = 0"),
        "min": (3, "float = 0"),
        "max": (4, "float = 1"),
        "mean": (5, "float = 0"),
        "std": (6, "float = 1"),
        "sparse": (7, "int32 = -1"),
        "variance_norm": (8, "FillerParameter.VarianceNorm = FAN_IN"),
    },
    "ParamSpec": {
        "name": (1, "string"),
        "share_mode": (2, "ParamSpec.DimCheckMode"),
        "lr_mult": (3, "float = 1"),
        "decay_mult": (4, "float = 1"),
    },
    "LayerParameter": {
        "name": (1, "string"),
        "type": (2, "string"),
        "bottom": (3, "repeated string"),
        "top": (4, "repeated string"),
        "loss_weight": (5, "repeated float"),
        "param": (6, "repeated ParamSpec"),
        "blobs": (7, "repeated BlobProto"),
        "include": (8, "repeated NetStateRule"),
        "exclude": (9, "repeated NetStateRule"),
        "phase": (10, "Phase"),
        "propagate_down": (11, "repeated bool"),
        "argmax_param": (103, "ArgMaxParameter"),
        "concat_param": (104, "ConcatParameter"),
        "convolution_param": (106, "ConvolutionParameter"),
        "dropout_param": (108, "DropoutParameter"),
        "eltwise_param": (110, "EltwiseParameter"),
        "exp_param": (111, "ExpParameter"),
        "inner_product_param": (117, "InnerProductParameter"),
        "lrn_param": (118, "LRNParameter"),
        "pooling_param": (121, "PoolingParameter"),
        "power_param": (122, "PowerParameter"),
        "relu_param": (123, "ReLUParameter"),
        "sigmoid_param": (124, "SigmoidParameter"),
        "softmax_param": (125, "SoftmaxParameter"),
        "slice_param": (126, "SliceParameter"),
        "tanh_param": (127, "TanHParameter"),
        "threshold_param": (128, "ThresholdParameter"),
        "prelu_param": (131, "PReLUParameter"),
        "reshape_param": (133, "ReshapeParameter"),
        "log_param": (134, "LogParameter"),
        "flatten_param": (135, "FlattenParameter"),
        "reduction_param": (136, "ReductionParameter"),
        "batch_norm_param": (139, "BatchNormParameter"),
        "elu_param": (140, "ELUParameter"),
        "bias_param": (141, "BiasParameter"),
        "scale_param": (142, "ScaleParameter"),
        "input_param": (143, "InputParameter"),
        "crop_param": (144, "CropParameter"),
        "permute_param": (148, "PermuteParameter"),  # 148 in OpenCV, 202 in forks for SSD
        "clip_param": (_OURS + 1, "ClipParameter"),  # 148 in BVLC
        "interp_param": (_OURS + 2, "InterpParameter"),
        "upsample_param": (_OURS + 3, "UpsampleParameter"),
        "quant_param": (_OURS + 101, "QuantParameter"),
        "dequant_param": (_OURS + 102, "DeQuantParameter"),
    },
    "V1LayerParameter": {
        "layer": (1, "V0LayerParameter"),
        "bottom": (2, "repeated string"),
        "top": (3, "repeated string"),
        "name": (4, "string"),
        "type": (5, "V1LayerParameter.LayerType"),
        "blobs": (6, "repeated BlobProto"),
        "blobs_lr": (7, "repeated float"),
        "weight_decay": (8, "repeated float"),
        "concat_param": (9, "ConcatParameter"),
        "convolution_param": (10, "ConvolutionParameter"),
        "dropout_param": (12, "DropoutParameter"),
        "inner_product_param": (17, "InnerProductParameter"),
        "lrn_param": (18, "LRNParameter"),
        "pooling_param": (19, "PoolingParameter"),
        "power_param": (21, "PowerParameter"),
        "argmax_param": (23, "ArgMaxParameter"),
        "eltwise_param": (24, "EltwiseParameter"),
        "relu_param": (30, "ReLUParameter"),
        "threshold_param": (25, "ThresholdParameter"),
        "slice_param": (31, "SliceParameter"),
        "include": (32, "repeated NetStateRule"),
        "exclude": (33, "repeated NetStateRule"),
        "loss_weight": (35, "repeated float"),
        "tanh_param": (37, "TanHParameter"),
        "sigmoid_param": (38, "SigmoidParameter"),
        "softmax_param": (39, "SoftmaxParameter"),
        "exp_param": (41, "ExpParameter"),
        "param": (1001, "repeated string"),
    },
    "V0LayerParameter": {},
    "ArgMaxParameter": {
        "out_max_val": (1, "bool = false"),
        "top_k": (2, "uint32 = 1"),
        "axis": (3, "int32"),
    },
    "BatchNormParameter": {
        "use_global_stats": (1, "bool"),
        "moving_average_fraction": (2, "float = 0.999"),
        "eps": (3, "float = 1e-05"),
    },
    "BiasParameter": {
        "axis": (1, "int32 = 1"),
        "num_axes": (2, "int32 = 1"),
        "filler": (3, "FillerParameter"),
    },
    "ClipParameter": {"min": (1, "float"), "max": (2, "float")},
    "ConcatParameter": {"concat_dim": (1, "uint32 = 1"), "axis": (2, "int32 = 1")},
    "ConvolutionParameter": {
        "num_output": (1, "uint32"),
        "bias_term": (2, "bool = true"),
        "pad": (3, "repeated uint32"),
        "kernel_size": (4, "repeated uint32"),
        "group": (5, "uint32 = 1"),
        "stride": (6, "repeated uint32"),
        "weight_filler": (7, "FillerParameter"),
        "bias_filler": (8, "FillerParameter"),
        "pad_h": (9, "uint32 = 0"),
        "pad_w": (10, "uint32 = 0"),
        "kernel_h": (11, "uint32"),
        "kernel_w": (12, "uint32"),
        "stride_h": (13, "uint32"),
        "stride_w": (14, "uint32"),
        "engine": (15, "ConvolutionParameter.Engine = DEFAULT"),
        "axis": (16, "int32 = 1"),
        "force_nd_im2col": (17, "bool = false"),
        "dilation": (18, "repeated uint32"),
    },
    "CropParameter": {"axis": (1, "int32 = 2"), "offset": (2, "repeated uint32")},
    "DropoutParameter": {"dropout_ratio": (1, "float = 0.5"), "scale_train": (2, "bool = true")},
    "EltwiseParameter": {
        "operation": (1, "EltwiseParameter.EltwiseOp = SUM"),
        "coeff": (2, "repeated float"),
        "stable_prod_grad": (3, "bool = true"),
    },
    "ELUParameter": {"alpha": (1, "float = 1")},
    "ExpParameter": {"base": (1, "float = -1"), "scale": (2, "float = 1"), "shift": (3, "float = 0")},
    "FlattenParameter": {"axis": (1, "int32 = 1"), "end_axis": (2, "int32 = -1")},
    "InnerProductParameter": {
        "num_output": (1, "uint32"),
        "bias_term": (2, "bool = true"),
        "weight_filler": (3, "FillerParameter"),
        "bias_filler": (4, "FillerParameter"),
        "axis": (5, "int32 = 1"),
        "transpose": (6, "bool = false"),
    },
    "InputParameter": {"shape": (1, "repeated BlobShape")},
    "InterpParameter": {
        "height": (1, "int32 = 0"),
        "width": (2, "int32 = 0"),
        "zoom_factor": (3, "int32 = 1"),
        "shrink_factor": (4, "int32 = 1"),
        "pad_beg": (5, "int32 = 0"),
        "pad_end": (6, "int32 = 0"),
    },
    "LogParameter": {"base": (1, "float = -1"), "scale": (2, "float = 1"), "shift": (3, "float = 0")},
    "LRNParameter": {
        "local_size": (1, "uint32 = 5"),
        "alpha": (2, "float = 1"),
        "beta": (3, "float = 0.75"),
        "norm_region": (4, "LRNParameter.NormRegion = ACROSS_CHANNELS"),
        "k": (5, "float = 1"),
        "engine": (6, "LRNParameter.Engine = DEFAULT"),
    },
    "PermuteParameter": {"order": (1, "repeated uint32")},
    "PoolingParameter": {
        "pool": (1, "PoolingParameter.PoolMethod = MAX"),
        "kernel_size": (2, "uint32"),
        "stride": (3, "uint32 = 1"),
        "pad": (4, "uint32 = 0"),
        "kernel_h": (5, "uint32"),
        "kernel_w": (6, "uint32"),
        "stride_h": (7, "uint32"),
        "stride_w": (8, "uint32"),
        "pad_h": (9, "uint32 = 0"),
        "pad_w": (10, "uint32 = 0"),
        "engine": (11, "PoolingParameter.Engine = DEFAULT"),
        "global_pooling": (12, "bool = false"),
        "ceil_mode": (13, "bool = true"),  # OpenCV's; BVLC has round_mode here
        "round_mode": (_OURS, "PoolingParameter.RoundMode = CEIL"),
    },
    "PowerParameter": {"power": (1, "float = 1"), "scale": (2, "float = 1"), "shift": (3, "float = 0")},
    "ThresholdParameter": {"threshold": (1, "float = 0")},
    "PReLUParameter": {"filler": (1, "FillerParameter"), "channel_shared": (2, "bool = false")},
    "ReductionParameter": {
        "operation": (1, "ReductionParameter.ReductionOp = SUM"),
        "axis": (2, "int32 = 0"),
        "coeff": (3, "float = 1"),
    },
    "ReLUParameter": {"negative_slope": (1, "float = 0"), "engine": (2, "ReLUParameter.Engine = DEFAULT")},
    "ReshapeParameter": {"shape": (1, "BlobShape"), "axis": (2, "int32 = 0"), "num_axes": (3, "int32 = -1")},
    "ScaleParameter": {
        "axis": (1, "int32 = 1"),
        "num_axes": (2, "int32 = 1"),
        "filler": (3, "FillerParameter"),
        "bias_term": (4, "bool = false"),
        "bias_filler": (5, "FillerParameter"),
    },
    "SigmoidParameter": {"engine": (1, "SigmoidParameter.Engine = DEFAULT")},
    "SliceParameter": {
        "slice_dim": (1, "uint32 = 1"),
        "slice_point": (2, "repeated uint32"),
        "axis": (3, "int32 = 1"),
    },
    "SoftmaxParameter": {"engine": (1, "SoftmaxParameter.Engine = DEFAULT"), "axis": (2, "int32 = 1")},
    "TanHParameter": {"engine": (1, "TanHParameter.Engine = DEFAULT")},
    "UpsampleParameter": {
        "scale": (1, "int32 = 2"),
        "scale_h": (2, "int32"),
        "scale_w": (3, "int32"),
        "upsample_h": (4, "int32"),
        "upsample_w": (5, "int32"),
        "pad_out_h": (6, "bool = false"),
        "pad_out_w": (7, "bool = false"),
    },
}

_ENGINE = {"DEFAULT": 0, "CAFFE": 1, "CUDNN": 2}

ENUMS: dict[str, dict[str, int]] = {
    "Phase": {"TRAIN": 0, "TEST": 1},
    "FillerParameter.VarianceNorm": {"FAN_IN": 0, "FAN_OUT": 1, "AVERAGE": 2},
    "ParamSpec.DimCheckMode": {"STRICT": 0, "PERMISSIVE": 1},
    "EltwiseParameter.EltwiseOp": {"PROD": 0, "SUM": 1, "MAX": 2},
    "PoolingParameter.PoolMethod": {"MAX": 0, "AVE": 1, "STOCHASTIC": 2},
    "PoolingParameter.RoundMode": {"CEIL": 0, "FLOOR": 1},
    "LRNParameter.NormRegion": {"ACROSS_CHANNELS": 0, "WITHIN_CHANNEL": 1},
    "ReductionParameter.ReductionOp": {"SUM": 1, "ASUM": 2, "SUMSQ": 3, "MEAN": 4},
    **{f"{name}.Engine": _ENGINE for name, row in FIELDS.items() if "engine" in row},
    "V1LayerParameter.LayerType": {
        "NONE": 0,
        "ACCURACY": 1,
        "BNLL": 2,
        "CONCAT": 3,
        "CONVOLUTION": 4,
        "DATA": 5,
        "DROPOUT": 6,
        "EUCLIDEAN_LOSS": 7,
        "FLATTEN": 8,
        "HDF5_DATA": 9,
        "HDF5_OUTPUT": 10,
        "IM2COL": 11,
        "IMAGE_DATA": 12,
        "INFOGAIN_LOSS": 13,
        "INNER_PRODUCT": 14,
        "LRN": 15,
        "MULTINOMIAL_LOGISTIC_LOSS": 16,
        "POOLING": 17,
        "RELU": 18,
        "SIGMOID": 19,
        "SOFTMAX": 20,
        "SOFTMAX_LOSS": 21,
        "SPLIT": 22,
        "TANH": 23,
        "WINDOW_DATA": 24,
        "ELTWISE": 25,
        "POWER": 26,
        "SIGMOID_CROSS_ENTROPY_LOSS": 27,
        "HINGE_LOSS": 28,
        "MEMORY_DATA": 29,
        "ARGMAX": 30,
        "THRESHOLD": 31,
        "DUMMY_DATA": 32,
        "SLICE": 33,
        "MVN": 34,
        "ABSVAL": 35,
        "SILENCE": 36,
        "CONTRASTIVE_LOSS": 37,
        "EXP": 38,
        "DECONVOLUTION": 39,
    },
}

V1_TYPES = {
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "ELTWISE": "Eltwise",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "LRN": "LRN",
    "MVN": "MVN",
    "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
"""The names in `layer` of types of `layers`, if they are not simply the words capitalized."""

MESSAGES: dict[str, type[Message]] = message_classes("caffe", "proto2", FIELDS, ENUMS)

NetParameter: type[Message] = MESSAGES["NetParameter"]
LayerParameter: type[Message] = MESSAGES["LayerParameter"]
BlobProto: type[Message] = MESSAGES["BlobProto"]


def upgraded(old: Message) -> Message:
    """An entry of `layers` as one of `layer`: fields have the same names, types and shared parameters do not."""
    new = LayerParameter(type=_type_of(old))
    new.param.extend([MESSAGES["ParamSpec"](name=name) for name in old.param])
    for field, value in old.ListFields():
        if field.name in FIELDS["LayerParameter"] and field.name not in ("type", "param"):
            if hasattr(value, "extend"):
                getattr(new, field.name).extend(value)
            elif field.message_type is not None:
                getattr(new, field.name).CopyFrom(value)
            else:
                setattr(new, field.name, value)
    return new


def _type_of(old: Message) -> str:
    name = enum_name(old, "type")
    return V1_TYPES.get(name, "".join(word.capitalize() for word in name.split("_")))


def enum_name(message: Message, field: str) -> str:
    """The name of an enum field's value."""
    enum = message.DESCRIPTOR.fields_by_name[field].enum_type
    return enum.values_by_number[getattr(message, field)].name


def fill(message: Message, values: Mapping[str, object]) -> None:
    """Sets fields from Python values: messages from dictionaries, repeated fields from lists, enums by name.

    None, and a number that is the field's default, leave it out.
    """
    for name, value in values.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if isinstance(value, dict):
            fill(getattr(message, name), cast("dict[str, object]", value))
        elif isinstance(value, list | tuple):
            getattr(message, name).extend(value)
        elif field.enum_type is not None:
            setattr(message, name, field.enum_type.values_by_name[value].number)
        elif value is not None and not _is_default(field, value):
            setattr(message, name, value)


def _is_default(field: Message, value: object) -> bool:
    """OpenCV requires both `..._h` and `..._w`, or neither."""
    return field.has_default_value and value == field.default_value and not field.name.endswith(("_h", "_w"))
