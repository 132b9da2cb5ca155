"""The `amct-opt` command: what it reads and writes, and what it says of mistakes."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from amct_opt.ir.text import write_side_file
from amct_opt.ir.weights import open_side_file
from amct_opt.session.catalogue import DIALECTS, PASSES
from amct_opt.tools.amct_opt import run

BIN = Path(sys.executable).parent
RELU = """\
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = nn.relu %x : tensor<2xf32>
  func.return %y : tensor<2xf32>
}
"""
EXTERNAL = """\
func.func @main() -> tensor<100xf32> {
  %w = nn.constant #nn.external<"w", tensor<100xf32>>
  func.return %w : tensor<100xf32>
}
"""

Tool = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tool:
    """Runs the tool in an empty folder; gives exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*argv: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        status = run(argv)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def relu(tmp_path: Path) -> str:
    (tmp_path / "net.mlir").write_text(RELU)
    return "net.mlir"


@pytest.fixture
def net(tmp_path: Path) -> str:
    """A module whose one array is in the side file."""
    (tmp_path / "net.mlir").write_text(EXTERNAL)
    write_side_file(tmp_path / "net.safetensors", {"w": np.arange(100, dtype=np.float32), "dead": np.zeros(3)})
    return "net.mlir"


def test_standard_input_and_output(tool: Tool) -> None:
    for argv in ([], ["-"]):
        status, out, err = tool(*argv, stdin=RELU)
        assert (status, err) == (0, "")
        assert "%y = nn.relu %x : tensor<2xf32>" in out


def test_blank_input_is_an_empty_module(tool: Tool) -> None:
    assert tool(stdin="// nothing\n") == (0, "builtin.module {\n}\n", "")


@pytest.mark.parametrize(
    ("argv", "line", "hint"),
    [
        ("missing.mlir", "missing.mlir: error: cannot be read: No such file or directory", ""),
        (".", ".: error: is a folder, but not a SavedModel", None),
        ("folder", "folder: error: there is no such file or folder", ""),
        ("net.tflite", "net.tflite: error: unknown file ending '.tflite'", None),
        (
            "net.mlir more.mlir",
            "amct-opt: error: unrecognized arguments: more.mlir",
            "amct-opt --help lists the options",
        ),
        ("net.mlir --quantise", "amct-opt: error: unrecognized arguments: --quantise", "did you mean --quantize?"),
        ("net.mlir --fuse-bm=x=1", "amct-opt: error: unrecognized arguments: --fuse-bm=x=1", "did you mean --fuse-bn?"),
        (
            "net.mlir --quantize data=x.npz bits=8",
            "amct-opt: error: unrecognized arguments: data=x.npz bits=8",
            "options are part of their pass: --PASS='data=x.npz bits=8'",
        ),
        ("net.mlir --quant", "amct-opt: error: unrecognized arguments: --quant", None),
        ("net.mlir --canonicalize=x=1", "error: --canonicalize has no option 'x'", None),
        ("net.mlir -p dance", "error: no pass is called 'dance'", None),
        ("net.mlir -p cse{", "error: pipeline 'cse{': Expected argument name here", ""),
        ("net.mlir -p", "amct-opt: error: argument -p/--passes: expected one argument", None),
        ("net.mlir -t tflite", "error: no target is called 'tflite'", None),
        ("net.mlir -t mlir{generic=true", "error: -t mlir{generic=true: the options do not end in }", ""),
        ("net.mlir -t mlir{generik=true}", "error: -t mlir has no option 'generik'", "options are generic, locations"),
        ("net.mlir -t onnx", "error: target onnx writes a binary file", "name it with -o OUT.onnx"),
        (
            "net.mlir -o o.onnx",
            "o.onnx: error: the target mlir writes module text, which a file of this ending is not",
            "-t onnx or -t onnx-ascend writes such files",
        ),
        ("net.mlir -o no/out.mlir", "no: error: the folder does not exist", ""),
        ("net.mlir -o o.mlir --split-input-file", "error: --split-input-file prints to stdout", "leave out -o"),
        ("net.mlir --remarks=some", "amct-opt: error: argument --remarks: invalid choice: 'some'", None),
        ("bad.mlir", "bad.mlir:2:12: error: Operation nn.dance is not registered", ""),
        ("latin.mlir", "latin.mlir: error: is not UTF-8 text", ""),
        ("net.mlir --remarks-output no/r.yaml", "no/r.yaml: error: cannot be written: No such file or directory", ""),
    ],
)
def test_mistakes(tool: Tool, tmp_path: Path, relu: str, argv: str, line: str, hint: str | None) -> None:
    """One located line on stderr, a hint where there is one, exit status 1, or 2 for arguments that cannot be parsed."""
    (tmp_path / "bad.mlir").write_text("func.func @main() {\n  nn.dance : tensor<2xf32>\n}")
    (tmp_path / "latin.mlir").write_bytes("// é".encode("latin-1"))
    status, _, err = tool(*argv.split())
    first, _, rest = err.partition("\n")
    usage = line.startswith(("amct-opt: error: unrecognized", "amct-opt: error: argument"))
    assert status == (2 if usage else 1)
    assert first.startswith(line)
    assert hint is None or rest == (f"  hint: {hint}\n" if hint else "")
    assert not list(tmp_path.glob("o*"))


