"""What is read back from Caffe's deploy form computes, bit for bit, what the module computes; other files are located errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.dialects import ascend, nn
from amct_opt.formats.caffe.schema import NetParameter
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import Executable
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.caffe import CaffeTarget

from ..deployments import assert_equal
from ..nets import Net, int8, real, scales


def int32(count: int) -> Any:
    return np.random.default_rng(2).integers(-(2**27), 2**27, count).astype(np.int32)


def read(prototxt: Path, caffemodel: Path) -> Any:
    session = new_session()
    session.imports = ImportOptions(weights=caffemodel)
    module = frontends.read(prototxt, session)
    verify(module)
    return module


def check(module: Any, shape: tuple[int, ...], folder: Path) -> Any:
    """The module that is read back."""
    files = CaffeTarget(form="deploy").write(module, folder / "net.prototxt", new_session())
    back = read(*files)
    assert_equal(module, back, {"x": real(*shape)})
    return back


def caffe_net(*shape: int) -> Net:
    return Net(*shape, framework="caffe")


WINDOW = {"pads": [1, 2, 1, 2], "strides": [2, 1], "zero_point": -5}
CONVOLUTIONS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any], Any]] = {
    "plain": (nn.ConvOp, (1, 3, 7, 6), (4, 3, 3, 2), WINDOW, ascend.Conv2DOp),
    "dilated": (nn.ConvOp, (1, 3, 9, 9), (4, 3, 3, 3), {"dilations": [2, 2], "zero_point": 9}, ascend.Conv2DOp),
    "grouped": (nn.ConvOp, (1, 6, 5, 5), (4, 3, 3, 3), {"groups": 2, "zero_point": -128}, ascend.Conv2DOp),
    "transposed": (
        nn.ConvTransposeOp,
        (1, 3, 4, 5),
        (3, 4, 3, 3),
        {"pads": [1, 1, 1, 1], "strides": [2, 2], "zero_point": -11, "axis": 1, "op_type": "Deconvolution"},
        ascend.DeconvolutionOp,
    ),
}


@pytest.mark.parametrize("per_channel", [True, False], ids=["per channel", "per tensor"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case: str, per_channel: bool, tmp_path: Path) -> None:
    kind, shape, weight, properties, wanted = CONVOLUTIONS[case]
    net, given = caffe_net(*shape), {"op_type": "Convolution", **properties}
    y = net.layer(kind, net.x, int8(*weight), scales=scales(4) if per_channel else 0.01, bias=int32(4), **given)
    back = check(net.module(y), shape, tmp_path)
    assert sum(isinstance(op, wanted) for op in back.walk()) == 1


@pytest.mark.parametrize("shape", [(1, 7), (1, 3, 7), (1, 2, 3, 7)], ids=["1", "2", "3"])
def test_inner_product(shape: tuple[int, ...], tmp_path: Path) -> None:
    net = caffe_net(*shape)
    properties = {"transpose_b": True, "name": "fc", "op_type": "InnerProduct", "zero_point": -9}
    check(net.module(net.layer(nn.MatMulOp, net.x, int8(5, 7), bias=int32(5), **properties)), shape, tmp_path)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]], ids=["", "padding"])
def test_average(pads: list[int], tmp_path: Path) -> None:
    net = caffe_net(1, 3, 9, 9)
    x = net.quantized(net.x, 0.0371, -77)
    window = {"kernel": [3, 3], "strides": [2, 2], "pads": pads, "count_include_pad": True, "ceil_mode": True}
    y = net.add(nn.AveragePoolOp, x, **window, layer="pool", op_type="Pooling")
    back = check(net.module(y), (1, 3, 9, 9), tmp_path)
    assert any(isinstance(op, ascend.PoolingOp) for op in back.walk())


def test_windows_that_count_otherwise_average_in_float(tmp_path: Path) -> None:
    """The last windows of an axis of 10 have two of three elements: no scale divides all sums."""
    net = caffe_net(1, 3, 10, 10)
    x = net.quantized(net.x, 0.0371, -77)
    y = net.add(nn.AveragePoolOp, x, kernel=[3, 3], strides=[2, 2], ceil_mode=True, layer="pool", op_type="Pooling")
    back = check(net.module(y), (1, 3, 10, 10), tmp_path)
    assert not any(isinstance(op, ascend.AscendDequantOp) for op in back.walk())
    assert any(isinstance(op, ascend.AscendAntiQuantOp) for op in back.walk())


@pytest.mark.parametrize("beside_integers", [True, False])
def test_read_in_float(beside_integers: bool, tmp_path: Path) -> None:
    """Next to a layer in integers or not: AntiQuant alone says that the file is of the deploy form."""
    net = caffe_net(1, 3, 4, 4)
    others = (
        [net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1), op_type="Convolution", zero_point=-9)] if beside_integers else []
    )
    b = net.add(nn.SigmoidOp, net.quantized(net.x, 0.03, -9), layer="gate", op_type="Sigmoid")
    back = check(net.module(*others, b), (1, 3, 4, 4), tmp_path)
    (anti,) = (op for op in back.walk() if isinstance(op, ascend.AscendAntiQuantOp))
    assert anti.offset.value.data == 9


def test_scales_of_the_last_axis(tmp_path: Path) -> None:
    """DeQuant has scales along axis 1: a product of blobs of rank 4 with scales per column computes in float."""
    net = caffe_net(1, 4, 2, 7)
    y = net.layer(nn.MatMulOp, net.x, int8(7, 3), scales=scales(3), axis=1, op_type="InnerProduct", zero_point=-9)
    files = CaffeTarget(form="deploy").write(net.module(y), tmp_path / "net.prototxt", session := new_session())
    assert "computes in float: DeQuant has scales along axis 1" in " ".join(r.reason for r in session.remarks)
    assert not any(isinstance(op, ascend.AscendDequantOp) for op in read(*files).walk())


@pytest.mark.parametrize(
    ("kind", "space"), [(nn.ConvTransposeOp, (3, 4, 5)), (nn.ConvOp, (7,)), (nn.ConvTransposeOp, (7,))]
)
def test_no_operator_in_integers(kind: Any, space: tuple[int, ...], tmp_path: Path) -> None:
    """Ascend IR has no int8 convolution along one axis, and no transposed one along three: the layer computes in float."""
    net = caffe_net(1, 4, *space)
    y = net.layer(kind, net.x, int8(4, 4, *(2 for _ in space)), op_type="Convolution", zero_point=-9)
    files = CaffeTarget(form="deploy").write(net.module(y), tmp_path / "net.prototxt", session := new_session())
    assert "computes in float: Ascend IR has no operator of this type" in " ".join(r.reason for r in session.remarks)
    (anti,) = (op for op in read(*files).walk() if isinstance(op, ascend.AscendAntiQuantOp))
    assert anti.offset.value.data == 9


def test_the_fake_quant_form(tmp_path: Path) -> None:
    """Quant rounds floats, DeQuant changes nothing; the weights are the floats that integers stand for."""
    net = caffe_net(1, 3, 4, 4)
    y = net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1), op_type="Convolution", zero_point=-9, scales=scales(4))
    module = net.module(y)
    back = read(*CaffeTarget(form="fake-quant").write(module, tmp_path / "net.prototxt", new_session()))
    kinds = [op.name for op in back.walk() if isinstance(op, nn.NNOp)]
    assert (kinds.count("nn.quantize"), kinds.count("nn.opaque")) == (1, 0)
    inputs = {"x": real(1, 3, 4, 4)}
    found, expected = (next(iter(Executable(m).run(inputs).values())) for m in (back, module))
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("blobs", [1, 3], ids=["another number of blobs", "offsets of the weight"])
def test_dequant_of_the_fake_quant_form_that_changes_numbers_is_carried(blobs: int, tmp_path: Path) -> None:
    net = caffe_net(1, 3, 4, 4)
    module = net.module(net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1), op_type="Convolution"))
    files = CaffeTarget(form="fake-quant").write(module, tmp_path / "net.prototxt", new_session())
    weights = NetParameter.FromString(files[1].read_bytes())
    layer = next(each for each in weights.layer if each.name == "conv.dequant")
    layer.blobs[2].data[:] = [1.0]
    del layer.blobs[blobs:]
    files[1].write_bytes(weights.SerializeToString())
    with pytest.raises(CompileError, match="DeQuant has no equivalent here"):
        read(*files)


Change = Callable[[Any], object]


def blob(layer: str, index: int, **values: Any) -> Change:
    """Other numbers in a blob of the caffemodel."""

    def change(weights: Any) -> None:
        found = next(each for each in weights.layer if each.name == layer).blobs[index]
        shape = list(found.shape.dim)
        found.Clear()
        for name, value in values.items():
            if name == "int8_data":
                found.int8_data = value
            else:
                getattr(found, name).extend(value)
        count = len(next(iter(values.values())))
        found.shape.dim.extend(shape if np.prod(shape) == count else [count])

    return change


def without(layer: str) -> Change:
    def change(weights: Any) -> None:
        del next(each for each in weights.layer if each.name == layer).blobs[:]

    return change


BITS = 0x3A83126F
CASES: dict[str, tuple[Change, tuple[str, str], str]] = {
    "float weight": (blob("conv", 0, data=[1.0] * 12), ("", ""), "a weight of float32, but it must be int8"),
    "float bias": (blob("conv", 1, data=[1.0] * 4), ("", ""), "a bias of float32, but it must be int32"),
    "float scales": (blob("conv.dequant", 0, data=[1.0] * 4), ("", ""), "needs one of 64-bit integers"),
    "no scales": (without("conv.dequant"), ("", ""), "has 0 blobs, but it needs one"),
    "two scales": (blob("conv.dequant", 0, uint64_data=[BITS] * 2), ("", ""), "4 and 2"),
    "weight offset": (blob("conv.dequant", 0, uint64_data=[1 << 40 | BITS] * 4), ("", ""), "an offset that is not 0"),
    "scale 0": (blob("conv.dequant", 0, uint64_data=[0] * 4), ("", ""), "not positive and finite"),
    "no scale": (lambda _: None, (r"scale: \S+\n", ""), "has no scale"),
    "two bytes": (lambda _: None, (r'offset: "\S+"', 'offset: "ab"'), "an offset of 2 bytes"),
    "infinite": (lambda _: None, (r"scale: \S+\n", "scale: inf\n"), "the scale inf"),
    "in float": (lambda _: None, ('type: "Convolution"', 'type: "Sigmoid"'), "computes in float, and takes"),
    "between": (lambda _: None, ('type: "DeQuant"', 'type: "ReLU"'), "DeQuant must follow"),
}


@pytest.mark.parametrize("case", CASES)
def test_located(case: str, tmp_path: Path) -> None:
    change, (old, new), message = CASES[case]
    net = caffe_net(1, 3, 4, 4)
    y = net.layer(
        nn.ConvOp, net.x, int8(4, 3, 1, 1), scales=scales(4), bias=int32(4), zero_point=-5, op_type="Convolution"
    )
    prototxt, caffemodel = CaffeTarget(form="deploy").write(net.module(y), tmp_path / "net.prototxt", new_session())
    weights = NetParameter.FromString(caffemodel.read_bytes())
    change(weights)
    caffemodel.write_bytes(weights.SerializeToString())
    text = prototxt.read_text()
    assert re.search(old, text)
    prototxt.write_text(re.sub(old, new, text, count=1) if old else text)
    with pytest.raises(CompileError, match=message) as caught:
        read(prototxt, caffemodel)
    assert caught.value.where.startswith(f"{prototxt}:")
