"""The package as users get it: the wheel, installed elsewhere, without the checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import amct_opt

from .scripts import script

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "compiler").rglob("*.py"))
DATA = [
    ROOT / "compiler/py.typed",
    *sorted((ROOT / "compiler/examine/reports/page").iterdir()),
    *sorted((ROOT / "compiler/lowering/ascend/chips").glob("*.json")),
    ROOT / "compiler/targets/onnx_ascend/registry.json",
]


def call(*argv: str | Path, cwd: Path, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")} | variables
    result = subprocess.run(
        [str(a) for a in argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git would give, by the build backend itself: no network, nothing left in the checkout."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for path in [*SOURCES, *DATA, *(ROOT / n for n in ("pyproject.toml", "setup.py", "README.md", "LICENSE"))]:
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (source / "src").mkdir()
    (source / "src/amct_opt").symlink_to("../compiler")
    return build("wheel", source, out)


def build(kind: str, source: Path, out: Path) -> Path:
    """The wheel or sdist of a folder of sources."""
    call(sys.executable, "-c", f"import setuptools.build_meta as b; b.build_{kind}({str(out)!r})", cwd=source)
    (built,) = out.iterdir()
    return built


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """The sdist has no links, which some systems do not support."""
    for name in ("sdist", "again"):
        (tmp_path / name).mkdir()
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]
    source = shutil.copytree(ROOT, tmp_path / "source", symlinks=True, ignore=shutil.ignore_patterns(".git", *ignored))
    with tarfile.open(build("sdist", source, tmp_path / "sdist")) as archive:
        assert not any(member.issym() or member.islnk() for member in archive)
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = build("wheel", unpacked, tmp_path / "again")
    assert again.name == wheel.name
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    inside = {n for n in names if not n.partition("/")[0].endswith(".dist-info")}
    assert inside == {f"amct_opt/{p.relative_to(ROOT / 'compiler')}" for p in (*SOURCES, *DATA)}


def test_links_of_the_long_description_work_where_there_is_no_checkout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        text = archive.read(metadata).decode()
    assert "Description-Content-Type: text/markdown" in text
    assert "tutorial (docs/tutorial.md)" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    described = script("setup").described
    page = "![a](docs/a.png) [b](docs/b.md#c) [d](https://d) [e](mailto:e)"
    assert described(page, "") == " b (docs/b.md#c) [d](https://d) [e](mailto:e)"
    based = "![a](https://x/docs/a.png) [b](https://x/docs/b.md#c) [d](https://d) [e](mailto:e)"
    assert described(page, "https://x/") == based


MODULE = """\
func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %c = nn.constant dense<[1.0, 0x7F800000]> : tensor<2xf32>
  %y = nn.add %x, %c from <onnx, "Add", "层"> : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
"""


@pytest.mark.slow
def test_it_works_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    """In a fresh environment; only the dependencies are those of the one that runs the tests."""
    home, work = tmp_path / "venv", tmp_path / "work"
    work.mkdir()
    venv.create(home, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(home), "platbase": str(home)}))
    zipfile.ZipFile(wheel).extractall(site)
    dependencies = work / "dependencies"
    dependencies.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        # all but this project, which is installed here in editable form
        if "amct_opt" not in each.name and each.suffix != ".pth":
            (dependencies / each.name).symlink_to(each)
    python = [home / "bin" / "python", "-W", "error"]
    entry = "import sys; from amct_opt.tools.amct_opt import main; sys.argv[0] = 'amct-opt'; main()"
    tool = [*python, "-c", entry]

    where = call(*python, "-c", "import amct_opt; print(amct_opt.__path__[0])", cwd=work, PYTHONPATH=str(dependencies))
    assert Path(where.strip()) == site / "amct_opt"
    printed = call(*tool, "--version", cwd=work, PYTHONPATH=str(dependencies))
    assert printed.startswith(f"amct-opt {amct_opt.__version__} with xdsl ")
    assert wheel.name.startswith(f"amct_opt-{amct_opt.__version__}-")

    (work / "net.mlir").write_text(MODULE, "utf-8")
    once = call(
        *tool,
        "net.mlir",
        "--canonicalize",
        "--print-op-generic",
        "-o",
        "generic.mlir",
        cwd=work,
        PYTHONPATH=str(dependencies),
    )
    assert once == ""
    again = call(*tool, "generic.mlir", cwd=work, PYTHONPATH=str(dependencies))
    assert '%y = nn.add %x, %c from <onnx, "Add", "层">' in again
    assert 'dense<"0x0000803F0000807F">' in again
    plugin = (
        "from xdsl.universe import Universe as U; u = U.get_multiverse(); print('nn' in u.all_dialects, *u.all_passes)"
    )
    known = call(*python, "-c", plugin, cwd=work, PYTHONPATH=str(dependencies)).split()
    assert known[0] == "True"
    assert {"fuse-bn", "quantize", "lower-to-ascend"} <= set(known)
    compiler = Path(shutil.copy(ROOT / "examples" / "embedding" / "device.py", work))
    assert len(compiler.read_text().splitlines()) < 150
    paths = os.pathsep.join(map(str, (site, dependencies)))
    call(*python[:1], "-m", "pyright", "--pythonpath", python[0], compiler, cwd=work, PYTHONPATH=paths)
    digits = ROOT / "examples" / "digits"
    files = digits / "digits.onnx", digits / "calib.npz", work / "digits.s"
    call(*python[:1], compiler, *files, cwd=work, PYTHONPATH=str(dependencies))
    assert re.findall(r"= device\.(\w+) r\d+, r\d+ :", files[2].read_text()) == ["sum_int8"]


IMPORTS = """\
import importlib, os, pkgutil, sys, traceback

import google.protobuf, ml_dtypes, numpy, onnx, xdsl.dialects.builtin, xdsl.dialects.func


def visit(name):
    if os.fork():
        os.wait()
        return
    try:
        package = importlib.import_module(name)
        print(name, flush=True)
        for child in pkgutil.iter_modules(getattr(package, "__path__", ()), name + "."):
            if child.ispkg or child.name not in sys.modules:
                visit(child.name)
            else:
                print(child.name, flush=True)
    except BaseException:
        traceback.print_exc()
    os._exit(0)


visit("amct_opt")
"""
"""Prints each module that can be imported where no other module of the package has been, but for the packages that it is in:
Python imports these first. Processes are forks of one that has imported the dependencies.
"""


@pytest.mark.slow
def test_every_module_can_be_imported_first() -> None:
    """No module needs another to be imported before it: no cycles that bite."""
    inside = [p.relative_to(ROOT / "compiler").with_suffix("") for p in SOURCES]
    modules = [".".join(("amct_opt", *p.parts)).removesuffix(".__init__") for p in inside]
    result = subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert sorted(result.stdout.split()) == sorted(modules), result.stderr
