"""Remarks for operations that a fusion pass would have merged into one layer, and that quantization sees as several. They
name the pass.
"""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import ModuleOp

from ....dialects.nn import BatchNormOp, MulOp
from ....rewriting import Remarks, layer_of, nn_ops
from ...fusion.fuse_activation.activations import activation_of
from ...fusion.fuse_bn.compute import FuseComputeBatchNorm, norm_behind
from ...fusion.regions import in_region


def note_foldable_norms(module: ModuleOp, remarks: Remarks) -> None:
    """Leave a remark for each batch norm that could be folded into the layer before it, unless a fusion pass already left
    one.
    """
    spoken_of = {remark.layer for remark in remarks.session.remarks if remark.pass_name == "fuse-bn"}
    pattern = FuseComputeBatchNorm(remarks)
    for norm in nn_ops(module, BatchNormOp):
        if layer_of(norm) in spoken_of or (match := norm_behind(norm)) is None:
            continue
        if all(condition.holds(pattern, match) is None for condition in pattern.conditions):
            reason = f"it could be folded into {layer_of(match.compute)} before quantization: --fuse-all"
            remarks.note(norm, "batch-norm", reason)


def note_small_operations(module: ModuleOp, kinds: Collection[str], remarks: Remarks) -> None:
    """Leave a remark for each activation of these kinds that is split into several operations and so has several points."""
    for op in nn_ops(module, MulOp):
        activation = None if in_region(op) else activation_of(op)
        if activation is not None and activation.kind in kinds:
            reason = f"{activation.kind} is {len(activation.ops)} operations here, each with a point of its own"
            remedy = f"--fuse-activation=activation-type={activation.kind} makes one of them"
            remarks.note(op, "activation-type", f"{reason}; {remedy}")
