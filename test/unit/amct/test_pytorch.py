"""AMCT's functions for PyTorch: the script, what calibrates, names and sizes of the files, the KV cache, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import amct_opt
from amct_opt.amct import pytorch as amct
from amct_opt.configuration.record import read_record
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct as amct_command
from amct_opt.transforms.quantization.numbers.divergence import divergence_scales

from ..frameworks import later, nn, torch
from ..scripts import script

modules = later(f"{__package__}.modules")


@pytest.mark.slow
def test_script(tmp_path: Path) -> None:
    """On the digits network: nearly as accurate as in float."""
    original, quantized, automatic = script("examples/amct/calibrate_pytorch").main(str(tmp_path))
    assert original > 0.95
    assert original - min(quantized, automatic) < 0.02


class Flow:
    """The files of a calibration of the network, and its module, which is in training mode."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.config, self.record, self.modified = (
            folder / "made" / name for name in ("config.json", "record.txt", "modified.onnx")
        )
        self.model = modules.Net()

    def configure(self, batch_num: int = 1, do_fusion: bool = True, **layer: Any) -> None:
        """Write a configuration, without tracing the module."""
        self.config.parent.mkdir()
        values = {"version": 1, "batch_num": batch_num, "do_fusion": do_fusion, "conv": layer, "fc": {}}
        self.config.write_text(json.dumps(values))

    def quantize(self, **options: Any) -> Any:
        return amct.quantize_model(self.config, self.modified, self.record, self.model, (modules.X[:1],), **options)

    def save(self) -> tuple[Path, ...]:
        return amct.save_model(self.modified, self.record, self.folder / "saved" / "net")


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def outputs(path: Path, array: torch.Tensor) -> list[Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return list(session.run(None, {session.get_inputs()[0].name: array.numpy()}))


@pytest.mark.slow
def test_calibrated(flow: Flow) -> None:
    """Batches of any size calibrate; files have the names and sizes that were asked for; the module is not changed."""
    before = {name: value.clone() for name, value in flow.model.state_dict().items()}
    amct.create_quant_config(flow.config, flow.model, (modules.X[:1],), skip_layers=["fc"], batch_num=2)
    made = json.loads(flow.config.read_text())
    assert (made["batch_num"], made["conv"]["quant_enable"], made["fc"]["quant_enable"]) == (2, True, False)
    calibrating = flow.quantize(input_names=["pixels"], output_names=["f", "y"]).eval()
    calibrating(modules.X[:4])
    for call, message in (
        (flow.save, r"record\.txt: error: the record does not exist: calibration is not complete"),
        (lambda: calibrating(modules.X, 2.0), "Net: error: is called with image, scale; input_data has image"),
        (
            lambda: amct.quantize_preprocess(flow.config, flow.record, flow.model, modules.X),
            r"config\.json: error: no layer has dmq_balancer_param",
        ),
    ):
        with pytest.raises(CompileError, match=message):
            call()
    calibrating(image=modules.X[4:])
    record = flow.record.read_text()
    calibrating(modules.X * 100)
    assert flow.record.read_text() == record
    assert list(read_record(flow.record).layers) == ["conv"]
    assert flow.model.training
    assert all(torch.equal(value, before[name]) for name, value in flow.model.state_dict().items())
    names = {"net_fake_quant_model.onnx", "net_deploy_model.onnx", "net_record.txt", "net_quant.json"}
    assert {f.name for f in flow.save()} == names
    own = flow.folder / "own" / "net_record.txt"  # in the place of the record that would be written: it stays
    own.parent.mkdir()
    own.write_text(record)
    assert {f.name for f in amct.save_model(flow.modified, own, own.parent / "net")} == names - {own.name}
    assert own.read_text() == record
    fake, deploy, *_ = flow.save()
    graph = onnx.load(deploy).graph
    assert [(i.name, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in graph.input] == [
        ("pixels", [1, 3, 6, 6])
    ]
    assert [o.name for o in graph.output] == ["f", "y"]
    assert {"conv.quant", "conv", "conv.dequant"} < {n.name for n in graph.node}
    expected = flow.model.eval()(modules.X[:1])
    found = outputs(fake, modules.X[:1])
    assert 0 < np.abs(found[0] - expected["features"].detach().numpy()).max() < 0.05


@pytest.mark.slow
def test_weights_of_four_bits(flow: Flow) -> None:
    """They are packed along input channels, two in a byte; odd numbers of channels and groups stay at 8 bits (AMCT)."""

    class Kinds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.odd, self.conv = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 1)
            self.groups, self.up = nn.Conv2d(4, 4, 1, groups=2), nn.ConvTranspose2d(4, 6, 2)
            self.one = nn.Conv1d(6, 10, 1)
            self.rnn, self.fc, self.out = nn.GRU(10, 4, batch_first=True), nn.Linear(4, 2), nn.Linear(2, 3, bias=False)

        def forward(self, image: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            x = self.up(self.groups(self.conv(torch.relu(self.odd(image))))).flatten(2)
            return self.out(self.fc(self.rnn(self.one(x).transpose(1, 2)[:, :1], state)[0]))

    flow.model = Kinds().eval()
    inputs = modules.X[:4], torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(1)) / 2
    simplified = flow.folder / "four.cfg"
    simplified.write_text("common_config { arq_quantize { channel_wise: false quant_bits: 4 } }")
    amct.create_quant_config(flow.config, flow.model, inputs, config_defination=simplified)
    config = json.loads(flow.config.read_text())
    bits = {name: each["weight_quant_params"]["num_bits"] for name, each in config.items() if isinstance(each, dict)}
    assert {name for name, each in bits.items() if each == 8} == {"odd", "groups"}
    assert len(bits) == 8
    amct.quantize_model(flow.config, flow.modified, flow.record, flow.model, inputs)(*inputs)
    assert flow.record.read_text().count('wts_type: "INT4"') == 6
    fake, deploy, *_ = flow.save()
    sizes = {tuple(i.dims) for i in onnx.load(deploy).graph.initializer if i.data_type == onnx.TensorProto.INT8}
    whole, packed = {(8, 3, 3, 3), (4, 2, 1, 1)}, {(4, 4, 1, 1), (2, 6, 2, 2), (10, 3, 1), (2, 2), (1, 3)}
    assert sizes == whole | packed | {(1, 12, 5), (1, 12, 2)}
    module, session = amct_opt.load(deploy)
    given: dict[str, Any] = dict(zip(("image", "state"), (each.numpy() for each in inputs), strict=True))
    found = amct_opt.execute(module, given)
    session_of_fake = onnxruntime.InferenceSession(fake, providers=["CPUExecutionProvider"])
    expected = np.asarray(session_of_fake.run(None, given)[0])
    # activations next to the middle between two integers may round to either
    np.testing.assert_allclose(found["output"], expected, rtol=0, atol=0.02 * np.abs(expected).max())
    amct_opt.save(module, flow.folder / "again.onnx", session, "onnx-ascend")
    again = onnx.load(flow.folder / "again.onnx").graph.initializer
    assert {tuple(i.dims) for i in again if i.data_type == onnx.TensorProto.INT8} == sizes


ADA: dict[str, Any] = {"weight_quant_params": {"wts_algo": "ada_quantize", "num_iteration": 100, "channel_wise": True}}


@pytest.mark.slow
def test_rounding_is_kept(flow: Flow) -> None:
    """The integers that `ada_quantize` finds are those of the files; the factors, which the record has, give the nearest ones."""
    flow.configure(**ADA)
    flow.quantize().eval()(modules.X)
    folder = flow.folder / "saved"
    flow.save()
    amct_command.run(
        [
            *("convert", "--quiet", "--model", str(flow.modified)),
            *("--record_file", str(flow.record), "--save_path", str(folder / "nearest")),
        ]
    )
    found, nearest = (integers(folder / f"{name}_deploy_model.onnx", "conv") for name in ("net", "nearest"))
    moved = np.abs(found.astype(int) - nearest)
    assert 0 < moved.sum() < moved.size / 2
    assert moved.max() == 1


def integers(path: Path, layer: str) -> np.ndarray[Any, np.dtype[np.int8]]:
    """The weight of a layer in a deployable file."""
    graph = onnx.load(path).graph
    name = next(node.input[1] for node in graph.node if node.name == layer)
    return onnx.numpy_helper.to_array(next(each for each in graph.initializer if each.name == name))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1, 0], ids=["rounded", "nothing to gain"])
