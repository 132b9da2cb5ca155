"""PyTorch in the public Python API: `amct_opt.torch` (Horizon's `fuse_modules` and its fuser, quantized modules back in PyTorch),
and modules and loaders in `quantize` and `evaluate`.

Importing it imports torch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp

from ..dialects.nn.shapes import shape_of
from ..frontends.torch import from_module, from_program
from ..frontends.torch.batches import Arguments, array, batches_of
from ..frontends.torch.library import quiet, torch_library
from ..ir.functions import input_names, main_function
from ..ir.verification import verify
from ..runtime.executor import Array
from ..session import Session
from ..session.universe import new_session
from ..support.diagnostics import CompileError
from ..transforms.shape_inference import infer_shapes, set_input_shapes
from . import run_pipeline

_torch: Any = torch_library("amct_opt.torch")
_nn: Any = _torch.nn

_COMPUTING: Mapping[str, str] = {"Conv2d": "Conv", "ConvTranspose2d": "ConvTranspose"}
_ADDITIONS = ("FloatFunctional", "FXFloatFunctional")
_ACTIVATIONS = {"ReLU": _nn.functional.relu, "ReLU6": _nn.functional.relu6}


def fuse_modules(model: Any, names: Sequence[str] | Sequence[Sequence[str]], inplace: bool = False) -> Any:
    """Fuse chains of modules, `[["conv", "bn", "relu"], ...]` or one chain, as Horizon's plugin does. Returns the model.

    A name is the path of a module (`layer1.0.conv1`, `0` in a Sequential). A chain is Conv2d or ConvTranspose2d, then
    BatchNorm2d, a FloatFunctional that adds, and ReLU or ReLU6, each of which may be absent. The batch norm is absorbed into
    the weights, also of a model in training mode. The fused module takes the place of the FloatFunctional, so that
    `self.add.add(x, y)` reaches it, or else that of the first module; identities take the others. The first operand of the
    addition is the one that is convolved; `swap_inputs()` of the fused module is for the other order. That the modules are
    called one after the other, and that nothing else reads the results in between, is for the caller to know.

    What is loaded from the model has the chains as regions, without quantization points inside. Without `inplace` the model is
    copied. Raises CompileError for a name that does not exist, and for other chains.
    """
    fused = model if inplace else copy.deepcopy(model)
    chains = [list(cast("Sequence[str]", names))] if isinstance(names[0], str) else [list(each) for each in names]
    for each in chains:
        try:
            replaced = fuse_known_modules([_module(fused, name) for name in each])
        except CompileError as e:
            raise e if e.where else e.at(",".join(each)) from None
        for name, module in zip(each, replaced, strict=True):
            owner, _, own = name.rpartition(".")
            setattr(fused.get_submodule(owner), own, module)
    return fused


def fuse_known_modules(
    mod_list: Sequence[Any], is_qat: bool = False, additional_fuser_method_mapping: Mapping[Any, Any] | None = None
) -> list[Any]:
    """The modules that take the places of those of one chain, as `fuse_modules` fuses it: the `fuser_func` of
    `torch.ao.quantization.fuse_modules` and `fuse_modules_qat`, in place of that of Horizon's plugin.

    The batch norm is absorbed in training as well (`is_qat`). Raises CompileError for other chains, and for fusers of one's own.
    """
    if additional_fuser_method_mapping:
        message = "additional_fuser_method_mapping is for torch's fuse_known_modules"
        raise CompileError(message, hint="fuse those chains in a call of their own, without fuser_func")
    kinds = [_kind(module) for module in mod_list]
    compute, *rest = kinds or [""]
    norm = rest[:1] == ["BatchNorm2d"]
    rest = rest[1:] if norm else rest
    adds = rest[:1] == ["Add"]
    rest = rest[1:] if adds else rest
    activation = "".join(rest)
    if compute not in _COMPUTING or len(kinds) < 2 or activation not in ("", *_ACTIVATIONS) or len(rest) > 1:
        hint = "Conv2d or ConvTranspose2d, then BatchNorm2d, FloatFunctional, and ReLU or ReLU6, each of which may be absent"
        raise CompileError(f"{', '.join(kinds)} is not a chain that is fused", hint=hint)
    fused = copy.deepcopy(mod_list[0])
    if norm:
        _absorb(fused, mod_list[1])
    if adds or activation:
        fused.__class__ = _fused_class(compute, adds, activation)
    fused._forward_pre_hooks = mod_list[0]._forward_pre_hooks.copy()
    fused._forward_hooks = mod_list[-1]._forward_hooks.copy()
    fused.train(mod_list[0].training)
    place = kinds.index("Add") if adds else 0
    return [fused if i == place else _nn.Identity().train(each.training) for i, each in enumerate(mod_list)]


def fake_quantized(module: ModuleOp) -> Any:
    """A quantized module of `nn` as a `torch.nn.Module` that computes in floats what the integers mean, for checking in PyTorch.

    It rounds where the module has quantization points, as the interpreter does, and takes the inputs of the module in order or by
    name. Its state dict has the weights under their keys, rounded, with batch norms folded into them. Several results are a
    dictionary. Raises CompileError, located, for operations that PyTorch's functions do not express (a quantized LSTM).
    """
    from ..targets.torch.module import network
    from ..targets.torch.points import FAKE

    return network(module, FAKE, fold=True)


def exported(module: ModuleOp, inputs: Sequence[Any]) -> Any:
    """A quantized module of `nn` as a `torch.export.ExportedProgram`, in the form of PyTorch 2 export quantization (PT2E).

    Quantization is operators of `torch.ops.quantized_decomposed`, on integer weights; sizes are those of the example inputs.
    These operators multiply by the reciprocal of the scale, so that a number between two integers may fall to the other one.
    Raises CompileError as `fake_quantized`, and for weights with scales of groups.
    """
    from ..targets.torch.module import network
    from ..targets.torch.points import DECOMPOSED

    fixed = module.clone()
    function = main_function(fixed)
    names = input_names(function)
    if len(names) != len(inputs):
        raise CompileError(f"there are {len(inputs)} example inputs", hint=f"the inputs are {', '.join(names)}")
    set_input_shapes(function, {name: tuple(x.shape) for name, x in zip(names, inputs, strict=True)})
    infer_shapes(fixed)
    run_pipeline(fixed, "fold-constants", new_session())
    with quiet(), _torch.no_grad():
        return _torch.export.export(network(fixed, DECOMPOSED, fold=False), tuple(inputs))


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


class _Fused:
    """Mixin that adds to a convolution what a fused module has beyond it: an activation and a residual input."""

    ACTIVATION: Any = None
    convolved: Any
    """The class of the convolution."""
    swapped: bool = False

    def forward(self, x: Any, residual: Any = None) -> Any:
        result = self.convolved.forward(self, x)
        if residual is not None:
            result = result + residual
        return result if self.ACTIVATION is None else self.ACTIVATION(result)

    def add(self, x: Any, y: Any) -> Any:
        """The convolution of one operand, plus the other, as the FloatFunctional in its place computed it."""
        called: Any = self
        return called(y, x) if self.swapped else called(x, y)

    def swap_inputs(self) -> None:
        """The second operand of `add` is the one that is convolved."""
        self.swapped = True


def _fused_class(compute: str, adds: bool, activation: str) -> Any:
    """The class of a fused module, made once, under the name that it has in Horizon's plugin."""
    name = f"{_COMPUTING[compute]}{'Add' if adds else ''}{activation}2d"
    if name not in globals():
        members = {
            "__module__": __name__,
            "convolved": getattr(_nn, compute),
            "ACTIVATION": staticmethod(_ACTIVATIONS[activation]) if activation else None,
        }
        globals()[name] = type(name, (_Fused, getattr(_nn, compute)), members)
    return globals()[name]


