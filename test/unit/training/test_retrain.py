"""AMCT's quantization-aware training for PyTorch. The expected numbers are those that AMCT's own program gave for the same
networks, which start from sines.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from amct_training import retrain as amct
from amct_training.retrain_config import Trainable, default_config, json_text, read_json, read_simplified
from onnx import numpy_helper

from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ..frameworks import later, nn, torch

qat = later("amct_training.nn")


def network() -> Any:
    """A batch norm, a Relu in front of a shared input, and a Linear layer."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 4, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(4)
            self.left = nn.Conv2d(4, 4, 1)
            self.right = nn.ConvTranspose2d(4, 4, 3, padding=1)
            self.fc = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.norm(self.conv(x)))
            return self.fc((self.left(x) + self.right(x)).mean((2, 3)))

    return filled(Net())


def filled(module: Any) -> Any:
    for i, parameter in enumerate(module.parameters()):
        numbers = torch.sin(torch.arange(parameter.numel()) * 1.7 + i).reshape(parameter.shape)
        parameter.data = numbers * (0.5 + 0.1 * i)
    return module


def cosines(shift: float, *shape: int) -> torch.Tensor:
    return torch.cos(torch.arange(int(np.prod(shape))) * 0.37 + shift).reshape(shape) * 1.5


@cache
def batch() -> torch.Tensor:
    return cosines(0, 4, 2, 5, 5)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


LAYERS = {
    "conv": Trainable("Conv2d"),
    "left": Trainable("Conv2d"),
    "right": Trainable("ConvTranspose2d"),
    "fc": Trainable("Linear"),
}
DEFAULT = json_text(default_config(LAYERS))


def created(config: str = DEFAULT) -> Any:
    """The small network under training."""
    Path("config.json").write_text(config)
    return amct.create_quant_retrain_model("config.json", network(), "record.txt", batch())


def train(model: Any, steps: int = 3) -> list[float]:
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses: list[float] = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = (model(cosines(step, 4, 2, 5, 5)) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def recorded(field: str) -> list[float]:
    return [float(n) for n in re.findall(rf" {field}: (\S+)", Path("record.txt").read_text())]


def weights_in(bits: int) -> Callable[[str], str]:
    return lambda text: re.sub(r'("channel_wise":\w+,\s*"dst_type":)"INT8"', rf'\1"INT{bits}"', text)


def inputs_in(bits: int) -> Callable[[str], str]:
    return lambda text: re.sub(r'("ulq_quantize",\s*"dst_type":)"INT8"', rf'\1"INT{bits}"', text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "losses", "scales", "offsets", "weight"),
    [
        pytest.param(
            str,
            [3.61315989, 1.39911258, 0.18044020],
            [0.011810585, 0.0074337507, 0.0074337507, 0.010455278],
            [0, -128, -128, 0],
            [0.00196628, 0.00082693127, 0.0024474768, 0.00040829455],
            id="A8W8",
        ),
        pytest.param(
            weights_in(4),
            [3.34977818, 1.39424717, 0.39792907],
            [0.011810653, 0.0074950354, 0.0074950354, 0.010230388],
            [0, -128, -128, 0],
            [0.036067743, 0.013683054, 0.039315857, 0.00642196],
            id="A8W4",
        ),
        pytest.param(
            lambda text: weights_in(4)(inputs_in(4)(text)),
            [3.31746650, 1.54615116, 0.41818717],
            [0.20778197, 0.10313141, 0.10313141, 0.16967374],
            [0, -8, -8, 0],
            [0.03936601, 0.014797476, 0.038596958, 0.007217101],
            id="A4W4",
        ),
        pytest.param(
            inputs_in(16),
            [3.61594391, 1.40462971, 0.17855877],
            [4.5777764e-05, 2.9234812e-05, 2.9234812e-05, 4.378507e-05],
            [0, -32768, -32768, 0],
            [0.0019641232, 0.0008268884, 0.002448262, 0.00040807138],
            id="A16W8",
        ),
    ],
)
def test_training_gives_amct_numbers(
    change: Callable[[str], str], losses: list[float], scales: list[float], offsets: list[int], weight: list[float]
) -> None:
    model = created(change(DEFAULT))
    assert train(model) == pytest.approx(losses, rel=1e-4)
    with torch.no_grad():
        model(cosines(9, 4, 2, 5, 5))
    assert recorded("scale_d") == pytest.approx(scales, rel=1e-4)
    assert recorded("offset_d") == offsets
    assert recorded("scale_w")[:4] == pytest.approx(weight, rel=1e-4)