def test_scales_of_adaround(flow: Flow, factor: int) -> None:
    """The record has AMCT's: those of least divergence from the histogram of the weight, whether or not rounding helps."""
    flow.configure(do_fusion=False, **ADA)
    flow.quantize().eval()(modules.X * factor)
    assert isinstance(flow.model, modules.Net)
    scales = divergence_scales(flow.model.conv.weight.detach().numpy(), 0)
    assert read_record(flow.record).layers["conv"].scale_w == tuple(scales.tolist())


@pytest.mark.slow
def test_open_sizes_and_no_fusion(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    """The modified model keeps what the configuration says of fusion, for records that do not."""
    flow.configure(do_fusion=False)
    axes = {"image": {0: "n"}, "logits": {0: "n"}}
    flow.quantize(dynamic_axes=axes).eval()(modules.X)
    flow.record.write_text(flow.record.read_text().replace("    skip_fusion: true\n", ""))
    deploy = onnx.load(flow.save()[1]).graph
    assert [d.dim_param or d.dim_value for d in deploy.input[0].type.tensor_type.shape.dim] == ["n", 3, 6, 6]
    assert any(n.op_type == "BatchNormalization" or n.name.startswith("norm") for n in deploy.node)
    assert "is fixed to" not in capsys.readouterr().err


@pytest.mark.slow
def test_balanced(flow: Flow) -> None:
    """The factors are those of the last run before quantize_model, whatever calibrates."""
    flow.configure(dmq_balancer_param=0.5)
    with pytest.raises(CompileError, match=r"record\.txt: error: has no factors for dmq_balancer"):
        flow.quantize()
    preprocessing = amct.quantize_preprocess(flow.config, flow.record, flow.model.eval(), (modules.X[:1],))
    factors: list[tuple[float, ...]] = []
    for batch in (modules.X[:2], modules.X[2:]):
        preprocessing(batch)
        found = read_record(flow.record).layers
        factors.append(found["conv"].tensor_balance_factor)
        assert found["conv"].scale_d is None
    assert len(factors[0]) == 3
    assert factors[0] != factors[1]
    flow.quantize()(modules.X[:2])
    calibrated = read_record(flow.record).layers["conv"]
    assert calibrated.scale_d is not None
    np.testing.assert_allclose(calibrated.tensor_balance_factor, factors[1], 1e-6)
    assert flow.save()


class Judge(amct.AutoCalibrationEvaluatorBase):
    """Accepts one quantized layer."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, float]] = []

    def calibration(self, model: Any) -> None:
        model(modules.X[:4])
        model(modules.X[4:])

    def evaluate(self, model: Any) -> float:
        assert isinstance(model, modules.Net)
        found = model(modules.X)
        assert found["nothing"] is None
        self.calls.append((len(found), float(found["logits"].detach().abs().max())))
        return float(len(self.calls))

    def metric_eval(self, original: float, metric: float) -> tuple[bool, float]:
        return metric != 2, metric


@pytest.mark.slow
def test_a_module_called_like_an_operator(flow: Flow) -> None:
    """It keeps its name, so that it can be skipped; the operator has a number."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.act, self.mean = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Linear(8, 4)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.mean(self.act(self.body(image)).mean((2, 3)))

    model = Encoder().eval()
    amct.create_quant_config(flow.config, model, modules.X, skip_layers=["mean"])
    config = json.loads(flow.config.read_text())
    assert {name: each["quant_enable"] for name, each in config.items() if isinstance(each, dict)} == {
        "body": True,
        "mean": False,
    }
    for name, reason in (("mean_1", "has no layer that"), ("act", "has no layer that"), ("men", "is not a layer or")):
        with pytest.raises(CompileError, match=f"skip_layers names '{name}', which {reason}"):
            amct.create_quant_config(flow.config, model, modules.X, skip_layers=[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strength", "order"),
    [(None, "head pool right left stem"), (0.5, "stem left right head pool")],
    ids=["as made", "balanced as they run"],
)
def test_order_of_the_record(flow: Flow, strength: float | None, order: str) -> None:
    """AMCT's: the order in which modules are made but, with DMQ, layers with factors first, as they run."""

    class Branches(nn.Module):
        """Layers that run in another order than that in which they are made."""

        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 5)
            self.pool = nn.AvgPool2d(2)
            self.right, self.left = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(4, 8, 1)
            self.stem = nn.Conv2d(3, 4, 3, padding=1)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.stem(image))
            left = self.left(x).mean((2, 3))
            return self.head(left + self.right(self.pool(x)).mean((2, 3)))

    flow.model = Branches().eval()
    amct.create_quant_config(flow.config, flow.model, modules.X)
    if strength is not None:
        config = json.loads(flow.config.read_text())
        weighted = [each for name, each in config.items() if isinstance(each, dict) and name != "pool"]
        for each in weighted:
            each["dmq_balancer_param"] = strength
        flow.config.write_text(json.dumps(config))
        amct.quantize_preprocess(flow.config, flow.record, flow.model, modules.X)(modules.X)
    flow.quantize()(modules.X[:1])
    assert " ".join(read_record(flow.record).layers) == order


