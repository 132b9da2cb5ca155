"""Every block of code in README.md and docs runs, page by page, in a folder with the files that the commands name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from ..scripts import environment
from ..yolo import detector, pictures
from .pages import PAGES, ROOT, RUNNERS, blocks_of, execute, run_page

RUN = {"bash", "console", "python", "diff", "mlir", "json", "yaml", "toml"}
SLOW = {
    "docs/calibration.md", "docs/cluster.md", "docs/configuration.md", "docs/deploy.md", "docs/embedding.md",
    "docs/howto/frontend-op.md", "docs/howto/fusion.md", "docs/howto/observer.md", "docs/howto/lowering.md",
    "docs/howto/op.md", "docs/howto/operator-package.md", "docs/howto/pass.md", "docs/howto/profile.md",
    "docs/howto/quantized-layer.md", "docs/howto/way-to-quantize.md", "docs/migrating.md", "docs/observers.md",
    "docs/pytorch.md", "docs/tutorial.md", "docs/why-not.md", "docs/yolo.md",
}  # fmt: skip
"""Pages that take longer than a few seconds."""
DEMO = "amct-opt[images,onnxruntime,report]"
"""What `make demo` installs, which pages begin with. Pages for contributors begin with what `make test` installs."""
INSTALLS = re.compile(r"pip install '(amct-opt\[[\w,]+\])'((?: [a-z-]+)*)")
"""What a page says to install for its blocks."""


MADE = """
amct-opt model.onnx --fuse-all -o net.mlir
amct-opt net.mlir --quantize=data=calib.npz -o quantized.mlir
amct-opt model.onnx -t caffe -o net.prototxt
amct-opt net.mlir -t tf-fakequant -o frozen.pb
"""
"""What pages begin with next to the network and its data."""


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files under the names that pages use: the digits network, its data, what is made from them, and a small detector."""
    folder = tmp_path_factory.mktemp("shelf")
    digits = ROOT / "examples" / "digits"
    (folder / "examples").symlink_to(ROOT / "examples")
    shutil.copy(digits / "digits.onnx", folder / "model.onnx")
    shutil.copy(digits / "calib.npz", folder)
    with np.load(digits / "heldout.npz") as arrays:
        images = arrays["image"][:32]
    labels = np.load(digits / "heldout_labels.npy")
    for name, part in {"x": images, "a": images[:16], "b": images[16:]}.items():
        np.savez(folder / f"{name}.npz", image=part)
    for name in ("bins", "images"):
        (folder / name).mkdir()
    images[:16].tofile(folder / "bins" / "0.bin")
    for i, image in enumerate(images):
        photo = Image.fromarray(((image[0] + 1) * 127.5).astype(np.uint8))
        photo.save(folder / "images" / f"{i}.png")
        photo.save(made(folder / "photos" / f"digit-{labels[i]}") / f"{i:02}.png")
    onnx.save(detector(), folder / "yolov8n.onnx")
    for i, picture in enumerate(pictures(20)):
        Image.fromarray(picture).save(made(folder / "pictures") / f"{i:02}.png")
    execute(["bash", "-euo", "pipefail"], folder, MADE)
    return folder


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Callable[[frozenset[str]], Path]:
    """Environments of what `make demo` installs, and these."""
    return cache(lambda named: environment({DEMO, *named}, tmp_path_factory.mktemp("environment")))


def test_the_demo_installs_these_extras() -> None:
    assert f"'{DEMO.replace('amct-opt', '.')}'" in (ROOT / "Makefile").read_text("utf-8")


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_blocks_say_what_they_are() -> None:
    unknown = [
        f"{p}:{b.line}" for p, path in PAGES.items() for b in blocks_of(path.read_text()) if b.language not in RUNNERS
    ]
    assert unknown == []


def test_a_pass_is_short() -> None:
    """The whole of a pass of one's own, registered, in under 30 lines that hold something."""
    whole = next(blocks_of(PAGES["docs/howto/pass.md"].read_text("utf-8"))).text
    assert len([line for line in whole.splitlines() if line.strip()]) < 30


def runs(page: str) -> bool:
    return any(block.language in RUN for block in blocks_of(PAGES[page].read_text("utf-8")))


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.slow] if p in SLOW else []) for p in PAGES if runs(p)]
)
def test_page(page: str, shelf: Path, environments: Callable[[frozenset[str]], Path], tmp_path: Path) -> None:
    """In the environment of `make demo`, with the extras that the page says to install."""
    folder = tmp_path / "page"
    shutil.copytree(shelf, folder, symlinks=True)
    found = INSTALLS.findall(PAGES[page].read_text("utf-8"))
    named = frozenset(each for package, others in found for each in (package, *others.split()))
    if page.startswith("docs/howto/"):  # pages that change the sources, in a copy
        shutil.copytree(
            ROOT / "compiler", folder / "compiler"
        )  # with its bytecode: no command compiles all of it again
        (folder / "amct_opt").symlink_to("compiler")
    else:
        (folder / ".venv").symlink_to(environments(named))
    run_page(PAGES[page], folder)
