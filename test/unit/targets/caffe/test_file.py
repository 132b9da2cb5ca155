"""The target `caffe`: files of Caffe nets, and AMCT's two forms of quantized ones, which OpenCV runs with AMCT's layers added."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.formats.caffe import file
from amct_opt.formats.caffe.file import NetLayer
from amct_opt.formats.caffe.schema import NetParameter
from amct_opt.frontends.caffe import read
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.caffe import CaffeTarget
from amct_opt.targets.caffe.net import layer_proto

from ...frontends.caffe.test_layers import FLOAT64, OPENCV

Array = np.ndarray[Any, np.dtype[Any]]


def f(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def write(module: ModuleOp, folder: Path, form: Any = "float", name: str = "out.prototxt") -> tuple[Path, Path]:
    prototxt, caffemodel = CaffeTarget(form).write(module, folder / name, new_session())
    return prototxt, caffemodel


def again(prototxt: Path, caffemodel: Path) -> ModuleOp:
    session = new_session()
    session.imports = ImportOptions(weights=caffemodel)
    module = read(prototxt, session)
    verify(module)
    return module


NETS: dict[str, Any] = {**{n: row[:2] for n, row in FLOAT64.items()}, **OPENCV}
NO_FORM = frozenset(name for name in NETS if name.startswith("argmax"))
"""Layers that become operations which no layer stands for."""


@pytest.mark.parametrize("name", NETS)
def test_nets_come_back(caffe: Any, new_net: Any, name: str, rng: np.random.Generator) -> None:
    """What is read, written and read again computes the same bits."""
    shape, build = NETS[name]
    net = new_net(shape)
    build(net)
    module = caffe.load(net)
    x = {"data": f(rng, *shape)}
    if name in NO_FORM:
        with pytest.raises(CompileError, match="node 'y'"):
            write(module, caffe.folder)
        return
    before, after = run(module, x), run(again(*write(module, caffe.folder)), x)
    assert list(before) == list(after)
    for output, array in before.items():
        np.testing.assert_array_equal(array, after[output])


def test_carried_layers(caffe: Any, new_net: Any, rng: np.random.Generator) -> None:
    """A layer that `nn` has no equivalent for goes back with its text and its blobs."""
    net = new_net((1, 4, 6, 6))
    net.add("n", "Normalize", blobs=[f(rng, 4)])
    text = net.text.replace('top: "n"\n', 'top: "n"\n  norm_param { across_spatial: false  # a comment\n }\n')
    prototxt, caffemodel = caffe.save(text, net.binary)
    caffe.session.imports = ImportOptions(weights=caffemodel)
    files = write(read(prototxt, caffe.session), caffe.folder)
    assert "norm_param { across_spatial: false" in files[0].read_text()
    (layer,) = [layer for layer in parsed(*files).layer if layer.type == "Normalize"]
    (original,) = [layer for layer in net.proto.layer if layer.type == "Normalize"]
    assert list(layer.blobs[0].data) == list(original.blobs[0].data)


def parsed(prototxt: Path, caffemodel: Path) -> Any:
    """Both files as one message: what the text says, with the blobs of the binary."""
    net, weights = NetParameter(), NetParameter.FromString(caffemodel.read_bytes())
    text_format.Merge(prototxt.read_text(), net, allow_unknown_field=True)
    blobs = {layer.name: layer.blobs for layer in weights.layer}
    for layer in net.layer:
        layer.blobs.extend(blobs[layer.name])
    return net


# Files


@pytest.mark.parametrize(
    ("form", "given", "written"),
    [
        ("float", "p.v1.prototxt", ["p.v1.prototxt", "p.v1.caffemodel"]),
        ("float", "p", ["p.prototxt", "p.caffemodel"]),
        ("deploy", "p.prototxt", ["p_deploy_model.prototxt", "p_deploy_weights.caffemodel"]),
        ("deploy", "p_deploy_model.prototxt", ["p_deploy_model.prototxt", "p_deploy_weights.caffemodel"]),
        ("fake-quant", "p.prototxt", ["p_fake_quant_model.prototxt", "p_fake_quant_weights.caffemodel"]),
    ],
)
def test_names(form: Any, given: str, written: list[str]) -> None:
    assert [p.name for p in CaffeTarget(form).files(Path("x") / given)] == written


def test_name_of_the_weights() -> None:
    with pytest.raises(CompileError, match="name for the weights"):
        CaffeTarget().files(Path("net.caffemodel"))


def test_text(caffe: Any, new_net: Any) -> None:
    """The same module gives the same text; numbers in it are those of the module."""
    slope, net = float(np.float32(1) / np.float32(3)), new_net((1, 2, 3, 4), name="a net")
    net.add("é/1", "ReLU", relu_param={"negative_slope": slope})
    files = write(caffe.load(net), caffe.folder)
    text = files[0].read_text("utf-8")
    assert text.startswith('name: "a net"\n')
    assert 'name: "é/1"' in text
    assert np.float32(re.findall(r"negative_slope: (\S+)", text)[0]) == np.float32(slope)
    assert write(caffe.load(net), caffe.folder, name="second.prototxt")[0].read_text("utf-8") == text


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    layers = [NetLayer(layer_proto("a", "InnerProduct", ["x"], ["a"]), [f(rng, 100)])]
    monkeypatch.setattr(file, "MOST_BYTES", 400)
    with pytest.raises(CompileError, match=r"would be of \d+ bytes, Caffe reads up to 400") as e:
        file.write_net("", layers, tmp_path / "a.prototxt", tmp_path / "a.caffemodel")
    assert e.value.where == str(tmp_path / "a.caffemodel")
    assert list(tmp_path.iterdir()) == []


def test_both_files_or_none(caffe: Any, new_net: Any) -> None:
    net = new_net((1, 2))
    net.add("r", "ReLU")
    module = caffe.load(net)
    (caffe.folder / "out.caffemodel").mkdir()
    with pytest.raises(CompileError, match="cannot be written"):
        write(module, caffe.folder)
    assert not (caffe.folder / "out.prototxt").exists()


# Quantized forms


def mixed(rng: np.random.Generator, net: Any) -> None:
    """What is quantized, per channel and per tensor, and what is not."""
    net.add(
        "c1",
        "Convolution",
        blobs=[f(rng, 8, 3, 3, 3), f(rng, 8)],
        convolution_param={"num_output": 8, "kernel_size": [3], "pad": [1]},
    )
    net.add("r1", "ReLU", "c1")
    dw = {"num_output": 8, "kernel_size": [3], "group": 8, "bias_term": False, "pad": [1]}
    net.add("dw", "Convolution", "r1", blobs=[f(rng, 8, 1, 3, 3)], convolution_param=dw)
    net.add("sum", "Eltwise", ["dw", "r1"])
    net.add("p", "Pooling", "sum", pooling_param={"pool": "AVE", "kernel_size": 2, "stride": 2})
    up = {"num_output": 4, "kernel_size": [2], "stride": [2]}
    net.add("up", "Deconvolution", "p", blobs=[f(rng, 8, 4, 2, 2), f(rng, 4)], convolution_param=up)
    net.add("t", "TanH", "up")
    net.add("fc", "InnerProduct", "t", blobs=[f(rng, 10, 4 * 64), f(rng, 10)], inner_product_param={"num_output": 10})
    net.add("prob", "Softmax", "fc")


@pytest.fixture
def quantized(caffe: Any, new_net: Any, rng: np.random.Generator) -> tuple[ModuleOp, ModuleOp, Array]:
    """A net, its quantized form, and images that it was not calibrated on."""
    net = new_net((1, 3, 8, 8))
    mixed(rng, net)
    module = caffe.load(net, shapes={"data": (4, 3, 8, 8)})
    images = f(rng, 20, 3, 8, 8)
    np.savez(caffe.folder / "calib.npz", data=images[:16])
    copy = module.clone()
    make_pass("quantize", f"data={caffe.folder / 'calib.npz'}").apply(caffe.session, copy)
    return module, copy, images[16:]


@contextmanager
def registered(**layers: type) -> Iterator[Any]:
    """OpenCV with these classes of layers."""
    cv2 = pytest.importorskip("cv2")
    for name, each in layers.items():
        cv2.dnn_registerLayer(name, each)
    try:
        yield cv2
    finally:
        for name in layers:
            cv2.dnn_unregisterLayer(name)


def in_opencv(
    net: Any, x: Array, compute: Callable[[str, list[Array], Array], Array], layers: list[str]
) -> list[Array]:
    """A net with AMCT's layers, each computed by `compute` from its type, its blobs and its input.

    OpenCV does not know their parameters, so those of Quant are handed to it as a blob; integers as floats.
    """

    def layer_class(kind: str) -> type:
        class Layer:
            def __init__(self, params: object, blobs: list[Array]):
                self.blobs = blobs

            def getMemoryShapes(self, inputs: Any) -> Any:
                return inputs

            def forward(self, inputs: list[Array]) -> list[Array]:
                return [compute(kind, self.blobs, inputs[0]).astype(np.float32)]

        return Layer

    binary = type(net)()
    binary.CopyFrom(net)
    for layer in binary.layer:
        for blob in layer.blobs:
            numbers = np.frombuffer(blob.int8_data, np.int8) if blob.int8_data else blob.int32_data
            if layer.type == "DeQuant" and len(blob.uint64_data):
                numbers = np.array(blob.uint64_data, np.uint64).astype(np.uint32).view(np.float32)
            if len(numbers):
                blob.data.extend(np.asarray(numbers, np.float32).tolist())
        if layer.type in ("Quant", "AntiQuant"):
            offset = int.from_bytes(layer.quant_param.offset, "big", signed=True)
            layer.blobs.add(data=[layer.quant_param.scale, offset]).shape.dim.append(2)
        layer.ClearField("quant_param")
        layer.ClearField("dequant_param")
    text = type(net)()
    text.CopyFrom(binary)
    for layer in text.layer:
        layer.ClearField("blobs")
    kinds = ("Quant", "DeQuant", "AntiQuant")
    with registered(**{kind: layer_class(kind) for kind in kinds}) as cv2:
        loaded = cv2.dnn.readNetFromCaffe(
            np.frombuffer(text_format.MessageToString(text).encode(), np.uint8),
            np.frombuffer(binary.SerializeToString(), np.uint8),
        )
        loaded.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        loaded.enableFusion(False)
        loaded.enableWinograd(False)
        loaded.setInput(x, "data")
        return [np.array(a) for a in loaded.forward(layers)]


def rounded(blobs: list[Array], x: Array) -> tuple[Array, float, float]:
    scale, offset = (float(n) for n in np.ravel(blobs[0]))
    return np.clip(np.rint(x * np.float32(scale)) + offset, -128, 127), scale, offset


def fake_quant(kind: str, blobs: list[Array], x: Array) -> Array:
    """AMCT's layers for accuracy: Quant rounds and goes back, DeQuant without shifts is the identity."""
    if kind == "DeQuant":
        scales, shifts, offsets = blobs
        assert scales.size == shifts.size == offsets.size
        assert not shifts.any()
        assert not offsets.any()
        return x
    q, scale, offset = rounded(blobs, x)
    return (q - offset) / np.float32(scale)


