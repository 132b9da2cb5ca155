"""The common parts of `nn` operations: one text form, one way to build them, result types inferred from operands.

Text form: `nn.name %operands keyword value ... from <origin> {attributes} : types`. Properties print as keyword and value in
the order of the class; defaults are left out. If all operands and results have the same type, it is printed once.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Self, TypeVar, cast

from xdsl.dialects.builtin import FunctionType, LocationAttr, TensorType, f32
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Operation, OpResult, OpTraits, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    IRDLOperation,
    OptOperandDef,
    VarOperandDef,
    VarOpResult,
    VarResultDef,
    base,
    irdl_op_definition,
    opt_prop_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.pattern_rewriter import RewritePattern
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from ...ir.name_hints import name_hint
from ...ir.undocumented import set_type
from ...support.registry import load
from .attributes import OriginAttr
from .permutations import Moved, Perm
from .plan import check_plan
from .properties import (
    BOOL as BOOL,
    DOUBLE as DOUBLE,
    FLAG as FLAG,
    INT as INT,
    INTS as INTS,
    REAL as REAL,
    TEXT as TEXT,
    Bool as Bool,
    Double as Double,
    Flag as Flag,
    Int as Int,
    Ints as Ints,
    Real as Real,
    Text as Text,
    attribute_of,
    double as double,
    integer as integer,
    ints as ints,
    parse_properties,
    print_properties,
    real as real,
)
from .shapes import check_sizes, compatible, shape_of

ANY_TENSOR: AttrConstraint[Tensor] = base(TensorType)
Result = OpResult[Tensor]
Results = VarOpResult[Tensor]

_Class = TypeVar("_Class")
_Kind = TypeVar("_Kind", bound="NNOp")
_Defined = TypeVar("_Defined", bound=IRDLOperation)

PURE: OpTraits = traits_def(Pure())
"""Named here because xDSL accepts no annotation on the field `traits`, and type checkers do not infer a call's type."""


