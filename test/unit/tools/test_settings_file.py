"""`--settings`: the options of a command from a file, and mistakes with their line."""

from __future__ import annotations

import argparse
from pathlib import Path
from textwrap import indent

import pytest

from amct_opt.pipelines.options import leaves
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct
from amct_opt.tools.settings_file import located, relative_to
from amct_opt.tools.shared import options_of
from amct_opt.transforms.quantization.options import QuantizeOptions, RecoveryOptions, SettingsOptions

MODULE = """func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %y = nn.softmax %x axis 1 : tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
"""
YAML = """
observer: percentile   # a comment
weight-bits: 4
keep_float: [conv1, "*/head/*"]
layer-weight-bits: {fc: 8, conv2: 6}
input-shape:
  x: [1, 3, "?", 8]
scale: 1
mean: [0.5, 0.25]
equalize: yes
no-shift: true
data: photos
"""
TOML = """
observer = "percentile"
weight-bits = 4
keep_float = ["conv1", "*/head/*"]
input-shape = "x:1,3,?,8"
scale = 1
mean = [0.5, 0.25]
equalize = true
shift = false
data = "photos"
[layer-weight-bits]
fc = 8
conv2 = 6
"""
JSON = """{
\t"observer": "percentile", "weight-bits": 4, "keep_float": "conv1,*/head/*", "layer-weight-bits": {"fc": 8, "conv2": 6},
\t"input-shape": {"x": [1, 3, "?", 8]}, "scale": 1.0, "mean": "0.5,0.25", "equalize": true, "shift": false,
\t"data": "photos"
}"""


def _parsed(folder: Path, name: str, text: str, *given: str, command: str = "quantize") -> argparse.Namespace:
    (folder / name).write_text(text, "utf-8")
    output = () if command == "sensitivity" else ("-o", "out")
    return amct.arguments(amct.parser(), [command, "m.onnx", *output, *given, "--settings", str(folder / name)])


@pytest.mark.parametrize(("name", "text"), [("s.yaml", YAML), ("s.toml", TOML), ("s.json", JSON)])
def test_a_file_says_what_options_say(name: str, text: str, tmp_path: Path) -> None:
    args = _parsed(tmp_path, name, text)
    data = str(tmp_path / "photos")
    assert (args.input_shape, args.scale, args.mean, args.data) == ("x:1,3,?,8", 1.0, "0.5,0.25", data)
    assert options_of(args, QuantizeOptions) == QuantizeOptions(
        settings=SettingsOptions(
            observer="percentile",
            weight_bits=4,
            skip_layers=("conv1", "*/head/*"),
            layer_weight_bits=("fc:8", "conv2:6"),
            shift=False,
        ),
        recovery=RecoveryOptions(equalize=True),
    )


