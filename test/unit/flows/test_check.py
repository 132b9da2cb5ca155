"""The doctor for quantized files of any tool: each kind of finding, confirmed by running where this processor shows it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import amct_opt
from amct_opt.engines.onnx_runtime import arithmetic
from amct_opt.flows.check import Checked, Finding, check_file
from amct_opt.flows.options import Timed
from amct_opt.flows.repair import repair_file
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ..conftest import Amct

pytest.importorskip("onnxruntime", reason="the extra `onnxruntime` is not installed")

CHANNELS = 4


class File:
    """A convolution between QuantizeLinear and DequantizeLinear, whose parts tests change before it is written."""

    def __init__(self) -> None:
        ends = np.where(np.arange(CHANNELS * 8 * 9) % 3, 40, -50).astype(np.int8)
        self.constants: dict[str, Any] = {"w": ends.reshape(CHANNELS, 8, 3, 3), "b": np.zeros(CHANNELS, np.int32)}
        self.constants |= {"sx": np.float32(0.1), "zx": np.uint8(0), "sy": np.float32(1), "zy": np.uint8(0)}
        self.constants |= {"sw": np.float32(0.01), "zw": np.int8(0), "sb": np.float32(0.001), "zb": np.int32(0)}
        self.kind, self.inputs, self.between = "Conv", ["x.d", "w.d", "b.d"], list[NodeProto]()

    def write(self, path: Path) -> Path:
        node = helper.make_node
        last = self.between[-1].output[0] if self.between else "conv"
        nodes = [
            node("QuantizeLinear", ["x", "sx", "zx"], ["x.q"], axis=1),
            node("DequantizeLinear", ["x.q", "sx", "zx"], ["x.d"], axis=1),
            node("DequantizeLinear", ["w", "sw", "zw"], ["w.d"], axis=0),
            node("DequantizeLinear", ["b", "sb", "zb"], ["b.d"], axis=0),
            node(self.kind, self.inputs, ["conv"], name="conv", kernel_shape=[3, 3]),
            *self.between,
            node("QuantizeLinear", [last, "sy", "zy"], ["y.q"]),
            node("DequantizeLinear", ["y.q", "sy", "zy"], ["y"]),
        ]
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None, None, None]) for name in "xy")
        x.CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 6, 6]))
        constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in self.constants.items()]
        graph = helper.make_graph(nodes, "graph", [x], [y], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path


def checked(file: File, folder: Path, engine: Timed = "onnxruntime", largest: float = 25.5) -> Checked:
    x = np.linspace(0, largest, 8 * 36, dtype=np.float32).reshape(1, 8, 6, 6)
    return check_file(file.write(folder / "file.onnx"), engine, new_session(), lambda _: [{"x": x}])


def told(found: Checked) -> list[Finding]:
    """The findings, apart from ranges that do not fit the data."""
    return [each for each in found.findings if each.kind not in ("clipped", "wasted")]


def only(found: Checked) -> Finding:
    (finding,) = told(found)
    return finding


def relu(file: File) -> None:
    file.between = [helper.make_node("Relu", ["conv"], ["relu"], name="relu")]


def batch_norm(file: File) -> None:
    file.constants |= {name: np.ones(CHANNELS, np.float32) for name in ("n0", "n1", "n2", "n3")}
    point = ["conv", "sy", "zy"]
    file.between = [
        helper.make_node("QuantizeLinear", point, ["c.q"]),
        helper.make_node("DequantizeLinear", ["c.q", *point[1:]], ["c.d"]),
        helper.make_node("BatchNormalization", ["c.d", "n0", "n1", "n2", "n3"], ["n"], name="norm"),
    ]


def relu_outside(file: File) -> None:
    relu(file)
    file.constants["zy"] = np.uint8(100)


def in_16_bits(file: File) -> None:
    file.constants |= {"zx": np.uint16(0), "sx": np.float32(0.001)}


def by_channel(file: File) -> None:
    file.constants |= {"sx": np.full(8, 0.1, np.float32), "zx": np.zeros(8, np.uint8)}


def float_weight(file: File) -> None:
    file.constants["v"] = file.constants["w"].astype(np.float32) / 100
    file.inputs[1] = "v"


def large_bias(file: File) -> None:
    file.constants |= {"b": np.ones(CHANNELS, np.int32), "sb": np.float32(0.1)}


def transposed(file: File) -> None:
    file.kind, file.constants["w"] = "ConvTranspose", file.constants["w"].swapaxes(0, 1)


def wrong_sums(file: File) -> None:
    file.constants |= {"w": np.full((CHANNELS, 8, 3, 3), 120, np.int8), "sy": np.float32(8)}


def wrong_sums_by_channel(file: File) -> None:
    wrong_sums(file)
    file.constants["w"][1] = 3
    file.constants |= {"sw": np.full(CHANNELS, 0.01, np.float32), "zw": np.zeros(CHANNELS, np.int8)}
    file.constants |= {"sb": np.full(CHANNELS, 0.001, np.float32), "zb": np.zeros(CHANNELS, np.int32)}


def test_a_file_without_faults(tmp_path: Path) -> None:
    """A Relu whose range begins at 0 is merged."""
    file = File()
    relu(file)
    found = checked(file, tmp_path)
    assert (found.integers, found.floats, told(found)) == (1, 0, [])
    assert found.outputs["y"].sqnr > 40


@pytest.mark.parametrize(
    ("change", "kind", "reason"),
    [
        (relu_outside, "in float", "the range of 'relu', Relu, begins at -100, so that it is not merged"),
        (in_16_bits, "in float", "its input 'x.d' is uint16, and the engine has no kernel for that"),
        (by_channel, "in float", "its input 'x.d' has a scale for each channel"),
        (float_weight, "in float", "its weight 'v' is not quantized"),
        (large_bias, "in float", "the scale of its bias is 100 times that of its sums"),
        (transposed, "in float", "onnxruntime computes ConvTranspose in float here"),
        (batch_norm, "float island", "onnxruntime computes BatchNormalization in float here"),
    ],
)
def test_what_is_in_float_has_a_reason(change: Callable[[File], None], kind: str, reason: str, tmp_path: Path) -> None:
    """What is in float is what the engine says: each is confirmed by loading it."""
    file = File()
    change(file)
    finding = only(checked(file, tmp_path))
    assert (finding.kind, finding.reason) == (kind, reason)


def test_sums_that_leave_16_bits_name_processors(tmp_path: Path) -> None:
    file = File()
    wrong_sums(file)
    found = checked(file, tmp_path)
    finding = only(found)
    assert (finding.layer, finding.kind) == ("conv", "16-bit sums")
    assert "without VNNI (AMD Zen 1 to 3" in finding.processors
    assert finding.reason.startswith("in 4 of 4 output channels; ")
    assert not finding.reason.endswith("; 0 sums on this data")
    assert (found.outputs["y"].sqnr < 30) == (arithmetic() == "saturates")


@pytest.mark.parametrize(("channels", "wrong"), [(8, False), (3, True)])
def test_openvino_adds_channels_of_one_position(channels: int, wrong: bool, tmp_path: Path) -> None:
    """Its neighbours are others than onnxruntime's if the number of channels is odd. Neighbours in onnxruntime's order have
    opposite signs.
    """
    pytest.importorskip("openvino", reason="the extra `openvino` is not installed")
    file, columns = File(), np.where(np.arange(9 * channels).reshape(9, channels) % 2, -120, 120)
    if wrong:
        columns[0::2], columns[1::2] = (120, -120, -120), (120, 120, -120)
    weight = columns.T.reshape(1, channels, 3, 3).repeat(CHANNELS, 0)
    file.constants |= {"w": weight.astype(np.int8), "zy": np.uint8(128), "sy": np.float32(0.5)}
    assert not told(checked_of(file, tmp_path, "onnxruntime", channels))
    found = checked_of(file, tmp_path, "openvino", channels)
    assert [each.kind for each in told(found)] == (["16-bit sums"] if wrong else [])
    assert (found.outputs["y"].sqnr < 20) == (wrong and arithmetic() == "saturates")


def checked_of(file: File, folder: Path, engine: Timed, channels: int) -> Checked:
    """For an input of some channels, whose integers are 255."""
    path = file.write(folder / "file.onnx")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = channels
    onnx.save(model, path)
    x = np.full((1, channels, 6, 6), 25.5, np.float32)
    return check_file(path, engine, new_session(), lambda _: [{"x": x}])


def test_layers_in_float_have_no_sums_of_integers(tmp_path: Path) -> None:
    file = File()
    file.constants["w"] = np.full((CHANNELS, 8, 3, 3), 120, np.int8)
    large_bias(file)
    assert only(checked(file, tmp_path)).kind == "in float"


def test_weights_of_minus_128_are_for_arm(tmp_path: Path) -> None:
    file = File()
    file.constants["w"] = np.zeros((CHANNELS, 8, 3, 3), np.int8)
    file.constants["w"][1, 0, 0, :2] = -128
    found = checked(file, tmp_path)
    assert [(each.kind, each.reason) for each in found.findings if each.kind == "-128"] == [
        ("-128", "in 1 of 4 output channels")
    ]
    assert all("Arm" in each.processors for each in found.findings if each.kind == "-128")


@pytest.mark.parametrize(("largest", "kind"), [(100, "clipped"), (2, "wasted")])
def test_ranges_are_held_against_data(largest: float, kind: str, tmp_path: Path) -> None:
    found = checked(File(), tmp_path, largest=largest)
    assert kind in {each.kind for each in found.findings if each.layer == "x"}


def joined(file: File) -> None:
    file.constants["s2"] = np.float32(0.5)
    points: Sequence[str] = ("sy", "s2")
    file.between = [
        each
        for name in points
        for each in (
            helper.make_node("QuantizeLinear", ["conv", name, "zy"], [f"{name}.q"]),
            helper.make_node("DequantizeLinear", [f"{name}.q", name, "zy"], [f"{name}.d"]),
        )
    ]
    file.between.append(helper.make_node("Concat", ["sy.d", "s2.d"], ["joined"], name="joined", axis=1))


def test_concat_of_other_scales(tmp_path: Path) -> None:
    file = File()
    joined(file)
    finding = next(each for each in checked(file, tmp_path).findings if each.kind == "concat")
    assert finding.reason == "its inputs have scales 1, 0.5, its result 1: values are rounded a second time"


def test_what_is_not_quantized_is_an_error(tmp_path: Path) -> None:
    model = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
    with pytest.raises(CompileError, match=r"digits\.onnx: error: nothing in it is quantized"):
        check_file(model, "onnxruntime", new_session())


def test_the_command(amct_tool: Amct, tmp_path: Path) -> None:
    file = File()
    file.constants["w"] = np.full((CHANNELS, 8, 3, 3), 120, np.int8)
    path = file.write(tmp_path / "file.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((1, 8, 6, 6), np.float32))
    result = amct_tool("check", path, "--for", "onnxruntime", "--data", tmp_path / "x.npz")
    assert result.status == 1
    assert "16-bit sums on x86-64 with AVX2" in result.out
    assert f"{path}: error: conv: 16-bit sums on x86-64 with AVX2" in result.err
    result = amct_tool("check", path, "--for", "onnxruntime", "--json")
    assert [each["layer"] for each in json.loads(result.out)["findings"]] == ["conv"]


@pytest.mark.parametrize(
    ("change", "repaired"),
    [
        (wrong_sums, [("conv", "4 output channels of its weight get larger scales")]),
        (wrong_sums_by_channel, [("conv", "3 output channels of its weight get larger scales")]),
        (relu_outside, [("relu", "its range begins at 0 instead of -100")]),
        (large_bias, [("conv", "its bias gets the scale of its sums instead of 100 times that")]),
        (joined, [("joined", "1 of 2 inputs get the scale of its result")]),
        (relu, []),
    ],
)
def test_what_needs_no_data_is_repaired(
    change: Callable[[File], None], repaired: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Nothing is found in the new file, whose outputs are close to what the file specifies."""
    file = File()
    change(file)
    path, out = file.write(tmp_path / "file.onnx"), tmp_path / "new.onnx"
    assert repair_file(path, out, new_session()) == repaired
    onnx.checker.check_model(onnx.load(out), full_check=True)
    x = np.linspace(0, 25.5, 8 * 36, dtype=np.float32).reshape(1, 8, 6, 6)
    found = check_file(out, "onnxruntime", new_session(), lambda _: [{"x": x}])
    assert told(found) == []
    before, after = (amct_opt.execute(amct_opt.load(each).module, {"x": x})["y"] for each in (path, out))
    assert np.square(before - after).sum() < 1e-3 * np.square(before).sum()