def deployed(kind: str, blobs: list[Array], x: Array) -> Array:
    """What the device computes: integers less the zero point, accumulated, times a scale for each channel."""
    if kind == "DeQuant":
        scales = np.ravel(blobs[0])
        return x * (scales.reshape(-1, *(1,) * (x.ndim - 2)) if scales.size > 1 else scales[0])
    if kind == "AntiQuant":
        scale, _ = np.ravel(blobs[0])
        return x * scale
    q, _, offset = rounded(blobs, x)
    return q - offset


@pytest.mark.parametrize(("form", "compute"), [("fake-quant", fake_quant), ("deploy", deployed)])
def test_forms_compute_what_the_module_does(
    caffe: Any, quantized: tuple[ModuleOp, ModuleOp, Array], form: str, compute: Any
) -> None:
    """Far nearer to the quantized module than that is to the float one; only ties of rounding may fall otherwise."""
    module, copy, images = quantized
    net = parsed(*write(copy, caffe.folder, form))
    actual, logits = in_opencv(net, images, compute, ["prob", "fc.dequant"])
    wanted, before = run(copy, {"data": images})["prob"], run(module, {"data": images})["prob"]
    assert np.abs(actual - wanted).max() < 1e-3
    assert np.abs(actual - wanted).max() < 0.1 * np.abs(before - wanted).max()
    assert logits.std() > 1
    assert len({int(n) for n in actual.argmax(1)}) > 1


