"""PyTorch modules in `quantize` and `evaluate` of the public Python API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp

from .diagnostics import CompileError
from .dialects.nn.shapes import shape_of
from .frontends.torch import from_module, from_program
from .frontends.torch.batches import Arguments, array, batches_of
from .frontends.torch.library import torch_library
from .ir.functions import input_names, main_function
from .ir.verification import verify
from .runtime.executor import Array
from .session import Session


def load_with(model: Any, loader: Any, session: Session) -> tuple[ModuleOp, Iterator[Mapping[str, Array]]]:
    """A module of PyTorch or an exported program as a module in `nn`, and the inputs in the batches of a loader.

    The first batch traces the model; the first axis of each input stays open where the model allows it, otherwise a note says
    that it is fixed. Raises CompileError for batches without the inputs.
    """
    arguments, batches = Arguments.of(model), batches_of(loader)
    first = next(batches, None)
    if first is None:
        raise CompileError("gave no batch", where="loader")
    if hasattr(model, "forward"):
        torch = torch_library(type(model).__name__)
        inputs = {name: _several(torch, value) for name, value in arguments.inputs(first).items()}
        shapes = {name: {0: torch.export.Dim.AUTO} if getattr(x, "ndim", 0) else None for name, x in inputs.items()}
        module = from_module(model, session, inputs, shapes)
    else:
        module = from_program(model, session)
    verify(module)
    function = main_function(module)
    names = input_names(function)
    for name, value in zip(names, function.body.block.args, strict=True):
        sizes = shape_of(value)
        if sizes and sizes[0] != DYNAMIC_INDEX:
            session.note(f"the model fixes the first axis of '{name}' to {sizes[0]}: batches must have that size")
    found = (arguments.inputs(batch) for batch in chain([first], batches))
    return module, ({name: array(x) for name, x in zip(names, each.values(), strict=True)} for each in found)


def _several(torch: Any, value: Any) -> Any:
    """An example of at least two samples: torch fixes an axis of size one."""
    try:
        tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        message = f"the batch holds a {type(value).__name__} where the model takes a tensor"
        raise CompileError(message, where="loader, batch 0") from None
    return torch.cat([tensor, tensor]) if tensor.ndim and tensor.shape[0] == 1 else tensor


def labelled(loader: Any, module: ModuleOp) -> tuple[dict[str, Array], Array]:
    """The inputs and the labels of all batches, one after the other. Raises CompileError for batches without them."""
    names = input_names(main_function(module))
    arguments = Arguments(names, len(names))
    batches = [*batches_of(loader)]
    if not batches:
        raise CompileError("gave no batch", where="loader")
    inputs = [arguments.inputs(batch) for batch in batches]
    arrays = {name: np.concatenate([array(each[name]) for each in inputs]) for name in names}
    return arrays, np.concatenate([np.atleast_1d(array(arguments.labels(batch))) for batch in batches])
