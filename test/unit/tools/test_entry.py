"""How a tool starts."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from amct_opt.tools import amct
from amct_opt.tools.amct import COMMANDS
from amct_opt.tools.entry import run_tool

THREADS = "OPENBLAS_NUM_THREADS"


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    threshold, handlers = (
        gc.get_threshold(),
        {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)},
    )
    yield
    gc.set_threshold(*threshold)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.set_wakeup_fd(-1)


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("3", "3")])
def test_products_run_in_one_thread_unless_the_user_says_how_many(
    given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numpy is loaded after the tool has begun, and its products, which would wait for each other in loops, take one thread."""
    monkeypatch.setenv(THREADS, given or "")  # is restored in the end
    if given is None:
        monkeypatch.delenv(THREADS)
    seen: list[str | None] = []

    def run(_: object) -> int:
        seen.append(os.environ.get(THREADS))
        return 0

    with pytest.raises(SystemExit):
        run_tool("tool", run)
    assert seen == [expected]


_FOLD = """
import sys
from amct_opt.ir.text import parse_module
from amct_opt.transforms.fusion.fuse_bn import FuseBnPass
from amct_opt.session.universe import new_session

session = new_session()
text = "func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> { func.return %x : tensor<1xf32> }"
FuseBnPass().apply(session, parse_module(session, text))
loaded = {name for name in sys.modules if name.startswith("amct_opt.")}
print([name for name in loaded if "configuration" in name or "transforms.quantization" in name])
"""


def test_fusion_without_a_configuration_loads_neither_that_nor_quantization() -> None:
    done = subprocess.run([sys.executable, "-c", _FOLD], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


RELU = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }"
TOOL = f"{sys.executable} -c 'from amct_opt.tools.entry import {{}}; {{}}()'"


def shell(tool: str, line: str, folder: Path, **environment: str) -> tuple[int, str]:
    """Run a line in which `TOOL` is a tool. Returns its status and what is on stderr."""
    line = f"set -o pipefail; {line}".replace("TOOL", TOOL.format(tool, tool))
    environment = {**os.environ, **environment}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, check=False)
    return done.returncode, done.stderr.decode(errors="backslashreplace")


FULL = "standard output: error: cannot be written: No space left on device\n"
CLOSED = "standard output: error: cannot be written: Bad file descriptor\n"
LONG = f"{'a' * 300}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "line", "status", "message"),
    [
        ("amct_opt", "TOOL net.mlir > /dev/full", 1, FULL),
        ("amct_opt", "TOOL net.mlir >&-", 1, CLOSED),
        ("amct_opt", "TOOL net.mlir -o out.mlir >&- 2>&-", 0, ""),
        ("amct_opt", "TOOL <&-", 1, "<stdin>: error: cannot be read: Bad file descriptor\n"),
        ("amct_opt", "TOOL none.mlir 2> /dev/full", 1, ""),
        ("amct_opt", f"TOOL {LONG}.mlir", 1, f"{LONG}.mlir: error: File name too long\n"),
        ("amct_opt", f"TOOL {LONG}", 1, f"{LONG}: error: File name too long\n"),
        ("amct_opt", f"TOOL net.mlir -o {LONG}/out.mlir", 1, f"{LONG}: error: File name too long\n"),
        ("amct_opt", "TOOL $'\\xe9.mlir'", 1, "\\udce9.mlir: error: cannot be read: No such file or directory\n"),
        ("amct_opt", "cp net.mlir $'\\xe9.mlir'; TOOL $'\\xe9.mlir' --print-debuginfo -o $'\\xe8.mlir'", 0, ""),
        ("amct", "TOOL --help > /dev/full", 1, FULL),
        ("amct", "TOOL support net.mlir > /dev/full", 1, FULL),
        ("amct", "TOOL --version", 0, ""),
    ],
)
def test_the_environment_is_one_line(tool: str, line: str, status: int, message: str, tmp_path: Path) -> None:
    """A full disk, closed streams, names that are not UTF-8 or too long: never a traceback."""
    (tmp_path / "net.mlir").write_text(RELU)
    assert shell(tool, line, tmp_path, PYTHONUNBUFFERED="1") == (status, message)