def test_deploy_files(caffe: Any, quantized: tuple[ModuleOp, ModuleOp, Array]) -> None:
    """Quant before and DeQuant after each quantized layer, int8 weights, int32 biases, 64-bit scales."""
    _, copy, _ = quantized
    files = write(copy, caffe.folder, "deploy", "net.prototxt")
    assert [p.name for p in files] == ["net_deploy_model.prototxt", "net_deploy_weights.caffemodel"]
    layers = {layer.name: layer for layer in parsed(*files).layer}
    for name, bottom in {"c1": "data", "dw": "r1", "p": "sum", "up": "p", "fc": "fc/flatten"}.items():
        quant, compute, dequant = (layers[n] for n in (f"{name}.quant", name, f"{name}.dequant"))
        assert [quant.type, list(quant.bottom), dequant.type] == ["Quant", [bottom], "DeQuant"]
        assert [list(compute.bottom), list(dequant.bottom)] == [list(quant.top), list(compute.top)]
        assert list(dequant.top) == [name]
    point = quantize_of(copy, "data").qparams.data
    assert np.float32(layers["c1.quant"].quant_param.scale) == np.float32(1) / point.scales()
    assert layers["c1.quant"].quant_param.offset == bytes([int(point.zero_points()) & 0xFF])
    assert not layers["c1.quant"].quant_param.HasField("with_offset")
    weight, bias = layers["c1"].blobs
    assert [list(weight.shape.dim), len(weight.int8_data), len(weight.data)] == [[8, 3, 3, 3], 216, 0]
    assert [list(bias.shape.dim), len(bias.int32_data), len(bias.data)] == [[8], 8, 0]
    (scales,) = layers["c1.dequant"].blobs
    product = point.scales() * conv_of(copy, "c1").weight.owner.qparams.data.scales()
    np.testing.assert_array_equal(scales.uint64_data, product.view(np.uint32).astype(np.uint64))
    assert [len(b.uint64_data) for b in layers["fc.dequant"].blobs] == [1]


