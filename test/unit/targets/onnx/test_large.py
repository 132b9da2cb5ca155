"""ONNX files of 2 GB, which protobuf cannot hold: in and out."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from amct_opt.tools import amct_opt

ROWS, COLUMNS = 1 << 15, 1 << 12
WEIGHTS = 4


def write_sparse(path: Path) -> None:
    """Four matrices of 512 MB in a row, in a file that takes no room on the disk; a few numbers of each are not 0."""
    data = path.with_name("weights.bin")
    size = 4 * ROWS * COLUMNS
    with data.open("wb") as stream:
        stream.truncate(WEIGHTS * size)
        for i in range(WEIGHTS):
            stream.seek(i * size)
            stream.write(np.array([i + 1, 127], np.float32).tobytes())
    names = [f"w{i}" for i in range(WEIGHTS)]
    tensors: list[TensorProto] = []
    for i, name in enumerate(names):
        tensor = TensorProto(
            name=name, dims=[ROWS, COLUMNS], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
        )
        for key, value in {"location": data.name, "offset": str(i * size), "length": str(size)}.items():
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
    nodes = [helper.make_node("MatMul", ["x", name], [f"y{name}"]) for name in names]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS])
    results = [helper.make_tensor_value_info(f"y{name}", TensorProto.FLOAT, [1, COLUMNS]) for name in names]
    graph = helper.make_graph(nodes, "large", [given], results, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.slow
def test_two_gigabytes_in_and_out(tmp_path: Path) -> None:
    model, again, small = (tmp_path / name for name in ("model.onnx", "again.onnx", "small.onnx"))
    write_sparse(model)
    assert amct_opt.run([str(model), "-t", "onnx", "-o", str(again)]) == 0
    written = tmp_path / "again.onnx.data"
    assert again.stat().st_size < 1 << 20
    assert written.stat().st_size >= 1 << 31
    assert amct_opt.run([str(again), "--quantize=weight-only=true", "-t", "onnx", "-o", str(small)]) == 0
    values = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(small).graph.initializer}
    integers = [values[f"w{i}.i8"] for i in range(WEIGHTS)]
    assert [list(w[0, :2]) for w in integers] == [[i + 1, 127] for i in range(WEIGHTS)]
    assert all(np.count_nonzero(w) == 2 for w in integers)


def test_a_model_is_read_only_with_the_external_data_that_it_was_written_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the checksum that ONNX defines; onnxruntime accepts it."""
    for name, value in (("one", 1), ("other", 2)):
        (tmp_path / name).mkdir()
        tensor = onnx.numpy_helper.from_array(np.full((1, 512), value, np.float32), "w")
        ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, 512]) for end in "xy"]
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "net", ends[:1], ends[1:], [tensor])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx"
        )
        argv = [str(tmp_path / "net.onnx"), "-t", "onnx{external=true}", "-o", str(tmp_path / name / "net.onnx")]
        assert amct_opt.run(argv) == 0
    path = tmp_path / "one" / "net.onnx"
    assert amct_opt.run([str(path)]) == 0
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.zeros((1, 512), np.float32)})
    assert np.all(np.asarray(result) == 1)
    (tmp_path / "other" / "net.onnx.data").replace(tmp_path / "one" / "net.onnx.data")
    assert amct_opt.run([str(path)]) == 1
    assert "net.onnx.data does not belong to the model: checksum mismatch" in capsys.readouterr().err
