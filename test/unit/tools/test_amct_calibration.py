"""`amct calibration`: AMCT's options, AMCT's files, and mistakes as one line with nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from amct_opt.configuration.record import read_record
from amct_opt.formats.tensorflow.schema import GraphDef
from amct_opt.tools import amct_opt

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL = DIGITS / "digits.onnx"
WRITTEN = {"fake_quant_model.onnx", "deploy_model.onnx", "record.txt", "quant.json"}

TWO_INPUTS = """
func.func @main(%x: tensor<2x2xf32> {nn.name = "x"}, %z: tensor<2x3xf32> {nn.name = "scope/z:0"})
    -> (tensor<2x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, -4.0]]> : tensor<2x2xf32>
  %v = nn.constant dense<[[1.0, 2.0], [0.5, 0.25], [-3.0, 1.0]]> : tensor<3x2xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "fc1"> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = nn.matmul %z, %v from <onnx, "MatMul", "fc2"> : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %2 = nn.add %0, %1 from <onnx, "Add", "sum"> : tensor<2x2xf32>
  func.return %2 : tensor<2x2xf32>
}
"""

CONVOLUTION = """
func.func @main(%x: tensor<1x2x4x4xf32> {nn.name = "x"}) -> (tensor<1x3x4x4xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[[[1.0]], [[-0.5]]], [[[0.25]], [[2.0]]], [[[0.125]], [[3.0]]]]> : tensor<3x2x1x1xf32>
  %0 = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32>
  %1 = nn.relu %0 from <onnx, "Relu", "relu"> : tensor<1x3x4x4xf32>
  func.return %1 : tensor<1x3x4x4xf32>
}
"""


@pytest.fixture(scope="module")
def bins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight batches of sixteen digits."""
    folder = tmp_path_factory.mktemp("bins")
    with np.load(DIGITS / "calib.npz") as data:
        for i, batch in enumerate(np.split(data["image"], 8)):
            batch.tofile(folder / f"{i}.bin")
    return folder


@pytest.fixture
def calibration(amct_tool, bins, tmp_path):
    """Calibrate the digits network on `bins`, with further options."""

    def run(*options: object, save_path: object = tmp_path / "out" / "P"):
        given = ("--model", MODEL, "--input_shape", "image:16,1,8,8", "--data_dir", bins, "--data_types=float32")
        return amct_tool("calibration", *given, f"--save_path={save_path}", *options)

    return run


def names(folder: Path) -> set[str]:
    return {f.name for f in folder.iterdir()}


def test_files_of_onnx(calibration, tmp_path):
    result = calibration("--batch_num", 8)
    assert (result.status, result.err) == (0, "")
    out = tmp_path / "out"
    assert names(out) == {f"P_{name}" for name in WRITTEN}
    assert all(str(out / name) in result.out for name in names(out))
    assert "8 runs" in result.out
    with np.load(DIGITS / "heldout.npz") as data:
        images = data["image"]
    float_, fake = (
        np.asarray(onnxruntime.InferenceSession(str(f)).run(None, {"image": images})[0])
        for f in (MODEL, out / "P_fake_quant_model.onnx")
    )
    assert 10 * np.log10(np.square(float_).sum() / np.square(float_ - fake).sum()) > 25
    assert np.mean(float_.argmax(1) == fake.argmax(1)) > 0.98


def test_fusion_information_lists_the_deployed_nodes(calibration, tmp_path):
    assert calibration("--batch_num=8").status == 0
    info = json.loads((tmp_path / "out" / "P_quant.json").read_text())
    (graph,) = info["graph"]
    listed = {op["name"]: op for op in graph["op"]}
    deployed = onnx.load(tmp_path / "out" / "P_deploy_model.onnx").graph.node
    assert info["name"] == "P"
    assert [(n.name, n.op_type) for n in deployed if n.op_type != "ReduceMean"] == [
        (op["name"], op["type"]) for op in graph["op"] if op["type"] != "GlobalAveragePool"
    ]
    sources = {n.name for n in onnx.load(MODEL).graph.node}
    (attribute,) = listed["conv1.dequant"]["attr"]
    assert attribute["key"] == "_datadump_original_op_names"
    assert attribute["value"]["list"]["s"] == ["conv1", "bn1"]
    origin = {a["key"]: a["value"] for a in listed["conv1.dequant"]["output_desc"][0]["attr"]}
    assert origin["_datadump_origin_name"] == {"s": "bn1"}
    for op in graph["op"]:
        for attribute in op.get("attr", []):
            assert set(attribute["value"]["list"]["s"]) <= sources
    assert "attr" not in listed["relu1"]


