"""The fields of AMCT's simplified configuration, the flavours that have them, and their counterparts in settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ..formats.protobuf import Fields, message_classes
from .settings import HFMG, IFMR, Ada, Arq, Nuq, Weighting

FIELDS: Fields = {
    "AMCTConfig": {
        "batch_num": (1, "uint32 = 1"),
        "activation_offset": (2, "bool = true"),
        "joint_quant": (3, "bool = false"),
        "version": (4, "int32 = 1"),
        "enable_auto_nuq": (5, "bool = false"),
        "nuq_config": (6, "NuqConfig"),
        "skip_layers": (10, "repeated string"),
        "skip_layer_types": (11, "repeated string"),
        "skip_approximation_layers": (12, "repeated string"),
        "fakequant_precision_mode": (21, "FakequantPrecisionMode"),
        "tensor_quantize": (40, "repeated TensorQuantize"),
        "common_config": (50, "CalibrationConfig"),
        "override_layer_types": (51, "repeated OverrideLayerType"),
        "override_layer_configs": (100, "repeated OverrideLayer"),
        "do_fusion": (200, "bool = true"),
        "skip_fusion_layers": (201, "repeated string"),
    },
    "OverrideLayerType": {"layer_type": (1, "string"), "calibration_config": (2, "CalibrationConfig")},
    "OverrideLayer": {"layer_name": (1, "string"), "calibration_config": (2, "CalibrationConfig")},
    "CalibrationConfig": {
        "weight_compress_only": (1, "bool = false"),
        "arq_quantize": (13, "oneof wts_quant_algo ARQuantize"),
        "nuq_quantize": (14, "oneof wts_quant_algo NUQuantize"),
        "ada_quantize": (15, "oneof wts_quant_algo ADAquantize"),
        "ifmr_quantize": (100, "oneof acts_quant_algo FMRQuantize"),
        "hfmg_quantize": (101, "oneof acts_quant_algo HFMGQuantize"),
        "dmq_balancer": (200, "DMQBalancer"),
    },
    "ARQuantize": {"channel_wise": (1, "bool"), "asymmetric": (2, "bool"), "quant_bits": (10, "uint32 = 8")},
    "NUQuantize": {
        "num_steps": (1, "uint32 = 32"),
        "num_of_iteration": (2, "uint32 = 1"),
        "channel_wise": (10, "bool"),
    },
    "ADAquantize": {
        "num_iteration": (1, "uint32 = 10000"),
        "reg_param": (2, "float = 0.01"),
        "beta_range_start": (3, "float = 20"),
        "beta_range_end": (4, "float = 2"),
        "warm_start": (5, "float = 0.2"),
        "channel_wise": (10, "bool"),
    },
    "FMRQuantize": {
        "search_range_start": (1, "float = 0.7"),
        "search_range_end": (2, "float = 1.3"),
        "search_step": (3, "float = 0.01"),
        "max_percentile": (4, "float = 0.999999"),
        "min_percentile": (5, "float = 0.999999"),
        "asymmetric": (6, "bool"),
        "dst_type": (10, "CalibrationDataType = INT8"),
    },
    "HFMGQuantize": {
        "num_of_bins": (1, "uint32 = 4096"),
        "asymmetric": (2, "bool"),
        "dst_type": (10, "CalibrationDataType = INT8"),
    },
    "DMQBalancer": {"migration_strength": (1, "float = 0.5")},
    "NuqConfig": {"mapping_file": (1, "string"), "nuq_quantize": (2, "NUQuantize")},
    "TensorQuantize": {
        "layer_name": (1, "string"),
        "input_index": (2, "uint32"),
        "ifmr_quantize": (100, "oneof acts_quant_algo FMRQuantize"),
        "hfmg_quantize": (101, "oneof acts_quant_algo HFMGQuantize"),
    },
}
"""Fields by message. Numbers are those of AMCT's schema for PyTorch; fields of other flavours have free numbers, which
text never contains.
"""

ENUMS = {"FakequantPrecisionMode": {"FORCE_FP16_QUANT": 1}, "CalibrationDataType": {"INT8": 1, "INT16": 2}}

FLAVOURS = ("pytorch", "onnx", "tensorflow", "caffe", "graph")
"""`graph` is ATC's, for models of any framework."""

ONLY_IN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("AMCTConfig", "joint_quant"): ("onnx", "tensorflow", "graph"),
    ("AMCTConfig", "version"): ("graph",),
    ("AMCTConfig", "enable_auto_nuq"): ("graph",),
    ("AMCTConfig", "nuq_config"): ("pytorch", "onnx", "tensorflow", "caffe"),
    ("AMCTConfig", "fakequant_precision_mode"): ("pytorch", "onnx", "tensorflow"),
    ("AMCTConfig", "skip_approximation_layers"): ("tensorflow",),
    ("AMCTConfig", "tensor_quantize"): ("onnx", "tensorflow", "graph"),
    ("CalibrationConfig", "ada_quantize"): ("pytorch",),
    ("CalibrationConfig", "weight_compress_only"): ("graph",),
    ("ARQuantize", "asymmetric"): ("graph",),
}
"""Fields that not all flavours have."""

ALGORITHMS = {"ifmr_quantize": IFMR, "hfmg_quantize": HFMG}
BITS = {1: 8, 2: 16}
"""Bit widths by number of CalibrationDataType."""
WEIGHTS: Mapping[str, type[Weighting]] = {"arq_quantize": Arq, "nuq_quantize": Nuq, "ada_quantize": Ada}
PLAIN = (
    "batch_num",
    "activation_offset",
    "joint_quant",
    "version",
    "enable_auto_nuq",
    "skip_layers",
    "skip_layer_types",
    "skip_approximation_layers",
    "do_fusion",
    "skip_fusion_layers",
)
"""Fields that settings have unchanged, under the same name."""


@cache
def classes() -> dict[str, type[Any]]:
    """The classes of the messages, by name."""
    return message_classes("amct.configuration", "proto2", FIELDS, ENUMS)
