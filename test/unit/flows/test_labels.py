"""Labels from class folders, tables and arrays; each mistake has its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import amct_opt
from amct_opt.data import Form, Preprocess, Samples, load_samples
from amct_opt.data.given import samples_from
from amct_opt.flows.labels import load_labels
from amct_opt.ir.functions import main_function

IDENTITY = """
func.func @main(%x: tensor<?x2x2x3xf32> {nn.name = "x"}) -> (tensor<?x2x2x3xf32> {nn.name = "y"}) {
  func.return %x : tensor<?x2x2x3xf32>
}
"""


def samples_in(folder: Path) -> Samples:
    module, _ = amct_opt.parse(IDENTITY)
    return load_samples(folder, main_function(module), Form(image=Preprocess()))


def photos(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2)).save(folder / name)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return photos(tmp_path / "photos", "dog/a.png", "dog/b.png", "cat/a.png", "emu/deep/a.png")


def test_class_folders(folder: Path) -> None:
    samples = samples_in(folder)
    labels = load_labels("folders", samples)
    names = {"cat": 0, "dog": 1, "emu": 2}
    places = [Path(samples.rows["x"].place(i)).relative_to(folder).parts[0] for i in range(4)]
    assert labels.classes.tolist() == [names[p] for p in places]
    assert labels.folders == 3
    assert load_labels("folders", samples.tail(2)).classes.tolist() == labels.classes.tolist()[2:]
    photos(folder, "a.png")
    with pytest.raises(amct_opt.CompileError, match=r"photos/a.png: error: is not in a class folder"):
        load_labels("folders", samples_in(folder))


def test_numbered_folders(tmp_path: Path) -> None:
    assert load_labels("folders", samples_in(photos(tmp_path / "a", "08/a.png", "10/a.png"))).classes.tolist() == [0, 1]
    with pytest.raises(amct_opt.CompileError, match="folder '10' is class 0\n  hint: pad the names with zeros"):
        load_labels("folders", samples_in(photos(tmp_path / "b", "8/a.png", "10/a.png")))


def test_tables_of_paths(folder: Path, tmp_path: Path) -> None:
    """Paths are those in the folder of images, or next to the table; order does not matter."""
    table = tmp_path / "labels.csv"
    rows = ["dog/b.png,7", "dog/a.png, 5", "photos/cat/a.png,3", "emu/deep/a.png,0"]
    for text in ("path,label\n" + "\n".join(rows), "\n".join(reversed(rows))):
        table.write_text(text)
        samples = samples_in(folder)
        found = dict(zip(range(4), load_labels(str(table), samples).classes.tolist(), strict=True))
        by_name = {Path(samples.rows["x"].place(i)).relative_to(folder).as_posix(): c for i, c in found.items()}
        assert by_name == {"dog/a.png": 5, "dog/b.png": 7, "cat/a.png": 3, "emu/deep/a.png": 0}
        assert load_labels(str(table), samples.tail(1)).classes.tolist() == [found[3]]
    for text, message in (
        ("path,label\ndog/a.png,1", r"labels.csv: error: has no label for .*photos/.* and 2 more"),
        ("path,label\ndog/x.png,1", r"labels.csv:2: error: 'dog/x.png' is not an image of .*photos"),
        ("dog/a.png,1\ndog/a.png,1", r"labels.csv:2: error: lists 'dog/a.png' twice"),
        ("dog/a.png,dog", r"labels.csv:1: error: label 'dog' is not the number of a class"),
        ("dog/a.png,1\n2", r"labels.csv:2: error: is neither 'path,label' nor 'label'"),
        ("label\n1\n2\n3\n4", "labels without paths are for images in one folder"),
        ("path,label", "lists no labels"),
    ):
        table.write_text(text)
        with pytest.raises(amct_opt.CompileError, match=message):
            load_labels(str(table), samples_in(folder))


def test_lists_in_the_order_of_samples(tmp_path: Path) -> None:
    samples = samples_in(photos(tmp_path / "flat", "b.png", "a.png", "c.png"))
    classes = np.array([4, 0, 2])
    (tmp_path / "labels.csv").write_text("label\n4\n0\n2\n")
    np.save(tmp_path / "labels.npy", classes)
    np.savez(tmp_path / "one.npz", any=classes)
    np.savez(tmp_path / "two.npz", images=np.zeros(3), labels=classes)
    for name in ("labels.csv", "labels.npy", "one.npz", "two.npz:labels"):
        assert load_labels(str(tmp_path / name), samples).classes.tolist() == [4, 0, 2]
        assert load_labels(str(tmp_path / name), samples.tail(1)).classes.tolist() == [2]
    for name, message in (
        ("two.npz", r"two.npz: error: contains several arrays\n  hint: choose one: .*two.npz:images"),
        ("two.npz:label", r"two.npz: error: contains no array 'label'\n  hint: it contains images, labels"),
        ("two.npz:images", r"labels must be integers, one per sample, not float64 \[3\]"),
        ("none.npy", "there is no such file"),
        ("none.csv", "none.csv: error: cannot be read as a table"),
    ):
        with pytest.raises(amct_opt.CompileError, match=message):
            load_labels(str(tmp_path / name), samples)
    np.save(tmp_path / "labels.npy", classes[:2])
    with pytest.raises(amct_opt.CompileError, match=r"labels.npy: error: labels must be 3 integers, .*, not 2"):
        load_labels(str(tmp_path / "labels.npy"), samples)


def test_arrays_have_no_folders() -> None:
    module, _ = amct_opt.parse(IDENTITY)
    samples = samples_from(np.zeros((3, 2, 2, 3), np.float32), module)
    with pytest.raises(amct_opt.CompileError, match="only images can have their folders as labels"):
        load_labels("folders", samples)
