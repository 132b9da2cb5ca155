"""AMCT's tensor decomposition: `from amct_opt.amct.pytorch.tensor_decompose import auto_decomposition, decompose_network`.

A convolution becomes two, one along each side of its kernel, with fewer channels in between.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amct_opt.amct.shared import AmctTypeError, as_in_amct
from amct_opt.api import PathLike
from amct_opt.configuration.json_object import read_objects
from amct_opt.frontends.torch.library import torch_library
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError, first_line
from amct_opt.support.files import made, replacing

from .ranks import rank_of

__all__ = ["auto_decomposition", "decompose_network"]

_CHANNELS = 64
"""The least number of channels, unless the kernel is large."""
_LARGE_KERNEL = 7
_MODES = {(True, True): "FCFK", (True, False): "FCSK", (False, True): "SCFK", (False, False): "SCSK"}
"""AMCT's names for whether the output channels are fewer (FC) or not (SC), and whether the height of the kernel is smaller (FK)
or not (SK). The smaller numbers make the rows of the matrix that is factorized.
"""

Shapes = tuple[Sequence[int], Sequence[int]]
"""The shapes of the two weights, [out, in, height, width]."""
Changes = dict[str, list[str]]
"""The names of the new layers by that of the layer that they replace."""


@as_in_amct
def auto_decomposition(model: Any, decompose_info_path: PathLike | None = None) -> tuple[Any, Changes]:
    """Replace convolutions of a trained `nn.Module` by two smaller ones each, in place.

    Decomposed are Conv2d layers without groups and dilation, with a kernel of at least 3 and strides of at most 2, and with 64
    channels or a kernel of at least 7. Returns the model, which is another one only if it is a Conv2d itself, and the new
    layers by name: `{"conv1": ["conv1.0", "conv1.1"]}`. `decompose_info_path` is a JSON file for `decompose_network`; it is
    not written if no layer is decomposed. Raises CompileError for a model that is not a module, and for weights that are
    infinite or not numbers.
    """
    torch = _torch_for(model)
    decomposed: dict[str, _Decomposition] = {}
    factors: dict[int, tuple[Any, Any]] = {}  # by the identity of a weight, which several layers may share
    for name, layer in _convolutions(torch, model):
        mode = _mode(layer)
        if mode is None:
            continue
        if layer.weight.dtype not in (torch.float16, torch.float32, torch.float64):
            new_session().warn(f"{name}: weights of {layer.weight.dtype} are not decomposed")
            continue
        if id(layer.weight) not in factors:
            factors[id(layer.weight)] = _factors(torch, layer.weight, name, mode)
        weights = factors[id(layer.weight)]
        decomposed[name] = _Decomposition(layer, mode, (weights[0].shape, weights[1].shape), weights)
    if decomposed and decompose_info_path is not None:
        path = Path(decompose_info_path)
        text = json.dumps([_information(name, each) for name, each in decomposed.items()], indent="\t")
        with made(path.parent), replacing(path) as stream:
            stream.write(text.encode())
    return _replace(torch, model, decomposed)


@as_in_amct
def decompose_network(model: Any, decompose_info_path: PathLike) -> tuple[Any, Changes]:
    """Give an `nn.Module` the layers that `auto_decomposition` gave a model of the same definition, in place.

    The new layers have random weights; those that were saved after the decomposition are loaded into them. Returns the same as
    `auto_decomposition`. Raises CompileError, located in the file, for a file that cannot be read, and for one that does not
    fit the model.
    """
    torch = _torch_for(model)
    convolutions = dict(_convolutions(torch, model))
    decomposed: dict[str, _Decomposition] = {}
    for entry in read_objects(Path(decompose_info_path)):
        layer = entry.take_object("ori_layer_info", f"{entry.path}: ori_layer_info")
        name = layer.take("name", str, "")
        convolution = convolutions.get(name)
        if convolution is None:
            raise entry.error(f"'{name}' is not a Conv2d layer of the model")
        for key, value in _layer_information(name, convolution).items():
            given = layer.values.get(key, name)
            if given != value:
                raise entry.error(f"layer '{name}' has {key} {value} in the model, {given} in the file")
        nodes = entry.take_object("decom_nodes", f"{entry.path}: decom_nodes")
        first, last = (nodes.take_object(each, f"{nodes.path}: {each}") for each in ("first", "last"))
        shapes = first.take_list("weight_shape", int), last.take_list("weight_shape", int)
        mode = entry.take("mode", str, "")
        if not _fits(shapes, convolution, mode):
            raise entry.error(f"layer '{name}' cannot become weights of the shapes {shapes[0]} and {shapes[1]}")
        decomposed[name] = _Decomposition(convolution, mode, shapes)
    return _replace(torch, model, decomposed)


class _Decomposition(NamedTuple):
    """A layer, and the shapes of the weights that replace its own; and these weights, unless they are random."""

    layer: Any
    mode: str
    shapes: Shapes
    weights: tuple[Any, Any] | None = None


def _torch_for(model: Any) -> Any:
    torch = torch_library(type(model).__name__)
    if not isinstance(model, torch.nn.Module):
        raise AmctTypeError(CompileError(f"the model must be a torch.nn.Module, not a {type(model).__name__}"))
    return torch


def _convolutions(torch: Any, model: Any) -> Iterator[tuple[str, Any]]:
    """The Conv2d layers of a model by name. Subclasses that compute something else do not count."""
    plain: Any = torch.nn.Conv2d
    for name, layer in model.named_modules():
        kind: Any = layer.__class__
        if isinstance(layer, plain) and kind.forward is plain.forward and kind._conv_forward is plain._conv_forward:
            yield name, layer


def _mode(layer: Any) -> str | None:
    """The decomposition mode of a layer, None if it is not decomposed."""
    channels, (height, width) = min(layer.in_channels, layer.out_channels), layer.kernel_size
    kernel = min(height, width)
    if layer.groups > 1 or max(layer.dilation) > 1 or max(layer.stride) > 2 or kernel < 3:
        return None
    if kernel * channels < 16 or (kernel < _LARGE_KERNEL and channels < _CHANNELS):
        return None
    return _MODES[layer.out_channels < layer.in_channels, height <= width]


def _factors(torch: Any, weight: Any, name: str, mode: str) -> tuple[Any, Any]:
    """The weights of the two convolutions that replace one, in float64, computed in float64 on the CPU."""
    array: NDArray[np.float64] = weight.detach().cpu().to(torch.float64).numpy()
    if not np.isfinite(array).all():
        raise CompileError("its weight has values that are infinite or not numbers", where=name)
    if mode.endswith("SK"):
        array = array.swapaxes(2, 3)
    outputs, inputs, small, large = array.shape
    of_outputs = mode.startswith("FC")
    order = (0, 2, 1, 3) if of_outputs else (1, 2, 0, 3)
    fewer, more = (outputs, inputs) if of_outputs else (inputs, outputs)
    matrix = array.transpose(order).reshape(fewer * small, more * large)
    try:
        vectors, values, _ = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError as e:
        raise CompileError(f"its weight cannot be decomposed: {first_line(e)}", where=name) from None
    rank = rank_of(values, (inputs, outputs), (small, large))
    of_rows = vectors[:, :rank].reshape(fewer, small, rank)
    of_columns = (vectors[:, :rank].T @ matrix).reshape(rank, more, large)
    if of_outputs:
        first, last = of_columns[:, :, None, :], of_rows.transpose(0, 2, 1)[:, :, :, None]
    else:
        first, last = of_rows.transpose(2, 0, 1)[:, :, :, None], of_columns.transpose(1, 0, 2)[:, :, None, :]
    if mode.endswith("SK"):
        first, last = first.swapaxes(2, 3), last.swapaxes(2, 3)
    return tuple(torch.from_numpy(np.ascontiguousarray(each)) for each in (first, last))  # type: ignore[return-value]


def _layer_information(name: str, layer: Any) -> dict[str, Any]:
    """The entry of a layer in AMCT's file."""
    return {
        "name": name,
        "in_channels": layer.in_channels,
        "out_channels": layer.out_channels,
        "kernel_size": list(layer.kernel_size),
        "stride": list(layer.stride),
        "dilation": list(layer.dilation),
        "groups": layer.groups,
    }