def test_the_command_line_wins(tmp_path: Path) -> None:
    args = _parsed(tmp_path, "s.yaml", YAML, "--weight-bits=8", "--no-equalize", "--data", "d.npz")
    assert (args.weight_bits, args.equalize, args.data, args.observer) == (8, False, "d.npz", "percentile")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.yaml", "\nobserver: mse\nwieght-bits: 8\n", "s.yaml:3: error: amct quantize has no option 'wieght-bits'"),
        ("s.yaml", "weight-bits: 9", "s.yaml:1: error: argument --weight-bits: invalid choice: '9'"),
        ("s.yaml", "dmq: much", "s.yaml:1: error: dmq: invalid float value: 'much'"),
        ("s.yaml", "weight-bits: [8]", "s.yaml:1: error: weight-bits: [8] is not an integer"),
        ("s.yaml", "observer: {mse: 1}", 's.yaml:1: error: observer: {"mse": 1} is not text'),
        ("s.yaml", "equalize: 1", "s.yaml:1: error: equalize: 1 is neither true nor false"),
        ("s.yaml", "bits: 8\nbits: 4", "s.yaml:2: error: 'bits' is given twice"),
        ("s.yaml", "skip-layers: a\nkeep-float: b", "s.yaml:2: error: 'keep-float' is given twice"),
        ("s.yaml", "- bits", "s.yaml: error: does not map options to values"),
        ("s.yaml", "a: [", "s.yaml:1: error: is not YAML"),
        ("s.yaml", "data: !!python/object/apply:os.getcwd []", "s.yaml:1: error: is not YAML: could not determine a"),
        ("s.toml", "\nbits = 8\nwieght-bits = 8\n", "s.toml:3: error: amct quantize has no option 'wieght-bits'"),
        ("s.toml", "bits 8", "s.toml: error: is not TOML: Expected '='"),
        ("s.json", '{"bits": 8,\n"bits": 4}', "error: 'bits' is given twice"),
        ("s.json", '{\n"wieght-bits": 4}', "s.json:2: error: amct quantize has no option 'wieght-bits'"),
        ("s.json", "[1]", "s.json: error: does not map options to values"),
        ("s.cfg", "", "s.cfg: error: is not a settings file"),
        ("s.yaml", "settings: t.yaml", "s.yaml:1: error: amct quantize has no option 'settings'"),
    ],
)
def test_mistakes_are_located(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as error:
        _parsed(tmp_path, name, text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("observer: none", "no observer is called 'none'"),
        ("observer: 'percentile{percentile=2}'", "percentile must lie in (0.5, 1], not 2.0"),
        ("profile: none", "no profile is called 'none'"),
        ("layer_weight_bits: {fc: 99}", "layer_weight_bits must be one of"),
        ("layer-weight-bits: [fc]", "layer-weight-bits: 'fc' does not give a layer bits"),
        ("only_layers: [a, a]", "only_layers names 'a' twice"),
        ("tensor-quantize: pool", "tensor-quantize: 'pool' is not an input of a layer"),
        ("group-size: 32", "group-size applies to weights that are quantized by themselves"),
        ("shift: true", "shift requires joint_quant"),
        ("activation-type: Cosine\nprofile: qdq", "activation-type: no activation is called 'Cosine'"),
        ("align-concat: large", "profile ascend does not support align-concat"),
        ("mean: [1, x]", "--mean: '1,x' is not a list of numbers"),
        ("std: 0\ndata: .", "std is not positive"),
        ("resize: big\ndata: .", "resize: 'big' is neither SIDE nor HEIGHTxWIDTH"),
        ("crop: 8\ndata: .", "how the pixels of images become inputs must be specified"),
        ("preprocess: none\ndata: .", "preprocess: 'none' is not one of"),
        ("input-shape: x", "--input-shape: 'x' is malformed"),
        ("cluster: none", "'none' is not a cluster"),
        ("cluster-tls: a.pem", "certificates are three files"),
        ("checkpoint: kept", "a checkpoint is for work on a cluster"),
        ("threads: 2\nengine: numpy", "engine numpy runs one batch at a time"),
        ("opset: 99", "target onnx does not write opset 99"),
    ],
)
def test_wrong_values_are_located(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At the line of their option, also under another of its names, unless the command line gave them."""
    module, settings = tmp_path / "m.mlir", tmp_path / "s.yaml"
    module.write_text(MODULE, "utf-8")
    settings.write_text(f"no-report: true\n{text}", "utf-8")
    assert amct.run(["quantize", str(module), "-o", str(tmp_path / "o"), "--settings", str(settings)]) == 1
    assert f"{settings}:2: error: {message}" in capsys.readouterr().err


def test_errors_of_other_values_are_not_located(tmp_path: Path) -> None:
    args = _parsed(tmp_path, "s.yaml", "observer: mse\ndata: d.npz", "--observer", "none")
    command = amct.parser().commands()["quantize"]
    for error in (CompileError("no observer is called 'none'", option="observer"), CompileError("no data")):
        assert located(error, args, command) is error
    assert located(CompileError("is bad", option="data"), args, command).where == f"{tmp_path / 's.yaml'}:2"


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("data: evil.py:run", "--data=d.npz", "'data' names code, which is executed: 'evil.py:run'"),
        ("data: s3://bucket/data", "--data=d.npz", "'data' names an address: 's3://bucket/data'"),
        ("cluster: tcp://host:8786", "--cluster=local:2", "'cluster' names an address: 'tcp://host:8786'"),
        ("cluster-tls: 'a.pem,/b.pem,c.pem'", "--cluster-tls=a,b,c", "'cluster-tls' names a file outside of "),
        ("config: ../a.cfg", "--config=a.cfg", "'config' names a file outside of "),
        ("data: a;link/b", "--data=d.npz", "'data' names a file outside of "),
        ("test: evil.py:run", "--test=d.npz", "'test' names code"),
        ("evaluator: evil.py", "--evaluator=mine.py", "'evaluator' names code"),
    ],
)
def test_code_addresses_and_files_elsewhere_need_trust(text: str, given: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(CompileError) as error:
        _parsed(folder, "s.yaml", text, command="tune")
    assert f"{folder / 's.yaml'}:1: error: {message}" in str(error.value)
    assert given.partition("=")[0] in error.value.hint, "the hint names the option"
    _parsed(folder, "s.yaml", text, given, command="tune")
    _parsed(folder, "s.yaml", text, "--trust-settings", command="tune")


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "data: a;b/c\ncluster: local:2\nlabels: folders\ncluster-tls: 'ca.pem,cert.pem,key.pem'\nweights: w"
    args = _parsed(tmp_path, "s.yaml", text)
    assert args.data == f"{tmp_path / 'a'};{tmp_path / 'b/c'}"
    assert args.cluster_tls == ",".join(str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    assert (args.cluster, args.labels, args.weights) == ("local:2", "folders", tmp_path / "w")
    assert _parsed(tmp_path, "s.yaml", "cluster-tls: none").cluster_tls == "none"
    monkeypatch.chdir(tmp_path)
    assert relative_to(tmp_path / "out", "data", f"a;s3://b;{tmp_path}") == f"../a;s3://b;{tmp_path}"
    assert relative_to(tmp_path / "out", "observer", "mse") == "mse"


_LAUGHS = "\n".join(f"- &a{i} [{','.join(f'*a{i - 1}' for _ in range(10))}]" for i in range(1, 12))


@pytest.mark.parametrize(
    "text",
    [
        f"mean:\n- &a0 [x]\n{_LAUGHS}",
        f"mean: &a0 {'x' * 999}\nstd:\n- &b [{','.join(['*a0'] * 99)}]\n- [{','.join(['*b'] * 99)}]",
        f"scale: 1\n? - &a0 [x]\n{indent(_LAUGHS, '  ')}\n: 1",
        "mean: &a [1, *a]",
        "mean: &a {x: *a}",
    ],
)
def test_aliases_that_take_much_memory(text: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"s.yaml:\d+: error: takes too much memory when its aliases are expanded"):
        _parsed(tmp_path, "s.yaml", text)
    args = _parsed(tmp_path, "s.yaml", "mean: &a [1, 2]\nstd: *a")
    assert (args.mean, args.std) == ("1,2", "1,2")


def test_suggestion(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"did you mean weight-bits\?"):
        _parsed(tmp_path, "s.yaml", "wieght_bits: 8", command="tune")


@pytest.mark.parametrize("name", ["tune", "sensitivity"])
def test_options_of_quantize_alone_are_noted(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `tuned.yaml`."""
    assert _parsed(tmp_path, "s.yaml", "observer: mse\neffort: 0", command=name).observer == "mse"
    assert "s.yaml:2: 'effort' is for amct quantize and has no effect here\n" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["quantize", "tune", "sensitivity"])
def test_every_setting_is_an_option(name: str) -> None:
    parser = amct.parser().commands()[name]
    known = {*leaves(QuantizeOptions)} - ({"record"} if name != "quantize" else set())
    described = {action.dest: action.help for action in parser.actions()}
    assert known <= described.keys()
    assert all(described[field] for field in known), "each has a text"
