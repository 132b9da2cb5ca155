"""Files made to break what reads them: each ends in one located line, within bounded time and memory."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt.tools import amct, amct_opt

from .hostile_files import FORMATS, campaign

FLOAT = TensorProto.FLOAT
node = helper.make_node


def ended(command: str) -> tuple[int, str]:
    """The exit status of a command in the current folder, and what it printed on stderr."""
    tool, *arguments = shlex.split(command)
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        status = (amct if tool == "amct" else amct_opt).run(arguments)
    return status, said.getvalue()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model(
    nodes: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], weights: Any = (), **options: Any
) -> bytes:
    """An encoded ONNX model of float32 values with these shapes."""
    given, made = ([helper.make_tensor_value_info(n, FLOAT, s) for n, s in each.items()] for each in (inputs, outputs))
    graph = helper.make_graph(nodes, "g", given, made, list(weights))
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8, **options).SerializeToString()


def declared(*dims: int, **external: str) -> TensorProto:
    """A weight without data, or with data in another file."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=dims)
    if external:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.extend(onnx.StringStringEntryProto(key=k, value=v) for k, v in external.items())
    return tensor


def product(weight: TensorProto) -> bytes:
    return model([node("MatMul", ["x", "w"], ["y"])], {"x": [2, 4]}, {"y": [2, 4]}, [weight])


def relu(*shape: int) -> bytes:
    return model([node("Relu", ["x"], ["y"])], {"x": shape}, {"y": shape})


