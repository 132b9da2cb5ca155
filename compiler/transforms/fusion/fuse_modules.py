"""`--fuse-modules`: fuses the chains of layers that are named, and nothing else (Horizon's and PyTorch's `fuse_modules`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from ...diagnostics import CompileError, describe
from ...dialects.nn import AddOp, BatchNormOp, BiasAddOp, NNOp, OpaqueOp, OriginAttr
from ...rewriting import FusionPattern, Remarks, erase_dead_constants, layer_of
from ...session import Session
from ..dead_code import erase_dead
from .computing import COMPUTING, Computing
from .fuse_activation.activations import KINDS, activation_of
from .fuse_activation.compute_activation import FuseComputeActivation
from .fuse_activation.compute_residual import FuseComputeResidual
from .fuse_activation.compute_residual_activation import FuseComputeResidualActivation
from .fuse_activation.pattern import Rules
from .fuse_bn.compute import FuseComputeBatchNorm
from .fusion_pass import producer
from .regions import in_region

Layers = Mapping[str, Sequence[NNOp]]
"""Operations by a name, in program order."""


@dataclass(frozen=True)
class FuseModulesPass(ModulePass):
    """Fuse chains of layers by name: the batch norm is folded, residual add and activation go into one operation."""

    name = "fuse-modules"
    positional = "chains"

    chains: str
    """`conv,bn,relu;conv2,bn2`: names with commas between, chains with semicolons."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chains = [[name.strip() for name in chain.split(",")] for chain in self.chains.split(";") if chain.strip()]
        _fuse(op, chains, Remarks(ctx, self.name))


def fuse_modules(module: ModuleOp, chains: Sequence[Sequence[str]], session: Session | None = None) -> None:
    """Fuse chains of layers, `[["conv", "bn", "relu"]]`, in place: compute, then batch norm, residual add and activation,
    of which any may be absent.

    A name is that of a source layer; or its module path, as exporters write it into names (`layer1.0.conv1` is
    `/layer1/layer1.0/conv1/Conv`), which for a child of a sequential model is its index (`1` is `/1/Conv`); or the index of a
    node that has no name in the file. Any activation, and a residual add, is fused whatever the target: by naming it you ask
    for it. Raises CompileError for a chain that cannot be fused: which link fails, and why; chains before it stay fused.
    """
    _fuse(module, chains, Remarks(Session() if session is None else session, FuseModulesPass.name))


def _fuse(module: ModuleOp, chains: Sequence[Sequence[str]], remarks: Remarks) -> None:
    if not chains:
        raise CompileError(f"--{FuseModulesPass.name} names no layers", hint="write conv,bn,relu;conv2,bn2")
    for chain in chains:
        _Chain(chain, _Names.of(module), remarks).fuse()
    erase_dead_constants(module)
    remarks.flush()


@dataclass(frozen=True)
class _Names:
    """What layers can be called by."""

    layers: Layers
    paths: Layers
    indices: Layers

    @staticmethod
    def of(module: ModuleOp) -> _Names:
        layers: dict[str, list[NNOp]] = {}
        paths: dict[str, list[NNOp]] = {}
        indices: dict[str, list[NNOp]] = {}
        for op in module.walk():
            if not isinstance(op, NNOp) or not isinstance(origin := op.origin, OriginAttr):
                continue
            layer = origin.layer.data
            layers.setdefault(layer, []).append(op)
            paths.setdefault(module_path(layer), []).append(op)
            kind, _, index = layer.rpartition("_")
            if kind == origin.op_type.data:
                indices.setdefault(index, []).append(op)
        return _Names(layers, paths, indices)

    def find(self, name: str) -> Sequence[NNOp]:
        """The operations of a name, the exact one first. Raises CompileError for none."""
        for table in (self.layers, self.paths, self.indices):
            if name and name in table:
                return table[name]
        close = get_close_matches(name, [*self.layers, *self.paths], 3)
        some = ", ".join([*[*self.layers][:8], *(["..."] if len(self.layers) > 8 else [])])
        hint = f"did you mean {', '.join(close)}?" if close else f"layers are {some}"
        raise CompileError(f"--{FuseModulesPass.name}: no layer is called '{name}'", hint=hint)


def module_path(layer: str) -> str:
    """The path of the module whose node an exporter called `layer`: `/layer1/layer1.0/conv1/Conv` is `layer1.0.conv1`.

    PyTorch repeats the path before the children of containers; the last part is the operator. Empty for a plain name.
    """
    path = ""
    for part in layer.strip("/").split("/")[:-1]:
        path = part if not path or part.startswith(f"{path}.") else f"{path}.{part}"
    return path


