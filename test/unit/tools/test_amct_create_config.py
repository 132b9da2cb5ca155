"""`amct create-config`: what it lists, and what refuses it. Fixtures are in conftest.py."""

import json

import numpy as np
import pytest

NET = """
func.func @main(%x: tensor<?x2x4x4xf32> {nn.name = "x"}) -> (tensor<?x3xf32> {nn.name = "y"}) {
  %w = nn.constant dense<0.5> : tensor<2x2x1x1xf32>
  %f = nn.constant dense<0.5> : tensor<8x3xf32>
  %1 = nn.conv %x, %w from <onnx, "Conv", "z conv"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %2 = nn.average_pool %1 kernel [2, 2] strides [2, 2] from <onnx, "AveragePool", "pool"> :
    (tensor<?x2x4x4xf32>) -> tensor<?x2x2x2xf32>
  %3 = nn.relu %2 from <onnx, "Relu", "relu"> : tensor<?x2x2x2xf32>
  %4 = nn.flatten %3 : (tensor<?x2x2x2xf32>) -> tensor<?x8xf32>
  %y = nn.matmul %4, %f from <onnx, "Gemm", "fc"> : (tensor<?x8xf32>, tensor<8x3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
"""


def test_lists_every_layer_that_can_be_quantized(amct_tool, files) -> None:
    result = amct_tool("create-config", files.text("net.mlir", NET), "-o", files.folder / "c.json")
    assert (result.status, result.err) == (0, "")
    assert result.out == f"{files.folder}/c.json: 3 layers\n"
    config = json.loads((files.folder / "c.json").read_text())
    assert list(config) == [
        "version",
        "activation_offset",
        "joint_quant",
        "do_fusion",
        "skip_fusion_layers",
        "tensor_quantize",
        "fc",
        "pool",
        "z conv",
    ]
    assert config["fc"]["weight_quant_params"]["channel_wise"] is False
    assert config["z conv"]["weight_quant_params"]["channel_wise"] is True
    assert config["pool"]["weight_quant_params"]["channel_wise"] is False  # AMCT writes the default ones


def test_zero_points_are_of_weights_that_are_quantized_alone(amct_tool, files) -> None:
    """A convolution has no such mode here: its activations are quantized, and the file is read back."""
    text = "common_config { weight_compress_only: true arq_quantize { channel_wise: true asymmetric: true } }"
    net, made = files.text("net.mlir", NET), files.folder / "c.json"
    assert amct_tool("create-config", net, "--config", files.text("s.cfg", text), "-o", made).status == 0
    config = json.loads(made.read_text())
    found = {name: config[name]["weight_quant_params"].get("asymmetric") for name in ("fc", "z conv")}
    assert found == {"fc": True, "z conv": None}
    assert amct_tool("create-config", net, "--config", made, "-o", files.folder / "again.json").status == 0
    assert (files.folder / "again.json").read_text() == made.read_text()


def test_options_and_a_simplified_configuration_are_worked_in(amct_tool, files) -> None:
    simple = files.text(
        "simple.cfg",
        'override_layer_types { layer_type: "Gemm" calibration_config { hfmg_quantize { } } } skip_layers: "pool"',
    )
    arguments = ("--config", simple, "--batch-num", 3, "--activation-offset", "false", "--skip-layer-types", "Conv")
    result = amct_tool("create-config", files.text("net.mlir", NET), "-o", files.folder / "c.json", *arguments)
    assert result.status == 0
    config = json.loads((files.folder / "c.json").read_text())
    assert (config["batch_num"], config["activation_offset"]) == (3, False)
    assert {name: config[name]["quant_enable"] for name in ("fc", "pool", "z conv")} == {
        "fc": True,
        "pool": False,
        "z conv": False,
    }
    assert config["fc"]["activation_quant_params"] == {
        "num_bits": 8,
        "act_algo": "hfmg",
        "num_of_bins": 4096,
        "asymmetric": False,
    }


def test_the_configuration_is_taken_back(amct_tool, files) -> None:
    """The whole path: configuration, quantization by it, and the record that repeats it without data."""
    model, x = files.text("net.mlir", NET), files.npz(x=np.ones((4, 2, 4, 4), np.float32))
    config, first, second = files.folder / "c.json", files.folder / "first", files.folder / "second"
    amct_tool("create-config", model, "-o", config, "--batch-num", 4, "--skip-layers", "fc")
    result = amct_tool("quantize", model, "--data", x, "--config", config, "--also", "record", "-o", first)
    assert result.status == 0, result.err
    assert "the configuration does not enable it" in result.out
    result = amct_tool("quantize", model, "--record", first / "net_record.txt", "--also", "record", "-o", second)
    assert result.status == 0, result.err
    warnings = [line for line in result.err.splitlines() if "warning" in line]
    assert all("adds two products in 16 bits" in line for line in warnings), "where the processor does that"
    assert "the record does not list it" in result.out
    assert (second / "net_record.txt").read_text() == (first / "net_record.txt").read_text()
    made = [json.loads((f / "summary.json").read_text())["layers"]["quantized"] for f in (first, second)]
    assert made[0] == made[1]


