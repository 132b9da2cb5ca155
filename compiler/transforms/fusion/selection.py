"""The layers that a fusion pass may change: the options `skip-types`, `only-quantizable` and `do-fusion`.

Folding is exact and independent of whether a layer can be quantized; AMCT's is not, and `only-quantizable=true` is its rule.
Configurations and the rules of quantization are loaded only if an option needs them: that takes longer than a small fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...dialects.nn import NNOp, OriginAttr
from ...ir.layer_names import LayerNames, named_among, names_of
from ...rewriting import Guard, Refusal, layer_of
from ...session import Session
from .amct_rules import is_strict, of_tensorflow
from .computing import COMPUTING

if TYPE_CHECKING:
    from ...configuration.settings import TensorQuantize


class FusionSettings(Protocol):
    """The settings of a configuration that concern fusion."""

    @property
    def do_fusion(self) -> bool: ...
    @property
    def skip_fusion_layers(self) -> tuple[str, ...]: ...
    @property
    def tensor_quantize(self) -> tuple[TensorQuantize, ...]: ...


@dataclass(frozen=True)
class FusionOptions:
    """Options of every fusion pass."""

    skip_types: tuple[str, ...] = ()
    """Operator types to exclude from fusion, by the source's name (`Conv`, `MatMul`) or by that of `nn` (`conv`)."""
    only_quantizable: bool = False
    """Fuse only around convolutions and matrix products that the profile's rules allow to quantize (AMCT; `--rules` has it)."""
    do_fusion: bool = True
    """AMCT's switch of that name: false leaves every operation unchanged, with a remark if it would have been fused."""
    config: str | FusionSettings | None = None
    """An AMCT configuration, for its `do_fusion` and `skip_fusion_layers`, and for its `tensor_quantize`: such an input stays a
    value of its own.
    """

    def skipped(self, session: Session) -> Mapping[str, Collection[str]]:
        """The layers excluded from fusion, by the setting that names them."""
        settings = self._settings()
        layers = () if settings is None else settings.skip_fusion_layers
        return {"skip_fusion_layers": layers, "--skip-fusion": sorted(session.skip_fusion)}

    def guards(self, module: ModuleOp, session: Session) -> list[Guard]:
        """The options as checks of a match."""
        guards: list[Guard] = []
        settings = self._settings()
        if not self.do_fusion or (settings is not None and not settings.do_fusion):
            guards.append(lambda _: Refusal("do-fusion", "do-fusion is false"))
        if settings is not None and settings.skip_fusion_layers:
            guards.append(_skip_layers(LayerNames.of(module).expanded(settings.skip_fusion_layers), session))
        if settings is not None and settings.tensor_quantize:
            guards.append(_keep_tensors(settings.tensor_quantize))
        if self.skip_types:
            guards.append(_skip_types(self.skip_types))
        if self.only_quantizable or is_strict(session):
            guards.append(
                _only_quantizable(module, session, (lambda _: True) if self.only_quantizable else of_tensorflow)
            )
        return guards

    def _settings(self) -> FusionSettings | None:
        """The settings of the configuration. Raises CompileError, located in it."""
        if not isinstance(self.config, str):
            return self.config
        from ...configuration.files import read_settings

        return read_settings(Path(self.config))


def _skip_layers(layers: Collection[str], session: Session) -> Guard:
    def refuse(parts: Sequence[Operation]) -> Refusal | None:
        if not (skipped := named_among(parts, layers)):
            return None
        session.fusions_skipped.update(skipped)
        return Refusal("skip-fusion", f"{skipped[0]} is one of skip_fusion_layers")

    return refuse


def _keep_tensors(tensors: Sequence[TensorQuantize]) -> Guard:
    """Excludes fusions that would hide an input of `tensor_quantize` inside the operation that reads it."""
    from ..quantization.decide.layer_inputs import inputs_of
    from ..quantization.decide.sites import Site

    def refuse(parts: Sequence[Operation]) -> Refusal | None:
        for op in parts:
            inputs = inputs_of(Site(op, op, False)) if isinstance(op, NNOp) else []
            for tensor in tensors:
                if tensor.layer_name not in names_of(op) or tensor.input_index >= len(inputs):
                    continue
                value = inputs[tensor.input_index].value
                if value is not None and value.owner in parts:
                    return Refusal(
                        "tensor-quantize", f"input {tensor.input_index} of {layer_of(op)} is quantized by itself"
                    )
        return None

    return refuse


def _skip_types(types: Collection[str]) -> Guard:
    def refuse(parts: Sequence[Operation]) -> Refusal | None:
        for op in parts:
            for name in type_names(op):
                if name in types:
                    return Refusal(
                        "skip-types", f"{layer_of(op)} is of type {name}, which is on the list of skip-types"
                    )
        return None

    return refuse


def type_names(op: Operation) -> list[str]:
    """The names of an operation's type in `skip-types`: the source's name, `nn.conv`, `conv`."""
    origin = op.properties.get("origin")
    source = [origin.op_type.data] if isinstance(origin, OriginAttr) else []
    return [*source, op.name, op.name.removeprefix("nn.")]


def _only_quantizable(module: ModuleOp, session: Session, asked: Callable[[Operation], bool]) -> Guard:
    from ..quantization.decide.legality import first_broken
    from ..quantization.decide.sites import Site, has_half_precision
    from ..quantization.profiles import profile_of

    profile, half_precision = profile_of(session), has_half_precision(module)

    def refuse(parts: Sequence[Operation]) -> Refusal | None:
        for op in parts:
            if not isinstance(op, COMPUTING) or not asked(op):
                continue
            if (row := profile.rows.get(type(op))) is None:
                return Refusal("only-quantizable", f"profile {profile.name} does not quantize {op.name} {layer_of(op)}")
            if (broken := first_broken(Site(op, op, half_precision), row.rules, profile.table)) is not None:
                rule, reason = broken
                return Refusal("only-quantizable", f"{layer_of(op)} cannot be quantized ({rule.name}): {reason}")
        return None

    return refuse