def _module(model: Any, name: str) -> Any:
    try:
        return model.get_submodule(name)
    except AttributeError:
        known = [path for path, each in model.named_modules() if path and not any(True for _ in each.children())]
        hint = f"modules are {', '.join([*known[:8], *(['...'] if len(known) > 8 else [])])}"
        raise CompileError(f"there is no module '{name}'", where=type(model).__name__, hint=hint) from None


def _kind(module: Any) -> str:
    """The name of the exact class: a subclass may compute anything."""
    name = type(module).__name__
    if type(module) is getattr(_nn, name, None):
        return name
    return "Add" if name in _ADDITIONS else f"{type(module).__module__}.{name}"


def _absorb(conv: Any, norm: Any) -> None:
    """Folds the statistics of a batch norm into a convolution, in float64.

    Raises CompileError for a norm of the statistics of each batch, and for one of other channels.
    """
    if norm.running_mean is None:
        raise CompileError("the batch norm has no running statistics to fold")
    if norm.num_features != conv.out_channels:
        message = f"the batch norm has {norm.num_features} channels, the convolution gives {conv.out_channels}"
        raise CompileError(message)
    with _torch.no_grad():
        mean, variance = norm.running_mean.double(), norm.running_var.double()
        factor = (variance + norm.eps).rsqrt() * (1.0 if norm.weight is None else norm.weight.double())
        shift = 0.0 if norm.bias is None else norm.bias.double()
        bias = 0.0 if conv.bias is None else conv.bias.double()
        weight = conv.weight.double()
        if isinstance(conv, _nn.ConvTranspose2d):  # [in, out / groups, ...]
            groups = weight.reshape(conv.groups, -1, *weight.shape[1:])
            scaled = (groups * factor.reshape(conv.groups, 1, -1, 1, 1)).reshape(weight.shape)
        else:
            scaled = weight * factor.reshape(-1, 1, 1, 1)
        dtype = conv.weight.dtype
        conv.weight = _nn.Parameter(scaled.to(dtype))
        conv.bias = _nn.Parameter(((bias - mean) * factor + shift).to(dtype))
