"""Regions that a target runs as one operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, OpTraits, Region, SSAValue, Use
from xdsl.irdl import (
    IRDLOperation,
    Operand,
    VarOperand,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from ...ir.exact_text import parse_text
from .attributes import OriginAttr
from .base import ANY_TENSOR, NNOp, Result, operation
from .constant import ConstantOp
from .quantization import PointOp, ShiftAccumulatorOp

_TERMINATOR: OpTraits = traits_def(Pure(), IsTerminator())


@operation
class YieldOp(IRDLOperation):
    """Ends a fused region with its one result."""

    value: Operand = operand_def(ANY_TENSOR)
    traits = _TERMINATOR

    assembly_format: ClassVar[str | None] = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value])


_REGION: OpTraits = traits_def(Pure(), IsolatedFromAbove(), SingleBlockImplicitTerminator(YieldOp))


@operation
class FusedOp(IRDLOperation):
    """One operation for the target: a compute operation and its followers, like Horizon's `ConvAddReLU2d`.

    inputs of any shape, one result, that of the yield. The block uses only its arguments, and no quantization point exists
    inside: between its operations values keep full precision.

    ```mlir
    %y = nn.fused "ConvReLU2d" (%a = %x, %w = %weight) : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32> {
      %c = nn.conv %a, %w : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
      %r = nn.relu %c : tensor<1x4x6x6xf32>
      nn.yield %r : tensor<1x4x6x6xf32>
    }
    ```
    """

    inputs: VarOperand = var_operand_def(ANY_TENSOR)
    kind: StringAttr = prop_def(StringAttr)
    origin: OriginAttr | None = opt_prop_def(OriginAttr)
    body: Region = region_def("single_block")
    result: Result = result_def(ANY_TENSOR)

    traits = _REGION

    @staticmethod
    def of(kind: str, inputs: Sequence[SSAValue], body: Region) -> FusedOp:
        result = cast(YieldOp, body.block.last_op).value.type
        return FusedOp(
            operands=[list(inputs)], properties={"kind": StringAttr(kind)}, regions=[body], result_types=[result]
        )

    @property
    def terminator(self) -> YieldOp:
        return cast(YieldOp, self.body.block.last_op)

    def infer(self) -> Sequence[Tensor]:
        return [cast(Tensor, self.terminator.value.type)]

    def verify_(self) -> None:
        super().verify_()
        block = self.body.block
        if [a.type for a in block.args] != [v.type for v in self.inputs]:
            raise VerifyException("the block's arguments have other types than the inputs")
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("the block does not end in nn.yield")
        if self.terminator.value.type != self.result.type:
            raise VerifyException(f"yields {self.terminator.value.type}, its result is {self.result.type}")
        for op in block.ops:
            if isinstance(op, PointOp) and not isinstance(op, ShiftAccumulatorOp):
                raise VerifyException(f"holds the quantization point '{op.name}'")
            if not isinstance(op, NNOp | YieldOp):
                raise VerifyException(f"holds '{op.name}', only nn operations may be fused")

    @classmethod
    def parse(cls, parser: Parser) -> FusedOp:
        kind = StringAttr(parse_text(parser, "kind"))

        def binding() -> tuple[Parser.UnresolvedArgument, object]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            return argument, parser.parse_unresolved_operand()

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
        origin = None
        if parser.parse_optional_keyword("from") is not None:
            origin = OriginAttr.new(OriginAttr.parse_parameters(parser))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_function_type()
        if len(type_.inputs) != len(pairs) or len(type_.outputs) != 1:
            parser.raise_error(f"the type must have {len(pairs)} inputs and one output")
        arguments = [a.resolve(t) for (a, _), t in zip(pairs, type_.inputs, strict=True)]
        operands = [parser.resolve_operand(o, t) for (_, o), t in zip(pairs, type_.inputs, strict=True)]  # pyright: ignore[reportArgumentType]
        body = parser.parse_region(arguments)
        return FusedOp(
            operands=[operands],
            properties={"kind": kind, "origin": origin},
            attributes=attributes,
            regions=[body],
            result_types=[type_.outputs.data[0]],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.kind.data)
        printer.print_string(" (")
        pairs = list(zip(self.body.block.args, self.inputs, strict=True))

        def binding(pair: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(pair[0])
            printer.print_string(" = ")
            printer.print_ssa_value(pair[1])

        printer.print_list(pairs, binding)
        printer.print_string(")")
        if self.origin is not None:
            printer.print_string(" from ")
            self.origin.print_parameters(printer)
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(FunctionType.from_lists(self.operand_types, self.result_types))
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


def is_layer(op: Operation) -> bool:
    """Whether an operation is part of a layer: constants, quantization points, regions and ends of blocks are not."""
    return not isinstance(op, ConstantOp | PointOp | FusedOp | YieldOp | ReturnOp)


def outside(value: SSAValue) -> SSAValue:
    """The value outside all regions that is passed as this block argument; any other value unchanged."""
    while isinstance(value, BlockArgument) and isinstance(parent := value.block.parent_op(), FusedOp):
        value = parent.inputs[value.index]
    return value


def computed(value: SSAValue) -> SSAValue:
    """Follows a value out of the fused regions that take it, and into those that yield it, to the result of an
    operation or an argument of the function.
    """
    value = outside(value)
    while isinstance(region := value.owner, FusedOp):
        value = outside(region.terminator.value)
    return value


def uses_of(value: SSAValue) -> Iterator[Use]:
    """The operands that read a value. A fused region counts by its operations that read it, and a value that a region yields also
    by the readers of its result.
    """
    for use in value.uses:
        match use.operation:
            case FusedOp() as region:
                yield from uses_of(region.body.block.args[use.index])
            case YieldOp() as end if isinstance(region := end.parent_op(), FusedOp):
                yield from uses_of(region.result)
            case _:
                yield use


def single_block(arguments: Sequence[SSAValue]) -> Block:
    """An empty block with one argument per value, with its type and name."""
    block = Block(arg_types=[v.type for v in arguments])
    for argument, value in zip(block.args, arguments, strict=True):
        argument.name_hint = value.name_hint
    return block


__all__ = ["FusedOp", "YieldOp", "is_layer"]