class _Chain:
    """One chain of names, followed from its first layer."""

    def __init__(self, names: Sequence[str], table: _Names, remarks: Remarks):
        self.names = names
        self.remarks = remarks
        self.found = [(name, table.find(name)) for name in names]

    def fuse(self) -> None:
        """Fold the batch norms, then form the region of what follows."""
        if len(self.found) == 1:
            raise self._error(self.names[0], self.found[0][1][0], "nothing follows that it could be fused with")
        if self._is_one_region():
            op = self.found[0][1][0]
            self.remarks.note(op, "already-fused", f"{','.join(self.names)} is one operation already")
        else:
            self._fuse_from(self._compute())

    def _is_one_region(self) -> bool:
        owners = {op.parent_op() for _, ops in self.found for op in ops}
        return len(owners) == 1 and in_region(self.found[0][1][0])

    def _compute(self) -> Computing:
        """The computing operation that the chain starts with."""
        name, candidates = self.found[0]
        computing = [op for op in candidates if isinstance(op, COMPUTING)]
        if len(computing) == 1:
            return computing[0]
        if computing:
            reason = f"it stands for {', '.join(map(layer_of, computing))}: give the name of one"
            raise self._error(name, computing[0], reason)
        first = candidates[0]
        raise self._error(name, first, f"a chain starts with a convolution or matrix product, not '{_kind(first)}'")

    def _fuse_from(self, compute: Computing) -> None:
        current: NNOp = compute
        add: AddOp | None = None
        for i, (name, candidates) in enumerate(self.found[1:], 1):
            op = self._link(current, i, candidates)
            match op:
                case BatchNormOp() if current is compute:
                    current = compute = self._folded(compute, name, op)
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

    def _link(self, before: NNOp, i: int, candidates: Sequence[NNOp]) -> NNOp:
        """The operation among those of name i that takes the result of the one before."""
        for op in reversed(candidates):  # of an activation in small operations the last stands for it
            activation = activation_of(op)
            values = [*op.operands] if activation is None else [activation.input]
            if any(_comes_from(v, before) for v in values):
                if isinstance(op, OpaqueOp):
                    raise self._opaque(self.names[i], op)
                return op
        op = candidates[-1]
        source = f"its input comes from {producer(op.operands[0])}" if op.operands else "it has no input"
        raise self._error(self.names[i], op, f"it does not take the result of {self.names[i - 1]}: {source}")

    def _folded(self, compute: Computing, name: str, norm: BatchNormOp) -> Computing:
        """The computing operation with a batch norm folded into it."""
        after, before = norm.next_op, norm.input.owner
        self._apply(FuseComputeBatchNorm(self.remarks), name, norm)
        erase_dead([compute, cast(Operation, before)])
        assert after is not None, "a terminator comes after"
        return cast(Computing, after.prev_op)

    def _form(self, compute: Computing, add: AddOp | None, i: int, activation: NNOp) -> None:
        """The region that ends in the activation of name i."""
        if rest := self.found[i + 1 :]:
            name, candidates = rest[0]
            raise self._error(name, candidates[-1], f"nothing is fused behind the activation {self.names[i]}")
        pattern = FuseComputeActivation if add is None else FuseComputeResidualActivation
        self._apply(pattern(self.remarks, _rules(compute)), self.names[i], activation)

    def _apply(self, pattern: FusionPattern[Any], name: str, op: NNOp) -> None:
        """Apply a pattern to one operation. Raises CompileError with the condition that does not hold."""
        rewriter = PatternRewriter(op)
        pattern.match_and_rewrite(op, rewriter)
        if not rewriter.has_done_action:
            reasons = [f"{remark.reason} ({remark.rule})" for remark in self.remarks.of(op)]
            raise self._error(name, op, "; ".join(reasons) or "it stands inside a fused region already")

    def _opaque(self, name: str, op: OpaqueOp) -> CompileError:
        if op.op_type.data == "BatchNormalization" and _in_training(op):
            reason = "it is a batch norm in training mode, which computes the statistics of its batch"
            return self._error(name, op, reason, "export the model in evaluation mode (model.eval())")
        return self._error(name, op, f"'{op.op_type.data}' is carried as it is, nothing is known of what it computes")

    def _error(self, name: str, op: Operation, reason: str, hint: str = "") -> CompileError:
        message = f"--{FuseModulesPass.name} cannot fuse {','.join(self.names)} at {name}: {reason}"
        return CompileError(message, where=describe(op.location), hint=hint)


def _rules(compute: Computing) -> Rules:
    """By naming layers the user asks for them: every activation is allowed, and the one computing operation is meant."""
    return replace(Rules.of("a chain by name", KINDS, True), compute=compute)


def _comes_from(value: SSAValue, op: Operation) -> bool:
    """Whether a value is the result of `op`, or of the BiasAdd behind it."""
    if isinstance(value.owner, BiasAddOp):
        value = value.owner.input
    return value.owner is op


def _in_training(op: OpaqueOp) -> bool:
    """`training_mode` (ONNX opset 14), or results besides the first (before)."""
    mode = None if op.attrs is None else op.attrs.data.get("training_mode")
    return (isinstance(mode, IntegerAttr) and mode.value.data != 0) or len(op.results) > 1


def _kind(op: NNOp) -> str:
    return op.op_type.data if isinstance(op, OpaqueOp) else op.name
