"""Workers read weights from storage: a folder, or an address, with the same result as if they were sent."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import amct_opt
from amct_opt.data.addresses import put
from amct_opt.engines import store
from amct_opt.engines.cluster import Storing
from amct_opt.transforms.quantization.options import ClusterOptions
from amct_opt.transforms.quantization.running import sharing_runner

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", str(DIGITS / "calib.npz")


class Elsewhere:
    """Sends everything as bytes, and counts them."""

    sent = 0

    def shared_out(self, work: Callable[..., Any], common: Any, shares: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
        given = pickle.dumps(common)
        self.sent += len(given)
        for number, share in enumerate(shares):
            yield number, work(pickle.loads(given), share)


def states(client: Any) -> str:
    module, session = amct_opt.load(MODEL)
    return amct_opt.to_text(amct_opt.calibrate(module, session, data=DATA, client=client).module)


@pytest.mark.parametrize("where", ["folder", "file://folder", "memory://weights"])
def test_weights_are_not_sent(where: str, tmp_path: Path) -> None:
    sending, storing = Elsewhere(), Elsewhere()
    folder = where.replace("folder", str(tmp_path / "made" / "here"))
    assert states(Storing(storing, folder)) == states(sending) == states(None)
    assert sending.sent - storing.sent > 90_000  # all weights of the network


def test_any_client_can_have_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        assert states(Storing(executor, str(tmp_path))) == states(None)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_is_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"content")
    copy = store.stored(tmp_path / "weights.safetensors", "shared")
    assert Path(copy.address).is_absolute()
    assert store.fetched(copy).read_bytes() == b"content"


@pytest.mark.parametrize("where", ["folder", "memory://damaged"])
def test_content_is_written_once_and_completed(where: str, tmp_path: Path) -> None:
    file, folder = tmp_path / "a.safetensors", where.replace("folder", str(tmp_path / "folder"))
    file.write_bytes(b"content")
    copy = store.stored(file, folder)
    (tmp_path / "part").write_bytes(b"con")  # as a process leaves it that is killed
    put(tmp_path / "part", copy.address)
    assert store.stored(file, folder) == copy
    assert store.size_of(copy.address) == 7
    (tmp_path / "other").write_bytes(b"CONTENT")
    put(tmp_path / "other", copy.address)
    assert store.stored(file, folder) == copy
    assert store.fetched(copy).read_bytes() == b"CONTENT"  # not written a second time


@pytest.mark.parametrize("where", ["folder", "memory://gone"])
def test_a_file_that_workers_do_not_see(where: str, tmp_path: Path) -> None:
    class Blind(Elsewhere):
        def shared_out(self, work: Any, common: Any, shares: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
            moved = common._replace(module=common.module._replace(arrays=store.Stored(f"{folder}/other", "0" * 64)))
            return super().shared_out(work, moved, shares)

    folder = where.replace("folder", str(tmp_path))
    with pytest.raises(amct_opt.CompileError) as e:
        states(Storing(Blind(), folder))
    assert e.value.where == f"{folder}/other"


def test_other_content_is_an_error(tmp_path: Path) -> None:
    states(Storing(Elsewhere(), str(tmp_path / "good")))
    (file,) = shutil.copytree(tmp_path / "good", tmp_path / "bad").glob("*/model.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(amct_opt.CompileError, match="checksum mismatch"):
        states(Storing(Elsewhere(), str(tmp_path / "bad")))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (str(tmp_path / "file"), "nothing://bucket/weights"):
        with pytest.raises(amct_opt.CompileError) as e:
            states(Storing(Elsewhere(), folder))
        assert e.value.where.startswith(folder)


def test_it_needs_a_cluster() -> None:
    with pytest.raises(amct_opt.CompileError, match="a store of weights is for work on a cluster"):
        sharing_runner(ClusterOptions(cluster_store="weights"))
    with pytest.raises(amct_opt.CompileError, match="'local' is not a cluster"):
        sharing_runner(ClusterOptions(cluster="local", cluster_store="weights"))
    with pytest.raises(amct_opt.CompileError, match="int is not a client of a cluster"):
        Storing(2, "weights")
