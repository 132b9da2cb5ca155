"""IREE: compiles a module to native code by way of linalg. A second, independent compiler of the same integers."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from amct_opt.dialects.nn.shapes import element_of
from amct_opt.ir.dtypes import numpy_dtype
from amct_opt.ir.functions import body, input_names, main_function, output_names, return_op
from amct_opt.runtime.executor import RunError, Watch, check_input
from amct_opt.runtime.kernels import Array
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError, first_line
from amct_opt.support.files import replacing, scratch
from amct_opt.targets.graph import source
from amct_opt.transforms.inline_fused import inline_fused

from .target import SCOPE, LinalgTarget

COMPILE_OPTIONS = (
    "--iree-hal-target-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-llvmcpu-stack-allocation-limit=65536",  # the runtime's threads have stacks of 128 KiB; the default is 32 KiB
)
"""The options of `iree-compile` for a module in linalg."""
_UNKNOWN = re.compile(r"func\.func @\w+\([^)]*\?")
"""An input with an unknown size, in the text of a function."""
_SIZES = "the module has unknown sizes, with which IREE compiles less: --infer-shapes=input_shape=NAME:SIZES sets them"
_ABSENT = "IREE is not installed"
_INSTALL = "pip install 'amct-opt[iree]'"


class IreeModule:
    """A module that IREE compiled, run by input and output name like an `Executable`.

    The code is kept under `$XDG_CACHE_HOME/amct-opt/iree` (by default in ~/.cache), by a hash of the text, the options and the
    version of IREE, so that a module is compiled once; weights are not part of it.
    """

    def __init__(self, module: ModuleOp, session: Session, watched: Sequence[SSAValue] = ()):
        """`watched` values are shown in every run. Raises CompileError if IREE is not installed, or an operation has no form in
        linalg, located there.
        """
        runtime = _imported("iree.runtime")
        function = main_function(module)
        self.inputs: list[str] = input_names(function)
        self.outputs: list[str] = output_names(function)
        self._watched = watched
        self._types = [cast("TensorType[Any]", a.type) for a in body(function).args]
        self._results = [numpy_dtype(element_of(v)) for v in (*return_op(function).arguments, *watched)]
        with scratch() as folder:
            text = folder / "model.mlir"
            weights = [p for p in LinalgTarget().write(_returning(module, watched), text, session) if p != text]
            config = runtime.Config("local-task")
            parameters = runtime.ParameterIndex()
            for each in weights:
                parameters.load(str(each))  # mapped, also when the folder is gone
            archive = runtime.create_io_parameters_module(config.vm_instance, parameters.create_provider(scope=SCOPE))
            code = runtime.VmModule.mmap(config.vm_instance, str(_compiled(text)))
            self._main: Any = runtime.load_vm_modules(archive, code, config=config)[-1].main

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None) -> dict[str, Array]:
        """Arrays by output name; `watch` is called with each watched value. Raises RunError for inputs that do not fit."""
        import numpy as np

        if missing := [n for n in self.inputs if n not in inputs]:
            raise RunError(f"no data for input {', '.join(missing)}")
        arrays = [inputs[name] for name in self.inputs]
        for name, array, type_ in zip(self.inputs, arrays, self._types, strict=True):
            check_input(name, array, type_)
        found: Any = self._main(*(_stored(a) for a in arrays))
        rows: list[Any] = list(found) if len(self._results) > 1 else [found]
        results = [np.asarray(each) for each in rows]
        typed = [a if a.dtype == dtype else a.view(dtype) for a, dtype in zip(results, self._results, strict=True)]
        if watch is not None:
            for value, array in zip(self._watched, typed[len(self.outputs) :], strict=True):
                watch(value, array)
        return dict(zip(self.outputs, typed, strict=False))


def _returning(module: ModuleOp, values: Sequence[SSAValue]) -> ModuleOp:
    """A copy that also returns these values, which may be inside fused regions."""
    if not values:
        return module
    copies: dict[SSAValue, SSAValue] = {}
    copy = module.clone(copies)
    shown = [source(copies[value]) for value in values]
    inline_fused(copy)
    function = main_function(copy)
    old = return_op(function)
    results = [*old.arguments, *shown]
    body(function).erase_op(old)
    body(function).add_op(ReturnOp(*results))
    function.function_type = FunctionType.from_lists(function.function_type.inputs.data, [v.type for v in results])
    function.res_attrs = None
    return copy


def _stored(array: Array) -> Array:
    """Unsigned integers in the form of linalg: signed integers of the same width."""
    import numpy as np

    return np.ascontiguousarray(array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array)


def _compiled(text: Path) -> Path:
    """The code of a text, compiled unless it was before, for this processor and by this version of IREE."""
    source = text.read_bytes()
    key = hashlib.sha256(source)
    for part in (*COMPILE_OPTIONS, _compiler_version(), _processor()):
        key.update(part.encode())
    for path in _cache().glob(f"{key.hexdigest()}-*.vmfb"):
        if path == _named(key.hexdigest(), path.read_bytes()):
            return path
        path.unlink(missing_ok=True)
    compiler = _imported("iree.compiler")
    try:
        code: bytes = compiler.compile_file(str(text), extra_args=COMPILE_OPTIONS)
    except Exception as e:  # IREE's have no other base
        hint = _SIZES if _UNKNOWN.search(source.decode("utf-8")) else ""
        raise CompileError(f"IREE does not compile the module: {_reason(str(e))}", hint=hint) from None
    path = _named(key.hexdigest(), code)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(code)
    return path


def _named(key: str, code: bytes) -> Path:
    """The file of some code: its name identifies the inputs of the compilation and, so that a damaged file is noticed,
    the content.
    """
    return _cache() / f"{key}-{hashlib.sha256(code).hexdigest()}.vmfb"


def _processor() -> str:
    """The instruction sets of this machine's processor: folders may be shared between machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _compiler_version() -> str:
    """The version of the compiler, found without importing it, which takes 60 MB."""
    try:
        return version("iree-base-compiler")
    except PackageNotFoundError:
        raise CompileError(_ABSENT, hint=_INSTALL) from None


def _reason(message: str) -> str:
    """The output of `iree-compile` from its first error on; how the process ended if it printed nothing."""
    before, _, printed = message.partition("Diagnostics:\n")
    printed = printed.partition("\n\nInvoked with:")[0].strip()
    return first_line(printed.partition("error: ")[2] or printed) if printed else ", ".join(before.splitlines())


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "amct-opt" / "iree"


def _imported(name: str) -> Any:
    """A module of IREE. Raises CompileError, which says how to install it."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise CompileError(_ABSENT, hint=_INSTALL) from None
