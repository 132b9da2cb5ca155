"""The only list of dialects, passes, frontends and targets, by reference: everything is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast

from xdsl.passes import ModulePass

from ..support.registry import References, Registry, load

DIALECTS = {
    "nn": ".dialects.nn:NN",
    "ascend": ".dialects.ascend:ASCEND",
    "quant": ".dialects.quant:QUANT",
}


Numbers = Literal["kept", "equal", "fused", "rounded", "quantized", "chosen"]
"""The promise of a pass about the numbers of a module, which `--check` verifies:

- `kept`: the module is not changed;
- `equal`: every value is equal to the bit;
- `fused`: within the rounding of float sums; equal to the bit if the pass reports nothing that it applied;
- `rounded`: within the rounding of float sums, and integers within what that makes of ties;
- `quantized`: values and weights are rounded to integers, each by half a step, and by more only where the integers end;
- `chosen`: other numbers, on purpose.
"""


class PassRow(NamedTuple):
    """A pass: the reference of its class, and a summary for --help, so that --help need not import passes."""

    reference: str
    summary: str
    numbers: Numbers = "rounded"


PASSES: Mapping[str, PassRow] = {
    "infer-shapes": PassRow(
        ".transforms.shape_inference:InferShapesPass",
        "refine result types from operands, as far as sizes are known",
        "equal",
    ),
    "fold-constants": PassRow(
        ".transforms.constant_folding:FoldConstantsPass",
        "evaluate what depends on constants only",
        "equal",
    ),
    "canonicalize": PassRow(
        ".transforms.canonicalization:CanonicalizePass",
        "cancel transposes and identities, move pads into windows, erase what is unused",
    ),
    "convert-layout": PassRow(
        ".transforms.convert_layout:ConvertLayoutPass",
        "rewrite to one layout (to=nchw or nhwc), transposes sunk and cancelled",
    ),
    "fuse-small-bn": PassRow(
        ".transforms.fusion.fuse_small_bn:FuseSmallBnPass",
        "turn batch norms written in small operations into nn.batch_norm",
        "fused",
    ),
    "fuse-bn": PassRow(
        ".transforms.fusion.fuse_bn:FuseBnPass",
        "fold batch norms into convolutions and matrix products",
        "fused",
    ),
    "fuse-mul": PassRow(
        ".transforms.fusion.fuse_mul:FuseMulPass",
        "fold constant factors into convolutions and matrix products",
        "fused",
    ),
    "fuse-bias": PassRow(
        ".transforms.fusion.fuse_bias:FuseBiasPass",
        "turn constants added after convolutions and matrix products into their bias",
        "fused",
    ),
    "fuse-activation": PassRow(
        ".transforms.fusion.fuse_activation:FuseActivationPass",
        "make one operation of a convolution, the residual add and the activation after it",
        "fused",
    ),
    "fuse-modules": PassRow(
        ".transforms.fusion.fuse_modules:FuseModulesPass",
        "fuse chains of layers by name: 'conv,bn,relu;conv2,bn2'",
        "fused",
    ),
    "merge-group-conv": PassRow(
        ".transforms.fusion.merge_group_conv:MergeGroupConvPass",
        "merge Split, convolutions and Concat into one grouped convolution",
        "fused",
    ),
    "lower-bn": PassRow(
        ".transforms.fusion.lower_bn:LowerBnPass",
        "turn the batch norms that are left into a product and a sum per channel",
    ),
    "fuse-all": PassRow(
        ".transforms.fusion.fuse_all:FuseAllPass",
        "every fusion, in its right order",
        "fused",
    ),
    "rotate": PassRow(
        ".transforms.quantization.recover.rotate:RotatePass",
        "multiply the residual stream and values of attention by Hadamard matrices that cancel out (QuaRot)",
    ),
    "equalize": PassRow(
        ".transforms.quantization.recover.equalize:EqualizePass",
        "even out channels between a layer and those that read it, by powers of two that cancel out",
    ),
    "insert-observers": PassRow(
        ".transforms.quantization.place.insert_observers:InsertObserversPass",
        "decide what is quantized and how, by target profile and configuration, and report why a layer is not",
        "equal",
    ),
    "balance-channels": PassRow(
        ".transforms.quantization.recover.balance_channels:BalanceChannelsPass",
        "divide outlier channels of inputs, multiply weights by the same (AMCT's DMQ)",
    ),
    "calibrate": PassRow(
        ".transforms.quantization.calibrate:CalibratePass",
        "run data through the model and fill in the observers' ranges",
        "equal",
    ),
    "fit-ranges": PassRow(
        ".transforms.quantization.recover.fit_ranges:FitRangesPass",
        "choose ranges of activations by what they make of the outputs of the layers that read them",
    ),
    "round-weights": PassRow(
        ".transforms.quantization.recover.round_weights:RoundWeightsPass",
        "choose the integers of weights by what they make of layers' outputs (GPTQ)",
        "chosen",
    ),
    "correct-bias": PassRow(
        ".transforms.quantization.recover.correct_bias:CorrectBiasPass",
        "add to biases what quantization shifts layers' outputs by",
        "chosen",
    ),
    "convert-observers": PassRow(
        ".transforms.quantization.convert.convert_observers:ConvertObserversPass",
        "turn calibrated observers into quantized weights and quantize/dequantize pairs",
        "quantized",
    ),
    "shift-accumulators": PassRow(
        ".transforms.quantization.convert.shift_accumulators:ShiftAccumulatorsPass",
        "keep 16 bits of quantized layers' sums, shifted right (AMCT's shift-N)",
        "chosen",
    ),
    "adapt-qat": PassRow(
        ".transforms.quantization.convert.adapt_qat:AdaptQatPass",
        "bring models of quantization-aware training into the form that is lowered and written",
        "quantized",
    ),
    "print-quant-points": PassRow(
        ".transforms.quantization.place.print_quant_points:PrintQuantPointsPass",
        "list layer, value, state and parameters of every quantization point",
        "kept",
    ),
    "quantize": PassRow(
        ".transforms.quantization.quantize:QuantizePass",
        "the whole quantization: decision, channel balancing if requested, calibration, conversion, shifts if requested",
        "quantized",
    ),
    "quantize-dynamic": PassRow(
        ".transforms.quantization.convert.quantize_dynamic:QuantizeDynamicPass",
        "products with int8 weights quantize their inputs in each run, by a scale for each row",
        "chosen",
    ),
    "quantize-cache": PassRow(
        ".transforms.quantization.convert.quantize_cache:QuantizeCachePass",
        "a decoder's cache goes in and out as the integers that attention reads",
        "chosen",
    ),
    "lower-to-ascend": PassRow(
        ".lowering.ascend:LowerToAscendPass",
        "nn to the ascend dialect, integer arithmetic explicit",
    ),
    "convert-to-linalg": PassRow(
        "amct_linalg.lowering:ConvertToLinalgPass",
        "nn and ascend to linalg, tensor, arith and math, which other compilers read",
    ),
    "fuse-requant": PassRow(
        ".lowering.ascend.fuse_requant:FuseRequantPass",
        "AscendDequant, Relu and AscendQuant in one step; Relu6 as Relu where that is exact",
    ),
    "legalize-ascend": PassRow(
        ".lowering.ascend:LegalizeAscendPass",
        "an error for each operation that is not of the ascend dialect or, with --chip, has no kernel",
        "chosen",
    ),
    "standard-to-nn": PassRow(
        ".transforms.standard_to_nn:StandardToNnPass",
        "arith, math and tensor operations and calls around nn as nn",
        "equal",
    ),
    "nn-to-quant": PassRow(
        ".transforms.nn_to_quant:NnToQuantPass",
        "nn.quantize and nn.dequantize as casts of MLIR's quant dialect",
        "equal",
    ),
    "quant-to-nn": PassRow(
        ".transforms.quant_to_nn:QuantToNnPass",
        "the way back from the quant dialect",
        "equal",
    ),
}
"""Passes by flag."""

SAVED_MODEL = ".pb"
"""The ending under which the format of a folder is registered."""

PIPELINES = {
    "fuse": "canonicalize,fuse-all",
    "deploy": "lower-to-ascend,fuse-requant,legalize-ascend",
}
"""Passes that are often run together, by their common name in pipelines."""

FRONTENDS = {
    ".mlir": ".frontends.mlir:read",
    ".mlirbc": ".frontends.mlir:read_bytecode",
    ".onnx": ".frontends.onnx:read",
    SAVED_MODEL: ".frontends.tensorflow:read",
    ".pbtxt": ".frontends.tensorflow:read",
    ".keras": ".frontends.tensorflow.keras:read",
    ".h5": ".frontends.tensorflow.keras:read",
    ".hdf5": ".frontends.tensorflow.keras:read",
    ".prototxt": ".frontends.caffe:read",
    ".caffemodel": ".frontends.caffe:read",
    ".pt2": ".frontends.torch:read",
}
"""Frontends by file ending: a function from path and session to a module."""

TARGETS = {
    "mlir": ".targets.mlir:MlirTarget",
    "onnx": ".targets.onnx:OnnxTarget",
    "onnx-ascend": ".targets.onnx_ascend:OnnxAscendTarget",
    "caffe": ".targets.caffe:CaffeTarget",
    "linalg": "amct_linalg.target:LinalgTarget",
    "ascendnpu-ir": "amct_linalg.ascendnpu_ir:AscendNpuIrTarget",
    "tosa": "amct_linalg.tosa:TosaTarget",
    "record": ".targets.record:RecordTarget",
    "scales": ".targets.scales:ScalesTarget",
    "fusion-info": ".targets.fusion_info:FusionInfoTarget",
    "tf-fakequant": ".targets.tensorflow:TfFakequantTarget",
    "tf-ascend": ".targets.tf_ascend:TfAscendTarget",
}
ENGINES = {
    "numpy": ".runtime.executor:interpreted",
    "iree": "amct_linalg.iree:IreeModule",
    "openvino": ".engines.in_openvino:in_openvino",
}
"""Engines by name: functions from module, session and watched values to a `Watched`."""
PROFILES = {
    "ascend": ".lowering.ascend.profiles:ASCEND",
    "ascend-a2": ".lowering.ascend.profiles:ASCEND_A2",
    "qdq": ".transforms.quantization.profiles:QDQ",
    "ppq": ".transforms.quantization.profiles:PPQ",
    "openvino": ".transforms.quantization.profiles:OPENVINO",
}
"""Target profiles."""
OTHER_PROFILES = {"cpu": "qdq", "onnxruntime": "qdq"}
"""Other names of profiles."""
OBSERVERS = ".observers:OBSERVERS"
"""The table of observers."""


def pass_named(name: str) -> type[ModulePass]:
    """Our pass of that name. Raises KeyError if there is none."""
    return cast("type[ModulePass]", load(PASSES[name].reference))


def passes() -> Registry[type[ModulePass]]:
    """Our passes."""
    return Registry("pass", "passes", lambda: References({name: row.reference for name, row in PASSES.items()}))
