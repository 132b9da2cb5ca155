"""Operations of the source framework without a counterpart in `nn`: carried, not refused."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import SSAValue
from xdsl.irdl import VarOperand, base, opt_prop_def, prop_def, var_operand_def, var_result_def

from ...ir.dtypes import Tensor
from .attributes import GraphAttr
from .base import ANY_TENSOR, INT, INTS, TEXT, Int, Ints, NNOp, Results, Text, ints, operation

RANDOM = {
    "onnx": frozenset(
        {
            "Bernoulli",
            "Dropout",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        }
    ),
    "tensorflow": frozenset(
        {
            "AllCandidateSampler",
            "FractionalAvgPool",
            "FractionalMaxPool",
            "LearnedUnigramCandidateSampler",
            "LogUniformCandidateSampler",
            "Multinomial",
            "NonDeterministicInts",
            "ParameterizedTruncatedNormal",
            "RandomCrop",
            "RandomGamma",
            "RandomPoisson",
            "RandomPoissonV2",
            "RandomShuffle",
            "RandomStandardNormal",
            "RandomUniform",
            "RandomUniformInt",
            "RiscRandomUniform",
            "SampleDistortedBoundingBox",
            "SampleDistortedBoundingBoxV2",
            "ThreadUnsafeUnigramCandidateSampler",
            "TruncatedNormal",
            "UniformCandidateSampler",
        }
    ),
}
"""Operators, by framework, whose results differ from run to run. The seed of TensorFlow's Stateless operators is an input."""

QUANTIZING = {
    "onnx": frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}),
    "tensorflow": frozenset(
        {
            "Dequantize",
            "FakeQuantWithMinMaxArgs",
            "FakeQuantWithMinMaxVars",
            "FakeQuantWithMinMaxVarsPerChannel",
            "QuantizeAndDequantize",
            "QuantizeAndDequantizeV2",
            "QuantizeAndDequantizeV3",
            "QuantizeAndDequantizeV4",
            "QuantizeV2",
        }
    ),
}
"""Operators, by framework, that quantize or dequantize; those that `nn` cannot express are carried."""

_BOUNDED = {
    "onnx": frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"}),
    "tensorflow": frozenset({"ListDiff", "NonMaxSuppressionV3", "Unique", "UniqueV2", "Where"}),
}
"""Operators, by framework, whose result sizes depend on values, and grow no faster than the sizes of the inputs."""


@operation
class OpaqueOp(NNOp):
    """An operator of the source framework with its attributes, run by the framework's own reference.

    operands and results of any shape; the frontend infers the result types. If optional inputs are absent, `present` lists which
    inputs of the operator the operands are (1 present, 0 absent); `version` is its opset. It is exported unchanged to its own
    framework, an error in any other target, and never quantized.

    `attrs` contains numbers as i64 and f32, truth values as i1, texts as strings, element types as types, shapes as `#nn.shape`,
    tensors as those of `nn.constant`; lists of integers as `array<i64: ...>`, of floats as `#nn.reals`, all others in brackets.

    `graph` is for control flow (ONNX If, Loop, Scan): a model with the operator of type `op_type`, the graphs that it runs, and
    operators whose results have no type without it. The operands, including values that inner graphs capture, are the model's
    inputs; the results are its outputs. No pass looks inside.

    ```mlir
    %i = nn.opaque %x framework "onnx" op_type "NonZero" version 13 : (tensor<4xf32>) -> tensor<1x?xi64>
    %j = nn.opaque %x framework "tensorflow" op_type "Where" attrs {T = f32} : (tensor<4xf32>) -> tensor<?x1xi64>
    ```
    """

    inputs: VarOperand = var_operand_def(ANY_TENSOR)
    framework: Text = prop_def(TEXT)
    op_type: Text = prop_def(TEXT)
    domain: Text | None = opt_prop_def(TEXT)
    version: Int | None = opt_prop_def(INT)
    present: Ints | None = opt_prop_def(INTS)
    attrs: DictionaryAttr | None = opt_prop_def(base(DictionaryAttr))
    graph: GraphAttr | None = opt_prop_def(base(GraphAttr))
    outputs: Results = var_result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        return [cast(Tensor, t) for t in self.result_types]

    @property
    def is_random(self) -> bool:
        """Whether results differ from run to run."""
        return self._is_of(RANDOM)

    @property
    def quantizes(self) -> bool:
        """Whether it quantizes or dequantizes, including constants."""
        return self._is_of(QUANTIZING)

    @property
    def is_bounded(self) -> bool:
        """Whether results of unknown size are at most about as large as the operands."""
        return self._is_of(_BOUNDED)

    def _is_of(self, kinds: Mapping[str, Container[str]]) -> bool:
        return self.op_type.data in kinds.get(self.framework.data, ())

    def arguments(self) -> list[SSAValue | None]:
        """The operator's inputs in order, None for an absent one."""
        rest = iter(self.inputs)
        return [next(rest) if p else None for p in ints(self.present, (1,) * len(self.inputs))]


__all__ = ["QUANTIZING", "RANDOM", "OpaqueOp"]
