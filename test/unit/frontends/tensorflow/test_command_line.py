"""The commands on TensorFlow's models: what they read, write, protect, and that TensorFlow stays out of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt.tools import amct, amct_opt

from ...frameworks import keras, tf
from ...values import normal

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

IMAGES = normal(16, 8, 8, 3)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network as `net.pb`, `net.pbtxt`, `net.keras` and the SavedModel `net`, and what TensorFlow computes, `y.npy`."""
    folder = tmp_path_factory.mktemp("models")
    x = keras.Input((8, 8, 3), name="image")
    y = keras.layers.ReLU()(keras.layers.BatchNormalization()(keras.layers.Conv2D(6, 3, name="conv")(x)))
    model = keras.Model(x, keras.layers.Dense(5, name="scores")(keras.layers.Flatten()(y)), name="net")
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(rng.uniform(0.1, 0.5, weight.shape))
    model.save(folder / "net.keras")
    model.export(folder / "net", verbose=False)
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    traced = tf.function(lambda image: model(image, training=False), autograph=False)
    frozen = convert_variables_to_constants_v2(
        traced.get_concrete_function(tf.TensorSpec([None, 8, 8, 3], tf.float32, "image"))
    ).graph
    tf.io.write_graph(frozen, str(folder), "net.pb", as_text=False)
    tf.io.write_graph(frozen, str(folder), "net.pbtxt", as_text=True)
    np.save(folder / "y.npy", model(IMAGES, training=False).numpy())
    np.savez(folder / "x.npz", image=IMAGES)
    return folder


FORMS = ["net.pb", "net.pbtxt", "net.keras", "net", "net/saved_model.pb"]


