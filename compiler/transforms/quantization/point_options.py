"""Options of `--insert-observers` and `--quantize` for points on values (PPQ's settings of these names)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from ...diagnostics import CompileError
from .profiles import Alignment, Mode, Profile


@dataclass(frozen=True, kw_only=True)
class PointOptions:
    """Options of profiles that quantize values. What is not given is the profile's: profile ppq aligns as PPQ does, qdq aligns
    nothing. Aligned values are a `group` in the module. They have the
    same bits and symmetry; others are left out, with a remark.
    """

    activation_type: tuple[str, ...] = ()
    """The activations that take the point of the operation before them, `Relu,Clip,LeakyRelu` or `relu,clip,leaky_relu`; the
    profile's when not given.
    """
    fuse_activation: bool | None = None
    """False leaves a point between an operation and its activation; regions of nn.fused have none in any case."""
    fuse_passive_op: bool | None = None
    """False gives the results of passive operations points of their own."""
    align_elementwise: Literal["large", "output", "none"] | None = None
    """How Add and Sub are aligned. large: the operands take the range that holds all of them; output: they take the result's
    parameters. In profile ppq large.
    """
    align_concat: Literal["large", "output", "none"] | None = None
    """large and output as those of additions. In profile ppq output."""
    align_pooling: Literal["input", "output", "none"] | None = None
    """How average pooling is aligned. input: the result takes the input's parameters; output: the reverse."""
    align_resize: Literal["input", "output", "none"] | None = None
    """input and output as those of pooling. In profile ppq output."""
    force_alignment_overlap: bool | None = None
    """True when not given: others that read an aligned value read it by the shared parameters, whose range covers it. False: a
    value that others read as well, or that is an output, keeps its own, and is quantized once more for the aligned operation.
    """

    def check_points(self, profile: Profile) -> None:
        """Raises CompileError for an option that the profile has no use for."""
        given = [f.name.replace("_", "-") for f in fields(PointOptions) if getattr(self, f.name) not in (None, ())]
        if profile.points != "values" and given:
            raise CompileError(
                f"profile {profile.name} does not support {given[0]}",
                hint="it is an option of profiles that quantize values: qdq, ppq",
                option=given[0],
            )

    def modes(self, profile: Profile, joint_quant: bool) -> Mapping[Alignment, Mode]:
        """How each kind of operation is aligned. Joint quantization is of additions, where `align-elementwise` is not given."""
        given: Mapping[Alignment, Mode | None] = {
            "elementwise": self.align_elementwise or ("joint" if joint_quant else None),
            "concat": self.align_concat,
            "pooling": self.align_pooling,
            "resize": self.align_resize,
        }
        return {kind: mode or profile.alignment.get(kind, "none") for kind, mode in given.items()}

    def activations(self, profile: Profile) -> frozenset[str]:
        """The kinds of activations, `leaky_relu`; none with `fuse-activation=false`. Raises CompileError for an unknown one."""
        if self.fuse_activation is False:
            return frozenset()
        from ..fusion.fuse_activation.activations import kinds_named

        return kinds_named(self.activation_type) or profile.activations


AS_THE_PROFILE = PointOptions()
"""Every option as the profile has it."""