@pytest.mark.slow
def test_fusion_does_not_change_the_order(flow: Flow) -> None:
    """Layers run as they are made, and their batch norms are folded."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv3, self.bn3 = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
            self.downsample = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            y = self.bn3(self.conv3(image))
            return torch.relu(y + self.downsample(image))

    flow.model = Block().eval()
    amct.create_quant_config(flow.config, flow.model, modules.X)
    flow.quantize()(modules.X[:1])
    assert [*read_record(flow.record).layers] == ["conv3", "downsample.0"]


@pytest.mark.slow
def test_the_search_gives_the_evaluator_modules(flow: Flow) -> None:
    """They take the arguments of the module, and return what it returns."""
    flow.configure(batch_num=2)
    judge, save_dir = Judge(), flow.folder / "out" / "net"
    given = (flow.config, flow.record, save_dir, (modules.X[:1],))
    *written, record = amct.accuracy_based_auto_calibration(flow.model.eval(), judge, *given)
    assert [length for length, _ in judge.calls] == [3, 3, 3]
    assert len({value for _, value in judge.calls}) == 3
    assert record == flow.record
    assert record.read_text().count("scale_d") == 1
    searched = {
        f"accuracy_based_auto_calibration_{part}.json" for part in ("final_config", "record", "ranking_information")
    }
    assert searched < {f.name for f in written}
    shape = onnx.load(save_dir.parent / "net_deploy_model.onnx").graph.input[0].type.tensor_type.shape
    assert [d.dim_value for d in shape.dim] == [1, 3, 6, 6]


@pytest.mark.slow
def test_states_that_nothing_reads(tmp_path: Path) -> None:
    """A layer of torch returns them all the same, without which it is not quantized."""

    class Last(modules.Sequences):
        def forward(self, x: torch.Tensor, states: tuple[torch.Tensor, torch.Tensor]) -> Any:
            return super().forward(x, states)[0]

    config, states = tmp_path / "config.json", (torch.zeros(1, 2, 3), torch.zeros(1, 2, 3))
    amct.create_quant_config(config, Last(), (torch.ones(2, 5, 4), states))
    assert json.loads(config.read_text())["rnn"]["quant_enable"]


@pytest.mark.slow
def test_sequences_of_several_steps(tmp_path: Path) -> None:
    """AMCT for PyTorch calibrates on all states; that for ONNX takes one step. Tuples are passed and returned."""
    x, states = torch.ones(2, 5, 4), (torch.zeros(1, 2, 3), torch.zeros(1, 2, 3))

    class Runs(amct.AutoCalibrationEvaluatorBase):
        def calibration(self, *model: Any) -> None:
            model[0](x, states)

        def evaluate(self, *model: Any) -> float:
            found, (hidden, _) = model[0](x, states=states)
            assert (found.shape, hidden.shape) == ((2, 5, 3), (1, 2, 3))
            return float(hidden.detach().sum())

        def metric_eval(self, original_metric: Any, new_metric: Any) -> tuple[bool, Any]:
            return True, new_metric

    config, record = tmp_path / "config.json", tmp_path / "record.txt"
    config.write_text(json.dumps({"version": 1, "rnn": {}}))
    model = modules.Sequences()
    amct.accuracy_based_auto_calibration(model, Runs(), config, record, tmp_path / "P", (x, states))
    assert read_record(record).layers["rnn"].scale_h is not None


def test_evaluator(tmp_path: Path) -> None:
    """A run per file, in the order of their names; all inputs at once."""
    calls: list[list[Any]] = []

    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            calls.append([x.tolist(), ids.tolist()])
            return x + ids

    evaluator = amct.ModelEvaluator(f"{tmp_path}/x;{tmp_path}/ids/", "x:1,2;ids:1,2", "float32;int64")
    for name, dtype in (("x", np.float32), ("ids", np.int64)):
        (tmp_path / name).mkdir()
        for i in range(3):
            np.full((1, 2), i, dtype).tofile(tmp_path / name / f"{i}.bin")
    evaluator.calibration(Sum(), batch_num=2)
    assert calls == [[[[0.0, 0.0]], [[0, 0]]], [[[1.0, 1.0]], [[1, 1]]]]
    with pytest.raises(CompileError, match="4 runs are asked for, there are 3 files"):
        evaluator.evaluate(Sum(), iterations=4)


KEYS = {"kv_cache_quant_layers": ["k", "v"]}


def test_kv_cache(tmp_path: Path) -> None:
    """The outputs of the first batches calibrate; the configuration and the record are AMCT's."""
    config, record, model = tmp_path / "made" / "kv.json", tmp_path / "made" / "kv.txt", modules.Attention()
    amct.create_quant_cali_config(config, model, KEYS)
    layer = (
        '{\n        "kv_data_quant_config":{\n            "act_algo":"ifmr",\n            "max_percentile":0.999999,\n'
        '            "min_percentile":0.999999,\n            "search_range":[\n                0.7,\n                1.3\n'
        '            ],\n            "search_step":0.01,\n            "quant_granularity":0\n        }\n    }'
    )
    assert (
        config.read_text()
        == f'{{\n    "batch_num":1,\n    "activation_offset":true,\n    "k":{layer},\n    "v":{layer}\n}}'
    )
    calibrating = amct.create_quant_cali_model(config, record, model)
    assert calibrating is model
    calibrating.k(modules.VALUES)
    assert list(read_record(record).caches) == ["k"]
    calibrating(100 * modules.VALUES)
    calibrating(modules.VALUES)
    caches = read_record(record).caches
    assert list(caches) == ["k", "v"]
    assert -90 < caches["k"].offset[0] < -60
    np.testing.assert_allclose(caches["k"].scale, 1.25 / 255, 0.2)
    np.testing.assert_allclose(caches["v"].scale, 250 / 255, 0.2)
    assert record.read_text().startswith('record {\n  key: "k"\n  kv_cache_value {\n    scale: ')


