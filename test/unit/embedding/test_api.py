"""The public Python API: what `amct_opt` hands out, from a model to files and numbers."""

import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any, cast, get_origin

import numpy as np
import onnx
import pytest

import amct_opt
from amct_opt import CompileError, Executable, Settings
from amct_opt.dialects.nn import ObserveOp
from amct_opt.flows.network import simplify_and_fuse
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.transforms.quantization.options import RecoveryOptions
from amct_opt.transforms.quantization.quantize import QuantizePass
from amct_opt.transforms.quantization.request import request_of

from ..conftest import Amct
from .test_page import NAMES

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
Array = np.ndarray[Any, np.dtype[Any]]

NET = """
func.func @main(%x: tensor<?x3xf32> {nn.name = "x"}) -> (tensor<?x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]]> : tensor<3x2xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
"""
X = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
W = np.array([[1, -2], [0.5, 3], [-1.5, 0.25]], np.float32)


def quantized(**arguments: Any) -> str:
    module, session = amct_opt.parse(NET)
    amct_opt.quantize(module, session, **arguments)
    return amct_opt.to_text(module)


def test_importing_it_imports_nothing() -> None:
    code = "import sys; a = set(sys.modules); import amct_opt; dir(amct_opt); print(*(set(sys.modules) - a))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["amct_opt"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(amct_opt, name)
    assert (found.__doc__ or "").strip() or get_origin(found) is not None, "only an alias of a type has no docstring"
    assert name in dir(amct_opt)
    if inspect.isclass(found):
        own = {n: m for base in found.__mro__ if base.__module__.startswith("amct_opt") for n, m in vars(base).items()}
        methods = {
            n: m for n, m in own.items() if not n.startswith("_") and (inspect.isfunction(m) or isinstance(m, property))
        }
        assert not [n for n, m in methods.items() if not inspect.getdoc(getattr(found, n)) and not m.__doc__]


def test_help_fits_three_screens() -> None:
    """It names all of the API, each with a word on what it is for."""
    page = pydoc.render_doc(amct_opt, renderer=pydoc.TextDoc())
    assert len(page.splitlines()) < 3 * 40
    assert {*re.findall(r"\w+", amct_opt.__doc__ or "")} >= {*NAMES}


def test_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = amct_opt.nothing  # pyright: ignore


def test_from_a_model_to_files(tmp_path: Path) -> None:
    """The whole path, by functions: import, fuse, quantize, write, lower, run."""
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    original = module.clone()
    done: list[str] = []
    amct_opt.run_pipeline(module, "fuse", session, after=lambda each, _, seconds: done.append(each.name))
    assert done == ["canonicalize", "fuse-all"]
    amct_opt.quantize(module, session, data=DIGITS / "calib.npz")
    files = amct_opt.save(module, tmp_path / "q.onnx", session, "onnx", opset=17)
    assert files == [tmp_path / "q.onnx"]
    assert {o.version for o in onnx.load(files[0]).opset_import if not o.domain} == {17}
    amct_opt.run_pipeline(module, "deploy", session)
    assert {f.suffix for f in amct_opt.save(module, tmp_path / "a.mlir", session)} == {".mlir", ".safetensors"}
    images = np.load(DIGITS / "calib.npz")["image"][:1]
    expected, actual = (amct_opt.execute(m, {"image": images})["logits"] for m in (original, module))
    assert np.abs(actual - expected).max() < 0.05 * np.abs(expected).max()
    again, _ = amct_opt.load(tmp_path / "a.mlir")
    np.testing.assert_array_equal(amct_opt.execute(again, {"image": images})["logits"], actual)
    applied = {(r.layer, r.rule) for r in session.remarks if r.kind == "applied"}
    assert ("conv1", "quantized") in applied


