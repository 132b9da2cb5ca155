"""The quantization of a KV cache: the outputs of linear layers, whose scales are written to a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...api import PathLike
from ...configuration.kv_cache import Cached, KvSettings, default_settings, json_text, read_json, read_simplified
from ...configuration.record import CacheRecord, Record, record_text
from ...frontends.torch.batches import array
from ...frontends.torch.library import torch_library
from ...observers import make_observer
from ...runtime.affine import affine
from ...runtime.executor import Array
from ...session.universe import new_session
from ...support.diagnostics import CompileError
from ...support.files import made, replacing
from ..shared import as_in_amct

_LAYERS = "kv_cache_quant_layers"
_BITS = 8


@as_in_amct
def create_quant_cali_config(
    config_file: PathLike,
    model: Any,
    quant_layers: Mapping[str, Sequence[str]] | None = None,
    config_defination: PathLike | None = None,
) -> None:
    """Write the configuration of a KV cache, AMCT's JSON: for the layers that `quant_layers` gives as
    `{"kv_cache_quant_layers": ["k_proj", "v_proj"]}`, or as `config_defination` says, a simplified configuration.

    Layers are `nn.Linear` modules, by their paths. Next to `config_defination`, `quant_layers` is ignored with a warning. Raises
    CompileError, located, for bad settings, and for layers that the model does not have.
    """
    path = Path(config_file)
    if config_defination is not None:
        if quant_layers is not None:
            new_session().warn("quant_layers is ignored: config_defination is given")
        settings = read_simplified(Path(config_defination))
        where = str(config_defination)
    else:
        if unknown := [key for key in quant_layers or {} if key != _LAYERS]:
            raise CompileError(f"quant_layers has '{unknown[0]}'", hint=f"the layers are those of {_LAYERS}")
        settings = default_settings((quant_layers or {}).get(_LAYERS, ()))
        where = "quant_layers"
    _modules(model, settings.layers, where)
    with made(path.parent), replacing(path) as stream:
        stream.write(json_text(settings).encode())


@as_in_amct
def create_quant_cali_model(config_file: PathLike, record_file: PathLike, model: Any) -> Any:
    """Make the layers of a configuration observe their outputs, and return the model, which is changed in place, as in AMCT.

    The first `batch_num` calls of a layer (of the configuration) calibrate it; then the record has its `kv_cache_value`, and the
    layer is as before. Raises CompileError, located, for a bad configuration; so does a call with values that are infinite or
    not numbers.
    """
    settings, record = read_json(Path(config_file)), Path(record_file)
    modules = _modules(model, settings.layers, str(config_file))
    record.unlink(missing_ok=True)
    calibration = _Calibration(settings, record)
    for name, module in modules.items():
        calibration.watch(name, module)
    return model


def _modules(model: Any, names: Iterable[str], where: str) -> dict[str, Any]:
    """The modules of these names. Raises CompileError for a module that is not a Linear."""
    torch = torch_library(type(model).__name__)
    known = dict(model.named_modules())
    for name in names:
        if name not in known:
            linear = [each for each, module in known.items() if type(module) is torch.nn.Linear]
            hint = f"linear layers are {', '.join([*linear[:8], *(['...'] if len(linear) > 8 else [])])}"
            raise CompileError(f"layer '{name}' does not exist in the model", where=where, hint=hint)
        if type(known[name]) is not torch.nn.Linear:
            kind = type(known[name]).__name__
            raise CompileError(f"layer '{name}' is a {kind}; a KV cache keeps the outputs of Linear", where=where)
    return {name: known[name] for name in names}


class _Calibration:
    """Collects the outputs of layers, and writes the record of those that are complete."""

    def __init__(self, settings: KvSettings, record: Path):
        self._settings = settings
        self._record = record
        self._found: dict[str, CacheRecord] = {}

    def watch(self, name: str, module: Any) -> None:
        outputs: list[Array] = []

        def see(module: Any, arguments: Any, output: Any) -> None:
            outputs.append(np.asarray(array(output), np.float32))
            if len(outputs) == self._settings.batch_num:
                handle.remove()
                self._finish(name, outputs)
                outputs.clear()

        handle = module.register_forward_hook(see)

    def _finish(self, name: str, outputs: Sequence[Array]) -> None:
        self._found[name] = _factors(name, outputs, self._settings.layers[name], self._settings.activation_offset)
        found = {each: self._found[each] for each in self._settings.layers if each in self._found}
        with made(self._record.parent), replacing(self._record) as stream:
            stream.write(record_text(Record(caches=found), "pytorch").encode())


def _factors(name: str, outputs: Sequence[Array], cached: Cached, offset: bool) -> CacheRecord:
    """The scales and zero points of a layer's outputs."""
    activation = cached.activation
    symmetric = not (offset if activation.asymmetric is None else activation.asymmetric)
    channels = range(outputs[0].shape[-1]) if cached.per_channel else (slice(None),)
    found = [_range(name, [x[..., each] for x in outputs], activation.observer, symmetric) for each in channels]
    factors = [affine(low, high, _BITS, symmetric=symmetric) for low, high in found]
    return CacheRecord(tuple(float(scale) for scale, _ in factors), tuple(int(zero) for _, zero in factors))


@as_in_amct
def _range(name: str, outputs: Sequence[Array], text: str, symmetric: bool) -> tuple[float, float]:
    observer = make_observer(text, _BITS, symmetric=symmetric)
    try:
        for turn in range(observer.passes):
            if turn:
                observer.next_pass()
            for each in outputs:
                observer.update(each)
        return observer.finish()
    except ValueError as e:
        raise CompileError(
            f"its output: {e}", where=name, hint="look for an overflow in the model or its data"
        ) from None