def calling(*bodies: list[Any]) -> bytes:
    """A model that calls the first of these functions `f0`, `f1`, ... from `a` to `c`."""
    functions = [
        helper.make_function(
            "f", f"f{i}", ["a"], ["c"], body, [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
        )
        for i, body in enumerate(bodies)
    ]
    return model([node("f0", ["x"], ["y"], domain="f")], {"x": [1]}, {"y": [1]}, functions=functions)


def twice(callee: str) -> list[Any]:
    return [node(callee, ["a"], ["b"], domain="f"), node(callee, ["b"], ["c"], domain="f")]


def header(shape: str, kind: str = "<f4") -> bytes:
    """The header of an .npy file."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * ((-11 - len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def packed(content: bytes) -> bytes:
    """An .npz archive with the compressed array `x`."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
    return made.getvalue()


def text(body: str, *, argument: str = "tensor<2x4xf32>") -> bytes:
    return f'func.func @main(%x: {argument} {{nn.name = "x"}}) -> {argument} {{\n{body}\n}}\n'.encode()


def npz(**arrays: Any) -> bytes:
    made = io.BytesIO()
    np.savez(made, **arrays)
    return made.getvalue()


def settings(name: str, content: str) -> Mapping[str, bytes]:
    return {"m.onnx": relu(2, 4), name: content.encode()}


EXPANDED = [node("Expand", ["x", "s"], ["e"]), node("ReduceMax", ["e"], ["y"], keepdims=0)]
SIZES = numpy_helper.from_array(np.array([10**6, 10**5, 2, 4]), "s")
RUN = "amct run m.onnx --data x.npz -o y.npz"
OPT = "amct-opt m.onnx --fuse-all -o r.mlir"
TEXT = "amct-opt m.mlir --canonicalize -o r.mlir"
QUANTIZE = "amct quantize m.onnx -o o"
CALIBRATION = "amct calibration --model m.onnx --save_path o/ --calibration_config p.cfg"

CASES: Mapping[str, tuple[Callable[[], Mapping[str, bytes]], str, str]] = {
    "a function that calls itself": (
        lambda: {"m.onnx": calling([node("f0", ["a"], ["c"], domain="f")])},
        OPT,
        "m.onnx: function 'f.f0': error: ",
    ),
    "functions that call each other twice": (
        lambda: {"m.onnx": calling(*(twice(f"f{i + 1}") for i in range(30)), [node("Relu", ["a"], ["c"])])},
        OPT,
        "has 3221225470 nodes once",
    ),
    "sizes of which one is 0": (
        lambda: {"m.onnx": product(declared(0, 1 << 62))},
        OPT,
        "m.onnx: initializer 'w': error: has the shape [0, 4611686018427387904], which no array can have",
    ),
    "an offset of 5,000 digits": (
        lambda: {"m.onnx": product(declared(4, 4, location="e", offset="9" * 5000)), "e": bytes(64)},
        OPT,
        f"the offset of its external data is '{'9' * 40}', not a number of bytes",
    ),
    "an input of terabytes": (
        lambda: {"m.onnx": relu(1 << 40, 4)},
        QUANTIZE,
        "synthetic data for input 'x' of shape [1099511627776, 4] takes 281 TB, and the limit is ",
    ),
    "an input that no array fits": (lambda: {"m.onnx": relu(0, 1 << 62)}, QUANTIZE, "is larger than any array"),
    "a view of terabytes": (
        lambda: {"m.onnx": model(EXPANDED, {"x": [2, 4]}, {"y": []}, [SIZES]), "x.npz": npz(x=np.ones((2, 4), "f"))},
        RUN,
        "its result takes 3.2 TB, and the limit is ",
    ),
    "a compressed array beyond the limit": (
        lambda: {"m.onnx": relu(2, 4), "x.npz": packed(header("(10000000000000,)"))},
        RUN,
        "x.npz: error: array 'x' takes 40 TB, and the limit is ",
    ),
    "a compressed array that is shorter than it says": (
        lambda: {"m.onnx": relu(2, 4), "x.npz": packed(header("(2, 4)") + bytes(31))},
        RUN,
        "x.npz: error: cannot be read: ",
    ),
    "a value before its definition": (
        lambda: {
            "m.mlir": text(
                "%y = nn.relu %z : tensor<2x4xf32>\n%z = nn.relu %x : tensor<2x4xf32>\nreturn %y : tensor<2x4xf32>"
            )
        },
        TEXT,
        "m.mlir:",
    ),
    "lists in lists": (
        lambda: {"m.mlir": b"builtin.module attributes {a = " + b"[" * 5000},
        TEXT,
        "is nested too deeply",
    ),
    "types in types": (lambda: {"m.mlir": b"module attributes {a = " + b"tuple<" * 5000}, TEXT, "is nested too deeply"),
    "regions in regions": (lambda: {"m.mlir": b'"builtin.module"() ({' * 3000}, TEXT, "is nested too deeply"),
    "a size of 5,000 digits": (
        lambda: {"m.onnx": relu(2, 4)},
        f"{QUANTIZE} --input-shape x:{'9' * 5000}",
        "is malformed",
    ),
} | {
    f"{name} in {ending}": (
        partial(settings, f"s.{ending}", content),
        f"amct quantize m.onnx -o o --settings s.{ending}",
        f"s.{ending}{expected}",
    )
    for name, ending, content, expected in (
        ("a key that is a number", "yaml", "1: 2", ":1: error: amct quantize has no option '1'"),
        ("a date that does not exist", "yaml", "observer: 2001-13-45", ": error: cannot be read: month must be"),
        ("lists in lists", "yaml", "a: " + "[" * 1000, ": error: is nested too deeply"),
        ("a byte that is not a character", "yaml", "\0", ": error: is not YAML"),
        ("an observer that does not exist", "yaml", "\nobserver: none", ":2: error: no observer is called 'none'"),
        (
            "bits that do not exist",
            "yaml",
            "layer-weight-bits: {fc: 99}",
            ":1: error: layer_weight_bits must be one of",
        ),
        (
            "hexadecimal digits",
            "yaml",
            f"layer-weight-bits: {{fc: 0x{'f' * 5000}}}",
            ":1: error: layer-weight-bits: the number has",
        ),
        ("a key that is a number", "toml", "1 = 2", ":1: error: amct quantize has no option '1'"),
        ("an integer of 5,000 digits", "toml", f"threads = {'9' * 5000}", ": error: cannot be read: Exceeds"),
        ("lists in lists", "toml", "a = " + "[" * 9000, ": error: is nested too deeply"),
        ("an integer of 5,000 digits", "json", '{"a": ' + "9" * 5000 + "}", ": error: cannot be read: Exceeds"),
        ("lists in lists", "json", "[" * 99999, ": error: is nested too deeply"),
    )
}


@pytest.mark.parametrize("case", CASES)
def test_one_line(case: str, folder: Path) -> None:
    files, command, expected = CASES[case]
    for name, data in files().items():
        (folder / name).write_bytes(data)
    before = sorted(folder.iterdir())
    status, said = ended(command)
    assert status in (1, 2), said
    lines = [line for line in said.splitlines() if "error: " in line]
    assert len(lines) == 1, said
    assert expected in lines[0]
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *(
            (f"p.{ending}", f"amct support p.{ending}")
            for ending in ("onnx", "mlir", "pb", "prototxt", "h5", "keras", "pt2")
        ),
        ("p.caffemodel", "amct support n.prototxt --weights p.caffemodel"),
        ("p.mlir", "amct-opt p.mlir"),
        *((f"p.{ending}", f"amct quantize m.onnx -o o --profile cpu --data p.{ending}") for ending in ("npz", "npy")),
        ("d/x.npy", "amct quantize m.onnx -o o --profile cpu --data d"),
        *(
            (f"d/p.{ending}", "amct quantize m.onnx -o o --profile cpu --data d")
            for ending in ("npz", "tar", "parquet")
        ),
        *(
            (name, "amct quantize m.onnx -o o --profile cpu --data d.zarr")
            for name in ("d.zarr", "d.zarr/.zgroup", "d.zarr/x/c/0")
        ),
        *(
            (f"p.{ending}", f"amct quantize m.onnx -o o --profile cpu --data x.npz --labels p.{ending}")
            for ending in ("csv", "npy")
        ),
        *((f"p.{ending}", f"amct quantize m.onnx -o o --settings p.{ending}") for ending in ("yaml", "toml", "json")),
        ("p.cfg", f"{CALIBRATION} --batch_num 1 --data_dir d --data_types float32 --input_shape x:2,4"),
        ("p.txt", "amct convert --model m.onnx --save_path o/ --record_file p.txt"),
    ],
)
def test_a_named_pipe_is_refused(name: str, command: str, folder: Path) -> None:
    """Reading it would wait for ever."""
    for file, data in {"m.onnx": relu(2, 4), "x.npz": npz(x=np.ones((2, 4), "f")), "n.prototxt": b""}.items():
        (folder / file).write_bytes(data)
    (folder / "d").mkdir()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / name)
    status, said = ended(command)
    assert (status, said.split("\n")[0]) == (1, f"{name}: error: is a pipe, not a file")


