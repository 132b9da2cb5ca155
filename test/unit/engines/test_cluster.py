"""Calibration on a cluster gives what one process gives, to the bit, whatever happens to its workers."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import to_text
from amct_opt.data import load_samples
from amct_opt.data.given import samples_from
from amct_opt.dialects.nn import ObserveOp
from amct_opt.engines import Runner, cluster
from amct_opt.engines.sharing import shares_of
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct
from amct_opt.transforms.quantization.options import ClusterOptions
from amct_opt.transforms.quantization.running import sharing_runner

from ..values import parsed

NET = """
func.func @main(%x: tensor<BATCHx3x8x8xf32> {nn.name = "x"}) -> tensor<BATCHx4x8x8xf32> {
  %w = nn.constant dense<[[[[0.5]], [[-0.25]], [[1.5]]], [[[-1.0]], [[0.75]], [[0.5]]],
                          [[[2.0]], [[1.0]], [[-0.5]]], [[[0.125]], [[-2.0]], [[1.0]]]]> : tensor<4x3x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "a"> : (tensor<BATCHx3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<BATCHx4x8x8xf32>
  %r = nn.relu %a from <onnx, "Relu", "r"> : tensor<BATCHx4x8x8xf32>
  %v = nn.constant dense<0.3> : tensor<4x4x1x1xf32>
  %y = nn.conv %r, %v from <onnx, "Conv", "b"> : (tensor<BATCHx4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<BATCHx4x8x8xf32>
  func.return %y : tensor<BATCHx4x8x8xf32>
}
"""
LOCAL = "local:2"


@pytest.fixture(scope="module")
def distributed() -> Any:
    return pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.fixture(scope="module", autouse=True)
def workers(distributed: Any) -> Iterator[Any]:
    """One cluster for all tests."""
    opened = cluster.client(LOCAL)
    yield opened
    opened.cluster.close()
    opened.close()
    cluster.client.cache_clear()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(203, 3, 8, 8)).astype(np.float32) * np.geomspace(0.1, 10, 203)[:, None, None, None]
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32))
    return tmp_path / "x.npz"


def found(data: Path | str, observer: str, batch: str = "?", options: str = "engine=numpy") -> list[tuple[Any, Any]]:
    """Ranges and parameters of all points."""
    module, session = parsed(NET.replace("BATCH", batch))
    passes = [make_pass("insert-observers", f"observer='{observer}'"), make_pass("calibrate", f"data={data} {options}")]
    run_passes(module, passes, session)
    return [(op.range, op.qparams) for op in module.walk() if isinstance(op, ObserveOp)]


@pytest.mark.parametrize(
    "observer", ["minmax", "percentile", "kl", "mse", "octav", "isotone", "ifmr", "ifmr{exact=true}"]
)
def test_equal_to_one_process(observer: str, data: Path) -> None:
    assert found(data, observer, options=f"engine=numpy cluster={LOCAL}") == found(data, observer)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime", "auto"])
@pytest.mark.parametrize("batch", ["?", "1", "7"])
def test_any_batch_and_backend(backend: str, batch: str, data: Path) -> None:
    """The last of 115 samples make an incomplete run of 7, which takes some of the run before it."""
    options = f"engine={backend} samples=115"
    assert found(data, "mse", batch, f"{options} cluster={LOCAL}") == found(data, "mse", batch, options)


def test_shards(data: Path, tmp_path: Path) -> None:
    x = np.load(data)["x"]
    (tmp_path / "shards").mkdir()
    for i, part in enumerate(np.array_split(x, [3, 50, 90])):
        np.savez(tmp_path / "shards" / f"{i}.npz", x=part)
    assert found(tmp_path / "shards", "mse", options=f"engine=numpy cluster={LOCAL}") == found(data, "mse")


def test_batches_of_a_function(data: Path, tmp_path: Path) -> None:
    """Each share is sent with its own batches only."""
    (tmp_path / "calib.py").write_text(
        f"import numpy as np\ndef batches():\n    return np.array_split(np.load({str(data)!r})['x'], range(3, 200, 3))\n"
    )
    given = f"{tmp_path}/calib.py:batches"
    assert found(given, "mse", options=f"engine=numpy cluster={LOCAL}") == found(given, "mse")
    module = parse_module(new_session(), NET.replace("BATCH", "?"))
    samples = load_samples(given, main_function(module))
    sizes = [len(pickle.dumps(share)) for share in shares_of(samples)]
    assert sum(sizes) < 1.1 * np.load(data)["x"].nbytes


@pytest.mark.parametrize("observer", ["moving-average", "hfmg"])
def test_order_that_matters_is_refused(observer: str, data: Path) -> None:
    with pytest.raises(CompileError, match="depends on the order of the samples") as e:
        found(data, observer, options=f"cluster={LOCAL}")
    assert "choose another observer: mse" in e.value.hint


def test_the_first_error_is_the_one_of_one_process(data: Path) -> None:
    x = np.array(np.load(data)["x"])
    x[[60, 150], 0, 0, 0] = np.nan
    np.savez(data, x=x)
    errors: list[str] = []
    for options in ("engine=numpy", f"engine=numpy cluster={LOCAL}"):
        with pytest.raises(CompileError) as e:
            found(data, "mse", options=options)
        errors.append(str(e.value))
    assert errors[0] == errors[1]
    assert "holds NaN or Inf in sample 60" in errors[0]


def test_rounding(data: Path) -> None:
    """Weights are rounded by sums of workers, which keep the networks of their shares."""
    found: list[tuple[str, list[str]]] = []
    for options in ("", f" cluster={LOCAL}"):
        module, session = parsed(NET.replace("BATCH", "?"))
        passes = [
            make_pass("insert-observers", ""),
            make_pass("calibrate", f"data={data} engine=numpy{options}"),
            make_pass("round-weights", f"data={data}{options}"),
        ]
        run_passes(module, passes, session)
        found.append((to_text(module), [remark.reason for remark in session.remarks]))
    assert found[0] == found[1]
    assert any("by mismatch" in reason for reason in found[0][1])


@pytest.mark.parametrize("text", ["local", "local:0", "host", "http://host:8786", "local:2:3"])
def test_what_is_not_a_cluster(text: str) -> None:
    with pytest.raises(CompileError, match=f"'{text}' is not a cluster"):
        Runner(cluster=text)


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_SECONDS", 0.2)
    with pytest.raises(CompileError, match=r"tcp://127\.0\.0\.1:9: error: no scheduler answers"):
        cluster.client("tcp://127.0.0.1:9")


def test_another_server_is_not_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):  # until it is closed
                while True:
                    with server.accept()[0] as connection:
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                        connection.recv(1 << 16)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(CompileError, match="no scheduler answers"):
            cluster.client(f"tcp://127.0.0.1:{server.getsockname()[1]}")


def test_workers_that_die_while_they_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = "import os, sys\nif '--multiprocessing-fork' in sys.orig_argv: os.kill(os.getpid(), 9)"
    (tmp_path / "sitecustomize.py").write_text(dying)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CompileError, match=r"^local:1: error: the workers do not start: \w[^\n]*\n  hint: [^\n]*$"):
        cluster.client("local:1")


def test_certificates(tmp_path: Path) -> None:
    files = tuple(str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    for address, given, message in (
        ("tcp://127.0.0.1:9", files, "certificates are three files"),
        ("tls://127.0.0.1:9", files[:2], "certificates are three files"),
        ("tls://127.0.0.1:9", files, r"ca\.pem: error: there is no such file"),
        ("tls://127.0.0.1:9", (), "a cluster at tls:// needs certificates"),
    ):
        with pytest.raises(CompileError, match=message):
            cluster.workers_named(sharing_runner(ClusterOptions(cluster=address, cluster_tls=given)).cluster or LOCAL)


@pytest.mark.parametrize(
    "address",
    [
        "tcp://10.0.0.7:8786",
        "tcp://host:8786",
        "tls://host:8786",
        "ws://0.0.0.0:1",
        "tcp://[fd00::1]:1",
        "tcp://localhost@host:1",
    ],
)
def test_other_machines_need_certificates(
    address: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mlir").write_text(NET.replace("BATCH", "1"), "utf-8")
    given = [
        "quantize",
        str(tmp_path / "m.mlir"),
        "--data",
        str(data),
        "--cluster",
        address,
        "-o",
        str(tmp_path / "out"),
    ]
    assert amct.run(given) == 2
    said = capsys.readouterr().err.splitlines()[-2:]
    assert said[0].startswith(f"error: {address} is another machine: without TLS, ")
    assert said[1].endswith(" --cluster-tls none")
    assert sharing_runner(ClusterOptions(cluster=address, cluster_tls=("none",))).cluster == address


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://127.8.9.1:1", "tcp://localhost:1", "tcp://[::1]:1"])
def test_this_machine_needs_no_certificates(address: str) -> None:
    assert sharing_runner(ClusterOptions(cluster=address)).cluster == address


def test_the_bar_counts_workers(data: Path) -> None:
    session = new_session()
    steps: list[tuple[str, int, int]] = []
    session.on_progress = lambda *step: steps.append(step)
    module = parse_module(session, NET.replace("BATCH", "1"))
    passes = [make_pass("insert-observers", "observer=minmax"), make_pass("calibrate", f"data={data} cluster={LOCAL}")]
    run_passes(module, passes, session)
    assert steps[-1] == ("calibrate: 2 workers", 203, 203)


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match="requires Dask") as e:
        Runner(cluster=LOCAL)
    assert e.value.hint == "pip install 'amct-opt[cluster]'"


@pytest.mark.slow
def test_a_scheduler_that_goes_away(data: Path, distributed: Any) -> None:
    others = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    )
    address = str(others.scheduler_address)
    cluster.client(address)
    others.close()
    with pytest.raises(CompileError, match="the scheduler of the cluster is gone") as e:
        found(data, "mse", options=f"engine=numpy cluster={address}")
    assert "--checkpoint DIR" in e.value.hint


@pytest.mark.slow
def test_no_worker_is_left(workers: Any, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all of them had died while they started: others are started."""
    monkeypatch.setattr(cluster, "_LOOK", 1)
    for worker in list(workers.cluster.workers.values()):
        workers.cluster.sync(worker.close)
    assert found(data, "minmax", options=f"engine=numpy cluster={LOCAL}") == found(data, "minmax")


@pytest.mark.slow
def test_all_workers_are_lost(data: Path, distributed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_LOOK", 0.2)
    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    monkeypatch.setattr(cluster, "_revive", lambda cluster: None)  # pyright: ignore
    others = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    )
    address = str(others.scheduler_address)

    def close() -> None:
        while not any(worker.processing for worker in list(others.scheduler.workers.values())):
            time.sleep(0.1)
        time.sleep(1)
        others.scale(0)

    closing = threading.Thread(target=close)
    closing.start()
    x = np.random.default_rng(1).normal(size=(20000, 3, 8, 8)).astype(np.float32)
    np.savez(data, x=x)
    with pytest.raises(CompileError, match="the cluster has lost all of its workers"):
        found(data, "mse", "1", options=f"engine=numpy cluster={address}")
    closing.join()
    others.close()


@pytest.mark.slow
def test_workers_are_lost_while_shares_are_sent(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There were workers before, so that new ones are not waited for without end."""
    monkeypatch.setattr(cluster, "_LOOK", 0.01)
    monkeypatch.setattr(cluster, "_PATIENCE", 0.05)
    monkeypatch.setattr(cluster, "_revive", lambda cluster: None)  # pyright: ignore
    present = iter([["tcp://127.0.0.1:1"]])
    monkeypatch.setattr(cluster.OnDask, "_workers", lambda _: next(present, []))
    with pytest.raises(CompileError, match="the cluster has lost all of its workers"):
        list(cluster.OnDask(workers).shared_out(lambda common, share: time.sleep(share), "store", [1]))


@pytest.mark.slow
def test_a_timeout_of_the_work_itself_is_its_error(workers: Any) -> None:
    """It is not a result that takes long to arrive."""

    def late(common: str, share: int) -> int:
        raise TimeoutError(f"{common} {share}")

    with pytest.raises(TimeoutError, match="store 1"):
        list(cluster.OnDask(workers).shared_out(late, "store", [1]))


@pytest.mark.slow
def test_waiting_takes_no_memory(workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often workers are looked for, the client's loop has no more tasks."""
    tasks, looked = list[int](), tmp_path / "looked"

    def look(_: Any) -> None:
        tasks.append(len(asyncio.all_tasks(workers.loop.asyncio_loop)))
        if len(tasks) == 60:
            looked.touch()

    def slow(file: Path, share: int) -> int:
        while not file.exists():
            time.sleep(0.01)
        return share

    monkeypatch.setattr(cluster, "_LOOK", 0.01)
    monkeypatch.setattr(cluster, "_revive", look)
    assert list(cluster.OnDask(workers).shared_out(slow, looked, [7])) == [(0, 7)]
    assert tasks[59] < tasks[9] + 25


@pytest.mark.slow
def test_workers_that_are_killed(workers: Any, tmp_path: Path) -> None:
    """Each is killed once while it computes; what it did not deliver is computed again."""
    x = np.random.default_rng(1).normal(size=(4000, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    expected = found(tmp_path / "x.npz", "mse", "1")
    killed: list[int] = []

    def kill() -> None:
        for _ in range(2):
            time.sleep(1.0)
            pids = list[int]()
            while not pids:
                pids = [pid for pid in workers.run(os.getpid).values() if pid not in killed]
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])

    killer = threading.Thread(target=kill)
    killer.start()
    assert found(tmp_path / "x.npz", "mse", "1", f"engine=numpy cluster={LOCAL}") == expected
    killer.join()
    assert len(set(killed)) == 2


WIDE = """
func.func @main(%x: tensor<1x4000000xf32> {nn.name = "x"}) -> tensor<1x1xf32> {
  %w = nn.constant dense<0.001> : tensor<4000000x1xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<1x4000000xf32>, tensor<4000000x1xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["330MB", "380MB"])
def test_workers_out_of_memory(limit: str, distributed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of 16 samples has 256 MB: Dask kills the worker, or pauses it before it begins. A half has room."""
    monkeypatch.setattr(cluster, "_LOOK", 1)
    monkeypatch.setattr(cluster, "_PAUSED", 2)
    x = np.random.default_rng(1).normal(size=(16, 4_000_000)).astype(np.float32)

    def calibrated(client: Any) -> tuple[str, list[str]]:
        module, session = parsed(WIDE)
        calibrate = replace(make_pass("calibrate", "engine=numpy"), data=samples_from(x, module), cluster=client)
        run_passes(module, [make_pass("insert-observers", "observer=minmax"), calibrate], session)
        return to_text(module), list(session.warnings)

    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with (
        pytest.importorskip("dask").config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, memory_limit=limit, **options) as others,
        distributed.Client(others) as client,
    ):
        (there, warnings), (here, none) = calibrated(cluster.workers_of(client)), calibrated(None)
    assert there == here
    assert none == []
    assert warnings == ["calibrate: a share computed in smaller parts, because workers ran out of memory or died"]
