"""What tests of several areas share: modules compared by running them, `amct` as a function, and pages held against data."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects.nn.shapes import known, tensor_of
from amct_opt.flows import latency
from amct_opt.ir.dtypes import numpy_dtype
from amct_opt.ir.functions import dimension_names, input_names, main_function, output_names
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.tools import amct

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
"""Before TensorFlow is imported: without oneDNN, which it uses by itself only with AVX-512, CPUs have no convolutions of NCHW."""

Array = np.ndarray[Any, np.dtype[Any]]

# No test depends on time: an example that takes long on a loaded machine, to run or to make, is not a failure.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="an order by chance, the same for a seed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what holds generated parts of pages; under --shuffle, files come in an order by chance, and tests of a file, too."""
    for item in items:
        if isinstance(item, pytest.Function) and "generated" in item.fixturenames:
            item.add_marker(pytest.mark.page)
    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        if any(isinstance(value, np.random.Generator) for value in vars(module).values()):
            raise pytest.UsageError(f"{module} holds a generator, which makes tests depend on their order: take `rng`")
    if (seed := config.getoption("--shuffle")) is not None:
        random.Random(seed).shuffle(items)
        first = {item.path: i for i, item in reversed([*enumerate(items)])}
        items.sort(key=lambda item: first[item.path])


def _seed(request: pytest.FixtureRequest) -> int:
    return zlib.crc32(request.node.nodeid.encode())


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers of a test: always the same, whichever tests run before."""
    return np.random.default_rng(_seed(request))


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """The generators that a process has, which networks of Keras and PyTorch draw their weights from."""
    random.seed(_seed(request))
    if torch := vars(request.module).get("torch") or sys.modules.get("torch"):
        torch.manual_seed(_seed(request))


class Equivalence:
    """Modules before and after a pass, run on the same inputs."""

    @staticmethod
    def parse(text: str) -> ModuleOp:
        module = parse_module(new_session(), text)
        verify(module)
        return module

    @staticmethod
    def after(module: ModuleOp, *passes: str, session: Session | None = None) -> ModuleOp:
        """A copy of the module, verified, after these passes (`convert-layout=NCHW` gives options); the original stays."""
        result, session = module.clone(), session or new_session()
        for each in passes:
            name, _, options = each.partition("=")
            make_pass(name, options).apply(session, result)
            verify(result)
        return result

    @staticmethod
    def random_inputs(module: ModuleOp, seed: int = 0) -> dict[str, Array]:
        """Arrays for the arguments of the main function.

        A dimension without a size gets 2 when it is the first, else 6; one that has a name the same in all arguments.
        Floats are normal numbers, integers 0 to 7.
        """
        rng = np.random.default_rng(seed)
        function = main_function(module)
        given = function.arg_attrs.data if function.arg_attrs is not None else []
        sizes: dict[str, int] = {}
        inputs: dict[str, Array] = {}
        for i, (name, argument) in enumerate(zip(input_names(function), function.body.block.args, strict=True)):
            names = dimension_names(given[i]) if i < len(given) else []
            shape: list[int] = []
            for axis, d in enumerate(tensor_of(argument).get_shape()):
                dim = names[axis] if axis < len(names) else ""
                default = 2 if axis == 0 else 6
                shape.append(d if known(d) else sizes.setdefault(dim, default) if dim else default)
            dtype = numpy_dtype(tensor_of(argument).element_type)
            values = rng.normal(size=shape) if dtype.kind in "fV" else rng.integers(0, 8, shape)
            inputs[name] = np.asarray(values).astype(dtype)
        return inputs

    def assert_equivalent(
        self,
        before: ModuleOp,
        after: ModuleOp,
        inputs: Mapping[str, Array] | None = None,
        *,
        rtol: float = 0,
        atol: float = 0,
        seed: int = 0,
    ) -> dict[str, Array]:
        """Inputs and outputs have the same names, and outputs the same shapes, types and numbers; NaN equals NaN.

        Without tolerances numbers must be equal. Returns the outputs of the module before.
        """
        assert input_names(main_function(after)) == input_names(main_function(before))
        assert output_names(main_function(after)) == output_names(main_function(before))
        arrays = self.random_inputs(before, seed) if inputs is None else inputs
        expected, actual = run(before, arrays), run(after, arrays)
        assert list(actual) == list(expected)
        for name, array in expected.items():
            assert actual[name].dtype == array.dtype, name
            assert actual[name].shape == array.shape, name
            np.testing.assert_allclose(actual[name], array, rtol=rtol, atol=atol, err_msg=name)
        return expected


@pytest.fixture(scope="session")
def equivalence() -> Equivalence:
    return Equivalence()


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


Amct = Callable[..., Result]


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is timed: that takes a while, and a busy machine would make warnings of it."""
    monkeypatch.setattr(latency, "SECONDS", 0)