MODULES: list[tuple[str, dict[str, int], tuple[int, ...], list[float]]] = [
    ("Conv1d", {"in_channels": 2, "out_channels": 4, "kernel_size": 3}, (2, 2, 7),
     [0.05552778, 0.01163454, 3.07451320, 0.23076631, 0.01122538]),
    ("Conv2d", {"in_channels": 4, "out_channels": 4, "kernel_size": 3, "groups": 2, "padding": 1, "bias": False},
     (2, 4, 5, 5), [0.04909319, -0.51563257, -4.46447372, -0.10625763, 0.48330629]),
    ("Conv3d", {"in_channels": 1, "out_channels": 2, "kernel_size": 2}, (2, 1, 3, 3, 3),
     [0.03016540, 0.15899739, 10.91621876, 0.92858464, -0.17941228]),
    ("ConvTranspose1d", {"in_channels": 2, "out_channels": 4, "kernel_size": 3, "stride": 2}, (2, 2, 5),
     [0.08392652, -0.03102077, 3.05450249, 0.04436483, 0.12577239]),
    ("ConvTranspose2d", {"in_channels": 4, "out_channels": 4, "kernel_size": 3, "groups": 2, "stride": 2}, (2, 4, 4, 4),
     [0.17059579, -0.11670738, 15.40118217, 0.00998443, 0.11898697]),
    ("Linear", {"in_features": 5, "out_features": 3}, (4, 5),
     [0.02017911, 0.13284266, 0.65513808, 0.12473433, 0.29415256]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "shape", "expected"), MODULES, ids=[name for name, *_ in MODULES])
def test_modules_have_amct_gradients(
    name: str, arguments: dict[str, int], shape: tuple[int, ...], expected: list[float]
) -> None:
    layer = filled(getattr(nn, name)(**arguments))
    config = {"retrain_data_config": {"clip_max": 1.0, "clip_min": -0.4}}
    module = getattr(qat, f"{name}QAT").from_float(layer, config)
    x = (cosines(0, *shape) * 1.3 / 1.5).requires_grad_()
    y = module(x)
    (y**2).mean().backward()
    assert x.grad is not None
    given = (module.acts_clip_max.grad, module.acts_clip_min.grad, y.sum(), module.weight.grad.sum(), x.grad.sum())
    assert [n.item() for n in given] == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.filterwarnings("ignore")  # the exporter is deprecated