def test_calibrated_as_amct_does_by_default(calibration, amct_tool, bins, tmp_path):
    """IFMR on one batch: the same scales as --quantize finds with these options, weights first, on this batch alone."""
    result = calibration()
    assert result.status == 0
    assert "batch_num 1 leaves samples for 7 more runs unused" in result.err
    first = np.fromfile(bins / "0.bin", np.float32).reshape(1, 16, 1, 8, 8)
    script = tmp_path / "calib.py"
    np.save(tmp_path / "first.npy", first)
    script.write_text(f"import numpy as np\ndef batches():\n    yield from np.load({str(tmp_path / 'first.npy')!r})\n")
    quantize = f"--quantize=data={script}:batches observer=ifmr weights-first=true"
    arguments = [str(MODEL), "--canonicalize", "--fuse-all", quantize, "-t", "record{flavour=onnx}"]
    assert amct_opt.run([*arguments, "-o", str(tmp_path / "expected.txt")]) == 0
    assert (tmp_path / "out" / "P_record.txt").read_text() == (tmp_path / "expected.txt").read_text()


def test_prefixes(calibration, tmp_path):
    assert calibration(save_path=f"{tmp_path}/deep/er/").status == 0
    assert names(tmp_path / "deep" / "er") == WRITTEN
    onnxruntime.InferenceSession(str(tmp_path / "deep" / "er" / "fake_quant_model.onnx"))


def test_results_of_an_earlier_run_are_replaced(calibration, tmp_path):
    out = tmp_path / "out"
    assert calibration().status == 0
    one = (out / "P_record.txt").read_text()
    assert calibration("--batch_num", 8).status == 0
    assert (out / "P_record.txt").read_text() != one
    assert names(out) == {f"P_{name}" for name in WRITTEN}


def test_options_may_be_shortened(calibration):
    result = calibration("--data_type", "float64", "--batch", "2")
    assert (result.status, result.out) == (1, "")
    assert "0.bin: error: holds 4096 bytes, [16, 1, 8, 8] of float64 needs 8192" in result.err


def test_help(amct_tool, capsys):
    for option in ("--help", "--h"):
        with pytest.raises(SystemExit) as end:
            amct_tool("calibration", option)
        assert end.value.code == 0
        assert "--calibration_config" in capsys.readouterr().out


def test_other_widths_are_written_to_an_opset_that_has_them(calibration, tmp_path):
    config = tmp_path / "simple.cfg"
    config.write_text("batch_num: 8 common_config { arq_quantize { quant_bits: 4 } }")
    assert calibration("--calibration_config", config).status == 0
    fake, deploy = (onnx.load(tmp_path / "out" / f"P_{name}_model.onnx") for name in ("fake_quant", "deploy"))
    assert [[o.version for o in model.opset_import] for model in (fake, deploy)] == [[21], [13]]
    assert onnx.TensorProto.INT4 in {array.data_type for array in fake.graph.initializer}


def test_configuration(calibration, tmp_path):
    config = tmp_path / "simple.cfg"
    config.write_text('batch_num: 3\nskip_layers: "conv1"\ncommon_config { hfmg_quantize { } }\n')
    result = calibration("--calibration_config", config)
    assert result.status == 0
    assert "batch_num 3 leaves samples for 5 more runs unused" in result.err
    assert "3 runs" in result.out
    record = read_record(tmp_path / "out" / "P_record.txt")
    assert "conv1" not in record.layers
    assert "conv2" in record.layers
    assert "batch_num 2 leaves" in calibration("--calibration_config", config, "--batch_num=2").err