def _information(name: str, decomposition: _Decomposition) -> dict[str, Any]:
    first, last = decomposition.shapes
    return {
        "ori_layer_info": _layer_information(name, decomposition.layer),
        "mode": decomposition.mode,
        "decom_nodes": {"first": {"weight_shape": list(first)}, "last": {"weight_shape": list(last)}},
    }


def _fits(shapes: Shapes, layer: Any, mode: str) -> bool:
    """Whether weights of these shapes can replace that of a layer: along the sides of its kernel, with any number of channels."""
    if mode not in _MODES.values():
        return False
    height, width = layer.kernel_size
    rank = shapes[0][0] if shapes[0] else 0
    high_first = mode in ("FCSK", "SCFK")
    kernels = ((height, 1), (1, width)) if high_first else ((1, width), (height, 1))
    wanted = (rank, layer.in_channels, *kernels[0]), (layer.out_channels, rank, *kernels[1])
    return rank > 0 and tuple(map(tuple, shapes)) == wanted


def _replace(torch: Any, model: Any, decomposed: Mapping[str, _Decomposition]) -> tuple[Any, Changes]:
    """The model with the new layers in all places of the old ones."""
    shared: dict[tuple[int, int], Any] = {}
    with torch.no_grad():
        chains = {id(each.layer): _chain(torch, each, shared) for each in decomposed.values()}
    changes = {name: [f"{name}.{i}".removeprefix(".") for i in range(2)] for name in decomposed}
    if id(model) in chains:
        return chains[id(model)], changes
    for owner in model.modules():
        for key, child in owner.named_children():
            if id(child) in chains:
                setattr(owner, key, chains[id(child)])
    return model, changes


