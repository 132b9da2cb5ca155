"""Builds a module from a source graph: the values of names, and the place of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, LocationAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from ..dialects import nn
from ..dialects.nn.shapes import element_of
from ..ir.dtypes import Tensor, numpy_dtype
from ..rewriting import Refusal
from ..transforms.dead_code import erase_dead
from ..transforms.evaluation import HALF_WEIGHTS, evaluated, is_constant, widens_half
from ..transforms.partial_shapes import Dimension, PartialShapes

Array = np.ndarray[Any, np.dtype[Any]]

SHOWN_ELEMENTS = 1024
"""Most elements of a constant that shape inference sees, because it reads shapes, axes and the like from constants."""


@dataclass(eq=False)
class Constant:
    """A value known at import: an initializer or computed from initializers. Becomes `nn.constant` when first used."""

    key: str
    array: Array
    integers: Constant | None = None
    """The integers before a cast to these floats: a bias may be larger than the integers that floats represent."""
    _views: dict[tuple[str, tuple[int, ...]], Constant] = field(
        default_factory=dict[tuple[str, tuple[int, ...]], "Constant"], repr=False
    )

    def transposed(self, perm: Sequence[int]) -> Constant:
        """Transposes the constant once, so that arrays shared in the source stay shared."""
        order = tuple(perm)
        if order == tuple(range(len(order))):
            return self
        return self._view("transposed", order, lambda: np.ascontiguousarray(self.array.transpose(order)))

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """The constant in another shape, made once."""
        if (sizes := tuple(shape)) == self.array.shape:
            return self
        return self._view("reshaped", sizes, lambda: self.array.reshape(sizes))

    def _view(self, kind: str, how: tuple[int, ...], make: Callable[[], Array]) -> Constant:
        if (kind, how) not in self._views:
            self._views[kind, how] = Constant(self.key, make())
        return self._views[kind, how]


Binding = SSAValue | Constant
"""The value of a name of the source graph."""

Size = int | Dimension | None
"""An element of a shape: a number, the size of an axis of a value at run time, or something else."""

Converted = Binding | Sequence[Binding]
"""The values of a node's outputs, in order."""


class Unmapped(Exception):
    """Raised for a form of an operator that has no equivalent in `nn`; the message gives the reason.

    `types` are those of its results, if the converter knows them.
    """

    def __init__(self, reason: str, types: Sequence[Tensor] | None = None):
        super().__init__(reason)
        self.types = types


class Sink:
    """The place of new operations: constants first, in the order of their first use, then everything else."""

    def __init__(self) -> None:
        self.constants: list[Operation] = []
        self.body: list[nn.NNOp] = []
        self.shapes: PartialShapes = PartialShapes()
        self.kept: dict[Operation, Refusal] = {}
        """Operations on constants that stay, with reasons."""
        self.half_weights: bool = False
        self._made: dict[Constant, SSAValue] = {}
        self._constants: dict[SSAValue, Constant] = {}
        """The known contents of values that a conversion may pass on."""

    def value(self, binding: Binding) -> SSAValue:
        if not isinstance(binding, Constant):
            return binding
        if binding not in self._made:
            op = nn.ConstantOp.of(binding.array, binding.key)
            self.constants.append(op)
            self._made[binding] = op.result
            self._constants[op.result] = binding
        return self._made[binding]

    def constant_of(self, value: SSAValue) -> Constant | None:
        """The known contents of a value."""
        return self._constants.get(value)

    def attempt(self, convert: Callable[[], Converted]) -> tuple[list[Binding], list[nn.NNOp]]:
        """Runs a conversion; returns the values of its outputs and the emitted operations. Unmapped leaves nothing emitted."""
        mark = len(self.body)
        try:
            converted = convert()
        except Unmapped:
            for op in reversed(self.body[mark:]):
                op.erase()
            del self.body[mark:]
            raise
        results = [converted] if isinstance(converted, SSAValue | Constant) else list(converted)
        return results, self.body[mark:]

    def folded(self, emitted: Sequence[nn.NNOp]) -> dict[SSAValue, Array]:
        """The known results of these operations: they depend only on constants or on known sizes.

        `kept` collects the reasons why operations on constants stay. Raises CompileError if a result contradicts its type.
        """
        arrays: dict[SSAValue, Array] = {}
        for op in emitted:
            if all(r in self._constants for r in op.results):  # from a node inside the function that defines this one
                arrays.update((r, self._constants[r].array) for r in op.results)
            elif (sizes := self.shapes.visit(op)) is not None:
                arrays.update((r, _like(r, a)) for r, a in zip(op.results, sizes, strict=True))
            elif is_constant(op, arrays):
                results = evaluated(op, arrays)
                if isinstance(results, Refusal):
                    self.kept[op] = results
                elif results is not None:
                    self.half_weights |= widens_half(op)
                    arrays.update(zip(op.results, results, strict=True))
        return arrays

    def bindings(self, results: Sequence[Binding], emitted: Sequence[nn.NNOp], names: Sequence[str]) -> list[Binding]:
        """The values of a node's outputs, given what its conversion gave and emitted: a constant where the numbers are known.

        `names` are those of the outputs, for the constants that this makes; without one, the result's name is used.
        """
        arrays = self.folded(emitted)
        found: list[Binding] = []
        for i, result in enumerate(results):
            if isinstance(result, SSAValue) and result in arrays:
                name = "".join(names[i : i + 1]) or result.name_hint or "constant"
                self._constants[result] = Constant(name, arrays[result])
            found.append(self._constants.get(result, result) if isinstance(result, SSAValue) else result)
        return found

    def function(
        self,
        block: Block,
        results: Sequence[SSAValue],
        described: tuple[Sequence[DictionaryAttr], Sequence[DictionaryAttr]],
        location: LocationAttr,
    ) -> FuncOp:
        """`@main` with all operations that results depend on; `described` are the attributes of arguments and results."""
        block.add_ops([*self.constants, *self.body, ReturnOp(*results)])
        erase_dead(op for op in block.ops if op.results)
        function = FuncOp(
            "main",
            (list(block.arg_types), [r.type for r in results]),
            Region(block),
            arg_attrs=ArrayAttr(described[0]),
            res_attrs=ArrayAttr(described[1]),
        )
        function.location = location
        if self.half_weights:
            function.attributes[HALF_WEIGHTS] = UnitAttr()
        return function


def _like(value: SSAValue, array: Array) -> Array:
    """An array in the element type of a value."""
    return array.astype(numpy_dtype(element_of(value)), copy=False)
