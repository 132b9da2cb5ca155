"""`--fuse-modules`: fuses only the named chains of layers (Horizon's and PyTorch's `fuse_modules`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects.nn import AddOp, BatchNormOp, BiasAddOp, NNOp, OpaqueOp, WeightedOp, constant_of
from ...ir.layer_names import LayerNames, has_lost_module, modules_of
from ...rewriting import FusionPattern, Remarks, erase_dead_constants, layer_of
from ...session import Session
from ...support.diagnostics import CompileError, describe
from ..dead_code import erase_dead
from .computing import COMPUTING, producer
from .fuse_activation.activations import KINDS, activation_of
from .fuse_activation.pattern import Rules
from .fuse_activation.patterns import FuseComputeActivation, FuseComputeResidual, FuseComputeResidualActivation
from .fuse_bias import FuseComputeAdd
from .fuse_bn.compute import FuseComputeBatchNorm
from .regions import in_region


@dataclass(frozen=True)
class FuseModulesPass(ModulePass):
    """Fuses chains of layers by name, by patterns of fuse-bn, fuse-bias and fuse-activation: folds the batch norm, puts residual
    add and activation into one operation.
    """

    name = "fuse-modules"
    positional = "chains"

    chains: str
    """`conv,bn,relu;conv2,bn2`: layers or PyTorch modules separated by commas, chains by semicolons."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chains = [[name.strip() for name in chain.split(",")] for chain in self.chains.split(";") if chain.strip()]
        _fuse(op, chains, Remarks(ctx, self.name))


def fuse_modules(module: ModuleOp, chains: Sequence[Sequence[str]], session: Session | None = None) -> None:
    """Fuse chains of layers, `[["conv", "bn", "relu"]]`, in place: compute, then batch norm, residual add and activation,
    any of which may be absent.

    A name is that of a source layer; or the path of its PyTorch module (`layer1.0.conv1`, and `1` for a child of a sequential
    model), which exporters write into metadata or into names; or the index of a node without a name in the file. What the
    exporter has already fused gets a remark. Any activation, and a residual add, is fused for any target, because the user
    names it. Raises CompileError for a chain that cannot be fused, with the link and the reason; earlier chains stay fused.
    """
    _fuse(module, chains, Remarks(Session() if session is None else session, FuseModulesPass.name))


def _fuse(module: ModuleOp, chains: Sequence[Sequence[str]], remarks: Remarks) -> None:
    if not chains:
        raise CompileError(f"--{FuseModulesPass.name} names no layers", hint="write conv,bn,relu;conv2,bn2")
    for chain in chains:
        _Chain(chain, LayerNames.of(module), remarks).fuse()
    erase_dead_constants(module)
    remarks.flush()


