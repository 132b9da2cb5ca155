"""Estimates the work only from operations and sizes, so that the same model and data give the same answer."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.dialects.builtin import ModuleOp

from ..data import Samples
from ..dialects import nn
from ..dialects.nn import ConstantOp, NNOp
from ..dialects.nn.shapes import DYNAMIC, Shape, known, shape_of
from ..ir.functions import main_function
from ..support.diagnostics import CompileError
from ..transforms.shape_inference import infer_shapes, set_input_shapes
from .work import Work

PRODUCTS = 128
"""Multiplications of a matrix product that cost numpy as much time, compared with onnxruntime, as moving one number. Products use
OpenBLAS; numpy loses its time in the windows of convolutions, especially depthwise ones, and in the operations between them.
"""


LOADING: Mapping[type[NNOp], int] = {nn.WeightedOp: 1 << 18, NNOp: 1 << 16}
"""Numbers that numpy moves while onnxruntime loads an operation of a class, in a small model: 0.2 ms and 0.05 ms."""
CROWDED = 2000
"""The number of operations in a model with which onnxruntime takes twice as long to load each."""


def loading(work: Work) -> int:
    """The number of elements that numpy moves while onnxruntime loads the operations."""
    kinds = [type(op) for op in work.module.walk() if isinstance(op, NNOp) and not isinstance(op, ConstantOp)]
    alone = sum(next(cost for kind, cost in LOADING.items() if issubclass(each, kind)) for each in kinds)
    return alone + alone * len(kinds) // CROWDED


def numbers(work: Work) -> int:
    """The number of elements that numpy moves in all runs: those of results, and of windows as often as they are taken;
    products in their weight. Sizes are those of the data; one that is not known counts as 1.
    """
    module = _with_sizes(work.module, work.samples)
    return work.samples.runs * sum(_moved(op) for op in module.walk() if isinstance(op, NNOp))


def outputs(work: Work) -> int:
    """Numbers in the outputs of one run. Sizes are those of the data; one that is not known counts as 1."""
    returned = main_function(_with_sizes(work.module, work.samples)).get_return_op()
    return 0 if returned is None else sum(_size(shape_of(value)) for value in returned.operands)


def weights(work: Work) -> int:
    """Count of numbers in constants, which onnxruntime loads before it computes anything."""
    return sum(_size(shape_of(op.result)) for op in work.module.walk() if isinstance(op, ConstantOp))


def _with_sizes(module: ModuleOp, samples: Samples) -> ModuleOp:
    """A copy whose inputs have the sizes of a run, unless those contradict the module."""
    open_inputs = {name: type_.get_shape() for name, type_ in samples.types.items() if DYNAMIC in type_.get_shape()}
    if not open_inputs:
        return module
    sized = module.clone()
    try:
        set_input_shapes(main_function(sized), {n: _run_shape(samples, n, shape) for n, shape in open_inputs.items()})
        infer_shapes(sized)
    except CompileError:  # if it is an error, the engine reports it
        return module
    return sized


def _run_shape(samples: Samples, name: str, declared: Shape) -> Shape:
    """The declared shape with the sizes of the data, aligned at the last axis; the first size is that of a run."""
    given = samples.rows[name].shape[1:]
    sizes = (samples.batch_size, *given)[-len(declared) :]
    return tuple(d if known(d) else s if s >= 0 else DYNAMIC for d, s in zip(declared, sizes, strict=True))


def _moved(op: NNOp) -> int:
    if isinstance(op, ConstantOp):
        return 0
    results = sum(_size(shape_of(result)) for result in op.results)
    if isinstance(op, nn.PoolOp):
        return results * (1 + _size(op.kernel_shape))
    if not isinstance(op, nn.WeightedOp):
        return results
    windows, (x, y) = 0, (tuple(map(_known, shape_of(v))) for v in (op.operands[0], op.result))
    if isinstance(op, nn.ConvTransposeOp):
        # every element is multiplied by a window, which is added to the result
        windows = prod(x) // max(op.input_channels, 1) * op.output_channels * _size(op.kernel_shape)
    elif isinstance(op, nn.ConvolutionOp) and (taps := _size(op.kernel_shape)) > 1:
        windows = results // max(op.output_channels, 1) * op.input_channels * taps
    return results + windows + op.products(x, y) // PRODUCTS


def _size(shape: Shape) -> int:
    return prod(map(_known, shape))


def _known(size: int) -> int:
    return size if known(size) else 1