def test_models_in_memory() -> None:
    path = DIGITS / "digits.onnx"
    proto = onnx.load(path)
    before = proto.SerializeToString()
    (from_file, _), (from_memory, session) = amct_opt.load(path), amct_opt.load(proto)
    assert proto.SerializeToString() == before
    images = np.load(DIGITS / "calib.npz")["image"][:1]
    own, proto_own = (amct_opt.execute(m, {"image": images})["logits"] for m in (from_file, from_memory))
    np.testing.assert_array_equal(own, proto_own)
    assert session.remarks[-1].rule == "summary"
    proto.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    proto.graph.initializer[0].external_data.add(key="location", value="weights.bin")
    with pytest.raises(CompileError, match="its tensors are in files"):
        amct_opt.load(proto)
    with pytest.raises(CompileError, match="float is not a model"):
        amct_opt.load(1.5)  # pyright: ignore


def test_import_options() -> None:
    session = amct_opt.new_session()
    session.imports = amct_opt.ImportOptions(outputs=(onnx.load(DIGITS / "digits.onnx").graph.node[0].output[0],))
    module, same = amct_opt.load(onnx.load(DIGITS / "digits.onnx"), session)
    assert same is session
    assert Executable(module).outputs == list(session.imports.outputs)


def test_text_and_its_errors() -> None:
    module, session = amct_opt.parse(NET, name="net.mlir")
    assert amct_opt.to_text(amct_opt.parse(amct_opt.to_text(module), session).module) == amct_opt.to_text(module)
    assert '"nn.matmul"' in amct_opt.to_text(module, generic=True)
    assert "loc(" in amct_opt.to_text(module, locations=True)
    with pytest.raises(CompileError, match=r"^net.mlir:1:9: error"):
        amct_opt.parse("nonsense", name="net.mlir")
    assert "nn.constant" in amct_opt.to_text(amct_opt.parse(NET.replace("nn.constant", "arith.constant")).module)


def test_a_pipeline_by_hand() -> None:
    module, session = amct_opt.parse(NET)
    seen: list[tuple[str, bool]] = []
    passes = ["cse", make_pass("canonicalize"), "fuse-bn{only_quantizable=true},fuse-mul"]
    amct_opt.run_pipeline(module, passes, session, lambda each, m, s: seen.append((each.name, m is module and s >= 0)))
    assert seen == [(name, True) for name in ("cse", "canonicalize", "fuse-bn", "fuse-mul")]
    for wrong in ("fuze-bn", "deploy{x=1}"):
        with pytest.raises(CompileError, match="no pass is called"):
            amct_opt.run_pipeline(module, wrong, session)


def test_every_form_of_data_is_the_same(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X)
    batches = [{"x": x[None]} for x in X]
    texts = {
        quantized(data=tmp_path / "x.npz"),
        quantized(data=str(tmp_path / "x.npz")),
        quantized(data={"x": X}),
        quantized(data=X),
        quantized(data=batches),
        quantized(data=iter(batches)),
        quantized(data=(x[None] for x in X)),
        quantized(data=lambda: iter(batches)),
    }
    metadata = {line for t in texts for line in t.splitlines() if "nn.metadata" in line}
    bodies = {t.partition("func.func")[2] for t in texts}
    assert len(bodies) == 1
    assert metadata
    scale = np.float32((np.float64(X.max()) - np.float64(X.min())) / 255)
    (found,) = {
        line.partition("scale = ")[2].partition(",")[0]
        for line in bodies.pop().splitlines()
        if "%x <i8" in line or "quantize %x " in line
    }
    assert abs(float(found) - scale) < 1e-6


