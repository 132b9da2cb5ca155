"""Exports a module to a program, and the program to a model of ONNX."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, cast

from onnx import GraphProto, ModelProto

from ...support.diagnostics import CompileError, first_line
from .fake_quantization import with_plain_points
from .forms import with_exportable_forms
from .library import quiet
from .names import name_layers
from .nodes import arguments_of, module_path, operator_name
from .outputs import name_outputs, output_names

_TRAINING = "in training mode, in which batch norms and dropouts compute something else"
_MODES = {"batch_norm": "training", "dropout": "train", "dropout_": "train"}
"""Operators that compute something else in training, and the argument that selects it."""
_MODELESS = frozenset({"GraphModule", "GuardsFn", "FakeQuantizeBase", "ObserverBase"})
_FUNCTIONAL = frozenset({"FloatFunctional", "FXFloatFunctional"})


def traced(torch: Any, module: Any, inputs: Any, dynamic_shapes: Any) -> Any:
    """The exported program of a module, on example inputs: a tensor, a sequence of arguments, or arguments by name.

    Of a module that torch.compile made, the original one is exported, whose names are its author's. Raises CompileError, located
    at the module's class, for a module in training mode, without inputs, and for one that torch cannot export.
    """
    module = getattr(module, "_orig_mod", module)
    where = type(module).__name__
    if inputs is None:
        hint = "amct_opt.load(module, (tensor,), dynamic_shapes=...)"
        raise CompileError("example inputs are needed to trace a module", where=where, hint=hint)
    if any(each.training for each in module.modules() if _has_modes(each)):
        raise CompileError(f"is {_TRAINING}", where=where, hint="call module.eval() first")
    ordered, named = _arguments(torch, inputs)
    try:
        with quiet(), torch.no_grad(), _functionals_called(module), _fake_quantizes_plain(torch, module):
            return torch.export.export(module, ordered, named, dynamic_shapes=dynamic_shapes)
    except Exception as e:  # code of the module may raise anything
        hint = "torch.export.export(module, inputs) says more"
        raise CompileError(f"torch cannot export it: {first_line(e)}", where=where, hint=hint) from e


def _has_modes(module: Any) -> bool:
    """Whether a module may compute something else in training: traced graphs and modules that quantize keep their mode.

    Classes of torch.nn say so by reading the mode.
    """
    kinds = [c for c in type(module).__mro__ if c.__name__ not in ("Module", "object")]
    if not kinds or not _MODELESS.isdisjoint(c.__name__ for c in kinds):
        return False
    if any(not c.__module__.startswith("torch.nn.modules.") for c in kinds):
        return True
    codes = [getattr(each, "__code__", None) for c in kinds for each in vars(c).values()]
    return any("training" in code.co_names for code in codes if code is not None)


def _check_modes(program: Any, where: str) -> None:
    """Raises CompileError for a program that was traced in training mode.

    A batch norm without statistics of its own uses those of the batch in either mode.
    """
    for node in program.graph.nodes:
        flag = _MODES.get(operator_name(node))
        if flag is None or (given := arguments_of(node)).get(flag, False) is not True:
            continue
        if given.get("running_mean", node) is not None:
            hint = "call module.eval() before torch.export.export, or move_exported_model_to_eval of torchao after it"
            raise CompileError(f"'{node.name}' is {_TRAINING}", where=where, hint=hint)


def _arguments(torch: Any, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, in order and by name."""
    if isinstance(inputs, Mapping):
        return (), dict(cast("Mapping[str, Any]", inputs))
    return ((inputs,) if isinstance(inputs, torch.Tensor) else tuple(cast("Sequence[Any]", inputs))), {}


@contextmanager
def _functionals_called(module: Any) -> Generator[None]:
    """Makes the operations of FloatFunctionals calls of these modules: only calls have a path in a traced graph."""
    names = ("add", "add_scalar", "mul", "mul_scalar", "cat", "add_relu", "matmul")
    changed = [each for each in module.modules() if not _FUNCTIONAL.isdisjoint(c.__name__ for c in type(each).__mro__)]
    for each in changed:
        methods: dict[str, Any] = {name: getattr(each, name) for name in names}
        each.forward = partial(_call, methods)
        for name in names:
            setattr(each, name, partial(each, name))
    try:
        yield
    finally:
        for each in changed:
            for name in ("forward", *names):
                del each.__dict__[name]


def _call(methods: Mapping[str, Any], name: str, *arguments: Any, **named: Any) -> Any:
    return methods[name](*arguments, **named)


@contextmanager
def _fake_quantizes_plain(torch: Any, module: Any) -> Generator[None]:
    """Makes fake quantization of torch.ao and torchao round by its present scales: modules that also observe cannot be
    exported.
    """
    changed = [each for each in module.modules() if "FakeQuantizeBase" in {c.__name__ for c in type(each).__mro__}]
    for each in changed:
        each.forward = _rounding(torch, each)
    try:
        yield
    finally:
        for each in changed:
            del each.__dict__["forward"]