def test_a_simplified_configuration(amct_tool, files) -> None:
    """What differs from AMCT's defaults; taken back it says the same of every layer."""
    model = files.text("net.mlir", NET)
    options = ("--observer", "hfmg{num-of-bins=2048}", "--batch-num", 3, "--skip-layers", "pool")
    simple, listed = files.folder / "c.cfg", [files.folder / "a.json", files.folder / "b.json"]
    assert amct_tool("create-config", model, "-o", simple, *options).status == 0
    assert "num_of_bins: 2048" in simple.read_text()
    assert "conv" not in simple.read_text()
    amct_tool("create-config", model, "-o", listed[0], *options)
    amct_tool("create-config", model, "-o", listed[1], "--config", simple)
    assert listed[0].read_text() == listed[1].read_text()


def test_untouched_it_changes_nothing(amct_tool, files) -> None:
    """AMCT's default for ranges, on all of the data."""
    model = files.text("net.mlir", NET)
    x = files.npz(x=np.random.default_rng(1).normal(size=(6, 2, 4, 4)).astype(np.float32))
    config, made, said = files.folder / "c.json", {}, {}
    amct_tool("create-config", model, "-o", config)
    for name, options in {"with": ("--config", config), "without": ("--observer", "ifmr")}.items():
        result = amct_tool(
            "quantize", model, "--data", x, "--also", "ascend", "-q", "-o", files.folder / name, *options
        )
        assert result.status == 0
        made[name], said[name] = (files.folder / name / "net_ascend.mlir").read_text(), result.err
    assert made["with"] == made["without"]
    assert said["with"] == said["without"]
    assert all("onnxruntime adds two products in 16 bits" in line for line in said["with"].splitlines())


BN = NET.replace(
    "%2 = nn.average_pool %1",
    """%s = nn.constant dense<2.0> : tensor<2xf32>
  %n = nn.batch_norm %1, %s, %s, %s, %s from <onnx, "BatchNormalization", "bn"> :
    (tensor<?x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x4x4xf32>
  %2 = nn.average_pool %n""",
)


@pytest.mark.parametrize(
    ("text", "rule"), [('skip_fusion_layers: "z conv"', "skip-fusion"), ("do_fusion: false", "do-fusion"), ("", None)]
)
def test_fusion_as_the_configuration_has_it(amct_tool, files, text: str, rule: str | None) -> None:
    out = files.folder / "out"
    config = files.text("simple.cfg", text)
    result = amct_tool("quantize", files.text("net.mlir", BN), "--config", config, "-o", out)
    assert result.status == 0, result.err
    rows = json.loads((out / "summary.json").read_text())["layers"]["not_fused"]
    assert {row["rule"] for row in rows if row["layer"] == "bn"} == ({rule} if rule else set())


def test_fusion_as_the_record_has_it(amct_tool, files) -> None:
    out = files.folder / "out"
    record = files.text("record.txt", 'record { key: "z conv" value { skip_fusion: true } }')
    assert amct_tool("quantize", files.text("net.mlir", BN), "--record", record, "-o", out).status == 0
    rows = json.loads((out / "summary.json").read_text())["layers"]["not_fused"]
    assert "skip-fusion" in {row["rule"] for row in rows if row["layer"] == "bn"}


MISTAKES = {
    "unknown layer": (
        ("--skip-layers", "conv9"),
        "skip_layers names 'conv9', which is not a layer or module of the model",
    ),
    "unknown type": (("--skip-layer-types", "Relu"), "skip_layer_types names 'Relu', which is not a type"),
    "no observer": (("--observer", "best"), "no observer is called 'best'"),
    "not AMCT's": (("--observer", "minmax"), "AMCT has no observer 'minmax'"),
    "no file": (("--config", "none.cfg"), "none.cfg: error: cannot be read"),
    "no profile": (("--profile", "mine"), "no profile is called 'mine'"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(amct_tool, files, arguments: tuple[str, ...], message: str) -> None:
    result = amct_tool("create-config", files.text("net.mlir", NET), "-o", files.folder / "c.json", *arguments)
    assert result.status == 1
    assert message in result.err
    assert not (files.folder / "c.json").exists()


def test_nothing_that_was_read_is_overwritten(amct_tool, files) -> None:
    model, simple = files.text("net.mlir", NET), files.text("simple.cfg", "")
    for target in (model, simple):
        result = amct_tool("create-config", model, "--config", simple, "-o", target)
        assert "would overwrite a file that was read" in result.err
