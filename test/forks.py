"""The project's tools as forks of one process that has imported them: a start takes milliseconds, not most of a second.

`tools()` gives a folder for PATH. What it holds asks this module, run as a program, for a fork, which takes the arguments, the
environment, the folder and the streams of the process that asks (`fork.py`) and gives its exit status back.
"""

from __future__ import annotations

import atexit
import gc
import marshal
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

TOOLS = ("amct", "amct-opt", "filecheck", "xdsl-opt")


def tools(python: str = sys.executable) -> Path:
    """A folder with the tools of an interpreter's environment; it and the process after them last as long as this process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    client = Path(__file__).with_name("fork.py").read_text("utf-8")
    for name in TOOLS:
        (folder / name).write_text(f"#!{Path(sys.executable).resolve()} -IS\n{client}", "utf-8")
        (folder / name).chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(os.cpu_count() or 1)
        server = subprocess.Popen(
            [python, __file__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    atexit.register(server.communicate)  # the end of its standard input ends it
    return folder


def serve(listener: socket.socket) -> None:
    """Fork for whoever connects, until the standard input ends."""
    mains = {script.name: script.load() for script in entry_points(group="console_scripts") if script.name in TOOLS}
    package = import_module("amct_opt")
    for module in pkgutil.walk_packages(package.__path__, "amct_opt.", onerror=lambda _: None):
        if module.name not in ("amct_opt.torch", "amct_opt.api.torch"):  # what only programs import, it loads torch
            with suppress(ImportError, package.CompileError):  # extras that are not installed
                import_module(module.name)  # also what tools import only when they need it
    latency = import_module("amct_opt.flows.latency")
    vars(latency)["SECONDS"] = 0  # what a busy machine says of latency differs each time
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    stdin = sys.stdin.fileno()
    while stdin not in select.select([listener, stdin], [], [])[0]:
        connection, _ = listener.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            connection.send(bytes([answer(connection, mains)]))
            os._exit(0)
        connection.close()


def answer(connection: socket.socket, mains: dict[str, Callable[[], int | None]]) -> int:
    """Run the tool that is asked for, in place of the process that asks. Returns its exit status."""
    request, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    name, arguments, folder, environment = marshal.loads(request)
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = [name, *arguments]
    try:
        status = mains[name]()
    except SystemExit as e:
        status = e.code
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return int(status or 0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