def test_modules_are_exported_with_quantization() -> None:
    model = nn.Sequential(qat.Conv2dQAT(1, 4, 3, groups=1), nn.ReLU(), nn.Flatten(), qat.LinearQAT(36, 3))
    filled(model)
    x = cosines(0, 2, 1, 5, 5)
    model(x)
    expected = model.eval()(x).detach().numpy()
    torch.onnx.export(model, (x,), "net.onnx", dynamo=False, opset_version=17, input_names=["x"])
    session = onnxruntime.InferenceSession("net.onnx")
    assert session.run(None, {"x": x.numpy()})[0] == pytest.approx(expected, abs=1e-5)
    kinds = [node.op_type for node in onnx.load("net.onnx").graph.node]
    assert kinds.count("QuantizeLinear") == 4


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"retrain": True}, "unknown key 'retrain'"),
        ({"retrain_data_config": {"clip_max": 1.0}}, "belong together"),
        ({"retrain_data_config": {"dst_type": "INT4"}}, "must be INT8 or INT16"),
        ({"retrain_weight_config": {"dst_type": "INT4"}}, "dst_type of weights"),
    ],
)
def test_modules_refuse_settings(config: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        qat.LinearQAT(2, 2, config=config)


@pytest.mark.slow
def test_a_saved_model_computes_as_it_was_trained() -> None:
    """The files hold what the model computes in evaluation mode; the deployable weights are its rounded ones."""
    model = created()
    train(model)
    x = cosines(9, 4, 2, 5, 5)
    expected = model(x).detach().numpy()
    files = amct.save_quant_retrain_model(
        "config.json", model, "record.txt", "out/net", batch(), ["image"], ["logits"], {"image": {0: "batch"}}
    )
    assert [file.name for file in files][:2] == ["net_fake_quant_model.onnx", "net_deploy_model.onnx"]
    session = onnxruntime.InferenceSession(files[0])
    (found,) = session.run(["logits"], {"image": x.numpy()})
    assert found == pytest.approx(expected, abs=0.02)  # a value between two integers may fall to the other one
    session.run(["logits"], {"image": x[:3].numpy()})
    deployed = onnx.load(files[1])
    weight = next(numpy_helper.to_array(t) for t in deployed.graph.initializer if t.name == "right.weight")
    layer = model.right.quant_module
    scales = layer.wts_scales.detach().reshape(1, -1, 1, 1)
    assert (weight == torch.round(layer.replaced_module.weight.detach() / scales).numpy()).all()


def test_the_record_follows_later_training() -> None:
    """After more training the next evaluation writes the record once more."""
    model = created()
    train(model, 1)
    model(batch())
    first = recorded("scale_w")
    train(model, 1)
    assert recorded("scale_w") == first
    model(batch())
    assert recorded("scale_w") != first


def test_ranges_of_a_restored_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are searched for once more in the first batch, as in AMCT, or kept."""
    model = created()
    fresh = copy.deepcopy(model)
    train(model)
    expected = model(batch())
    state = {f"module.{key}": value for key, value in model.state_dict().items()}
    torch.save({"epoch": 3, "state": state}, "model.pth")
    monkeypatch.setattr(amct, "create_quant_retrain_model", lambda *_: copy.deepcopy(fresh))
    given = "config.json", network(), "r.txt", batch(), "model.pth", "state"
    kept, again = (amct.restore_quant_retrain_model(*given, keep_ranges=keep).eval() for keep in (True, False))
    assert torch.equal(kept(batch()), expected)
    again(batch())
    trained, searched = (each.right.quant_module.ranged.acts_clip_max for each in (kept, again))
    assert not torch.equal(trained, searched)
    with pytest.raises(CompileError, match="no key 'weights'"):
        amct.restore_quant_retrain_model("config.json", network(), "r.txt", batch(), "model.pth", "weights")
    with pytest.raises(CompileError, match="does not fit the model"):
        amct.restore_quant_retrain_model("config.json", network(), "r.txt", batch(), "model.pth")


def test_state_has_amct_keys() -> None:
    keys = [key.removeprefix("right.") for key in created().state_dict() if key.startswith("right.")]
    own = ["wts_scales", "wts_offsets", "cur_batch", "prune_cur_batch", "wts_mask", "s_rec_flag"]
    assert [key for key in keys if "reuse" not in key] == [
        "scale_w",
        "offset_w",
        *(f"quant_module.{key}" for key in own),
        "quant_module.replaced_module.weight",
        "quant_module.replaced_module.bias",
        "record_module.quant_layer_num",
    ]
    assert "quant_module.acts_comp_reuse.acts_clip_max" in keys


SIMPLIFIED = """
batch_num: 2
retrain_data_quant_config { ulq_quantize { clip_max_min { clip_max: 3.0 clip_min: -2.0 } dst_type: INT16 } }
override_layer_types { layer_type: "Linear" retrain_weight_quant_config { arq_retrain { dst_type: INT4 } } }
override_layer_configs { layer_name: "left" retrain_data_quant_config { ulq_quantize { fixed_min: false } } }
skip_layers: ["conv", "left"]
"""


def test_create_quant_retrain_config() -> None:
    amct.create_quant_retrain_config("config.json", network(), batch())
    assert Path("config.json").read_text() == DEFAULT
    Path("quant.cfg").write_text(SIMPLIFIED)
    amct.create_quant_retrain_config("config.json", network(), batch(), "quant.cfg")
    config = json.loads(Path("config.json").read_text())
    assert [*config] == ["version", "batch_num", *LAYERS]
    assert [config[name]["retrain_enable"] for name in LAYERS] == [False, True, True, True]
    clips = {"clip_max": 3.0, "clip_min": -2.0}
    assert config["right"]["retrain_data_config"] == {"algo": "ulq_quantize", **clips, "dst_type": "INT16"}
    assert config["left"]["retrain_data_config"] == {"algo": "ulq_quantize", "fixed_min": False, "dst_type": "INT8"}
    assert config["fc"]["retrain_weight_config"] == {"algo": "arq_retrain", "channel_wise": False, "dst_type": "INT4"}
    assert read_json(Path("config.json"), LAYERS) == read_simplified(Path("quant.cfg"), LAYERS, new_session())


def test_weights_that_cannot_be_packed_have_8_bits() -> None:
    Path("quant.cfg").write_text("retrain_weight_quant_config { arq_retrain { dst_type: INT4 } }")
    layers = {"odd": Trainable("Conv2d", packs=False), "fc": Trainable("Linear")}
    config = read_simplified(Path("quant.cfg"), layers, new_session())
    assert [layer.wts_type for layer in config.layers.values()] == ["INT8", "INT4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('skip_layers: "c"', "skip_layers: 'c' is not in the model"),
        ("retrain_weight_quant_config { arq_retrain { channel_wise: true } }", "layer 'fc' is Linear"),
        ("retrain_weight_quant_config { ulq_retrain { } }", "ulq_retrain of weights"),
        ("retrain_data_quant_config { ulq_quantize { dst_type: INT4 } }", "only for JSON"),
        ("retrain_weight_quant_config { arq_retrain { dst_type: INT16 } }", "INT8 with weights in INT16"),
        ("retrain_data_quant_config { ulq_quantize { clip_max_min { clip_max: 1 clip_min: 1 } } }", "below 0"),
        ("prune_config { }", "no field 'prune_config'"),
    ],
)
def test_a_bad_simplified_configuration(text: str, message: str) -> None:
    Path("quant.cfg").write_text(text)
    with pytest.raises(CompileError, match=message) as error:
        read_simplified(Path("quant.cfg"), LAYERS, new_session())
    assert "quant.cfg:1" in error.value.where


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"fc"', '"fd"', "layer 'fd' cannot be trained"),
        ("ulq_quantize", "ifmr", "algo must be ulq_quantize"),
        ('"version":1', '"version":2', "version must be 1"),
        ('"batch_num":1', '"batch_num":0', "at least 1"),
        ('"retrain_enable":true', '"retrain_enable":false', "no layer is trained"),
        ('"dst_type":"INT8"', '"dst_type":"INT16"', "INT16 with weights in INT16"),
    ],
)
def test_a_bad_configuration(old: str, new: str, message: str) -> None:
    Path("config.json").write_text(DEFAULT.replace(old, new))
    with pytest.raises(CompileError, match=message):
        read_json(Path("config.json"), LAYERS)


def test_what_cannot_be_saved() -> None:
    model = created()
    with pytest.raises(CompileError, match="inf or nan"):
        model(batch() / 0)
    with pytest.raises(CompileError, match="no range yet") as error:
        amct.save_quant_retrain_model("config.json", model, "record.txt", "net", batch())
    assert error.value.where == "layer 'conv'"
    with pytest.raises(CompileError, match="no layer under training"):
        amct.save_quant_retrain_model("config.json", network(), "record.txt", "net", batch())
    train(model)
    Path("other.json").write_text(weights_in(4)(DEFAULT))
    with pytest.raises(CompileError, match="not the configuration"):
        amct.save_quant_retrain_model("other.json", model, "record.txt", "net", batch())


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions can be imported; what needs torch names the extra."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CompileError, match="torch") as error:
        amct.create_quant_retrain_config("config.json", object(), None)
    assert "amct-opt[torch]" in error.value.hint