def test_calibration_then_integers() -> None:
    module, session = amct_opt.parse(NET)
    amct_opt.calibrate(module, session, amct_opt.Settings(observer="minmax"), X)
    points = [op for op in module.walk() if isinstance(op, ObserveOp)]
    assert (X.min(), X.max()) in [each.range.data for each in points if each.range]
    amct_opt.quantize(module, session, amct_opt.Settings(observer="minmax"))
    whole, other = amct_opt.parse(NET)
    amct_opt.quantize(whole, other, amct_opt.Settings(observer="minmax"), X)
    assert amct_opt.to_text(module) == amct_opt.to_text(whole)
    assert session.warnings == []
    with pytest.raises(CompileError, match="the session is missing"):
        amct_opt.calibrate(module, X)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "int is not calibration data"),
        ([], "gave no batch"),
        ({"z": X}, "no data for input x"),
        (X[:, :2], "has shape"),
        ([X[:1].astype(np.int8)], "int8"),
    ],
)
def test_data_that_does_not_fit(data: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        quantized(data=data)


def test_settings_are_an_object_or_a_file(tmp_path: Path) -> None:
    asked = Settings(
        common=amct_opt.Calibration(amct_opt.Activation("minmax", bits=4), amct_opt.Arq(bits=8)), batch_num=2
    )
    text = quantized(settings=asked, data=X)
    assert "i4" in text
    (tmp_path / "c.cfg").write_text("skip_layers: 'fc'\n")
    module, session = amct_opt.parse(NET)
    amct_opt.quantize(module, session, tmp_path / "c.cfg", X)
    assert [(r.layer, r.rule) for r in session.remarks if r.kind == "missed"] == [("fc", "skip-layers")]
    with pytest.raises(CompileError, match="no observer is called 'median'"):
        quantized(settings=Settings(common=amct_opt.Calibration(amct_opt.Activation("median"))), data=X)


def test_targets_by_name_and_made(tmp_path: Path) -> None:
    from amct_opt.targets.mlir import MlirTarget

    module, session = amct_opt.parse(NET)
    amct_opt.save(module, tmp_path / "a.mlir", session, generic=True)
    amct_opt.save(module, tmp_path / "b.mlir", session, MlirTarget(generic=True))
    assert (tmp_path / "a.mlir").read_text() == (tmp_path / "b.mlir").read_text()
    for target, options, message in (
        ("onnyx", {}, "no target is called 'onnyx'\n  hint: did you mean 'onnx'?"),
        ("mlir", {"opset": 1}, "target mlir has no option 'opset'\n  hint: options are generic, locations"),
        (MlirTarget(), {"generic": True}, "options are for the name of a target"),
    ):
        with pytest.raises(CompileError) as e:
            amct_opt.save(module, tmp_path / "c.mlir", session, target, **options)
        assert message in str(e.value)
    assert not (tmp_path / "c.mlir").exists()


SPREAD = """
func.func @main(%x: tensor<?x3xf32> {nn.name = "x"}) -> (tensor<?x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[100.0, -0.2], [50.0, 0.3], [-15.0, 0.25]]> : tensor<3x2xf32>
  %b = nn.constant dense<[10.0, 0.05]> : tensor<2xf32>
  %v = nn.constant dense<[[0.01, -0.03], [5.0, 3.0]]> : tensor<2x2xf32>
  %h = nn.matmul %x, %w, %b from <onnx, "MatMul", "fc1"> : (tensor<?x3xf32>, tensor<3x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %r = nn.relu %h from <onnx, "Relu", "relu1"> : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %y = nn.matmul %r, %v, %b from <onnx, "MatMul", "fc2"> : (tensor<?x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
"""
"""Its hidden channels are far apart, which equalization ends."""
METHODS = ("gptq", "mismatch", "adaround")
RECOVERIES: Sequence[dict[str, Any]] = (
    {"equalize": True},
    {"fit_ranges": True},
    *({"round_weights": method} for method in METHODS),
    {"correct_bias": True},
    {"equalize": True, "fit_ranges": True, "round_weights": "gptq", "correct_bias": True},
)


@pytest.mark.slow
@pytest.mark.parametrize("given", RECOVERIES, ids=lambda given: "-".join(map(str, given.values())))
def test_passes_commands_and_functions_recover_alike(amct_tool: Amct, given: dict[str, Any], tmp_path: Path) -> None:
    """Option text, arguments and objects lead to equal files. There are few samples, so that all of them calibrate."""
    model, data = tmp_path / "net.mlir", tmp_path / "few.npz"
    model.write_text(SPREAD)
    np.savez(data, x=X[:6])
    text = " ".join(f"{name}={value}" for name, value in given.items())
    made = cast(QuantizePass, make_pass("quantize", f"data={data} {text}"))
    module, session = amct_opt.load(model)
    request = request_of(made.quantization, session)
    corrected = given.get("correct_bias", False if "round_weights" in given else None)
    assert request.recovery == RecoveryOptions(**{**given, "correct_bias": corrected})
    simplify_and_fuse(request, module, session)
    by_pass = module.clone()
    run_passes(by_pass, [made], session.clone())
    amct_opt.quantize(module, session, data=data, **given)
    assert amct_opt.to_text(module) == amct_opt.to_text(by_pass)
    assert {name.replace("_", "-") for name in given} <= {r.pass_name for r in session.remarks}
    amct_opt.quantize_file(model, tmp_path / "function", data, also=("nn", "ascend", "record"), **given)
    flags = [f"--{n.replace('_', '-')}" + ("" if value is True else f"={value}") for n, value in given.items()]
    arguments = "quantize", model, "-o", tmp_path / "command", "--data", data, "--also", "nn,ascend,record"
    assert amct_tool(*arguments, *flags).status == 0
    for name in ("net_nn.mlir", "net_ascend.mlir", "net_qdq.onnx", "net_record.txt"):
        assert (tmp_path / "function" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    amct_opt.save(module, tmp_path / "net_nn.mlir", session)
    assert (tmp_path / "net_nn.mlir").read_bytes() == (tmp_path / "command" / "net_nn.mlir").read_bytes()


def test_one_executable_run_by_several_threads() -> None:
    """With arrays of different sizes, so that buffers that were shared would be seen."""
    module, _ = amct_opt.load(DIGITS / "digits.onnx")
    session = amct_opt.new_session()
    amct_opt.quantize(module, session, data=DIGITS / "calib.npz")
    images = np.load(DIGITS / "calib.npz")["image"]
    executable = Executable(module)
    step = executable.run({"image": images[:1]})["logits"].shape[0]
    inputs = [{"image": images[i : i + step]} for i in range(32)]
    expected = [executable.run(each)["logits"] for each in inputs]
    with ThreadPoolExecutor(8) as pool:
        actual = list(pool.map(lambda each: executable.run(each)["logits"], inputs * 4))
    for i, array in enumerate(actual):
        np.testing.assert_array_equal(array, expected[i % len(inputs)])


def test_sessions_on_threads_of_their_own() -> None:
    """Parsing, passes, calibration and printing, each thread with a session: as one after the other."""

    def compiled(observer: str) -> tuple[str, list[str]]:
        module, session = amct_opt.load(DIGITS / "digits.onnx")
        amct_opt.run_pipeline(module, "fuse", session)
        settings = Settings(common=amct_opt.Calibration(amct_opt.Activation(observer)))
        amct_opt.quantize(module, session, settings, {"image": np.load(DIGITS / "calib.npz")["image"][:8]})
        return amct_opt.to_text(module), [str(r) for r in session.remarks]

    observers = ["minmax", "mse", "percentile", "ifmr"]
    expected = list(map(compiled, observers))
    with ThreadPoolExecutor(len(observers)) as pool:
        assert list(pool.map(compiled, observers)) == expected


def test_a_silent_session_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    session = amct_opt.new_session()
    silent = session.silent()
    silent.warn("twice as slow")
    silent.note("in numpy")
    assert (capsys.readouterr().err, silent.warnings, session.warnings) == ("", ["twice as slow"], [])


def test_two_sessions_share_no_state() -> None:
    module, one = amct_opt.parse(NET)
    other = amct_opt.new_session()
    one.profile = "qdq"
    one.register_observer("mine", amct_opt.Observer)
    amct_opt.quantize(module, one, data=X)
    assert one.remarks
    assert (other.profile, other.remarks, list(other.observers.added)) == ("ascend", [], [])
    copy = one.clone()
    copy.register_observer("another", amct_opt.Observer)
    copy.remarks.clear()
    assert list(one.observers.added) == ["mine"]
    assert one.remarks


@pytest.mark.parametrize("kind", ["keras", "function", "graph"])
@pytest.mark.slow
def test_models_of_tensorflow_in_memory(kind: str) -> None:
    tf = pytest.importorskip("tensorflow")
    weight = tf.constant(W)

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def function(x: Any) -> Any:
        return tf.matmul(x, weight)

    if kind == "keras":
        layer = tf.keras.layers.Dense(2, use_bias=False)
        model = tf.keras.Sequential([tf.keras.Input((3,), name="x"), layer])
        layer.set_weights([W])
        module, _ = amct_opt.load(model)
    elif kind == "function":
        module, _ = amct_opt.load(function)
        traced, _ = amct_opt.load(lambda x: tf.matmul(x, weight), signature=[tf.TensorSpec((None, 3), tf.float32)])
        np.testing.assert_allclose(next(iter(amct_opt.execute(traced, {"x": X}).values())), X @ W, rtol=1e-6)
    else:
        graph = tf.Graph()
        with graph.as_default():
            tf.identity(tf.matmul(tf.compat.v1.placeholder(tf.float32, (None, 3), "x"), tf.constant(W)), "y")
        module, _ = amct_opt.load(graph.as_graph_def())
    (found,) = amct_opt.execute(module, {Executable(module).inputs[0]: X}).values()
    np.testing.assert_allclose(found, X @ W, rtol=1e-5)


untyped = cast(Any, amct_opt)
"""For callers that check no types."""


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, s: untyped.execute(m, X), "inputs are arrays by name, not ndarray\n  hint: write {'x': array}"),
        (lambda m, s: untyped.save(m, "x.onnx", "onnx"), "the session is missing: str stands in its place"),
        (lambda m, s: untyped.quantize(m, "minmax"), "the session is missing: str stands in its place"),
        (lambda m, s: untyped.quantize(m, s, {"observer": "mse"}), "settings are an object or a path, not dict"),
        (lambda m, s: untyped.quantize(m, s, "a.cfg", config="b.cfg"), "settings are given twice"),
        (lambda m, s: untyped.calibrate(m, s, bit=8), "quantization has no option 'bit'\n  hint: did you mean bits?"),
    ],
)
def test_arguments_of_another_type(call: Any, sentence: str) -> None:
    with pytest.raises(CompileError) as caught:
        call(*amct_opt.parse(NET))
    assert sentence in str(caught.value)


