"""`amct bisect` and `amct reduce`: by their command lines."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import amct_opt
from amct_opt.examine.reduction.command import words_of
from amct_opt.tools import amct

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", DIGITS / "calib.npz"


def test_the_first_layer_that_parts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.load(MODEL)
    weight = next(each for each in model.graph.initializer if each.name == "conv3.weight")
    array = numpy_helper.to_array(weight).copy()
    array[3, 1] *= 1.01
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    other = tmp_path / "other.onnx"
    onnx.save(model, other)
    assert amct.run(["bisect", str(MODEL), str(other), "--inputs", str(DATA)]) == 1
    output = capsys.readouterr()
    assert "node 'conv3': error: the models part here: layer 'conv3' (nn.conv)" in output.err
    assert amct.run(["bisect", str(MODEL), str(MODEL), "--inputs", str(DATA), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["first"] is None
    assert {each["verdict"] for each in found["layers"].values()} == {"equal"}


def test_formats_and_stages_do_not_matter(tmp_path: Path) -> None:
    module, session = amct_opt.load(MODEL)
    amct_opt.run_pipeline(module, ["canonicalize", "fuse-all"], session)
    amct_opt.save(module, tmp_path / "fused.mlir", session)
    amct_opt.save(module, tmp_path / "fused.pb", session, "tf-fakequant")
    amct_opt.run_pipeline(module, [f'quantize{{data="{DATA}" samples=8}}', "lower-to-ascend"], session)
    amct_opt.save(module, tmp_path / "integers.mlir", session)
    with np.load(DATA) as arrays:
        inputs = {"image": arrays["image"][:2]}
    for name in ("fused.mlir", "fused.pb", "integers.mlir"):
        found = amct_opt.bisect(MODEL, tmp_path / name, inputs)
        assert found.first is None
        assert len(found.layers) > 8
        assert found.quantized == (name == "integers.mlir")


def test_a_bias_after_its_product_ends_before_quantization(tmp_path: Path) -> None:
    """An ONNX file has the bias of a product of rank 3 in an Add of its own. Quantization after it is no part of the layer."""
    rng = np.random.default_rng(0)
    arrays = {"w1": (4, 6), "b1": (6,), "w2": (6, 3)}
    held = [numpy_helper.from_array(rng.standard_normal(s, np.float32), name) for name, s in arrays.items()]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w1"], ["m1"], "m1"),
        onnx.helper.make_node("Add", ["m1", "b1"], ["a1"], "a1"),
        onnx.helper.make_node("MatMul", ["a1", "w2"], ["m2"], "m2"),
    ]
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 5, size])
        for name, size in (("x", 4), ("m2", 3))
    )
    opset = [onnx.helper.make_opsetid("", 21)]
    graph = onnx.helper.make_graph(nodes, "products", [x], [y], held)
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "products.onnx")
    module, session = amct_opt.load(tmp_path / "products.onnx")
    amct_opt.run_pipeline(module, ["canonicalize", "fuse-all", "quantize"], session)
    for target in ("mlir", "onnx"):
        amct_opt.save(module, tmp_path / f"q.{target}", session, target)
    inputs = {"x": rng.standard_normal((2, 5, 4), np.float32)}
    found = amct_opt.bisect(tmp_path / "q.mlir", tmp_path / "q.onnx", inputs)
    assert found.first is None
    assert {each.verdict for each in found.layers} <= {"equal", "rounding"}


def test_a_model_shrinks_while_its_command_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "fails.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        "if b'GlobalAveragePool' in Path(sys.argv[1]).read_bytes():\n    sys.exit('error: pools at node 7')\n"
    )
    out = tmp_path / "small.onnx"
    command = f"{sys.executable} -S {script} {{}}"
    assert amct.run(["reduce", str(MODEL), "--command", command, "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failure"] == "status 1, pools at node"
    assert found["operations"] == {"before": 20, "after": 1}
    assert [node.op_type for node in onnx.load(out).graph.node] == ["GlobalAveragePool"]
    assert "nn.global_average_pool" in (tmp_path / "small.mlir").read_text()


def test_each_model_has_its_own_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, session = amct_opt.load(MODEL)
    net, weights = (str(tmp_path / f"net.{ending}") for ending in ("prototxt", "caffemodel"))
    amct_opt.save(module, net, session, "caffe")
    data = ["--inputs", str(DATA)]
    assert amct.run(["bisect", net, net, *data, "--weights", weights, "--b-weights", weights, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["layers"]) > 8
    options = ["--data", str(DATA), "--b-weights", weights, "--b-input-shape", "image:?,1,8,8"]
    assert amct.run(["compare", str(MODEL), net, *options]) == 0
    assert "logits" in capsys.readouterr().out
    assert amct.run(["bisect", str(MODEL), weights, *data]) == 1
    assert "hint: name the prototxt, and this file as --b-weights net.caffemodel" in capsys.readouterr().err


def test_a_model_of_caffe_shrinks_to_onnx_and_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, session = amct_opt.load(MODEL)
    amct_opt.save(module, tmp_path / "net.prototxt", session, "caffe")
    command = [
        "reduce",
        str(tmp_path / "net.prototxt"),
        "--weights",
        str(tmp_path / "net.caffemodel"),
        "-o",
        str(tmp_path / "s"),
    ]
    assert amct.run([*command, "--command", "! grep -q nn.average_pool {}"]) == 0
    assert [node.op_type for node in onnx.load(tmp_path / "s.onnx").graph.node] == ["AveragePool"]
    assert "nn.average_pool" in (tmp_path / "s.mlir").read_text()
    command = ["reduce", str(MODEL), "--outputs", "logits", "-o", str(tmp_path / "s")]
    assert amct.run([*command, "--command", "false {}"]) == 1
    assert "an ONNX model is reduced as it is" in capsys.readouterr().err


def test_a_form_that_cannot_be_stored_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.mlir").mkdir()
    command = ["--command", "! grep -q GlobalAveragePool {}", "-o", str(tmp_path / "small.onnx")]
    assert amct.run(["reduce", str(MODEL), *command]) == 1
    assert "small.mlir: error: cannot be written" in capsys.readouterr().err


def test_commands_that_cannot_be_reduced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "small.onnx")
    assert amct.run(["reduce", str(MODEL), "--command", "true {}", "-o", out]) == 1
    assert "the command does not fail on this model" in capsys.readouterr().err
    assert amct.run(["reduce", str(MODEL), "--command", "false", "-o", out]) == 1
    assert "does not name the model" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("x.onnx: node 'a': error: layer 'a' is 1.5 at [0, 2]\n  hint: no", "layer is at"),
        ("note: fine\nValueError: shapes (3,4) and (5,) differ", "ValueError: shapes and differ"),
        ("nothing of the kind", ""),
    ],
)
def test_words_leave_out_what_is_particular(output: str, words: str) -> None:
    assert words_of(output) == words
