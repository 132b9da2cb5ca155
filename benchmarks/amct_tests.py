"""Runs the tests that AMCT for PyTorch has of its public functions against `amct_opt.amct.pytorch`: PATH [FILE ...].

PATH is a checkout of AMCT's source, of which only `tests` is read, and copied to a scratch folder. The name `amct_pytorch` stands
for our module. What is not public, modules of AMCT and attributes of its objects, is an error where a test uses it: `internals`.
`left out` is a name that docs/migrating.md lists, `differs` any other failure. Prints a line for each test that does not pass,
and the counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

FOLDER = "tests/amct_pytorch/testcase_python"
FILES = (
    "auto_calibration/test_fake_quant_pass.py",
    "configuration/test_configuration.py",
    "configuration/test_retrain_config.py",
    "nn/test_qat_op.py",
    "nn/test_quant_calibration_op.py",
    "nn/test_rnn_qat.py",
    "single_file/test_dmq_balancer.py",
    "single_file/test_quant_calibration.py",
    "single_file/test_quant_retrain_model.py",
    "single_file/test_quantize_model.py",
    "single_file/test_quantize_tool.py",
    "single_file/test_rnn_quant_retrain.py",
    "utils/test_evaluator.py",
)
"""The files whose tests call public functions or classes."""

_ROOT = "amct_pytorch"
_INNER = f"{_ROOT}.classic.graph_based.{_ROOT}"
_PUBLIC = {
    **{f"{base}{name}": "" for base in (_ROOT, _INNER) for name in ("", ".accuracy_based_auto_calibration")},
    **{f"{_INNER}.{name}": "" for name in ("quantize_tool", "quant_calibration_interface", "utils.evaluator")},
    **{f"{base}.tensor_decompose": ".tensor_decompose" for base in (_ROOT, _INNER)},
    **{
        f"{base}.nn{name}": ".nn"
        for base in (_ROOT, _INNER)
        for name in (
            "",
            ".module",
            ".module.quantization",
            *(f".module.quantization.conv{each}" for each in ("1d", "2d", "3d", "_transpose_1d", "_transpose_2d")),
            *(f".module.quantization.{each}" for each in ("linear", "lstm", "gru", "matmul", "quant_calibration_op")),
        )
    },
}
"""AMCT's modules that have ours in their place: the module inside of `amct_opt.amct.pytorch`, by AMCT's name."""


class Internal(Exception):
    """A test uses something of AMCT that is not public."""


class _Stub:
    """Something that is not public: it is an error to call it."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> _Stub:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub(f"{self._name}.{name}")

    def __call__(self, *_: object, **__: object) -> object:
        raise Internal(self._name)

    def __contains__(self, _: object) -> bool:
        return False

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        raise Internal(self._name)


class _Named(ModuleType):
    """A module under AMCT's name: what ours has, otherwise stand-ins."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        place = _PUBLIC.get(self.__name__)
        if place is not None:
            ours = import_module(f"amct_opt.amct.pytorch{place}")
            try:
                return getattr(ours, name)
            except AttributeError:
                pass
            except ImportError as e:
                return _LeftOut(str(e))
        return MagicMock() if name == "LOGGER" else _Stub(f"{self.__name__}.{name}")


class LeftOut(Exception):
    """A test uses a name that is left out."""


class _LeftOut:
    def __init__(self, reason: str):
        self._reason = reason

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> object:
        raise LeftOut(self._reason)


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _ROOT:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Named(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run: attributes are found on demand."""


def pytest_configure(config: Any) -> None:
    sys.meta_path.insert(0, _Finder())


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    """Write the outcome of a test: its class, and the last line of the error."""
    if call.when != "call" and call.excinfo is None:
        return
    error = None if call.excinfo is None else call.excinfo.value
    chain: list[BaseException] = []
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    kinds = {LeftOut: "left out", Internal: "internals", AttributeError: "internals"}
    kind = next((name for each in chain for kind, name in kinds.items() if isinstance(each, kind)), "differs")
    text = f"{type(chain[0]).__name__}: {str(chain[0]).splitlines()[0] if str(chain[0]) else ''}" if chain else ""
    with Path(os.environ["AMCT_TESTS_RESULTS"]).open("a") as results:
        results.write(f"{'passed' if not chain else kind}\t{item.nodeid.removeprefix(FOLDER + '/')}\t{text[:160]}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests, and print their outcomes. Returns 1 if a test differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("files", nargs="*", default=FILES)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(given.path / "tests", Path(folder) / "tests")
        results = Path(folder) / "results"
        results.touch()
        paths = [str(Path(__file__).parent), *sys.path, folder]
        environment = {
            **os.environ,
            "AMCT_TESTS_RESULTS": str(results),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        tests = [f"{FOLDER}/{name}" for name in given.files]
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "amct_tests", "-p", "no:cacheprovider"]
        command += ["-n", "0", "--continue-on-collection-errors", *tests]
        log = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        rows = [line.split("\t") for line in results.read_text().splitlines()]
        if not rows:
            print(log.stdout[-2000:], log.stderr[-2000:], file=sys.stderr)
    for kind, name, text in rows:
        if kind != "passed":
            print(f"{kind:10} {name}  {text}")
    counts = Counter(kind for kind, *_ in rows)
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()), f"of {len(rows)}")
    return 1 if counts["differs"] or not rows else 0


if __name__ == "__main__":
    raise SystemExit(main())