def test_flags_and_pipelines_run_in_the_order_given(tool: Tool, relu: str) -> None:
    argv = ["--canonicalize", "-p", "cse,dce", "--fuse-bn", relu, "--passes=cse", "-pdce", "--infer-shapes", "--timing"]
    status, _, err = tool(*argv)
    assert status == 0
    names = [line.split()[0] for line in err.splitlines()[1:]]
    passes = ["canonicalize", "cse", "dce", "fuse-bn", "cse", "dce", "infer-shapes"]
    assert [name for name in names if name != "verify"] == ["read", *passes, "write"]
    assert names.count("verify") == len(passes) + 1


def test_a_bare_flag_leaves_the_input_file_alone(tool: Tool, relu: str) -> None:
    assert tool("--canonicalize", relu)[0] == 0


def test_modules_after_each_pass(tool: Tool, relu: str) -> None:
    _, out, err = tool(relu, "--canonicalize", "--print-ir-after-all")
    assert err == f"// IR after --canonicalize\n{out}"


def test_parts_are_apart_and_located_in_the_whole(tool: Tool) -> None:
    bad = "func.func @main() {\n  nn.dance : tensor<2xf32>\n}\n"
    text = f"{RELU}// -----\n{bad}// -----\n{RELU}"
    status, out, err = tool("--split-input-file", stdin=text)
    assert status == 1
    assert err == "<stdin>:7:12: error: Operation nn.dance is not registered\n"
    assert out.count("nn.relu") == 2
    assert out.count("// -----\n") == 2

    status, out, err = tool("--split-input-file", "--verify-diagnostics", stdin=text)
    assert (status, err) == (0, "")
    assert "// -----\n<stdin>:7:12: error: Operation nn.dance is not registered\n// -----\n" in out


def test_errors_of_the_verifier_and_of_passes_are_located_too(tool: Tool) -> None:
    text = "\n\nfunc.func @main(%x: tensor<2xf32>) {\n  %y = nn.softmax %x axis 3 : tensor<2xf32>\n  func.return\n}"
    _, out, _ = tool("--verify-diagnostics", stdin=text)
    assert out == "<stdin>:4:3: error: 'nn.softmax' op axis 3 is out of range for rank 1\n"


def test_the_generic_form_and_locations(tool: Tool, relu: str) -> None:
    _, out, _ = tool(relu, "--print-op-generic", "--print-debuginfo")
    assert '"nn.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32> loc("net.mlir":2:3)' in out
    assert tool(relu, "-t", "mlir{generic=true locations=true}")[1] == out
    assert tool(relu, "-t", "mlir{generic=true}", "--print-debuginfo")[1] == out


def test_unregistered_dialects(tool: Tool) -> None:
    assert tool(stdin='"other.op"() : () -> ()')[0] == 1
    assert '"other.op"() : () -> ()' in tool("--allow-unregistered-dialect", stdin='"other.op"() : () -> ()')[1]


def test_output_files(tool: Tool, net: str, tmp_path: Path) -> None:
    """Two of them, with the live arrays only; the input is as it was."""
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert tool(net, "-o", "out.mlir") == (0, "", "")
    assert open_side_file(tmp_path / "out.safetensors").keys() == ["w"]
    assert '#nn.external<"w", tensor<100xf32>>' in (tmp_path / "out.mlir").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.mlir", "net.safetensors", "out.mlir", "out.safetensors"]
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert tool("out.mlir", "-o", "again.mlir")[0] == 0
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "out.safetensors").read_bytes()