def test_kv_cache_by_a_simplified_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings of layers, per channel, without zero points; what is set nowhere has AMCT's defaults."""
    simple, config, record = (tmp_path / name for name in ("kv.cfg", "kv.json", "kv.txt"))
    simple.write_text(
        "batch_num: 2\nactivation_offset: false\n"
        "kv_cache_quant_config { quant_layers: 'k' calibration_config { ifmr_quantize { search_step: 0.02 } } }\n"
        "override_layers_configs { layer_name: 'v' kv_data_quant_config {\n"
        "  hfmg_quantize { asymmetric: true quant_granularity: per_channel } } }\n"
    )
    amct.create_quant_cali_config(config, modules.Attention(), KEYS, simple)
    assert "quant_layers is ignored" in capsys.readouterr().err
    made = json.loads(config.read_text())
    assert (made["batch_num"], made["activation_offset"]) == (2, False)
    assert made["k"]["kv_data_quant_config"]["search_step"] == 0.02
    assert made["v"]["kv_data_quant_config"] == {
        "act_algo": "hfmg",
        "num_of_bins": 4096,
        "asymmetric": True,
        "quant_granularity": 1,
    }
    model = amct.create_quant_cali_model(config, record, modules.Attention())
    model(modules.VALUES[:, :1])
    assert not record.exists()
    model(modules.VALUES[:, 1:])
    caches = read_record(record).caches
    assert caches["k"].offset == (0,)
    assert len(caches["v"].scale) == len(caches["v"].offset) == 2
    np.testing.assert_allclose(caches["v"].scale, [1 / 255, 2.5 / 255], 0.01)