def test_gpu_id_is_ignored(calibration):
    result = calibration("--gpu_id", 0, "--batch_num", 8)
    assert result.status == 0
    assert result.err == "warning: --gpu_id 0 is ignored: everything is computed on the CPU\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--batch_num", "9"), "error: holds samples for 8 runs, not 9 (batch_num)"),
        (("--data_dir", "nowhere"), "nowhere: error: the folder does not exist"),
        (("--data_dir", "a;b"), "a;b: error: 2 folders for 1 inputs: image"),
        (("--input_shape", "images:16,1,8,8"), "input-shape: the model has no input images"),
        (("--input_shape", "image:16,1,x"), "--input_shape: 'image:16,1,x' is malformed"),
        (("--input_shape", "image:16,8,8"), "input 'image' has shape [8, 16, 8, 8]"),
        (("--data_types", "float31"), "data type 'float31' is not one of float16"),
        (("--data_types", ""), "amct calibration needs --data_types"),
        (("--evaluator", "e.py"), "--evaluator brings its own data: --input_shape does not apply"),
        (("--model", "nowhere.onnx"), "nowhere.onnx"),
        (("--calibration_config", "nowhere.cfg"), "nowhere.cfg"),
    ],
)
def test_mistakes(calibration, tmp_path, options, message):
    result = calibration(*options)
    assert (result.status, result.out) == (1, "")
    assert message in result.err
    assert not (tmp_path / "out").exists()


def test_nothing_that_was_read_is_overwritten(calibration, tmp_path):
    model = tmp_path / "P_fake_quant_model.onnx"
    model.write_bytes(MODEL.read_bytes())
    result = calibration("--model", model, save_path=tmp_path / "P")
    assert result.status == 1
    assert f"{model}: error: would overwrite a file that was read" in result.err
    assert names(tmp_path) == {model.name}