def test_settings_in_short() -> None:
    whole = amct_opt.Calibration(amct_opt.Activation("kl"))
    assert Settings(observer="kl") == Settings(common=whole)
    assert quantized(settings=Settings(observer="minmax"), data={"x": X}) != quantized(data={"x": X})
    assert quantized(settings=Settings(observer="minmax"), data={"x": X}) == quantized(observer="minmax", data={"x": X})


def test_what_is_returned_shows_itself_in_one_line_and_as_tables(tmp_path: Path) -> None:
    """`repr` fits a line, `str` has the tables that commands print, and a notebook gets them as HTML."""
    module, session = loaded = amct_opt.load(DIGITS / "digits.onnx")
    assert repr(loaded) == "Loaded(digits: 1 input float32 [?,1,8,8], 21 layers)"
    assert repr(session) == "Session(profile ascend, 1 remarks, 0 warnings)"
    assert len(str(module)) < 6000 < len(amct_opt.to_text(module))
    assert "nn.conv %image, %conv1.weight" in str(module) == str(loaded)
    runs = {name: array[:4] for name, array in np.load(DIGITS / "heldout.npz").items()}
    summary = amct_opt.quantize_file(DIGITS / "digits.onnx", tmp_path / "out", DIGITS / "calib.npz", profile="qdq")
    files = DIGITS / "digits.onnx", summary.files["onnx"]
    labels = np.load(DIGITS / "heldout_labels.npy")
    scores = amct_opt.evaluate(files, DIGITS / "heldout.npz", labels)
    found: list[Any] = [
        loaded,
        session,
        session.profiles,
        amct_opt.Executable(module),
        summary,
        summary.layers,
        scores,
        amct_opt.sensitivity(DIGITS / "digits.onnx", DIGITS / "calib.npz", samples=8),
        amct_opt.compare(*files, runs, layers=True),
        amct_opt.bisect(*files, runs),
    ]
    assert [repr(each) for each in found if len(repr(each)) > 130 or "\n" in repr(each)] == []
    top1 = scores.models[0].top1
    assert top1 is not None
    assert (str(top1), repr(top1)) == (f"{top1.percent:.1f} %", f"Share({top1}: {top1.right} of {top1.count})")
    for each in found[4:]:
        assert all(table.title in str(each) and escape(table.title) in each._repr_html_() for table in each.tables())
    assert "10: nn.conv" in str(summary)