def test_a_compressed_array_is_unpacked_as_far_as_its_header_says(folder: Path) -> None:
    (folder / "m.onnx").write_bytes(relu(2, 4))
    (folder / "x.npz").write_bytes(packed(header("(2, 4)") + bytes(1 << 24)))
    status, said = ended(RUN)
    assert status == 0, said
    with np.load(folder / "y.npz") as found:
        assert found["y"].shape == (2, 4)


def test_the_limit_is_set_by_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "m.onnx").write_bytes(relu(1 << 20, 4))
    (folder / "x.npz").write_bytes(packed(header(f"({1 << 20}, 4)") + bytes(1 << 24)))
    monkeypatch.setenv("AMCT_MAX_MEMORY", "10MB")
    status, said = ended(RUN)
    assert (status, "array 'x' takes 16.8 MB, and the limit is 10 MB" in said) == (1, True)
    assert "AMCT_MAX_MEMORY=32GB" in said
    monkeypatch.setenv("AMCT_MAX_MEMORY", "20 mb")
    assert ended(RUN)[0] == 0


def test_a_limit_that_is_not_a_size() -> None:
    code = "import sys; sys.argv = ['amct', 'support', 'm.onnx']; from amct_opt.tools.entry import amct; amct()"
    environment = {**os.environ, "AMCT_MAX_MEMORY": "much"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == "AMCT_MAX_MEMORY: error: 'much' is not a size\n  hint: write bytes or a unit: 500MB, 16GB\n"
    assert done.returncode == 2


# Code that is named on the command line


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 10**400", "m.py: error: 'f' returns an integer beyond floats, not a number"),
        ("return 1j", "m.py: error: 'f' returns complex, not a number"),
        ("raise type('Odd', (Exception,), {'__str__': None})()", "m.py:1: error: Odd: Odd"),
    ],
)
def test_functions_that_return_or_raise_anything(body: str, message: str, folder: Path) -> None:
    (folder / "m.py").write_text(f"def f(model): {body}")
    (folder / "m.mlir").write_bytes(text("return %x : tensor<2x4xf32>"))
    status, said = ended("amct evaluate m.mlir --evaluator m.py:f")
    assert (status, said.count("\n")) == (1, 1)
    assert message in said


# Names of files


def test_a_name_that_begins_like_no_file(folder: Path) -> None:
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32), "w")
    nodes = [node("MatMul", ["x", "w"], ["y"], "m")]
    (folder / "<m.onnx").write_bytes(model(nodes, {"x": [2, 8]}, {"y": [2, 8]}, [weight]))
    assert ended("amct-opt '<m.onnx' -o '<m.mlir'") == (0, "")
    assert ended("amct-opt '<m.mlir' -o '<n.mlir'") == (0, "")
    assert (folder / "<n.safetensors").read_bytes() == (folder / "<m.safetensors").read_bytes()


# Links