class NNOp(IRDLOperation, HasCanonicalizationPatternsInterface, ABC):
    """Base of the value operations of `nn`: pure, with `origin`, inferred result types and the common text form."""

    traits = PURE

    origin: OriginAttr | None = opt_prop_def(OriginAttr)

    KEYWORDS: ClassVar[Mapping[str, str]] = {}
    """The keywords of properties in the text that differ from the properties' names."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        """The patterns of `--canonicalize`, for xDSL's own pass of that name."""
        return load(".transforms.canonicalization:patterns_of")(cls)

    KEEPS_SHAPE: ClassVar[bool] = False
    """Whether the result has the shape of operand 0."""

    @abstractmethod
    def infer(self) -> Sequence[Tensor]:
        """The result types that operands and properties imply, with `?` for unknown sizes.

        Raises VerifyException if the operands do not fit together.
        """

    def verify_(self) -> None:
        """Checks the operation as xDSL does, then `verify_operation`, then its plan."""
        super().verify_()
        self.verify_operation()
        check_plan(self)

    def verify_operation(self) -> None:
        """Checks that the declared result types are compatible with the inferred ones; subclasses check more."""
        types = self.infer()
        if len(types) != len(self.results):
            raise VerifyException(f"has {len(self.results)} results, its properties ask for {len(types)}")
        for i, (result, inferred) in enumerate(zip(self.results, types, strict=True)):
            if not compatible(cast(Tensor, result.type), inferred):
                which = f"result #{i}" if len(self.results) > 1 else "result"
                raise VerifyException(f"{which} is declared {result.type}, operands and properties give {inferred}")

    @property
    def is_passive(self) -> bool:
        """Whether the results contain only elements of operand 0, picked by their place or their order (a max pool).

        A monotone function of single elements, such as quantization by one scale, can be moved across such an operation.
        """
        return False

    @property
    def is_homogeneous(self) -> bool:
        """Whether a positive factor on operand 0, or on all that is moved, is one on the results."""
        return False

    @property
    def acts_by_sample(self) -> bool:
        """Whether sample i of the results depends only on sample i of the operands. Samples are the entries of axis 0 of
        every value that is not constant.
        """
        return any(shape_of(v) for v in self.operands[:1]) and self.axis_behind(0) == 0

    def axis_behind(self, axis: int) -> int | None:
        """The axis of the result whose entry i depends only on entry i of `axis`, as far as operand 0 is concerned;
        None if there is none.
        """
        return None

    def commuted(self, perm: Perm) -> Moved | None:
        """The way to compute the permuted results if the axes of its first data operand are permuted; None if there is none."""
        return None

    @classmethod
    def make(
        cls,
        *operands: SSAValue | Operation | Sequence[SSAValue] | None,
        location: LocationAttr | None = None,
        name: str | None = None,
        result_types: Sequence[Attribute] | None = None,
        **properties: Any,
    ) -> Self:
        """Build the operation from Python values: numbers, tuples, strings, booleans become the properties' attributes.

        None, and a value that equals the default, mean absent; trailing optional operands may be left out. Result types are
        inferred unless given. `name` becomes the name hint of the first result. Raises VerifyException like `infer`, and for
        given types with sizes that no tensor has.
        """
        definition = cls.get_irdl_definition()
        given: list[Any] = [*operands, *[None] * (len(definition.operands) - len(operands))]
        attributes = {key: attribute_of(cls, key, value) for key, value in properties.items()}
        types = [_PLACEHOLDER] * cls.result_count(attributes) if result_types is None else result_types
        for type_ in types:
            check_sizes(cast(Tensor, type_).get_shape())
        op = cls(operands=given, result_types=cls._grouped(types), properties=attributes)
        if result_types is None:
            try:
                inferred = op.infer()
            except VerifyException:
                op.drop_all_references()  # what was not built uses nothing
                raise
            for result, type_ in zip(op.results, inferred, strict=True):
                set_type(result, type_)
        if location is not None:
            op.location = location
        if name is not None and op.results:
            op.results[0].name_hint = name_hint(name)
        return op

    @classmethod
    def result_count(cls, properties: dict[str, Attribute | None]) -> int:
        """The number of results of an operation with these properties: those that it defines, unless overridden."""
        return len(cls.get_irdl_definition().results)

    def with_operands(self, *, result_type: Attribute | None = None, **operands: SSAValue | None) -> Self:
        """A copy with the named operands replaced; properties, attributes, location and origin are kept."""
        names = [name for name, _ in self.get_irdl_definition().operands]
        if unknown := set(operands) - set(names):
            raise ValueError(f"{self.name} has no operand {', '.join(sorted(unknown))}")
        values: list[SSAValue | Sequence[SSAValue] | None] = [operands.get(n, getattr(self, n)) for n in names]
        return rebuilt(self, _flat(values), self.result_types if result_type is None else [result_type])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        operands = operands or []
        if not _fits(cls, len(operands)):
            parser.raise_error(f"{len(operands)} operands do not fit '{cls.name}'", start, parser.pos)
        properties = parse_properties(cls, parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        types = _parse_types(parser, len(operands), cls.result_count(properties))
        if len(types.inputs) != len(operands):
            parser.raise_error(f"{len(types.inputs)} types for {len(operands)} operands", start, parser.pos)
        values = [parser.resolve_operand(o, t) for o, t in zip(operands, types.inputs, strict=True)]
        return cls.from_parts(values, list(types.outputs), properties, attributes)

    @classmethod
    def from_parts(
        cls,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: dict[str, Attribute | None],
        attributes: dict[str, Attribute],
    ) -> Self:
        """Build from a flat list of operands: optional ones are the last, at most one is variadic."""
        given = {key: value for key, value in properties.items() if value is not None}
        return cls.create(operands=operands, result_types=result_types, properties=given, attributes=attributes)

    @classmethod
    def _grouped(cls, result_types: Sequence[Attribute]) -> list[Any]:
        """Result types in xDSL's form: those of a variadic result are a list in the list."""
        definitions = cls.get_irdl_definition().results
        variadic = len(definitions) == 1 and isinstance(definitions[0][1], VarResultDef)
        return [list(result_types)] if variadic else list(result_types)

    def print(self, printer: Printer) -> None:
        """Prints operands, properties, attributes and types, as `parse` reads them."""
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        print_properties(self, printer)
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        types = (*self.operand_types, *self.result_types)
        if len(self.result_types) == 1 and self.operands and all(t == types[0] for t in types[1:]):
            printer.print_attribute(types[0])
        else:
            printer.print_attribute(FunctionType.from_lists(self.operand_types, self.result_types))


class MovingOp(NNOp):
    """Base of operations that move elements to places that do not depend on the elements."""

    @property
    def moved(self) -> Sequence[SSAValue]:
        """The operands whose elements are moved; the others are indices."""
        return self.operands[:1]

    @property
    def fill(self) -> float | None:
        """The number that is filled in next to the moved elements; None if none is."""
        return None

    @property
    def only_moves(self) -> bool:
        """Whether the results contain only moved elements, none that are filled in or computed."""
        return self.fill is None

    @property
    def overshoots(self) -> bool:
        """Whether results may lie outside of the range of the moved elements."""
        return self.fill is not None

    @property
    def is_passive(self) -> bool:
        return self.only_moves and len(self.moved) == 1

    @property
    def is_homogeneous(self) -> bool:
        return not self.fill


class HomogeneousOp(NNOp):
    """Base of operations for which a positive factor on operand 0 is one on the results."""

    @property
    def is_homogeneous(self) -> bool:
        return True


_PLACEHOLDER = TensorType(f32, ())


def rebuilt(op: _Kind, operands: Sequence[SSAValue], result_types: Sequence[Attribute], **properties: Any) -> _Kind:
    """A copy of an operation on these operands; properties given as Python values replace the old ones, None removes one.

    Attributes, location, origin and name hints stay.
    """
    changed = {name: attribute_of(type(op), name, value) for name, value in properties.items()}
    new = op.from_parts(operands, result_types, {**op.properties, **changed}, dict(op.attributes))
    new.location = op.location
    for result, old in zip(new.results, op.results, strict=True):
        result.name_hint = old.name_hint
    return new


def operation(cls: type[_Defined]) -> type[_Defined]:
    """Decorator that defines an operation of `nn`; its name follows from the class's, `nn.reduce_mean` from ReduceMeanOp, unless
    the class has one.
    """
    if "name" not in vars(cls):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__.removesuffix("Op"))
        cls.name = f"nn.{words.lower()}"
    return irdl_op_definition(cls)