def _chain(torch: Any, decomposition: _Decomposition, shared: dict[tuple[int, int], Any]) -> Any:
    """The two convolutions of a layer. Layers that share parameters get layers that share them, by `shared`."""
    layer = decomposition.layer
    pair: list[Any] = []
    for i, shape in enumerate(decomposition.shapes):
        across = 1 if shape[3] == 1 else 0  # the axis that this convolution does not run along
        last = i == 1
        new = torch.nn.Conv2d(
            shape[1],
            shape[0],
            tuple(shape[2:]),
            stride=_along(layer.stride, across, 1),
            padding=layer.padding if isinstance(layer.padding, str) else _along(layer.padding, across, 0),
            dilation=_along(layer.dilation, across, 1),
            bias=last and layer.bias is not None,
            padding_mode=layer.padding_mode,
            device=layer.weight.device,
            dtype=layer.weight.dtype,
        )
        if decomposition.weights is not None:
            limits = torch.finfo(layer.weight.dtype)
            new.weight.copy_(decomposition.weights[i].clamp(limits.min, limits.max))
        if not layer.weight.is_contiguous() and layer.weight.is_contiguous(memory_format=torch.channels_last):
            new.weight.data = new.weight.data.contiguous(memory_format=torch.channels_last)
        new.weight = shared.setdefault((id(layer.weight), i), new.weight)
        if new.bias is not None:
            if decomposition.weights is not None:
                new.bias.copy_(layer.bias)
            new.bias = shared.setdefault((id(layer.bias), i), new.bias)
        pair.append(new.train(layer.training))
    return torch.nn.Sequential(*pair).train(layer.training)


def _along(values: Sequence[int], across: int, neutral: int) -> tuple[int, ...]:
    """The values of two axes, with the neutral value for the axis across the convolution."""
    return tuple(neutral if axis == across else value for axis, value in enumerate(values))