def test_a_model_in_one_step(tmp_path: Path) -> None:
    """A path, an object and arrays give the same files as the command."""
    calib, session, heard = dict(np.load(DIGITS / "calib.npz")), amct_opt.new_session(), list[amct_opt.Remark]()
    session.profile, session.on_remark = "qdq", heard.append
    summary = amct_opt.quantize_file(DIGITS / "digits.onnx", tmp_path / "files", DIGITS / "calib.npz", profile="qdq")
    by_path = amct_opt.quantize(DIGITS / "digits.onnx", data=DIGITS / "calib.npz", profile="qdq")
    by_object = amct_opt.quantize(onnx.load(DIGITS / "digits.onnx"), session, data=calib, equalize=False)
    written = summary.files["onnx"].read_bytes()
    assert by_path.save(tmp_path / "path") == tmp_path / "path"
    assert (tmp_path / "path" / "digits_qdq.onnx").read_bytes() == written
    assert {file.name for file in summary.files.values()} == {f.name for f in (tmp_path / "path").iterdir()}
    assert repr(by_path) == repr(summary).replace("Summary", "Quantized")
    assert by_object.summary.accuracy == by_path.summary.accuracy
    assert "correct-bias" in {each.pass_name for each in heard}
    assert "10: nn.conv 5" in str(by_path)
    assert str(by_path.summary.files["onnx"]) not in str(by_path)
    scores = by_path.evaluate(DIGITS / "heldout.npz", np.load(DIGITS / "heldout_labels.npy"))
    assert [each.engine for each in scores.models] == ["onnxruntime", "onnxruntime"]
    assert by_path.report(tmp_path / "page").name == "report.html"


