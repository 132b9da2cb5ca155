"""Sites of quantization: a compute operation, alone or inside a fused region, and its operands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp
from xdsl.ir import BlockArgument, OpResult, SSAValue

from ....dialects.nn import (
    FusedOp,
    MatMulOp,
    MulOp,
    NNOp,
    ObserveOp,
    OriginAttr,
    ShiftAccumulatorOp,
    before_points,
    constant_of,
)
from ....dialects.nn.shapes import element_of
from ....ir.functions import main_function, other_functions
from ....rewriting import Remarks
from ...evaluation import HALF_WEIGHTS

BALANCER = "DMQBalancer"
"""The origin type of the balancing products."""
FACTORS = "nn.factors"
"""The attribute of a balancing product that keeps its factors, float32 [channels]: their reciprocals are rounded."""
ROUNDED_FROM = "nn.rounded_from"
"""The attribute of a layer that keeps its weight from before `--round-weights`, which `--correct-bias` compares with."""


@dataclass(frozen=True)
class Site:
    """`compute` is the operation that is quantized, `owner` the operation in the graph: itself, or its fused region."""

    owner: NNOp | FusedOp
    compute: NNOp
    half_precision: bool
    """Whether the model contains float16 or bfloat16 values."""
    softmax_only: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool], compare=False, repr=False)
    """Whether only Softmax reads a value (`softmax-input`), as far as it is known; shared by all sites that are listed together.
    """
    two_inputs: bool = field(default=False, compare=False, repr=False)
    """Whether the profile quantizes both operands if both are activations."""

    def slot(self, index: int) -> int | None:
        """The index of `compute`'s operand in `owner`'s operands; None if it is absent or computed inside the region."""
        if index >= len(self.compute.operands):
            return None
        if self.owner is self.compute:
            return index
        value = self.compute.operands[index]
        return value.index if isinstance(value, BlockArgument) else None

    def operand(self, index: int) -> SSAValue | None:
        """The value outside the region that feeds `compute`'s operand."""
        slot = self.slot(index)
        return None if slot is None else self.owner.operands[slot]

    @property
    def activation(self) -> SSAValue | None:
        return self.operand(0)

    @property
    def multiplies_inputs(self) -> bool:
        """Whether it is a matrix product (or what a row with `two_inputs` is for) of two activations: the second operand is
        computed as well (attention).
        """
        if not (self.two_inputs or isinstance(self.compute, MatMulOp)) or len(self.compute.operands) < 2:
            return False
        value: SSAValue = self.compute.operands[1] if (outer := self.operand(1)) is None else outer
        return constant_of(before_points(value)) is None

    @property
    def inputs(self) -> tuple[int, ...]:
        """The operands that are activations: the first one, or both for a product of two activations."""
        return (0, 1) if self.multiplies_inputs else (0,)

    def set_operand(self, index: int, value: SSAValue) -> None:
        """Feed another value of the same type to `compute`'s operand, and to no other operation of the region."""
        slot = self.slot(index)
        assert slot is not None, "the operand is computed inside the region"
        if isinstance(self.owner, FusedOp) and not self.compute.operands[index].has_one_use():
            slot = len(self.owner.inputs)
            self.compute.operands[index] = self.owner.body.block.insert_arg(value.type, slot)
            self.owner.operands = [*self.owner.inputs, value]
        self.owner.operands[slot] = value


class _Inputs(Protocol):
    """A row of a profile."""

    @property
    def two_inputs(self) -> bool: ...


def sites(module: ModuleOp, kinds: Iterable[type[NNOp]] | Mapping[type[NNOp], _Inputs]) -> list[Site]:
    """Lists every operation of these kinds in the graph, in program order, including those inside fused regions."""
    wanted = tuple(kinds)
    rows: Mapping[type[NNOp], _Inputs] = cast("Any", kinds) if isinstance(kinds, Mapping) else {}
    paired = {kind for kind, row in rows.items() if row.two_inputs}
    half = has_half_precision(module)
    found: list[Site] = []
    softmax_only: dict[SSAValue, bool] = {}
    for op in main_function(module).body.block.ops:
        if isinstance(op, FusedOp):
            inside = (inner for inner in op.body.block.ops if isinstance(inner, wanted))
            found.extend(Site(op, inner, half, softmax_only, type(inner) in paired) for inner in inside)
        elif isinstance(op, wanted):
            found.append(Site(op, op, half, softmax_only, type(op) in paired))
    return found


def graph_points(module: ModuleOp) -> list[ObserveOp]:
    """The observers in the graph, in program order."""
    return [op for op in main_function(module).walk() if isinstance(op, ObserveOp)]


def note_other_functions(module: ModuleOp, remarks: Remarks, kind: type[NNOp] = NNOp) -> None:
    """Adds a missed remark for each other function with such operations: only the graph is quantized, because it has the data."""
    graph = main_function(module).sym_name.data
    for function in other_functions(module):
        if any(isinstance(op, kind) for op in function.walk()):
            remarks.missed(function, "graph", f"it stays as it is: only the graph, @{graph}, is quantized")


def has_half_precision(module: ModuleOp) -> bool:
    """Whether the module contains float16 or bfloat16 values, or did before its weights were folded."""
    if HALF_WEIGHTS in main_function(module).attributes:
        return True
    results = (
        v for op in module.walk() for v in op.results if isinstance(op, NNOp | FusedOp) or op.name == "nn.constant"
    )
    values = (*main_function(module).body.block.args, *results)
    return any(isinstance(element_of(v), Float16Type | BFloat16Type) for v in values)


def balancer_of(site: Site) -> MulOp | None:
    """The product that balances a layer's input, which may be observed or quantized."""
    value = None if site.activation is None else before_points(site.activation)
    if not isinstance(value, OpResult) or not isinstance(op := value.op, MulOp):
        return None
    return op if isinstance(op.origin, OriginAttr) and op.origin.op_type.data == BALANCER else None


def shift_of(compute: NNOp) -> ShiftAccumulatorOp | None:
    """The operation that shifts a layer's sums."""
    users = (use.operation for use in compute.results[0].uses)
    return next((op for op in users if isinstance(op, ShiftAccumulatorOp)), None)
