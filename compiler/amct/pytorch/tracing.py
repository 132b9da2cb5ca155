"""Traces a live `nn.Module` to a model of ONNX, with the inputs and results of its calls."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from onnx import ModelProto, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from ...api import Loaded
from ...formats.onnx.file import Initializer, write_model
from ...frontends import onnx
from ...frontends.torch.batches import array
from ...frontends.torch.library import torch_library
from ...frontends.torch.program import input_orders, module_names, to_onnx, traced
from ...ir.functions import input_names, main_function, set_input_orders, set_layer_order
from ...ir.verification import verify
from ...rewriting import layer_of
from ...runtime.executor import Array, Executable
from ...session.universe import new_session
from ...support.diagnostics import CompileError, first_line
from ...support.files import made
from ..shared import AmctTypeError, as_in_amct

Axes = Mapping[str, "Mapping[int, str] | Sequence[int]"]
"""The axes whose size stays open, by the names of inputs and results, with the names of the sizes (`torch.onnx.export`)."""
_RUNS = "batch"
"""The name of the first axis of inputs, which stays open for calibration."""


class Traced(NamedTuple):
    """A model of ONNX, and how calls of its module pass inputs and return results."""

    model: ModelProto
    name: str
    """The class of the module, for messages."""
    signature: inspect.Signature
    arguments: tuple[str, ...]
    """The arguments of `forward` that were given."""
    results: Any
    """The tree of torch that says how results are returned."""
    returned: tuple[bool, ...]
    """Whether each leaf of the tree is a tensor; the others are None."""
    orders: Sequence[Sequence[int]]
    """The axes of the inputs as they lie in memory."""
    modules: Sequence[str]
    """The paths of the modules, in the order in which they were made."""

    def load(self) -> Loaded:
        """The model as a module in `nn`, with a session of its own."""
        session = new_session()
        module = onnx.from_model(self.model, session, Path(self.name))
        set_input_orders(main_function(module), self.orders)
        set_layer_order(main_function(module), self.modules, map(layer_of, module.walk()))
        verify(module)
        return Loaded(module, session)

    def tensors(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The tensors among the arguments of a call, in the order of the model's inputs. Raises CompileError for others."""
        given = _bound(self.signature, arguments, named, self.name)
        if tuple(given) != self.arguments:
            message = f"is called with {', '.join(given)}; input_data has {', '.join(self.arguments)}"
            raise CompileError(message, where=self.name)
        return _tensors(list(given.values()))

    def returns(self, results: Sequence[Any]) -> Any:
        """Results in the form in which the module returns them."""
        remaining = iter(results)
        leaves = [next(remaining) if each else None for each in self.returned]
        return _trees().tree_unflatten(leaves, self.results)


