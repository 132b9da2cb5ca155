"""`amct run`: outputs by name, runs as often as the data asks for, and mistakes as one located line."""

from __future__ import annotations

import numpy as np
import pytest

X = np.array([[1, 0], [0, 1], [-1, -1]], np.float32)
Y = np.array([[1, 2], [3, 4], [0, 0]], np.float32)
"""relu(X @ [[1, 2], [3, 4]])"""


@pytest.mark.parametrize("batch", ["?", 3, 1])
def test_writes_outputs_by_name(amct_tool, files, tmp_path, batch):
    """One run where the model takes three samples, three runs joined where it takes one at a time."""
    result = amct_tool("run", files.module(batch=batch), "--inputs", files.npz(x=X), "-o", tmp_path / "y.npz")
    assert (result.status, result.err) == (0, "")
    with np.load(tmp_path / "y.npz") as outputs:
        assert outputs.files == ["y"]
        np.testing.assert_array_equal(outputs["y"], Y)


def test_an_axis_of_samples_on_top_of_the_models_axes_is_kept(amct_tool, files, tmp_path):
    """Two samples of shape [3, 2] for a model of [3, 2]: the output is [2, 3, 2]."""
    inputs = files.npz(x=np.stack([X, -X]))
    assert amct_tool("run", files.module(batch=3), "--data", inputs, "-o", tmp_path / "y.npz").status == 0
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], [Y, [[0, 0], [0, 0], [4, 6]]])


def test_batch_cuts_a_free_first_axis(amct_tool, files, tmp_path):
    result = amct_tool("run", files.module(), "--data", files.npz(x=X), "-o", tmp_path / "y.npz", "--batch", "2")
    assert "2 runs" in result.out
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], Y)


def test_the_first_samples(amct_tool, files, tmp_path):
    """Fewer than there are, and no more: also where all would fit into one run of the model."""
    run = ("run", files.module(), "--data", files.npz(x=X), "-o", tmp_path / "y.npz", "--num-samples")
    assert amct_tool(*run, "2").status == 0
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], Y[:2])
    result = amct_tool(*run, "4")
    assert (result.status, "x.npz: error: holds 3 samples, not 4" in result.err) == (1, True)


def test_inputs_from_a_folder(amct_tool, files, tmp_path):
    (tmp_path / "inputs").mkdir()
    np.save(tmp_path / "inputs" / "x.npy", X)
    result = amct_tool("run", files.module(), "--data", tmp_path / "inputs", "-o", tmp_path / "y.npz")
    assert result.status == 0, result.err


NAN = np.full((1, 2), np.nan, np.float32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": X}, "no data for input x"),
        ({"x": X, "z": X}, "the model has no input z"),
        ({"x": X[:, :1]}, "input 'x' has shape [3, 1], but the model takes [?, 2]"),
        ({"x": X.astype(np.int64)}, "input 'x' is of int64, but the model takes float32"),
        ({"x": NAN}, "input 'x' holds NaN"),
        ({"x": np.array([["a", None]], object)}, "cannot be read: it holds pickled objects"),
    ],
)
def test_inputs_that_do_not_fit(amct_tool, files, tmp_path, arrays, message):
    inputs = files.npz(**arrays)
    result = amct_tool("run", files.module(), "--data", inputs, "-o", tmp_path / "y.npz")
    assert result.status == 1
    assert result.err.startswith(f"{inputs}: error: ")
    assert message in result.err
    assert not (tmp_path / "y.npz").exists()


def test_samples_that_make_no_whole_runs(amct_tool, files, tmp_path):
    """The calibration path may fill up a last batch; here that would be an output nobody asked for."""
    result = amct_tool("run", files.module(batch=2), "--data", files.npz(x=X), "-o", tmp_path / "y.npz")
    assert result.status == 1
    assert "3 samples do not make whole runs of 2" in result.err


def test_a_batch_that_the_model_does_not_take(amct_tool, files, tmp_path):
    arguments = ("--data", files.npz(x=X), "-o", tmp_path / "y.npz", "--batch", "3")
    result = amct_tool("run", files.module(batch=1), *arguments)
    assert result.status == 1
    assert "the model takes 1 samples per run, not 3" in result.err


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("missing.onnx", "missing.onnx: error: "),
        ("missing.mlir", "missing.mlir: error: "),
        ("model.docx", "unknown file ending '.docx'"),
        ("model.pth", "it is not a graph: torch.export.save"),
        ("nowhere.pt2", "cannot be read: No such file or directory"),
    ],
)
def test_a_model_that_cannot_be_read(amct_tool, files, tmp_path, model, message):
    result = amct_tool("run", tmp_path / model, "--data", files.npz(x=X), "-o", tmp_path / "y.npz")
    assert result.status == 1
    assert message in result.err


def test_text_that_is_no_module_is_located(amct_tool, files, tmp_path):
    bad = files.text("bad.mlir", "func.func @main(%x: tensor<1xf32>) {\n  %0 = nn.relu %x : tensor<1xq32>\n}")
    result = amct_tool("run", bad, "--data", files.npz(x=X), "-o", tmp_path / "y.npz")
    assert result.status == 1
    assert result.err.startswith(f"{bad}:2:")


def test_inputs_are_not_overwritten(amct_tool, files):
    inputs = files.npz(x=X)
    result = amct_tool("run", files.module(), "--data", inputs, "-o", inputs)
    assert result.status == 1
    assert "would overwrite a file that was read" in result.err
    with np.load(inputs) as arrays:
        np.testing.assert_array_equal(arrays["x"], X)


def test_a_missing_output_folder(amct_tool, files, tmp_path):
    result = amct_tool("run", files.module(), "--data", files.npz(x=X), "-o", tmp_path / "no" / "y.npz")
    assert result.status == 1
    assert f"{tmp_path / 'no'}: error: the folder does not exist" in result.err


def test_an_output_called_file(amct_tool, files, tmp_path):
    """`numpy.savez` cannot store an array of that name."""
    module = files.module()
    module.write_text(module.read_text().replace('"y"', '"file"'))
    assert amct_tool("run", module, "--data", files.npz(x=X), "-o", tmp_path / "y.npz").status == 0
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["file"], Y)
