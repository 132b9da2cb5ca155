"""Imports PyTorch modules and programs as models of ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ...ir.functions import main_function, set_input_orders, set_layer_order
from ...rewriting import layer_of
from ...session import Session
from ...support.diagnostics import CompileError
from ...transforms.fusion.fuse_modules import fuse_modules
from .. import onnx
from ..options import take_only
from .archive import load_program
from .library import torch_library
from .names import fused_chains
from .program import input_orders, module_names, to_onnx, traced


def read(path: Path, session: Session) -> ModuleOp:
    """The program in a `.pt2` file as a module in `nn`. Nothing in the file is run, or unpickled.

    Raises CompileError, located at the file, if torch is not installed, and for a file that is not such a program.
    """
    take_only(session.imports, ("inputs", "outputs", "shapes"), str(path))
    torch = torch_library(str(path))
    return _module(torch, load_program(torch, path), path, session)


def from_module(module: Any, session: Session, inputs: Any = None, dynamic_shapes: Any = None) -> ModuleOp:
    """An `nn.Module` in evaluation mode as a module in `nn`, traced on example inputs.

    Layers have the paths of their modules, weights their keys of the state dict, inputs the names of the arguments of `forward`;
    results the keys of a returned dictionary, otherwise `output`, or `output_0` and so on. Raises CompileError for a
    module that cannot be traced or represented.
    """
    name = type(module).__name__
    torch = torch_library(name)
    return _module(torch, traced(torch, module, inputs, dynamic_shapes), Path(name), session)


def from_program(program: Any, session: Session, inputs: Any = None, dynamic_shapes: Any = None) -> ModuleOp:
    """A `torch.export.ExportedProgram` as a module in `nn`, named like `from_module`. Raises CompileError like it."""
    if inputs is not None or dynamic_shapes is not None:
        hint = "give them to torch.export.export"
        raise CompileError("the inputs and shapes of an exported program are fixed", where="program", hint=hint)
    return _module(torch_library("program"), program, Path("program"), session)


def _module(torch: Any, program: Any, path: Path, session: Session) -> ModuleOp:
    model, changed = to_onnx(torch, program, str(path))
    if changed:
        names = ", ".join(changed)
        session.warn(f"{path}: each call changes {names}; the imported module always starts from the stored values")
    module = onnx.from_model(model, session, path)
    if chains := fused_chains(model.graph):
        fuse_modules(module, chains, session)
    set_input_orders(main_function(module), input_orders(program))
    set_layer_order(main_function(module), module_names(program), map(layer_of, module.walk()))
    return module