def test_kv_cache_in_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file has it: a warning says so, or an error if there is nothing else."""
    cached = 'record {\n  key: "v"\n  kv_cache_value {\n    scale: 0.5\n    offset: -3\n  }\n}\n'
    layer = 'record { key: "fc" value { scale_d: 0.5 offset_d: 0 scale_w: 0.25 offset_w: 0 } }\n'
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Gemm", ["x", "w"], ["y"], "fc")],
            "net",
            [onnx.helper.make_tensor_value_info("x", 1, [1, 2])],
            [onnx.helper.make_tensor_value_info("y", 1, [1, 2])],
            [onnx.numpy_helper.from_array(np.eye(2, dtype=np.float32), "w")],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
    )
    onnx.save(model, tmp_path / "net.onnx")
    record = tmp_path / "record.txt"
    given = [
        "convert",
        "--model",
        tmp_path / "net.onnx",
        "--record_file",
        record,
        "--save_path",
        tmp_path / "out" / "P",
    ]
    for text, status, message in (
        (cached, 1, "record.txt: error: has only kv_cache_value, of v: no layer is quantized"),
        (layer + cached, 0, "record.txt: kv_cache_value of v is not part of the files"),
    ):
        record.write_text(text)
        assert amct_command.run(list(map(str, given))) == status
        assert message in capsys.readouterr().err


REFUSED: dict[str, tuple[Callable[[Flow], object], str]] = {
    "no module": (
        lambda f: amct.create_quant_config(f.config, [], modules.X),
        "the model must be a torch.nn.Module, not a list",
    ),
    "a scale for each column": (
        lambda f: (
            (f.folder / "wise.cfg").write_text("common_config { arq_quantize { channel_wise: true } }"),
            amct.create_quant_config(f.config, f.model, modules.X, config_defination=f.folder / "wise.cfg"),
        ),
        "wise.cfg: error: layer 'fc' (Gemm) does not support channel_wise: its weight has one scale",
    ),
    "no arguments": (
        lambda f: amct.create_quant_config(f.config, f.model, 1),
        "input_data must be a tensor or a tuple",
    ),
    "too many arguments": (
        lambda f: amct.create_quant_config(f.config, f.model, (modules.X, 1.0, modules.X)),
        "Net: error: the arguments do not fit forward: too many positional arguments",
    ),
    "no json": (
        lambda f: amct.create_quant_config(f.folder / "config.cfg", f.model, modules.X),
        "config.cfg: error: config_file must end in .json",
    ),
    "no onnx": (
        lambda f: amct.quantize_model(f.config, f.folder / "m.pt", f.record, f.model, modules.X),
        "m.pt: error: modfied_onnx_file must end in .onnx",
    ),
    "a search that would write other integers": (
        lambda f: (
            f.configure(**ADA),
            amct.accuracy_based_auto_calibration(
                f.model, amct.AutoCalibrationEvaluatorBase(), f.config, f.record, f.folder / "P", (modules.X[:1],)
            ),
        ),
        "config.json: error: layer 'conv': a search with ada_quantize writes files with any batch size\n  hint: leave the",
    ),
    "unknown layer of a cache": (
        lambda f: amct.create_quant_cali_config(f.config, f.model, {"kv_cache_quant_layers": ["q"]}),
        "quant_layers: error: layer 'q' does not exist in the model\n  hint: linear layers are fc",
    ),
    "a convolution in a cache": (
        lambda f: amct.create_quant_cali_config(f.config, f.model, {"kv_cache_quant_layers": ["conv"]}),
        "layer 'conv' is a Conv2d; a KV cache keeps the outputs of Linear",
    ),
    "no cache": (lambda f: amct.create_quant_cali_config(f.config, f.model), "no layer is to be quantized"),
    "a layer twice": (
        lambda f: amct.create_quant_cali_config(f.config, f.model, {"kv_cache_quant_layers": ["fc", "fc"]}),
        "layer 'fc' is given twice",
    ),
    "infinite values of a cache": (
        lambda f: (
            amct.create_quant_cali_config(f.config, f.model, {"kv_cache_quant_layers": ["fc"]}),
            amct.create_quant_cali_model(f.config, f.record, f.model).fc(torch.full((1, 4), torch.inf)),
        ),
        "fc: error: its output: NaN or Inf",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, flow: Flow) -> None:
    call, message = REFUSED[case]
    with pytest.raises(TypeError if case == "no module" else ValueError) as caught:  # as in AMCT
        call(flow)
    assert isinstance(caught.value, CompileError)
    assert isinstance(caught.value, RuntimeError)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("imported", "message"),
    [
        ("restore_compressed_retrain_model", r"is left out: nothing is pruned \(docs/migrating\.md#python-functions\)"),
        ("CNN_VARIANCE_PRUNE_CFG", "is left out: nothing is pruned"),
        ("distill", "is left out: nothing is distilled"),
        ("quantize", "is left out: there are no presets for large language models"),
        ("MXFP8_QUANT_CFG", "is left out: there are no presets for large language models"),
        ("nn.LSTMQAT", r"is left out: only convolutions .* are trained \(docs/migrating\.md#python-functions\)"),
        ("nn.GRUQAT", "is left out: only convolutions"),
        ("nn.MatMulQAT", "is left out: only convolutions"),
        ("nn.QuantCalibrationOp", "is left out: create_quant_cali_model observes layers without it"),
        ("other", r"cannot import name 'other' from 'amct_opt\.amct\.pytorch'"),
        ("nn.other", r"cannot import name 'other' from 'amct_training\.nn'"),
    ],
)
def test_left_out(imported: str, message: str) -> None:
    """A name that is imported or called; what AMCT does not have either is an error like any other."""
    module, name = f"amct_opt.amct.pytorch.{imported}".rsplit(".", 1)
    with pytest.raises(ImportError, match=message):
        exec(f"from {module} import {name}")
    with pytest.raises(AttributeError if name == "other" else ImportError, match=name):
        getattr(sys.modules[module], name)