def quantize_of(module: ModuleOp, name: str) -> nn.QuantizeOp:
    return next(
        op for op in module.walk() if isinstance(op, nn.QuantizeOp) and (op.result.name_hint or "").startswith(name)
    )


def conv_of(module: ModuleOp, name: str) -> Any:
    return next(op for op in module.walk() if isinstance(op, nn.ConvOp) and op.origin and op.origin.layer.data == name)


def test_fake_quant_files(caffe: Any, quantized: tuple[ModuleOp, ModuleOp, Array]) -> None:
    """Weights are the floats that integers stand for; DeQuant holds scales, no shifts and no weight offsets."""
    _, copy, _ = quantized
    layers = {layer.name: layer for layer in parsed(*write(copy, caffe.folder, "fake-quant")).layer}
    weight = conv_of(copy, "c1").weight.owner
    scales = weight.qparams.data.scales().reshape(-1, 1, 1, 1)
    integers = weight.input.owner.array.astype(np.float32)
    np.testing.assert_array_equal(layers["c1"].blobs[0].data, (integers * scales).ravel())
    assert [list(b.shape.dim) for b in layers["c1.dequant"].blobs] == [[8]] * 3
    assert layers["c1.dequant"].dequant_param.channel_wise
    assert [list(b.shape.dim) for b in layers["fc.dequant"].blobs] == [[1]] * 3
    assert not layers["fc.dequant"].dequant_param.channel_wise


def test_float_form_of_a_quantized_module(caffe: Any, quantized: tuple[ModuleOp, ModuleOp, Array]) -> None:
    with pytest.raises(CompileError, match=r"'nn\.quantize' op is quantized, and Caffe's layers are not") as e:
        write(quantized[1], caffe.folder)
    assert "form=deploy" in e.value.hint


@pytest.mark.parametrize("form", ["deploy", "fake-quant"])
def test_quantized_form_of_a_float_module(caffe: Any, quantized: tuple[ModuleOp, ModuleOp, Array], form: str) -> None:
    with pytest.raises(CompileError, match=f"there is no {form} form of a module that is not quantized"):
        write(quantized[0], caffe.folder, form)


FLOAT_TAKERS = """
func.func @main(%x: tensor<1x2x4x4xf32> {nn.name = "data"}) -> (tensor<1x2x4x4xf32> {nn.name = "y"}) {
  %q = nn.quantize %x by <i8, scale = 0.05, zero_point = 3> : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.05, zero_point = 3> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %d : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}
"""


def test_integers_taken_as_floats(tmp_path: Path, rng: np.random.Generator) -> None:
    """A quantized value that a layer takes in float goes through AntiQuant, in the deploy form only."""
    module = parse_module(new_session(), FLOAT_TAKERS)
    x = f(rng, 1, 2, 4, 4) * 3
    wanted = run(module, {"data": x})["y"]
    deploy = parsed(*write(module, tmp_path, "deploy"))
    assert [layer.type for layer in deploy.layer] == ["Input", "Quant", "AntiQuant", "ReLU"]
    anti = deploy.layer[2].quant_param
    assert (np.float32(anti.scale), anti.offset) == (np.float32(0.05), b"\x03")
    (actual,) = in_opencv(deploy, x, deployed, ["r"])
    np.testing.assert_allclose(actual, wanted, atol=1e-6)
    fake = parsed(*write(module, tmp_path, "fake-quant"))
    assert [layer.type for layer in fake.layer] == ["Input", "Quant", "ReLU"]
    np.testing.assert_allclose(in_opencv(fake, x, fake_quant, ["r"])[0], wanted, atol=1e-6)


def test_quantized_otherwise(tmp_path: Path) -> None:
    text = FLOAT_TAKERS.replace("i8", "i16")
    with pytest.raises(CompileError, match="quantizes to i16 or by several scales"):
        write(parse_module(new_session(), text), tmp_path, "deploy")
