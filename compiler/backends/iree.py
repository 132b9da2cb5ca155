"""IREE: a module as native code, by way of linalg. A second, independent compiler of the same integers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, TensorType

from ..diagnostics import CompileError, first_line
from ..files import replacing
from ..ir.dtypes import numpy_dtype
from ..ir.functions import body, input_names, main_function, output_names, return_op
from ..runtime.executor import RunError, check_input
from ..runtime.kernels import Array
from ..session import Session
from ..targets.linalg import SCOPE, LinalgTarget

_OPTIONS = (
    "--iree-hal-target-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-demote-f64-to-f32=false",
)
_CHANNELS_LAST = (
    "--iree-preprocessing-pass-pipeline=builtin.module(util.func(iree-preprocessing-convert-conv-to-channels-last))"
)
_INSTALL = "pip install 'amct-opt[iree]'"


class IreeModule:
    """A module that IREE compiled, run by input and output name like an `Executable`.

    The code is kept under `$XDG_CACHE_HOME/amct-opt/iree` (by default in ~/.cache), by a hash of the text, the options and the
    version of IREE, so that a module is compiled once; weights are not part of it.
    """

    def __init__(self, module: ModuleOp, session: Session):
        """Raises CompileError if IREE is not installed, or an operation has no form in linalg, located there."""
        runtime = _imported("iree.runtime")
        function = main_function(module)
        self.inputs: list[str] = input_names(function)
        self.outputs: list[str] = output_names(function)
        self._types = [cast("TensorType[Any]", a.type) for a in body(function).args]
        results = [cast("TensorType[Any]", v.type) for v in return_op(function).arguments]
        self._results = [numpy_dtype(t.element_type) for t in results]
        with TemporaryDirectory(prefix="amct-") as folder:
            text = Path(folder) / "model.mlir"
            weights = [p for p in LinalgTarget().write(module, text, session) if p != text]
            config = runtime.Config("local-task")
            parameters = runtime.ParameterIndex()
            for each in weights:
                parameters.load(str(each))  # mapped, also when the folder is gone
            archive = runtime.create_io_parameters_module(config.vm_instance, parameters.create_provider(scope=SCOPE))
            code = runtime.VmModule.mmap(config.vm_instance, str(_compiled(text)))
            self._main: Any = runtime.load_vm_modules(archive, code, config=config)[-1].main

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays by output name. Raises RunError for inputs that do not fit."""
        import numpy as np

        if missing := [n for n in self.inputs if n not in inputs]:
            raise RunError(f"no data for input {', '.join(missing)}")
        arrays = [inputs[name] for name in self.inputs]
        for name, array, type_ in zip(self.inputs, arrays, self._types, strict=True):
            check_input(name, array, type_)
        found: Any = self._main(*(_stored(a) for a in arrays))
        rows: list[Any] = list(found) if len(self.outputs) > 1 else [found]
        results = [np.asarray(each) for each in rows]
        typed = [a if a.dtype == dtype else a.view(dtype) for a, dtype in zip(results, self._results, strict=True)]
        return dict(zip(self.outputs, typed, strict=True))


def _stored(array: Array) -> Array:
    """Unsigned integers as linalg stores them: in signed ones of the same width."""
    import numpy as np

    return np.ascontiguousarray(array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array)


def compile_options(text: str) -> list[str]:
    """What `iree-compile` is told for a module in linalg.

    Integer convolutions are twice as fast with their channels last. IREE 3.13 fails to move the channels of padding with unknown
    sizes, so a module with unknown sizes stays as it is.
    """
    return list(_OPTIONS) if "?x" in text else [*_OPTIONS, _CHANNELS_LAST]


def _compiled(text: Path) -> Path:
    """The code of a text, compiled unless it was before."""
    compiler = _imported("iree.compiler")
    source = text.read_text("utf-8")
    options = compile_options(source)
    key = hashlib.sha256(source.encode())
    for part in (*options, str(_imported("iree.compiler.version").VERSION)):
        key.update(part.encode())
    path = _cache() / f"{key.hexdigest()}.vmfb"
    if not path.exists():
        try:
            code: bytes = compiler.compile_file(str(text), extra_args=options)
        except Exception as e:  # IREE's have no other base
            raise CompileError(f"IREE does not compile the module: {_reason(str(e))}") from None
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(code)
    return path


def _reason(message: str) -> str:
    """The first error that `iree-compile` printed."""
    return first_line(message.partition("error: ")[2] or message)


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "amct-opt" / "iree"


def _imported(name: str) -> Any:
    """A module of IREE. Raises CompileError, which says how to install it."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise CompileError("--engine iree requires IREE", hint=_INSTALL) from None