def test_a_folder_that_is_none(calibration, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file: error: cannot be written: not a folder" in calibration(save_path=tmp_path / "file" / "P").err


def test_two_inputs_one_with_a_colon_in_its_name(amct_tool, files, tmp_path):
    model = files.text("two.mlir", TWO_INPUTS)
    rng = np.random.default_rng(0)
    for name, shape, dtype in (("x", (2, 2), np.float64), ("z", (2, 3), np.float16)):
        (tmp_path / name).mkdir()
        for i in range(2):
            rng.uniform(-1, 1, shape).astype(dtype).tofile(tmp_path / name / f"{i}.bin")
    result = amct_tool(
        *("calibration", "--model", model, "--save_path", tmp_path / "out" / "two", "--batch_num", 2),
        *("--input_shape", "scope/z:0:2,3;x:2,2", "--data_dir", f"{tmp_path / 'z'};{tmp_path / 'x'}"),
        *("--data_types", "float16;float64"),
    )
    assert (result.status, result.err) == (0, "")
    largest = max(np.abs(np.fromfile(f, np.float16)).max() for f in (tmp_path / "z").iterdir())
    record = read_record(tmp_path / "out" / "two_record.txt")
    assert record.layers["fc2"].scale_d <= 1.3 * 2 * largest / 255  # IFMR searches up to 1.3 times the range
    assert set(record.layers) == {"fc1", "fc2"}


def converted(files, target: str, name: str) -> Path:
    module = files.text("conv.mlir", CONVOLUTION)
    path = files.folder / name
    assert amct_opt.run([str(module), "-t", target, "-o", str(path)]) == 0
    return path


def convolution_data(folder: Path) -> Path:
    data = folder / "data"
    data.mkdir()
    np.linspace(-1, 2, 32, dtype=np.float32).tofile(data / "0.bin")
    return data


def test_files_of_caffe(amct_tool, files, tmp_path):
    model = converted(files, "caffe", "net.prototxt")
    data = convolution_data(tmp_path)
    result = amct_tool(
        *("calibration", "--model", model, "--weights", model.with_suffix(".caffemodel"), "--gpu_id=1"),
        *("--input_shape=x:1,2,4,4", "--data_dir", data, "--data_types=float32", f"--save_path={tmp_path}/out/P"),
    )
    assert result.status == 0
    assert names(tmp_path / "out") == {
        "P_deploy_model.prototxt",
        "P_deploy_weights.caffemodel",
        "P_fake_quant_model.prototxt",
        "P_fake_quant_weights.caffemodel",
        "P_quant.json",
        "P_record.txt",
    }
    ops = json.loads((tmp_path / "out" / "P_quant.json").read_text())["graph"][0]["op"]
    deployed = (tmp_path / "out" / "P_deploy_model.prototxt").read_text()
    for op in ops:
        assert f'name: "{op["name"]}"\n  type: "{op["type"]}"' in deployed
    assert {op["type"] for op in ops} == {"Quant", "Convolution", "DeQuant", "ReLU"}


def test_caffe_without_a_prefix(amct_tool, files, tmp_path):
    model = converted(files, "caffe", "net.prototxt")
    data = convolution_data(tmp_path)
    result = amct_tool(
        *("calibration", "--model", model, "--weights", model.with_suffix(".caffemodel")),
        *("--input_shape=x:1,2,4,4", "--data_dir", data, "--data_types=float32", f"--save_path={tmp_path}/out/"),
    )
    assert (result.status, result.err) == (0, "")
    assert "deploy_model.prototxt" in names(tmp_path / "out")
    assert not any(name.startswith(("_", ".")) for name in names(tmp_path / "out"))


def test_files_of_tensorflow(amct_tool, files, tmp_path):
    model = converted(files, "tf-fakequant", "frozen.pb")
    data = convolution_data(tmp_path)
    result = amct_tool(
        *("calibration", "--model", model, "--outputs=y:0", f"--save_path={tmp_path}/out/P"),
        *("--input_shape=x:1,2,4,4", "--data_dir", data, "--data_types=float32"),
    )
    assert (result.status, result.err) == (0, "")
    written = ["P_quantized.pb", "P_fake_quant_model.pb"]
    assert names(tmp_path / "out") == {*written, "P_quant.json", "P_record.txt"}
    inputs = files.npz(x=np.fromfile(data / "0.bin", np.float32).reshape(1, 2, 4, 4))
    for name in written:
        compared = amct_tool("compare", model, tmp_path / "out" / name, "--data", inputs, "--json")
        (difference,) = json.loads(compared.out)["outputs"].values()
        assert difference["sqnr"] > 30
    deployed = (tmp_path / "out" / "P_quantized.pb").read_bytes()
    nodes = {node.name: node.op for node in GraphDef.FromString(deployed).node}
    listed = json.loads((tmp_path / "out" / "P_quant.json").read_text())["graph"][0]["op"]
    assert {op["name"]: op["type"] for op in listed}.items() <= nodes.items()
    assert "AscendDequant" in nodes.values()
    result = amct_tool(
        *("convert", "--model", model, "--record_file", tmp_path / "out" / "P_record.txt", "--outputs=y:0"),
        f"--save_path={tmp_path}/again/P",
    )
    assert (result.status, result.err) == (0, "")
    assert (tmp_path / "again" / "P_quantized.pb").read_bytes() == deployed


def test_a_net_of_caffe_takes_the_batch_of_the_data(amct_tool, files, tmp_path):
    model = converted(files, "caffe", "net.prototxt")
    given = ("--model", model, "--weights", model.with_suffix(".caffemodel"), f"--save_path={tmp_path}/out/P")
    (tmp_path / "data").mkdir()
    np.linspace(-1, 2, 96, dtype=np.float32).tofile(tmp_path / "data" / "0.bin")
    data = ("--data_dir", tmp_path / "data", "--data_types=float32")
    assert amct_tool("calibration", *given, *data, "--input_shape=x:3,2,4,4").status == 0
    assert "dim: 1\n" in (tmp_path / "out" / "P_deploy_model.prototxt").read_text()
    refused = amct_tool("calibration", *given, *data, "--input_shape=x:3,4,2,4")
    assert "the model takes [1, 2, 4, 4]" in refused.err


def test_shapes_that_tensorflow_leaves_open(amct_tool, files, tmp_path):
    model = converted(files, "tf-fakequant", "frozen.pb")
    graph = GraphDef.FromString(model.read_bytes())
    (placeholder,) = (node for node in graph.node if node.op == "Placeholder")
    placeholder.attr["shape"].shape.Clear()
    placeholder.attr["shape"].shape.unknown_rank = True
    model.write_bytes(graph.SerializeToString())
    given = ("--model", model, f"--save_path={tmp_path}/out/P", "--data_dir", convolution_data(tmp_path))
    assert amct_tool("calibration", *given, "--data_types=float32", "--input_shape=x:0:1,2,4,4").status == 0
    evaluator = files.text("e.py", "class E:\n    def calibration(self, model):\n        pass")
    assert "its rank is unknown" in amct_tool("calibration", *given[:3], "--evaluator", evaluator).err