@pytest.mark.slow
@pytest.mark.parametrize("command", [each.__name__.rpartition("amct_")[2].replace("_", "-") for each in COMMANDS])
def test_the_help_of_no_command_gets_lost(command: str, tmp_path: Path) -> None:
    for unbuffered in ("", "1"):
        for place, message in (("> /dev/full", FULL), (">&-", CLOSED), ("| head -0", "")):
            done = shell("amct", f"TOOL {command} --help {place}", tmp_path, PYTHONUNBUFFERED=unbuffered)
            assert done in ((1, message), (0, "")) if place.startswith("|") else done == (1, message)


SIGNALS = [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")]


def ended(code: str, folder: Path) -> tuple[int, str]:
    """The status and stderr of a process; temporary files are removed."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        timeout=60,
        check=False,
    )
    assert not [*temporary.iterdir()]
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize(("number", "status", "word"), SIGNALS)
def test_interrupts_while_libraries_are_loaded(number: str, status: int, word: str, tmp_path: Path) -> None:
    """Whatever they make of it; also if the interrupt comes where nothing can be raised, or while their output is silenced."""
    for stop in ("finally: pass", "except KeyboardInterrupt: raise ImportError('no numpy')"):
        code = f"""
import os, signal, sys
from amct_opt.tools import entry
class Stop:
    def find_spec(self, name, *_):
        if name.endswith({"'numpy'" if "no numpy" in stop else "'xdsl'"}):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try: os.kill(os.getpid(), signal.{number}); [0 for _ in range(9)]
            {stop}
sys.meta_path.insert(0, Stop())
sys.argv[1:] = ["run", "net.mlir", "--data", "x.npz", "-o", "y.npz"]
entry.amct()
"""
        (tmp_path / "net.mlir").write_text(RELU)
        (tmp_path / "x.npz").touch()
        assert ended(code, tmp_path) == (status, f"amct: {word}\n")


def test_an_interrupt_does_not_make_a_library_missing(tmp_path: Path) -> None:
    """Libraries make ImportErrors of it while they are loaded."""
    library = "import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: raise ImportError from None"
    (tmp_path / "library.py").write_text(library)
    code = """
from amct_opt.tools.entry import run_tool
def run(_):
    try:
        import library
    except ImportError:
        return 0
run_tool("tool", run)
"""
    assert ended(code, tmp_path) == (130, "tool: interrupted\n")


@pytest.mark.parametrize(("number", "status", "word"), SIGNALS)
@pytest.mark.parametrize(
    "stuck",
    [
        pytest.param("Closing(); time.sleep(30)", id="it cannot be raised"),
        pytest.param("send(); ctypes.CDLL(None).sleep(30)", id="native code runs"),
        pytest.param("swallow(); time.sleep(30)", id="a library catches it"),
    ],
)
def test_an_interrupt_that_has_no_effect_ends_the_process(
    stuck: str, number: str, status: int, word: str, tmp_path: Path
) -> None:
    """In one line, without its temporary files, and without an unfinished result."""
    code = f"""
import ctypes, os, signal, tempfile, threading, time
from pathlib import Path
from amct_opt.support.files import filling, own_temporary_folder
from amct_opt.tools import entry
def send():
    threading.Thread(target=lambda: (time.sleep(0.05), os.kill(os.getpid(), signal.{number}))).start()
def swallow():
    try: os.kill(os.getpid(), signal.{number}); time.sleep(1)
    except KeyboardInterrupt: pass
class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.{number})
        time.sleep(1)
def run(_):
    own_temporary_folder()
    tempfile.mkdtemp()
    with filling(Path("out")):
        {stuck}