def trace(
    model: Any,
    input_data: Any,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Axes | None = None,
) -> Traced:
    """Trace a module in evaluation mode, whatever its own mode is; the arguments are those of `torch.onnx.export`.

    An axis that is declared open, but that the model fixes, gives a warning. Raises CompileError for a module that cannot be
    exported.
    """
    name = type(model).__name__
    torch = torch_library(name)
    if not isinstance(model, torch.nn.Module):
        raise AmctTypeError(CompileError(f"the model must be a torch.nn.Module, not a {name}"))
    signature = inspect.signature(model.forward)
    arguments, named = _example(torch, input_data)
    given = _bound(signature, arguments, named, name)
    opened = _Opened(given, input_names or (), dynamic_axes or {})
    shapes: Any = None
    if any(opened.axes):
        arguments, named = opened.enlarged(arguments), opened.enlarged(named)
        axis = torch.export.Dim.AUTO
        shapes = opened.each(arguments if not named else given, lambda _, axes: dict.fromkeys(axes, axis) or None)
    with _evaluating(model):
        program = traced(torch, model, dict(opened.enlarged(given)) if named else arguments, shapes)
        proto, changed = to_onnx(torch, program, name, input_names or (), output_names or ())
    session = new_session()
    if changed:
        session.warn(
            f"{name}: each call changes {', '.join(changed)}; the quantized model always starts from their values"
        )
    for fixed in opened.name_sizes(proto):
        session.warn(f"{name}: {fixed}")
    specs = [spec.arg for spec in program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    returned = tuple(not hasattr(each, "value") for each in specs)
    tree, orders, modules = program.call_spec.out_spec, input_orders(program), module_names(program)
    return Traced(proto, name, signature, tuple(given), tree, returned, orders, modules)


def trace_open(model: Any, input_data: Any, fixed: Traced, dynamic_axes: Axes | None) -> Traced:
    """The module traced with the first axis of each input open, under the names of `fixed`; `fixed` if that cannot be."""
    names = [i.name for i in fixed.model.graph.input]
    axes: dict[str, dict[int, str]] = {
        name: {0: _RUNS, **dict.fromkeys((dynamic_axes or {}).get(name, ()), _RUNS)}
        for name, value in zip(names, fixed.model.graph.input, strict=True)
        if value.type.tensor_type.shape.dim
    }
    if all(
        set(axes.get(value.name, ())) <= {i for i, dim in enumerate(value.type.tensor_type.shape.dim) if dim.dim_param}
        for value in fixed.model.graph.input
    ):
        return fixed
    try:
        return trace(model, input_data, names, [o.name for o in fixed.model.graph.output], axes)
    except CompileError:
        return fixed


def write(traced: Traced, path: Path, properties: Mapping[str, str]) -> None:
    """Write the model, with these properties as metadata; arrays of a model above 2 GB go into a separate file. It
    loses its arrays.
    """
    model = traced.model
    for key, value in properties.items():
        model.metadata_props.add(key=key, value=value)
    arrays = [Initializer(t.name, numpy_helper.to_array(t)) for t in model.graph.initializer]
    del model.graph.initializer[:]
    top = ModelProto()
    top.CopyFrom(model)
    top.ClearField("graph")
    with made(path.parent):
        write_model(top, model.graph, arrays, path, external=False)


def watched(model: Any, traced: Traced, names: Sequence[str], see: Callable[[Mapping[str, Array]], object]) -> Any:
    """A copy of a module whose calls pass their inputs, by these names, to `see`. Raises CompileError if it has no copy."""

    def show(_: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        see(dict(zip(names, map(array, traced.tensors(arguments, named)), strict=True)))

    see = as_in_amct(see)
    watching = copied(model)
    watching.register_forward_pre_hook(show, with_kwargs=True)
    return watching


def computing(model: Any, traced: Traced, module: ModuleOp) -> Any:
    """A copy of a module that computes what a module of `nn` does, on the same arguments, and returns results in the same form.

    PyTorch computes it or, if it lacks an operation (a recurrent layer with quantized states), the interpreter.
    """
    network = _network(module)

    def forward(*arguments: Any, **named: Any) -> Any:
        found = network(*traced.tensors(arguments, named))
        return traced.returns([*found.values()] if isinstance(found, Mapping) else [found])

    computing = copied(model)
    computing.forward = forward
    return computing


def _network(module: ModuleOp) -> Callable[..., Any]:
    from ...api.torch import fake_quantized  # imports torch

    try:
        return cast("Callable[..., Any]", fake_quantized(module))
    except CompileError:
        executable, names = Executable(module), input_names(main_function(module))
        torch = torch_library("torch")

        def run(*tensors: Any) -> dict[str, Any]:
            found = executable.run(dict(zip(names, map(array, tensors), strict=True)))
            return {name: torch.from_numpy(value) for name, value in found.items()}

        return run


def copied(model: Any) -> Any:
    """A copy of a module. Raises CompileError if it cannot be copied."""
    try:
        return copy.deepcopy(model)
    except Exception as e:  # code of the module may raise anything
        message = f"cannot be copied: {first_line(e)}"
        raise CompileError(message, where=type(model).__name__, hint="copy.deepcopy(model) says more") from e


def names_of(loaded: Loaded) -> Sequence[str]:
    """The names of a module's inputs."""
    return input_names(main_function(loaded.module))


class _Opened:
    """Axes that stay open, by the tensors among the arguments."""

    def __init__(self, given: Mapping[str, Any], input_names: Sequence[str], axes: Axes):
        names = [name for key, value in given.items() for name in _leaf_names(key, value)]
        self._names = [*input_names, *names[len(input_names) :]]
        self.axes = [_axes(axes.get(name, ())) for name in self._names]

    def each(self, tree: Any, function: Callable[[Any, Mapping[int, str]], Any]) -> Any:
        """A tree of arguments with the result of a function of each tensor and its axes; everything but tensors becomes None."""
        remaining = iter(self.axes)

        def apply(x: Any) -> Any:
            return function(x, next(remaining)) if hasattr(x, "detach") else None

        return _trees().tree_map(apply, tree)

    def enlarged(self, tree: Any) -> Any:
        """Arguments whose open axes are enlarged to at least two: torch fixes axes of size one."""
        remaining = iter(self.axes)

        def several(x: Any) -> Any:
            for axis in next(remaining) if hasattr(x, "detach") else ():
                if x.shape[axis] == 1:
                    x = x.repeat_interleave(2, axis)
            return x

        return _trees().tree_map(several, tree)

    def name_sizes(self, model: ModelProto) -> list[str]:
        """Give the sizes of a model their names, in place. Returns a line about each axis that the model fixes."""
        fixed: list[str] = []
        names: dict[str, str] = {}
        for value, axes in zip(model.graph.input, self.axes, strict=False):
            for axis, name in axes.items():
                dim = value.type.tensor_type.shape.dim[axis]
                if dim.dim_param:
                    names[dim.dim_param] = name
                else:
                    fixed.append(f"axis {axis} of input '{value.name}' is fixed to {dim.dim_value} by the model")
        graph = model.graph
        for value in (*graph.input, *graph.output, *graph.value_info):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in names:
                    dim.dim_param = names[dim.dim_param]
        return fixed


def _axes(given: Mapping[int, str] | Sequence[int]) -> dict[int, str]:
    if isinstance(given, Mapping):
        return {axis: str(name) for axis, name in given.items()}
    return {axis: f"axis_{axis}" for axis in given}


def _leaf_names(name: str, value: Any) -> list[str]:
    count = len(_tensors(value))
    return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in _trees().tree_leaves(tree) if hasattr(leaf, "detach")]


def _trees() -> Any:
    return import_module("torch.utils._pytree")


def _example(torch: Any, input_data: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, in order and by name: a dictionary at the end of a tuple has arguments by name."""
    if isinstance(input_data, torch.Tensor):
        return (input_data,), {}
    if isinstance(input_data, Mapping):
        return (), dict(cast("Mapping[str, Any]", input_data))
    if not isinstance(input_data, Sequence) or not input_data:
        raise CompileError("input_data must be a tensor or a tuple of arguments")
    values = tuple(cast("Sequence[Any]", input_data))
    if isinstance(values[-1], dict):
        return values[:-1], cast("dict[str, Any]", values[-1])
    return values, {}


def _bound(signature: inspect.Signature, arguments: Any, named: Mapping[str, Any], name: str) -> dict[str, Any]:
    try:
        return dict(signature.bind(*arguments, **named).arguments)
    except TypeError as e:
        raise CompileError(f"the arguments do not fit forward: {e}", where=name) from None


@contextmanager
def _evaluating(model: Any) -> Generator[None]:
    """The module and those in it are in evaluation mode meanwhile."""
    modes = [(each, each.training) for each in model.modules()]
    for each, _ in modes:
        each.training = False
    try:
        yield
    finally:
        for each, mode in modes:
            each.training = mode