@pytest.mark.parametrize("form", FORMS)
def test_amct_opt(form: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert amct_opt.run([str(models / form), "--fuse-all", "-o", str(tmp_path / "out.mlir")]) == 0
    assert capsys.readouterr() == ("", "")
    text = (tmp_path / "out.mlir").read_text()
    assert text.count("nn.conv") == text.count("nn.matmul") == 1
    assert "nn.batch_norm" not in text


@pytest.mark.parametrize("form", FORMS)
def test_amct_run(form: str, models: Path, tmp_path: Path) -> None:
    """Tolerance: sums of at most 216 products of numbers of about 1."""
    argv = ["run", str(models / form), "--data", str(models / "x.npz"), "-o", str(tmp_path / "y.npz")]
    assert amct.run(argv) == 0
    with np.load(tmp_path / "y.npz") as outputs:
        (name,) = outputs.files
        expected = np.load(models / "y.npy")
        np.testing.assert_allclose(outputs[name], expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("form", ["net.pb", "net"])
def test_amct_quantize(form: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files are called as the file or folder; the size of a SavedModel is that of its graph and its variables."""
    out = tmp_path / "out"
    assert (
        amct.run(["quantize", str(models / form), "--data", str(models / "x.npz"), "-o", str(out), "--also", "ascend"])
        == 0
    )
    assert {"net_qdq.onnx", "net_quantized.pb", "net_ascend.mlir"} <= {path.name for path in out.iterdir()}
    summary = json.loads((out / "summary.json").read_text())
    assert {row["op"] for row in summary["layers"]["quantized"]} == {"nn.conv", "nn.matmul"}
    read = (
        [models / form] if form == "net.pb" else [models / "net/saved_model.pb", *(models / "net/variables").iterdir()]
    )
    assert summary["bytes"]["model"] == sum(path.stat().st_size for path in read)

    capsys.readouterr()
    argv = ["compare", str(models / form), str(out / "net_ascend.mlir"), "--data", str(models / "x.npz"), "--json"]
    assert amct.run(argv) == 0
    (difference,) = json.loads(capsys.readouterr().out)["outputs"].values()
    # 8 bits of a range leave about 40 dB; two layers of that
    assert difference["sqnr"] > 25


@pytest.mark.slow
def test_tensorflow_is_not_imported(models: Path, tmp_path: Path) -> None:
    """Not for reading, nor for running, nor for quantizing."""
    forms = [str(models / form) for form in ("net.pb", "net.pbtxt", "net", "net/saved_model.pb")]
    code = f"""
import sys
from amct_opt.tools import amct
for i, form in enumerate({forms}):
    assert amct.run(["quantize", form, "--data", {str(models / "x.npz")!r}, "-o", f"{tmp_path}/{{i}}"]) == 0
print(sorted({{m.partition(".")[0] for m in sys.modules}} & {{"tensorflow", "keras", "tf_keras", "h5py"}}))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "[]"


def test_help_imports_nothing_heavy() -> None:
    heavy = "print(*[m for m in ('numpy', 'tensorflow', 'onnx', 'google.protobuf') if m in sys.modules])"
    for tool in ("amct_opt", "amct"):
        run = f"import sys\nimport amct_opt.tools.{tool} as m\ntry:\n    m.run(['--help'])\nexcept SystemExit:\n    pass\n"
        code = f"{run}{heavy}"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout.splitlines()[-1] == "", tool


# Options


def printed(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    assert amct_opt.run([str(a) for a in argv]) == 0
    return next(line for line in capsys.readouterr().out.splitlines() if "func.func" in line)


def test_options(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = models / "net.pb"
    assert "%image: tensor<?x8x8x3xf32>" in printed(capsys, graph)
    assert "%image: tensor<2x8x8x3xf32>" in printed(capsys, graph, "--input-shape=image:2,8,8,3")
    assert "%image: tensor<2x8x8x3xf32>" in printed(capsys, graph, "--input-shape=image:0:2,8,8,3")
    assert "%image: tensor<4x8x?x?xf32>" in printed(capsys, graph, "--input-shape=4,8,-1,?")
    relu = next(line for line in _names(graph) if line.endswith("Relu"))
    assert f'nn.name = "{relu}"' in printed(capsys, graph, f"--outputs={relu}")
    cut = printed(capsys, graph, f"--inputs={relu}", f"--input-shape={relu}:?,6,6,6")
    assert f'tensor<?x6x6x6xf32> {{nn.name = "{relu}"}}' in cut
    assert "serving_default" not in printed(capsys, models / "net", "--signature=serving_default")


def _names(path: Path) -> list[str]:
    graph = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    return [node.name for node in graph.node]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--input-shape=image:2,8,8"],
            "--input-shape gives [2, 8, 8] for input 'image', the model declares [?, 8, 8, 3]",
        ),
        (
            ["--input-shape=image:2x8"],
            "--input-shape: 'image:2x8' is malformed\n  hint: write data:1,3,224,224;ids:?,16",
        ),
        (["--input-shape=image:1;image:2"], "--input-shape: 'image' is given twice"),
        (["--signature=a"], "has no signature 'a'"),
        (["--weights=w"], "--weights has no meaning for a model of this kind"),
        (["--outputs=nowhere"], "has no node 'nowhere' to be an output"),
    ],
)
def test_bad_options(argv: list[str], message: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert amct_opt.run([str(models / "net.pb"), *argv]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


@pytest.mark.parametrize("option", ["--inputs=x", "--outputs=y", "--input-shape=x:1", "--signature=s", "--weights=w"])
def test_modules_take_no_options(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are imported already; sizes of inputs are what a pass sets."""
    path = tmp_path / "m.mlir"
    path.write_text("func.func @main() { func.return }")
    assert amct_opt.run([str(path), option]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"{path}: error: {option.partition('=')[0]} has no meaning for a model of this kind")
    assert ("--infer-shapes=input-shape=" in err) == option.startswith("--input-shape")


def test_shapes_in_run_and_compare(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--data", str(models / "x.npz"), "--input-shape=image:4,8,8,3"]
    assert amct.run(["run", str(models / "net.pb"), *common, "-o", str(tmp_path / "y.npz")]) == 0
    assert "of 4 runs" in capsys.readouterr().out
    assert amct.run(["compare", str(models / "net.pb"), str(models / "net.pbtxt"), *common, "--json"]) == 0
    (difference,) = json.loads(capsys.readouterr().out)["outputs"].values()
    assert difference["differing"] == 0


# What was read is not overwritten


@pytest.mark.parametrize(
    "written", ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
)
def test_a_saved_model_is_protected(
    written: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], identical: Callable[[Path], Any]
) -> None:
    folder = tmp_path / "net"
    shutil.copytree(models / "net", folder)
    before = identical(folder)
    assert amct_opt.run([str(folder), "-t", "onnx", "-o", str(folder / written)]) == 1
    assert "would overwrite a file that was read" in capsys.readouterr().err
    inputs = ["--data", str(models / "x.npz")]
    assert amct.run(["run", str(folder), *inputs, "-o", str(folder / written)]) == 1
    assert "would overwrite a file that was read" in capsys.readouterr().err
    assert identical(folder) == before


@pytest.fixture
def identical() -> Callable[[Path], Any]:
    return lambda folder: {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("tool", ["run", "quantize"])
def test_a_folder_that_is_no_saved_model(tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()
    np.savez(tmp_path / "x.npz", x=np.zeros(1))
    more = ["--data", str(tmp_path / "x.npz")] if tool == "run" else []
    assert amct.run([tool, str(tmp_path / "folder"), *more, "-o", str(tmp_path / "out")]) == 1
    assert f"{tmp_path / 'folder'}: error: is a folder, but not a SavedModel" in capsys.readouterr().err


def test_a_folder_by_a_path_without_a_name(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are called as the folder, also when that is `.`, or ends in what looks like an ending."""
    folder = tmp_path / "net.v1"
    shutil.copytree(models / "net", folder)
    monkeypatch.chdir(folder)
    assert amct.run(["quantize", ".", "--data", str(models / "x.npz"), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "net.v1_qdq.onnx").is_file()
