"""Modules and programs that were trained with quantization: their scales are those of what is loaded, then of int8 layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, i8

import amct_opt
from amct_opt.dialects.nn import ConvOp, DequantizeOp, MatMulOp
from amct_opt.ir.functions import input_names, main_function
from amct_opt.rewriting import layer_of
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct
from amct_opt.transforms.quantization.decide.sites import sites

from ...exact import exact_file
from ...frameworks import later, needs

pytestmark = needs("torch", "onnxscript")

torch, onnxruntime, plugins = map(later, ("torch", "onnxruntime", f"{__package__}.plugins"))


def trained(module: Any, steps: int = 2) -> Any:
    """The module after some steps of training: statistics, scales and learned parameters are those of data."""
    optimizer = torch.optim.SGD(module.parameters(), 1e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        module(plugins.X).square().mean().backward()
        optimizer.step()
    return module


def eager(backend: str, norm: bool = True) -> Any:
    """`prepare_qat` of torch.ao: convolution, batch norm and ReLU are one module, whose folded weight is quantized."""
    import torch.ao.quantization as quantization

    model = torch.nn.Sequential(quantization.QuantStub(), plugins.Net(norm)).train()
    if norm:
        quantization.fuse_modules_qat(model, ["1.conv", "1.bn", "1.relu"], inplace=True)
    model.qconfig = quantization.get_default_qat_qconfig(backend)
    quantization.prepare_qat(model, inplace=True)
    return trained(model).eval().apply(quantization.disable_observer)


def graph_mode() -> Any:
    """`prepare_qat_fx` of torch.ao."""
    from torch.ao.quantization import disable_observer, get_default_qat_qconfig_mapping, quantize_fx

    model = quantize_fx.prepare_qat_fx(plugins.Net().train(), get_default_qat_qconfig_mapping("qnnpack"), (plugins.X,))
    return trained(model).eval().apply(disable_observer)


def learned() -> Any:
    """Scales and zero points that are trained (LSQ+ of torch.ao)."""
    import torch.ao.quantization as quantization
    from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

    data = _LearnableFakeQuantize.with_args(
        observer=quantization.MinMaxObserver,
        quant_min=0,
        quant_max=255,
        scale=0.05,
        zero_point=120.4,
        dtype=torch.quint8,
    )
    weight = _LearnableFakeQuantize.with_args(
        observer=quantization.MinMaxObserver,
        quant_min=-128,
        quant_max=127,
        scale=0.005,
        dtype=torch.qint8,
        qscheme=torch.per_tensor_symmetric,
    )
    model = torch.nn.Sequential(quantization.QuantStub(), plugins.Net(norm=False)).train()
    model.qconfig = quantization.QConfig(activation=data, weight=weight)
    quantization.prepare_qat(model, inplace=True)
    return trained(model).eval()


def plugin(data: Callable[[], Any], weight: Callable[[Any], Any], norm: bool = False) -> Any:
    """A network whose layers a plugin replaced; the batch norm, if any, stands after the quantized weight (WithBN)."""
    model = plugins.Net(norm).train()
    conv, fc = model.conv.weight.detach(), model.fc.weight.detach()
    model.conv = plugins.Layer(model.conv, data(), weight(conv.abs().amax((1, 2, 3), keepdim=True) / 127))
    model.fc = plugins.Layer(model.fc, data(), weight(fc.abs().max() / 127))
    return trained(model).eval()


FORMS: dict[str, Callable[[], Any]] = {
    "eager-per-tensor": lambda: eager("qnnpack"),
    "eager-7-bits-per-channel": lambda: eager("x86"),
    "eager-unfused": lambda: eager("qnnpack", norm=False),
    "fx": graph_mode,
    "learned": learned,
    "lsq": lambda: plugin(lambda: plugins.Lsq(0.03), lambda s: plugins.Lsq(s, -127)),
    "amct": lambda: plugin(lambda: plugins.Ulq(0.03, 3.0), lambda s: plugins.Ulq(s, 0.0)),
    "horizon-with-bn": lambda: plugin(lambda: plugins.Affine(0.03), lambda s: plugins.Affine(s), norm=True),
}


def integers(module: ModuleOp) -> dict[str, bool]:
    """Whether layers compute on int8 data and an int8 weight."""
    found: dict[str, bool] = {}
    for site in sites(module, (ConvOp, MatMulOp)):
        owners = [value.owner for i in (0, 1) if (value := site.operand(i)) is not None]
        is_int8 = [isinstance(owner, DequantizeOp) and owner.qparams.data.storage == i8 for owner in owners]
        found[layer_of(site.compute)] = is_int8 == [True, True]
    return found


def numbers(module: ModuleOp, x: Any) -> Any:
    (name,) = input_names(main_function(module))
    (found,) = amct_opt.execute(module, {name: x.numpy()}).values()
    return found


def gives_quantized(module: ModuleOp) -> bool:
    terminator = main_function(module).body.block.last_op
    return terminator is not None and isinstance(terminator.operands[0].owner, DequantizeOp)


def check(source: tuple[Any, ...], expected: Any, tmp_path: Path) -> None:
    """What is loaded gives torch's numbers; its layers become integers in both profiles, and the file computes the same.

    Biases become integers, so that a quantized output may be one step away.
    """
    loaded, _ = amct_opt.load(*source)
    np.testing.assert_allclose(numbers(loaded, plugins.X), expected, atol=1e-6)
    last = [op.qparams.data.scales() for op in loaded.walk() if isinstance(op, DequantizeOp)][-1]
    step = max(1e-3, 1.01 * float(last)) if gives_quantized(loaded) else 1e-3
    for profile in ("ascend", "qdq"):
        module, session = loaded.clone(), amct_opt.new_session()
        session.profile = profile
        amct_opt.run_pipeline(module, "fold-constants,canonicalize,fuse-all,adapt-qat", session)
        np.testing.assert_allclose(numbers(module, plugins.X), expected, atol=step)
        matrices = (
            {r.layer for r in session.remarks if r.rule == "per-tensor-weight"} if profile == "ascend" else set[str]()
        )
        assert [layer for layer, is_int8 in integers(module).items() if not is_int8] == [*matrices]
        missed = {r.rule for r in session.remarks if r.kind == "missed"}
        assert missed <= {"per-tensor-weight", "quantization-point"}, "what adapt-qat absorbs is not missed by fusion"
        assert {type(op).__name__ for op in module.walk()}.isdisjoint({"BatchNormOp", "DivOp", "MulOp"})
    amct_opt.save(module, tmp_path / "q.onnx", session, "onnx")
    run = onnxruntime.InferenceSession(exact_file(tmp_path / "q.onnx"))
    (found,) = run.run(None, {run.get_inputs()[0].name: plugins.X.numpy()})
    np.testing.assert_allclose(found, expected, atol=step)


def made(form: Callable[[], Any]) -> tuple[Any, Any]:
    """A trained module, and what torch computes with it."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with torch.enable_grad():
            model = form()
        return model, model(plugins.X).numpy()