@pytest.mark.parametrize("output", ["net.mlir", "./net.mlir", "soft.mlir", "hard.mlir", "weights.mlir"])
def test_what_was_read_is_not_overwritten(tool: Tool, net: str, tmp_path: Path, output: str) -> None:
    """By whatever name: the module, and the file that its arrays are mapped from."""
    (tmp_path / "soft.mlir").symlink_to(tmp_path / net)
    (tmp_path / "hard.mlir").hardlink_to(tmp_path / net)
    (tmp_path / "weights.safetensors").symlink_to(tmp_path / "net.safetensors")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    status, _, err = tool(net, "-o", output)
    assert status == 1
    assert "error: would overwrite a file that was read\n  hint: choose another name for -o\n" in err
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_side_file_of_another_name_is_protected(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(EXTERNAL.replace('"w"', '"shared.safetensors#w"'))
    write_side_file(tmp_path / "shared.safetensors", {"w": np.zeros(100, np.float32)})
    assert "shared.safetensors: error: would overwrite" in tool("net.mlir", "-o", "shared.mlir")[2]


def test_a_missing_array_leaves_nothing_behind(tool: Tool, net: str, tmp_path: Path) -> None:
    (tmp_path / "net.safetensors").unlink()
    status, _, err = tool(net, "-o", "out.mlir")
    assert (status, err) == (1, "net.mlir:2:3: error: 'nn.constant' op net.safetensors: no such file\n")
    assert [p.name for p in tmp_path.iterdir()] == ["net.mlir"]


def test_every_pass_has_a_summary_and_is_listed(tool: Tool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        tool("--help")
    assert e.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, row in PASSES.items():
        assert f"--{name} {row.summary}" in text


def python(code: str) -> list[str]:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_start_up_imports_little(tmp_path: Path) -> None:
    """Reading and printing a module needs no numpy, nor does --help; `import amct_opt` needs nothing at all."""
    (tmp_path / "net.mlir").write_text(RELU)
    heavy = "print(*[m for m in ('numpy', 'onnx', 'ml_dtypes', 'google.protobuf', 'yaml', 'rich') if m in sys.modules])"
    opt = f"import sys; from amct_opt.tools.amct_opt import run; sys.stdout = sys.stderr; run([{str(tmp_path / 'net.mlir')!r}])"
    assert python(f"{opt}; sys.stdout = sys.__stdout__; {heavy}") == []
    assert (
        python(f"import sys; import amct_opt.tools.amct_opt as m; m.parser(m.new_session()).format_help(); {heavy}")
        == []
    )
    assert python("import sys; a = set(sys.modules); import amct_opt; print(*(set(sys.modules) - a))") == ["amct_opt"]


def command(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BIN / argv[0]), *argv[1:]], capture_output=True, text=True, **options)  # pyright: ignore


def test_plain_xdsl_opt_knows_our_dialects_and_passes(net: str, tmp_path: Path) -> None:
    """Through the entry point. `canonicalize` is xDSL's own there, so that the name appears once."""
    help_text = command("xdsl-opt", "--help").stdout
    known = help_text.replace("\n", "").replace(" ", "")
    for name in PASSES:
        assert name in known
    listed = python("from xdsl.universe import Universe; print(*Universe.get_multiverse().all_dialects)")
    assert set(DIALECTS) == {"nn", "ascend", "quant"} <= set(listed)
    result = command("xdsl-opt", str(tmp_path / net))
    assert result.returncode == 0, result.stderr
    assert '#nn.external<"net.safetensors#w", tensor<100xf32>>' in result.stdout


def test_an_internal_error_is_called_one_and_keeps_its_traceback(relu: str, tmp_path: Path) -> None:
    """Without the note that xDSL adds, the whole module."""
    code = (
        "import amct_opt.tools.amct_opt as m\n"
        "def broken(*_):\n    e = KeyError('lost'); e.add_note('the whole module'); raise e\n"
        "m.run_passes = broken\nm.main()"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / relu)]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 70
    assert "Traceback" in result.stderr
    assert "KeyError: 'lost'" in result.stderr
    assert "the whole module" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("amct-opt: internal error: this is a bug in amct-opt")


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    """`amct-opt | head -1` ends without a traceback."""
    body = "\n".join(f"  %y{i} = nn.relu %x : tensor<2xf32>" for i in range(3000))
    (tmp_path / "net.mlir").write_text(f"func.func @main(%x: tensor<2xf32>) {{\n{body}\n  func.return\n}}\n")
    shell = f"{BIN / 'amct-opt'} {tmp_path / 'net.mlir'} | head -1"
    result = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("builtin.module {\n", "")


def test_an_interrupt_is_one_line() -> None:
    code = "import amct_opt.tools.amct_opt as m\ndef stop(*_): raise KeyboardInterrupt\nm.run = stop\nm.main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "amct-opt: interrupted\n")


@pytest.mark.slow
def test_text_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text('%c = nn.constant #nn.external<"层", tensor<1xi8>, "0x00">', "utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    result = subprocess.run([BIN / "amct-opt", tmp_path / "net.mlir"], capture_output=True, env=environment, check=True)
    assert "层" in result.stdout.decode("utf-8")
    again = subprocess.run([BIN / "amct-opt"], input=result.stdout, capture_output=True, env=environment, check=True)
    assert again.stdout == result.stdout


def test_versions() -> None:
    assert command("amct-opt", "--version").stdout.startswith("amct-opt 0.")
