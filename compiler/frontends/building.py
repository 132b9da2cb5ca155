"""Building a module from a source graph: what names stand for, and where the operations go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, LocationAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from ..dialects import nn
from ..dialects.nn.shapes import element_of, shape_of, size
from ..dtypes import Tensor, numpy_dtype
from ..rewriting import QUANTIZATION_OPS
from ..runtime.kernels import kernel_for
from ..transforms.dead_code import erase_dead
from ..transforms.partial_shapes import Dimension, PartialShapes

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(eq=False)
class Constant:
    """A value known at import: an initializer or something computed from such. Becomes `nn.constant` when first used."""

    key: str
    array: Array
    integers: Constant | None = None
    """What these floats were before a cast: a bias of integers may be larger than floats count."""
    _views: dict[tuple[str, tuple[int, ...]], Constant] = field(
        default_factory=dict[tuple[str, tuple[int, ...]], "Constant"], repr=False
    )

    def transposed(self, perm: Sequence[int]) -> Constant:
        """The same array with its axes in another order, made once: what is shared in the source stays shared."""
        order = tuple(perm)
        if order == tuple(range(len(order))):
            return self
        return self._view("transposed", order, lambda: np.ascontiguousarray(self.array.transpose(order)))

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """The same elements in another shape, made once."""
        if (sizes := tuple(shape)) == self.array.shape:
            return self
        return self._view("reshaped", sizes, lambda: self.array.reshape(sizes))

    def _view(self, kind: str, how: tuple[int, ...], make: Callable[[], Array]) -> Constant:
        if (kind, how) not in self._views:
            self._views[kind, how] = Constant(self.key, make())
        return self._views[kind, how]


Binding = SSAValue | Constant
"""What a name of the source graph stands for."""

Size = int | Dimension | None
"""An element of a shape: a number, the size of an axis of some value at run time, or anything else."""

Converted = Binding | Sequence[Binding]
"""What the outputs of a node stand for, in order."""


class Unmapped(Exception):
    """This form of an operator has no equivalent in `nn`; the message says why. The node is then carried.

    `types` are those of its results, where the converter knows them.
    """

    def __init__(self, reason: str, types: Sequence[Tensor] | None = None):
        super().__init__(reason)
        self.types = types


class Sink:
    """Where operations go: constants first, in the order of their first use, then everything else."""

    def __init__(self) -> None:
        self.constants: list[Operation] = []
        self.body: list[Operation] = []
        self.shapes: PartialShapes = PartialShapes()
        self._made: dict[Constant, SSAValue] = {}

    def value(self, binding: Binding) -> SSAValue:
        if not isinstance(binding, Constant):
            return binding
        if binding not in self._made:
            op = nn.ConstantOp.of(binding.array, binding.key)
            self.constants.append(op)
            self._made[binding] = op.result
        return self._made[binding]

    def attempt(self, convert: Callable[[], Converted]) -> tuple[list[Binding], list[Operation]]:
        """Run a conversion: what its outputs stand for, and what it emitted. Raises Unmapped with nothing emitted."""
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

    def known(self, emitted: Sequence[Operation], name: str) -> dict[SSAValue, Constant]:
        """Results of shape arithmetic that turn out to be known, though it reads values of run time."""
        arrays: dict[SSAValue, Array] = {}
        for op in emitted:
            if (results := self.shapes.visit(op)) is not None:
                arrays.update(zip(op.results, results, strict=True))
        return {r: Constant(r.name_hint or name, _like(r, a)) for r, a in arrays.items()}

    def folded(self, emitted: Sequence[Operation], name: str) -> dict[SSAValue, Constant]:
        """As `known`, and results of operations whose operands are all constants, computed by their own kernels."""
        arrays: dict[SSAValue, Array] = {}
        for op in emitted:
            if (results := self.shapes.visit(op) or evaluated(op, arrays)) is not None:
                arrays.update((r, _like(r, a)) for r, a in zip(op.results, results, strict=True))
        return {r: Constant(r.name_hint or name, a) for r, a in arrays.items()}

    def function(
        self,
        block: Block,
        results: Sequence[SSAValue],
        described: tuple[Sequence[DictionaryAttr], Sequence[DictionaryAttr]],
        location: LocationAttr,
    ) -> FuncOp:
        """`@main` with everything that results depend on; `described` are the attributes of arguments and of results."""
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
        return function


FOLDED_ELEMENTS = 1 << 24
"""Results of more elements are left to the program, unless they are smaller than what they are computed from."""


def evaluated(op: Operation, known: Mapping[SSAValue, Array]) -> Sequence[Array] | None:
    """What an operation on constants computes; `known` are values that are about to be constants. None where it must stay.

    Quantization is what later passes look for, so it stays visible, and carried operators are not run at import.
    """
    if isinstance(op, (*QUANTIZATION_OPS, nn.OpaqueOp)) or not all(
        o in known or nn.constant_of(o) for o in op.operands
    ):
        return None
    operands = [known[o] if o in known else cast(Array, nn.array_of(o)) for o in op.operands]
    counts = [size(shape_of(r)) for r in op.results]
    if min(counts) < 0 or sum(counts) > max([FOLDED_ELEMENTS, *(a.size for a in operands)]):
        return None
    if (kernel := kernel_for(op)) is None:
        return None
    try:
        result = kernel(*operands)
    except (ValueError, IndexError, MemoryError):
        return None
    several = isinstance(result, list | tuple)
    return [np.asarray(a) for a in (cast("Sequence[Array]", result) if several else [result])]


def _like(value: SSAValue, array: Array) -> Array:
    """An array in the element type of a value."""
    return array.astype(numpy_dtype(element_of(value)), copy=False)