def test_the_command_repairs(amct_tool: Amct, tmp_path: Path) -> None:
    file = File()
    wrong_sums(file)
    path, out = file.write(tmp_path / "file.onnx"), tmp_path / "new.onnx"
    result = amct_tool("check", path, "--for", "onnxruntime", "--fix", out)
    assert (result.status, result.err) == (0, "")
    assert "4 output channels of its weight get larger scales" in result.out
    assert "nothing was found" in result.out
    assert json.loads(amct_tool("check", out, "--for", "onnxruntime", "--json").out)["repairs"] == []


@pytest.mark.parametrize("name", ["", "same"])
def test_layers_without_a_name_of_their_own_are_repaired(name: str, tmp_path: Path) -> None:
    file = File()
    wrong_sums(file)
    relu(file)
    model = onnx.load(file.write(tmp_path / "file.onnx"))
    for node in model.graph.node:
        node.name = name
    onnx.save(model, tmp_path / "file.onnx")
    changes = [("Conv_4", "4 output channels of its weight get larger scales")]
    assert repair_file(tmp_path / "file.onnx", tmp_path / "new.onnx", new_session()) == changes


@pytest.mark.parametrize("change", [relu_outside, joined])
def test_integers_that_are_outputs_keep_their_meaning(change: Callable[[File], None], tmp_path: Path) -> None:
    file = File()
    change(file)
    model = onnx.load(file.write(tmp_path / "file.onnx"))
    points = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in points)
    onnx.save(model, tmp_path / "file.onnx")
    assert repair_file(tmp_path / "file.onnx", tmp_path / "new.onnx", new_session()) == []


def test_what_is_not_quantized_is_not_repaired(tmp_path: Path) -> None:
    model = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
    with pytest.raises(CompileError, match="nothing in it is quantized"):
        repair_file(model, tmp_path / "new.onnx", new_session())
    assert not (tmp_path / "new.onnx").exists()
