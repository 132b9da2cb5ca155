"""AMCT's `convert`: write AMCT's set of files for a model whose factors come from a record or from training. No calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..configuration.record import Record
from ..configuration.settings import Settings
from ..dialects.nn import DequantizeFloatOp, DequantizeOp, QuantizeOp
from ..dialects.nn.shapes import element_of
from ..lowering.ascend.profiles import fuse_like_amct, like_amct
from ..pipelines.passes import run_passes, step
from ..session import Session
from ..support.diagnostics import CompileError
from ..transforms.canonicalization import SIMPLIFY
from ..transforms.fusion.fuse_all import FuseAllPass
from ..transforms.quantization.convert.adapt_qat import AdaptQatPass
from ..transforms.quantization.convert.layer_weights import Integers, put_integers
from ..transforms.quantization.options import AUTOMATIC, NO_DATA, QuantizeOptions, SettingsOptions
from ..transforms.quantization.profiles import profile_of
from ..transforms.quantization.quantize import quantize
from ..transforms.quantization.request import request_of
from .network import read_model, simplify_and_fuse
from .saving import Files, files_of
from .summary import Layers, describe_layers


@dataclass(frozen=True)
class Converted:
    """The result for a model: the files, and what became of its layers."""

    files: tuple[Path, ...]
    layers: Layers


def convert_file(
    model: Path,
    record: str | None,
    save_path: str,
    session: Session,
    framework: str | None = None,
    settings: Settings | None = None,
    integers: Mapping[str, Integers] | None = None,
) -> Converted:
    """Quantize `model` with the factors of a record, or those that it was trained with, and write AMCT's files.

    Layers that the record does not list stay float. `save_path` is a folder, made when missing, and the prefix of the files'
    names. All or none are written, replacing those of an earlier run but no file that was read; a record in the place of the one
    that would be written stays. The files are those of
    `framework`, by default the one of the model's file; `settings` decide what is fused, and weights have these `integers`, by
    layer, or the nearest ones. Raises CompileError, located, for anything that cannot be done.
    """
    files = files_of(model, save_path, framework)
    files = files if record is None else files.besides(Path(record))
    module = read_model(model, session, files.paths(), [record])
    if record is not None:
        return convert_module(module, record, files, session, settings, integers)
    fuse_like_amct(module, session)
    run_passes(module, SIMPLIFY, session)
    _adapt(module, model, session)
    return _written(module, files, session)


def convert_module(
    module: ModuleOp,
    record: str,
    files: Files,
    session: Session,
    settings: Settings | None = None,
    integers: Mapping[str, Integers] | None = None,
) -> Converted:
    """Quantize a verified module in place with the factors of a record, fused by `settings`, and write `files`. Weights have
    these `integers`, by layer, or the nearest ones.

    Raises like `convert_file`.
    """
    like_amct(module, session)
    request = request_of(QuantizeOptions(settings=SettingsOptions(record=record, config=settings)), session)
    assert request.record is not None
    _check_caches(request.record, session)
    for name, layer in request.record.layers.items():
        files.check_bits(name, layer.bits, record)
    simplify_and_fuse(request, module, session)
    with step("quantize", module, session):
        quantize(module, request, NO_DATA, AUTOMATIC, session)
    put_integers(module, integers or {}, profile_of(session))
    return _written(module, files, session)


def _written(module: ModuleOp, files: Files, session: Session) -> Converted:
    return Converted(files.write(module, session), describe_layers(module, session.remarks))


def _check_caches(record: Record, session: Session) -> None:
    """Warn of the layers of a KV cache, which no file has. Raises CompileError for a record that has nothing else."""
    if not record.caches:
        return
    named = ", ".join(record.caches)
    if not record.layers:
        hint = "the program that keeps the cache reads kv_cache_value"
        raise CompileError(f"has only kv_cache_value, of {named}: no layer is quantized", where=record.where, hint=hint)
    session.warn(
        f"{record.where}: kv_cache_value of {named} is not part of the files: the program that keeps the cache reads it"
    )


def _refuse_formats(module: ModuleOp, model: Path) -> None:
    """Raises CompileError for a model whose quantized layers have floats of 8 or 4 bits."""
    if (stored := next((op for op in module.walk() if isinstance(op, DequantizeFloatOp)), None)) is not None:
        message = f"has {element_of(stored.input)} where AMCT's files have integers"
        raise CompileError(message, where=str(model), hint="quantize the float model to integers: amct calibration")


def _adapt(module: ModuleOp, model: Path, session: Session) -> None:
    """Raises CompileError for a model that was not trained with fake quantization."""
    if not any(isinstance(op, QuantizeOp | DequantizeOp) for op in module.walk()):
        _refuse_formats(module, model)
        raise CompileError(
            "holds no QuantizeLinear or DequantizeLinear: no factors are known",
            where=str(model),
            hint="give --record_file, or find them with amct calibration",
        )
    run_passes(module, [FuseAllPass(), AdaptQatPass()], session)