def _rounding(torch: Any, quantizer: Any) -> Callable[[Any], Any]:
    """The function that a fake quantization computes by its present scales."""
    if not quantizer.fake_quant_enabled.all():
        return lambda x: x
    low, high = (getattr(quantizer.activation_post_process, name) for name in ("quant_min", "quant_max"))
    scale, zero = quantizer.scale.detach(), quantizer.zero_point.detach()
    zero = zero.round().clamp(low, high).to(torch.int32)  # one that is learned is real
    if scale.numel() > 1:
        axis = quantizer.ch_axis
        return lambda x: torch.fake_quantize_per_channel_affine(x, scale, zero, axis, low, high)
    step, shift = float(scale), int(zero)
    # written out: torch's operator cannot be traced with sizes that are not known
    return lambda x: (torch.clamp(torch.round(x * (1 / step)) + shift, low, high) - shift) * step


def to_onnx(
    torch: Any, program: Any, where: str, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> tuple[ModelProto, Sequence[str]]:
    """Converts an exported program to a model of ONNX, and finds the buffers that each call of the program changes,
    which the model does not.

    Layers have the names of their modules, weights their keys of the state dict. `inputs` and `outputs` replace the names of the
    first inputs and results. Only constants are folded: the exporter's other optimizations fold batch norms and lose their names.
    Raises CompileError for operators that ONNX cannot express, for results that are not tensors, and for more names than there
    are inputs or results.
    """
    _check_modes(program, where)
    names = _renamed(output_names(program, where), outputs, "results", where)
    try:
        with quiet(), torch.no_grad():
            plain = with_exportable_forms(torch, with_plain_points(torch, program))
            translated = torch.onnx.export(plain, dynamo=True, verbose=False, optimize=False)
            _fold_constants(translated.model)
            values = translated.model.graph.inputs
            for value, name in zip(values, _renamed([v.name for v in values], inputs, "inputs", where), strict=True):
                value.name = name
            name_outputs(translated.model, names)
            model: ModelProto = translated.model_proto
            changed = [*translated.exported_program.graph_signature.buffers_to_mutate.values()]
    except CompileError:
        raise
    except Exception as e:  # the exporter wraps anything
        message = f"torch cannot export it to ONNX: {first_line(_innermost(e))}"
        raise CompileError(message, where=_place(e, program, where)) from e
    name_layers(model.graph)
    _complete_states(model.graph)
    return model, changed


_RECURRENT = {"LSTM": 3, "GRU": 2, "RNN": 2}
"""The number of outputs of a recurrent node."""


def _complete_states(graph: GraphProto) -> None:
    """Name the outputs of recurrent nodes that nothing reads, in place: modules of PyTorch return them, the exporter drops them,
    and a layer without them is not quantized.
    """
    for node in graph.node:
        if (count := _RECURRENT.get(node.op_type)) is None:
            continue
        names = [*node.output, *[""] * (count - len(node.output))]
        del node.output[:]
        node.output.extend(name or f"{node.name}:{i}" for i, name in enumerate(names))


def input_orders(program: Any) -> list[Sequence[int]]:
    """The axes of each input of a program that is a tensor, as they are in memory, the outermost first."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    given: list[Any] = [values.get(name) for name in program.graph_signature.user_inputs]
    return [value.dim_order() for value in given if hasattr(value, "dim_order")]


def module_names(program: Any) -> list[str]:
    """The paths of the modules that a program was exported from, in the order in which they were made."""
    return [entry.fqn for entry in program.module_call_graph]


def _renamed(names: Sequence[str], given: Sequence[str], what: str, where: str) -> list[str]:
    if len(given) > len(names):
        raise CompileError(f"{len(given)} names are given for the {what}: {', '.join(names)}", where=where)
    return [*given, *names[len(given) :]]


def _place(error: BaseException, program: Any, where: str) -> str:
    """The module of the node that the exporter failed on, if it names one of the program."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    names = {name for each in chain for name in re.findall(r"translating node %(\w+)", str(each))}
    path = next((module_path(node) for node in program.graph.nodes if node.name in names), "")
    return f"{where}: node '{path}'" if path else where


def _fold_constants(graph: Any) -> None:
    """Folds constants, and lists of tensors; the operators that replace lists keep the metadata of those that made them.

    A weight that is transposed keeps its key: the product of a Linear layer with more than two axes reads the transposed one.
    """
    weights = {
        n.outputs[0].name: n.inputs[0].name
        for n in graph.graph
        if n.op_type == "Transpose" and n.inputs[0].name in graph.graph.initializers
    }
    lists = {n.inputs[0].name: dict(n.metadata_props) for n in graph.graph if n.op_type == "SplitToSequence"}
    import_module("onnxscript.optimizer").fold_constants(graph)
    for node in graph.graph:
        if node.op_type == "Split" and not node.metadata_props:
            node.metadata_props.update(lists.get(node.inputs[0].name, {}))
    for name, key in weights.items():
        kept = graph.graph.initializers
        if name in kept and key not in kept:
            kept[name].name = key


def _innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