def defined_in(family: ModuleType, base: type[_Class]) -> tuple[type[_Class], ...]:
    """The operations or attributes that a module defines, in order: the classes with a name."""
    return tuple(
        kind
        for kind in vars(family).values()
        if isinstance(kind, type)
        and issubclass(kind, base)
        and kind.__module__ == family.__name__
        and "name" in vars(kind)
    )


def _flat(operands: Sequence[SSAValue | Sequence[SSAValue] | None]) -> list[SSAValue]:
    """All operands in one list, without absent ones, variadic ones flattened."""
    flat: list[SSAValue] = []
    for each in operands:
        if isinstance(each, SSAValue):
            flat.append(each)
        elif each is not None:
            flat.extend(each)
    return flat


def _fits(op: type[NNOp], count: int) -> bool:
    """Whether an operation may have this many operands."""
    definitions = [definition for _, definition in op.get_irdl_definition().operands]
    least = sum(not isinstance(d, VarOperandDef) for d in definitions)
    unlimited = any(isinstance(d, VarOperandDef) and not isinstance(d, OptOperandDef) for d in definitions)
    return count >= least and (unlimited or count <= len(definitions))


def _parse_types(parser: Parser, operands: int, results: int) -> FunctionType:
    """A function type, or one type that all operands and the result have."""
    if (function := parser.parse_optional_function_type()) is not None:
        return function
    type_ = parser.parse_type()
    return FunctionType.from_lists([type_] * operands, [type_] * results)