def test_links_of_a_cache(folder: Path) -> None:
    """Caches store files under the hash of their content, and name them by links: both lead to one folder."""
    (folder / "store").mkdir()
    (folder / "named").mkdir()
    (folder / "store" / "0a").write_bytes(product(declared(4, 4, location="e")))
    (folder / "store" / "0b").write_bytes(bytes(64))
    (folder / "named" / "m.onnx").symlink_to(folder / "store" / "0a")
    (folder / "named" / "e").symlink_to(folder / "store" / "0b")
    status, said = ended("amct-opt named/m.onnx -o r.mlir")
    assert status == 0, said


def test_a_link_that_leaves_the_folder(folder: Path) -> None:
    (folder / "inside").mkdir()
    (folder / "secret").write_bytes(bytes(64))
    (folder / "inside" / "m.onnx").write_bytes(product(declared(4, 4, location="e")))
    (folder / "inside" / "e").symlink_to(folder / "secret")
    status, said = ended("amct-opt inside/m.onnx -o r.mlir")
    assert status == 1
    assert "external data at 'e' is a link that leaves the model's folder" in said


def test_a_side_file_that_leaves_the_folder(folder: Path) -> None:
    (folder / "inside").mkdir()
    entry = json.dumps({"w": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]}}).encode()
    (folder / "s.safetensors").write_bytes(len(entry).to_bytes(8, "little") + entry + bytes(32))
    (folder / "inside" / "s.safetensors").symlink_to(folder / "s.safetensors")
    constant = '%c = nn.constant #nn.external<"s.safetensors#w", tensor<2x4xf32>>\nreturn %c : tensor<2x4xf32>'
    (folder / "inside" / "m.mlir").write_bytes(text(constant))
    status, said = ended("amct-opt inside/m.mlir -o r.mlir")
    assert status == 1
    assert "inside/m.mlir:2:" in said
    assert "'s.safetensors' is a link that leaves the module's folder" in said


# Names

NAMES = ("\x1b[31mred\x1b[0m\n\u202etxt\x9b2J", "</script><script>alert(1)</script>{{7*7}}")


@pytest.mark.parametrize("name", NAMES)
def test_names_do_not_reach_the_terminal(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32), "w")
    nodes = [node("MatMul", ["x", "w"], [f"{name}h"], name), node("Softmax", [f"{name}h"], [f"{name}y"], f"{name}2")]
    (folder / "m.onnx").write_bytes(model(nodes, {"x": [2, 4]}, {f"{name}y": [2, 4]}, [weight]))
    (folder / "x.npz").write_bytes(npz(x=np.ones((2, 4), "f")))
    for command in (
        "quantize m.onnx -o o --engine numpy --data x.npz -v",
        "support m.onnx -v",
        RUN.removeprefix("amct "),
        "quantize m.onnx -o p --skip-layers none",
    ):
        amct.run(shlex.split(command))
    amct_opt.run(shlex.split("m.onnx --fuse-all --quantize=data=x.npz --print-quant-points --remarks=all"))
    said = "".join(capsys.readouterr())
    assert repr(name)[1:-1] in said
    assert all(c.isprintable() or c == "\n" for c in said)
    page = folder / "o" / "report.html"
    if page.exists():
        assert "<script>alert" not in page.read_text("utf-8")


# Time


def chained(count: int) -> bytes:
    """This many products that share one weight, with an activation after each."""
    nodes: list[Any] = []
    x = "x"
    for i in range(count):
        nodes.append(node("MatMul", [x, "w"], [f"m{i}"], f"mm{i}"))
        nodes.append(node("Relu", [f"m{i}"], [f"r{i}"], f"relu{i}"))
        x = f"r{i}"
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32) / 8
    return model(nodes, {"x": ["N", 64]}, {x: ["N", 64]}, [numpy_helper.from_array(weight, "w")])


@pytest.mark.slow
def test_time_grows_linearly(folder: Path) -> None:
    """Four times the products take about four times as long; in quadratic time, they would take sixteen times as long."""
    seconds: list[float] = []
    for count in (10, 60, 240):  # the first loads what the command needs
        (folder / "m.onnx").write_bytes(chained(count))
        started = time.process_time()
        status, said = ended("amct quantize m.onnx -o o --engine numpy")
        seconds.append(time.process_time() - started)
        assert status == 0, said
    assert seconds[2] < 8 * seconds[1]


# Damaged files

OWN = [name for name, form in FORMATS.items() if not form.package]


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    assert campaign(name, 5, tmp_path).failures == []


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_many_damaged_files(name: str, tmp_path: Path) -> None:
    """An eighth of what `benchmarks/reliability.py` runs for the page."""
    assert campaign(name, 250, tmp_path, seed=1000).failures == []