@pytest.mark.parametrize(
    "form", [form if form == "horizon-with-bn" else pytest.param(form, marks=pytest.mark.slow) for form in FORMS]
)
def test_trained_modules(form: str, tmp_path: Path) -> None:
    model, expected = made(FORMS[form])
    check((model, (plugins.X,)), expected, tmp_path)
    with torch.no_grad():
        np.testing.assert_array_equal(model(plugins.X).numpy(), expected)


@pytest.mark.slow
def test_files_of_trained_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Operators that observe and quantize at once are what `torch.export` leaves of torch.ao's modules."""
    model, expected = made(lambda: eager("x86"))
    program = torch.export.export(model, (plugins.X,))
    before = str(program.graph)
    torch.export.save(program, tmp_path / "model.pt2")
    check((tmp_path / "model.pt2",), expected, tmp_path)
    open_batch, _ = amct_opt.load(model, (plugins.X,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    np.testing.assert_allclose(numbers(open_batch, plugins.X[:3]), expected[:3], atol=1e-6)
    amct_opt.load(program)
    assert str(program.graph) == before, "the program itself is as it was"
    options = ["--model", str(tmp_path / "model.pt2"), "--save_path", str(tmp_path / "m")]
    assert amct.run(["convert", *options, "--quiet"]) == 0
    run = onnxruntime.InferenceSession(tmp_path / "m_fake_quant_model.onnx")
    (found,) = run.run(None, {run.get_inputs()[0].name: plugins.X.numpy()})
    np.testing.assert_allclose(found, expected, atol=0.05)
    assert {path.name for path in tmp_path.glob("m_*")} >= {"m_deploy_model.onnx", "m_quant.json", "m_record.txt"}
    np.savez(tmp_path / "d.npz", **{run.get_inputs()[0].name: plugins.X.numpy()})
    options = ["--data", str(tmp_path / "d.npz"), "-o", str(tmp_path / "out"), "--no-report"]
    assert amct.run(["quantize", str(tmp_path / "model.pt2"), *options]) == 0
    assert "was trained with quantization and is not calibrated; amct convert --model" in capsys.readouterr().err


@pytest.mark.slow
def test_switched_off() -> None:
    """Fake quantization that is switched off computes nothing, as in torch."""
    import torch.ao.quantization as quantization

    model, _ = made(lambda: eager("qnnpack", norm=False))
    model.apply(quantization.disable_fake_quant)
    with torch.no_grad():
        expected = model(plugins.X).numpy()
    for module, _ in (amct_opt.load(model, (plugins.X,)), amct_opt.load(torch.export.export(model, (plugins.X,)))):
        np.testing.assert_allclose(numbers(module, plugins.X), expected, atol=1e-6)
        assert not [op for op in module.walk() if isinstance(op, DequantizeOp)]


def prepared() -> Any:
    """A network that torchao prepared and that was trained, as a graph."""
    pt2e: Any = import_module("torchao.quantization.pt2e")
    steps: Any = import_module("torchao.quantization.pt2e.quantize_pt2e")
    xnnpack: Any = import_module("torchao.testing.pt2e._xnnpack_quantizer")
    config = xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_qat=True)
    graph = torch.export.export(plugins.Net().train(), (plugins.X,)).module()
    model = trained(steps.prepare_qat_pt2e(graph, xnnpack.XNNPACKQuantizer().set_global(config)))
    pt2e.move_exported_model_to_eval(model)
    return model.apply(pt2e.disable_observer)


@pytest.mark.slow
def test_torchao(tmp_path: Path) -> None:
    """PyTorch 2 export quantization, prepared and converted, as graph modules and as programs."""
    steps: Any = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="torchao is not installed")
    model, expected = made(prepared)
    check((model, (plugins.X,)), expected, tmp_path)
    check((torch.export.export(model, (plugins.X,)),), expected, tmp_path)
    converted, expected = made(lambda: steps.convert_pt2e(model))
    check((converted, (plugins.X,)), expected, tmp_path)


def test_programs_in_training_mode() -> None:
    program = torch.export.export(plugins.Net().train(), (plugins.X,))
    with pytest.raises(CompileError) as caught:
        amct_opt.load(program)
    assert "'batch_norm' is in training mode" in str(caught.value)