class _Chain:
    """A chain of names, followed from its first layer."""

    def __init__(self, names: Sequence[str], table: LayerNames, remarks: Remarks):
        self.names = names
        self.table = table
        self.remarks = remarks
        self.found = [(name, table.find(name)) for name in names]

    def fuse(self) -> None:
        """Folds the batch norms, then forms the region of the rest."""
        name, candidates = self.found[0]
        if not candidates:
            raise self._unknown(name)
        if len(self.found) == 1:
            raise self._error(name, candidates[0], "nothing follows that it could be fused with")
        if self._is_one_region():
            self.remarks.note(candidates[0], "already-fused", f"{','.join(self.names)} is one operation already")
        else:
            self._fuse_from(self._compute())

    def _is_one_region(self) -> bool:
        owners = {op.parent_op() for _, ops in self.found for op in ops}
        return len(owners) == 1 and in_region(self.found[0][1][0])

    def _compute(self) -> WeightedOp:
        """The computing operation at the start of the chain, with the bias that its module adds to the result."""
        name, candidates = self.found[0]
        computing = [op for op in candidates if isinstance(op, COMPUTING)]
        if len(computing) > 1:
            raise self._error(name, computing[0], f"it is {self._several(name, computing)}: name one of them")
        if not computing:
            first = candidates[0]
            reason = f"a chain starts with a convolution or matrix product, not '{_kind(first)}'"
            raise self._error(name, first, reason)
        compute = computing[0]
        bias = next((op for op in candidates if isinstance(op, AddOp) and _adds_constant(op, compute)), None)
        return compute if bias is None else self._folded(FuseComputeAdd(self.remarks), compute, name, bias)

    def _several(self, name: str, computing: Sequence[NNOp]) -> str:
        layers = ", ".join(map(layer_of, computing))
        calls = len(self.table.calls(name))
        return f"a module that is called {calls} times, as {layers}" if calls else layers

    def _fuse_from(self, compute: WeightedOp) -> None:
        current: NNOp = compute
        add: AddOp | None = None
        for i, (name, candidates) in enumerate(self.found[1:], 1):
            if i == 1 and self._is_exported_folded(compute, name, candidates):
                continue
            op = self._link(current, i, candidates)
            match op:
                case BatchNormOp() if current is compute:
                    current = compute = self._folded(FuseComputeBatchNorm(self.remarks), compute, name, op)
                case AddOp() if current is compute:
                    current = add = op
                case _ if activation_of(op) is not None:
                    self._form(compute, add, i, op)
                    return
                case _:
                    reason = f"no fusion of '{_kind(op)}' with what comes before it is known"
                    raise self._error(name, op, reason)
        if add is not None:
            self._apply(FuseComputeResidual(self.remarks, _rules(compute)), self.names[-1], add)

    def _is_exported_folded(self, compute: WeightedOp, name: str, candidates: Sequence[NNOp]) -> bool:
        """Whether the exporter has folded a module into the computing operation; a remark says so.

        If it has dropped the module's name, any sibling of the computing module that is not in the file is accepted.
        """
        if compute in candidates:
            self.remarks.note(compute, "already-fused", f"the exporter has folded {name} into it")
            return True
        modules = modules_of(compute)
        if candidates or not has_lost_module(compute) or _parent(name) != _parent(modules[0]):
            return False
        reason = (
            f"the file has no {name}: the exporter has computed the weight, as it does to fold a batch norm into it"
        )
        self.remarks.note(compute, "already-fused", reason)
        return True

    def _link(self, before: NNOp, i: int, candidates: Sequence[NNOp]) -> NNOp:
        """The operation among those of name i that reads the result of the previous one."""
        name = self.names[i]
        others = self.table.numbered(name) if candidates else _functional_adds(before, name)
        for op in (*reversed(candidates), *others):  # the last operation represents an activation in small operations
            activation = activation_of(op)
            values = [*op.operands] if activation is None else [activation.input]
            if any(_comes_from(v, before) for v in values):
                if isinstance(op, OpaqueOp):
                    raise self._opaque(name, op)
                return op
        if not candidates:
            raise self._unknown(name)
        op = candidates[-1]
        source = f"its input comes from {producer(op.operands[0])}" if op.operands else "it has no input"
        raise self._error(name, op, f"it does not take the result of {self.names[i - 1]}: {source}")

    def _folded(self, pattern: FusionPattern[Any], compute: WeightedOp, name: str, op: NNOp) -> WeightedOp:
        """The computing operation with a batch norm or a bias folded into it."""
        after = op.next_op
        before = [v.owner for v in op.operands if isinstance(v.owner, Operation)]
        self._apply(pattern, name, op)
        erase_dead(list(dict.fromkeys([compute, *before])))
        assert after is not None, "a terminator comes after"
        return cast(WeightedOp, after.prev_op)

    def _form(self, compute: WeightedOp, add: AddOp | None, i: int, activation: NNOp) -> None:
        """The region that ends in the activation of name i."""
        if rest := self.found[i + 1 :]:
            name, candidates = rest[0]
            raise self._error(name, candidates[-1], f"nothing is fused after the activation {self.names[i]}")
        pattern = FuseComputeActivation if add is None else FuseComputeResidualActivation
        self._apply(pattern(self.remarks, _rules(compute)), self.names[i], activation)

    def _apply(self, pattern: FusionPattern[Any], name: str, op: NNOp) -> None:
        """Applies a pattern to one operation. Raises CompileError with the failing condition."""
        rewriter = PatternRewriter(op)
        pattern.match_and_rewrite(op, rewriter)
        if not rewriter.has_done_action:
            reasons = [f"{remark.reason} ({remark.rule})" for remark in self.remarks.of(op)]
            raise self._error(name, op, "; ".join(reasons) or "it is already inside a fused region")

    def _opaque(self, name: str, op: OpaqueOp) -> CompileError:
        if op.op_type.data == "BatchNormalization" and _in_training(op):
            reason = "it is a batch norm in training mode, which computes the statistics of its batch"
            return self._error(name, op, reason, "export the model in evaluation mode (model.eval())")
        return self._error(name, op, f"'{op.op_type.data}' is carried as it is: what it computes is unknown")

    def _unknown(self, name: str) -> CompileError:
        message = f"--{FuseModulesPass.name}: no layer or module is called '{name}'"
        return CompileError(message, hint=self.table.hint(name))

    def _error(self, name: str, op: Operation, reason: str, hint: str = "") -> CompileError:
        message = f"--{FuseModulesPass.name} cannot fuse {','.join(self.names)} at {name}: {reason}"
        return CompileError(message, where=describe(op.location), hint=hint)


def _rules(compute: WeightedOp) -> Rules:
    """The rules for layers named by the user: every activation is allowed, but only this computing operation."""
    return replace(Rules.of("a chain by name", KINDS, True), compute=compute)


def _comes_from(value: SSAValue, op: Operation) -> bool:
    """Whether a value is the result of `op`, or of the BiasAdd after it."""
    if isinstance(value.owner, BiasAddOp):
        value = value.owner.input
    return value.owner is op


def _adds_constant(op: AddOp, compute: WeightedOp) -> bool:
    """Whether an addition adds a constant to the result of a computing operation."""
    values = (op.lhs, op.rhs)
    return compute.result in values and any(constant_of(v) is not None for v in values)


def _functional_adds(before: NNOp, name: str) -> list[NNOp]:
    """The additions that `name` may mean if no module has that name: `skip_add` or `skip_add.add` of a FloatFunctional.

    Exporters write it as an addition of the enclosing module; it is used if it is the only one that reads the value.
    """
    around = {_parent(name), _parent(_parent(name))}
    users = dict.fromkeys(use.operation for use in before.results[0].uses)
    adds = [op for op in users if isinstance(op, AddOp) and around.intersection(modules_of(op) or ("",))]
    return [*adds] if len(adds) == 1 else []


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _in_training(op: OpaqueOp) -> bool:
    """Whether it is in training mode: `training_mode` (ONNX opset 14), or more than one result (before)."""
    mode = None if op.attrs is None else op.attrs.data.get("training_mode")
    return (isinstance(mode, IntegerAttr) and mode.value.data != 0) or len(op.results) > 1


def _kind(op: NNOp) -> str:
    return op.op_type.data if isinstance(op, OpaqueOp) else op.name