entry._GRACE = 0.1
entry.run_tool("tool", run)
"""
    assert ended(code, tmp_path) == (status, f"tool: {word}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]


def test_temporary_files_of_a_killed_process_go_with_the_next_command(tmp_path: Path) -> None:
    """Of libraries as well, and of processes that it starts; those of a process that runs stay."""
    code = """
import os, signal, subprocess, sys, tempfile
from amct_opt.support.files import own_temporary_folder
own_temporary_folder()
tempfile.mkdtemp()
subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp()"])
print(len(os.listdir(tempfile.gettempdir())), flush=True)
os.kill(os.getpid(), signal.{})
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def start(number: str) -> subprocess.Popen[str]:
        line = [sys.executable, "-c", code.format(number)]
        return subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment)

    with start("SIGSTOP") as stopped, ExitStack() as cleanup:
        cleanup.callback(stopped.kill)  # it would be waited for without an end
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "2\n"  # from now on it does not remove what others leave
        killed = cleanup.enter_context(start("SIGKILL"))
        assert killed.stdout is not None
        assert killed.stdout.readline() == "2\n"
        killed.wait()
        assert len([*tmp_path.iterdir()]) == 2
        assert shell("amct", "TOOL --version", tmp_path, TMPDIR=str(tmp_path)) == (0, "")
        assert len([*tmp_path.iterdir()]) == 1


def test_a_file_that_becomes_shorter_while_it_is_read_is_one_line(tmp_path: Path) -> None:
    """A signal would end the process without a word. The temporary folder of an unfinished result is removed."""
    code = """
import os, sys
import numpy as np
from pathlib import Path
from amct_opt.support.files import filling
from amct_opt.tools.truncated import end_in_one_line
end_in_one_line()
Path("big").write_bytes(bytes(1 << 20))
array = np.memmap("big", np.uint8, "r")
with filling(Path("out")):
    os.truncate("big", 1 << 12)
    print(array.sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path}/big: error: became shorter while it was read\n"
    assert [path.name for path in tmp_path.iterdir()] == ["big"]


_RUN = "run net.mlir --data x.npz -o y.npz"
_QUANTIZE = "quantize net.mlir --data x.npz -o o"


@pytest.mark.parametrize(
    ("command", "step", "where"),
    [
        (_RUN, "amct_opt.frontends.mlir.parse_module", "net.mlir"),
        (_RUN, "amct_opt.data.arrays.arrays_in", "x.npz"),
        (_RUN, "numpy.lib.format.write_array", "y.npz"),
        (_QUANTIZE, "amct_opt.flows.quantization.describe_layers", "net.mlir"),
        (_QUANTIZE, "amct_opt.flows.report.page_of", "report.html"),
    ],
)
def test_memory_that_runs_out_is_located(
    command: str,
    step: str,
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the file or step, with nothing written."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 2 MiB")

    monkeypatch.chdir(tmp_path)
    Path("net.mlir").write_text(RELU.replace("%x: tensor<2xf32>", '%x: tensor<2xf32> {nn.name = "x"}'))
    np.savez("x.npz", x=np.ones(2, np.float32))
    monkeypatch.setattr(step, fail)
    assert amct.run(command.split()) == 1
    assert f"{where}: error: not enough memory. Unable to allocate 2 MiB\n" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir() if path.name[0] != "."} == {"net.mlir", "x.npz"}


def test_a_library_that_memory_has_no_room_for(tmp_path: Path) -> None:
    code = """
from amct_opt.tools.entry import run_tool
def run(_):
    raise ImportError("x.so: failed to map segment from shared object")
run_tool("amct", run)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "amct: error: not enough memory. x.so: failed to map segment from shared object\n  hint: "
    )


@pytest.mark.parametrize("megabytes", [50, 300])
def test_fewer_addresses_than_libraries_take(megabytes: int, tmp_path: Path) -> None:
    assert shell("amct", f"ulimit -v {megabytes << 10}; TOOL --version", tmp_path) == (
        1,
        f"ulimit -v: error: allows {megabytes} MB of memory, and libraries by themselves take 400 MB\n",
    )
