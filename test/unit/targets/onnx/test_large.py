"""ONNX files of 2 GB, which protobuf cannot hold: in and out."""

from pathlib import Path

import numpy as np
import onnx
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