@pytest.fixture
def amct_tool(capsys: pytest.CaptureFixture[str]) -> Amct:
    """Run `amct` on arguments, in this process."""

    def run(*arguments: object) -> Result:
        status = amct.run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


def _hold(document: str, **parts: str) -> None:
    path = Path(__file__).parents[2] / "docs" / document
    written = text = path.read_text("utf-8")
    for part, content in parts.items():
        begin, end = f"<!-- begin {part} (generated) -->", f"<!-- end {part} -->"
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        assert found, f"docs/{document} has no part '{part}'"
        text = f"{head}{begin}\n{content}\n{end}{tail}"
    if os.environ.get("AMCT_UPDATE"):
        path.write_text(text, "utf-8")
    else:
        assert written == text, "run: make pages"


@pytest.fixture(scope="session")
def generated() -> Callable[..., None]:
    """`generated("ascend.md", operations=text, ...)`: these parts of a document are up to date; AMCT_UPDATE=1 writes them."""
    return _hold


class ConformancePage:
    """docs/conformance.md: a page of sections, each written by one test under AMCT_UPDATE=1 and else held against it.

    Numbers hold for versions of packages. Where others are installed, a section is neither checked nor, row by row, updated.
    """

    path = Path(__file__).parents[2] / "docs" / "conformance.md"
    updating = bool(os.environ.get("AMCT_UPDATE"))

    def section(self, title: str) -> str:
        """What stands under a heading, the heading included; empty when there is none."""
        return next((part for part in self._parts() if part.startswith(f"## {title}\n")), "")

    def hold(self, title: str, lines: Iterable[str], versions: str) -> None:
        """The section has these lines below its heading. Skips when it was not written with `versions`, a part of the text."""
        text = "\n".join([f"## {title}", "", *lines, ""])
        if self.updating:
            self._write(title, text)
        if versions not in self.section(title):
            pytest.skip(f"docs/conformance.md was not written with {versions}")
        assert self.section(title).rstrip() == text.rstrip(), "run this test with AMCT_UPDATE=1"

    def rows(self, title: str) -> list[str]:
        """Of the table that ends the section."""
        lines = self.section(title).rpartition("|---|")[2].split("\n")[1:]
        return [line for line in lines if line.startswith("|")]

    def hold_row(self, title: str, row: str, versions: str) -> None:
        """That table has this row, known by its first two cells; rows are sorted. Else as `hold`."""
        if versions not in self.section(title):
            pytest.skip(f"docs/conformance.md was not written with {versions}")
        if self.updating:
            head, rule, _ = self.section(title).rpartition("|---|")
            kept = [r for r in self.rows(title) if r.split("|")[:3] != row.split("|")[:3]]
            self._write(title, "\n".join([head + rule, *sorted([*kept, row], key=str.lower), ""]))
        assert row in self.rows(title), "run this test with AMCT_UPDATE=1"

    def _parts(self) -> list[str]:
        """The page, cut before each heading of a section."""
        return re.split(r"(?m)^(?=## )", self.path.read_text("utf-8"))

    def _write(self, title: str, text: str) -> None:
        """Put a section in its place, a new one at the end."""
        parts = self._parts()
        at = next((i for i, part in enumerate(parts) if part.startswith(f"## {title}\n")), len(parts))
        parts[at : at + 1] = [text]
        self.path.write_text("\n".join(part.rstrip() + "\n" for part in parts), "utf-8")


@pytest.fixture(scope="session")
def conformance() -> ConformancePage:
    return ConformancePage()


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[str, str]]:
    """A browser without a window: a page and options in, what the browser prints and what it logs out."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")

    def run(page: Path, *options: str) -> tuple[str, str]:
        quiet = (
            "headless",
            "no-sandbox",
            "disable-gpu",
            "disable-quic",
            "no-first-run",
            "disable-background-networking",
        )
        flags = [f"--{flag}" for flag in (*quiet, "disable-component-update", "disable-sync", "hide-scrollbars")]
        state = f"--user-data-dir={tmp_path_factory.mktemp('browser')}"
        command = [
            program,
            *flags,
            state,
            "--enable-logging=stderr",
            "--virtual-time-budget=10000",
            *options,
            page.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout, done.stderr

    return run