def test_a_module_of_pytorch_in_one_step() -> None:
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).eval()
    batches = [torch.randn(4, 1, 8, 8) for _ in range(4)]
    found = amct_opt.quantize(net, data=batches, profile="qdq")
    assert repr(found).startswith("Quantized(sequential.mlir: 1 layers quantized")
    with pytest.raises(CompileError, match="a PyTorch module is traced with a batch"):
        amct_opt.quantize(net, data="x.npz")
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    with pytest.raises(CompileError, match="only a model in one step takes labels"):
        amct_opt.quantize(module, session, labels=np.zeros(4, np.int64))  # pyright: ignore
    for name in ("matmul_nbits", "quantize_cache", "simulate_formats"):
        with pytest.raises(CompileError, match=f"only a model in one step takes {name}"):
            amct_opt.quantize(module, session, **{name: True})  # pyright: ignore


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"weight_bits": 4, "group_size": 16, "matmul_nbits": True}, "MatMulNBits"),
        ({"weight_format": "mxfp4", "simulate_formats": True}, "MatMul"),
    ],
)
def test_forms_of_the_file_in_one_step(options: dict[str, Any], kind: str, tmp_path: Path) -> None:
    weight = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, s]) for n, s in (("x", 32), ("y", 4)))
    initializer = onnx.numpy_helper.from_array(weight, "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "fc")], "g", [x], [y], [initializer]
    )
    opset = onnx.helper.make_opsetid("", 21)
    found = amct_opt.quantize(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), profile="qdq", weight_only=True, **options
    )
    written = onnx.load(found.save(tmp_path / "out") / found.summary.files["onnx"].name)
    assert [node.op_type for node in written.graph.node] == [kind]


def test_norms_without_fusions_are_warned_of() -> None:
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    again, fused = amct_opt.load(DIGITS / "digits.onnx")
    amct_opt.quantize(module, session, data=DIGITS / "calib.npz")
    assert "no fusion has run, and the module has 5 batch norms" in session.warnings[0]
    amct_opt.run_pipeline(again, "fuse", fused)
    amct_opt.quantize(again, fused, data=DIGITS / "calib.npz")
    assert fused.warnings == []
