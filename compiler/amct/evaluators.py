"""AMCT's evaluators: that of raw binaries, and files of a user's own as AMCT's commands take them."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..data import load_evaluator
from ..flows.saving import framework_of
from ..pipelines.options import shapes
from ..session import ImportOptions
from ..support.diagnostics import CompileError
from .shared import Adapter, AutoCalibrationEvaluatorBase, Frame, as_in_amct

Array = np.ndarray[Any, np.dtype[Any]]

_TYPES = tuple(np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64))
TYPES = {str(dtype): dtype for dtype in (*map(np.dtype, ("float16", "float32", "float64", "bool")), *_TYPES)}
"""The data types of raw binaries, by AMCT's names."""


class RawEvaluator(AutoCalibrationEvaluatorBase):
    """Runs a model on raw binaries, a run per file. The module of each framework calls it ModelEvaluator.

    `accuracy_based_auto_calibration` takes a subclass, which defines `metric_eval` and measures in `evaluate`.
    """

    @as_in_amct
    def __init__(self, data_dir: str, input_shape: str, data_types: str):
        """`data_dir` is a folder for each input, `a/;b/`, in the order of `input_shape`, `x:1,3,224,224;ids:1,16`, and of
        `data_types`, `float32;int64`. Files are read in the order of their names.

        Folders are read at the first run, so that a script may fill them later. Raises CompileError for malformed text.
        """
        self._shapes = shapes(input_shape, ",", "input_shape")
        folders, types = [Path(each) for each in data_dir.split(";") if each], [t for t in data_types.split(";") if t]
        if not len(self._shapes) == len(folders) == len(types):
            counts = f"{len(self._shapes)} inputs, {len(folders)} folders and {len(types)} types"
            raise CompileError(f"input_shape, data_dir and data_types list {counts}")
        if unknown := [t for t in types if t not in TYPES]:
            raise CompileError(f"data_types has '{unknown[0]}'", hint=f"types are {', '.join(TYPES)}")
        self._types = [TYPES[t] for t in types]
        self._folders = folders

    @cached_property
    def _files(self) -> Sequence[Sequence[Path]]:
        """The files of each input. Raises CompileError for missing folders, and different numbers of files."""
        for folder in self._folders:
            if not folder.is_dir():
                raise CompileError("the folder does not exist", where=str(folder))
        files = [sorted(f for f in folder.iterdir() if f.is_file()) for folder in self._folders]
        if len({len(each) for each in files}) > 1 or not files[0]:
            where = ";".join(map(str, self._folders))
            raise CompileError("the folders must have equally many files, at least one", where=where)
        return files

    def calibration(self, *model: Any) -> Any:
        """Run a model, given in the form of the framework; an additional number is that of the runs, otherwise there is one for
        each file. Raises CompileError for more runs than files, missing folders, different numbers of files, and files of another
        size.
        """
        return self.evaluate(*model)

    @as_in_amct
    def evaluate(self, *model: Any) -> Any:
        """Runs the evaluation of the model. Nothing is measured."""
        *arguments, last = model
        runs = last if isinstance(last, int) else len(self._files[0])
        if not 0 < runs <= len(self._files[0]):
            raise CompileError(f"{runs} runs are asked for, there are {len(self._files[0])} files")
        self.run(arguments if isinstance(last, int) else model, self._batches(runs))

    def run(self, model: Sequence[Any], batches: Iterator[dict[str, Array]]) -> None:
        """Run a model of the framework on batches, arrays by input."""
        raise NotImplementedError

    def _batches(self, runs: int) -> Iterator[dict[str, Array]]:
        for files in list(zip(*self._files, strict=True))[:runs]:
            given = zip(self._shapes.items(), files, self._types, strict=True)
            yield {name: _array(file, dtype, shape) for (name, shape), file, dtype in given}


def _array(file: Path, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    numbers = np.fromfile(file, dtype)
    try:
        return numbers.reshape(shape)
    except ValueError:
        message = f"has {numbers.size} numbers of {dtype}, which do not fit the shape {list(shape)}"
        raise CompileError(message, where=str(file)) from None


_FRAMEWORKS = ("onnx", "tensorflow", "caffe")
_OF_AMCT = re.compile(rf"^\s*(?:from|import)\s+amct_(?:{'|'.join(_FRAMEWORKS)})\b", re.MULTILINE)


def evaluator_for(path: Path, model: Path, imports: ImportOptions, folder: Path) -> Any:
    """The evaluator in a Python file, which is executed, in the form that the commands call.

    A file that is written for AMCT may import amct_onnx, amct_tensorflow and amct_caffe: these names stand for the modules of
    this folder, and caffe for its nets, which show calibration what they run. Evaluators of such a file, and those derived from
    AutoCalibrationEvaluatorBase, get the model as in AMCT: a path, two paths, a graph and its outputs. `folder` is for files
    in between. Raises CompileError as `load_evaluator`.
    """
    of_amct = path.is_file() and _OF_AMCT.search(path.read_text("utf-8", errors="replace")) is not None
    with _amct_modules() if of_amct else nullcontext():
        found = load_evaluator(path)
    if not of_amct and not isinstance(found, AutoCalibrationEvaluatorBase):
        return found
    return _Adapter(found, _frame(model, imports), folder)


def _frame(model: Path, imports: ImportOptions) -> Frame:
    module: Any = import_module(f".{framework_of(model)}", __package__)
    return module.frame_for(model, imports)


class _Adapter(Adapter):
    """Runs the methods of an evaluator where AMCT's names can be imported."""

    def calibration(self, model: Any) -> None:
        with _amct_modules():
            super().calibration(model)

    def evaluate(self, model: Any) -> Any:
        with _amct_modules():
            return super().evaluate(model)

    def metric_eval(self, original_metric: Any, new_metric: Any) -> Any:
        with _amct_modules():
            return super().metric_eval(original_metric, new_metric)


@contextmanager
def _amct_modules() -> Generator[None]:
    """A context in which AMCT's module names stand for the modules of this folder."""
    named = _stand_ins()
    before = {name: sys.modules.get(name) for name in named}
    sys.modules.update(named)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def _stand_ins() -> dict[str, ModuleType]:
    base = ModuleType("auto_calibration")
    vars(base)["AutoCalibrationEvaluatorBase"] = AutoCalibrationEvaluatorBase
    named: dict[str, ModuleType] = {}
    for framework in _FRAMEWORKS:
        name = f"amct_{framework}"
        named[name] = import_module(f".{framework}", __package__)
        named.update({f"{name}.common": ModuleType("common"), f"{name}.common.auto_calibration": base})
        named[f"{name}.accuracy_based_auto_calibration"] = base
    named["caffe"] = named["amct_caffe"]
    return named
