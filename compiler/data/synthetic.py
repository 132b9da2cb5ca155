"""Seeded inputs for a model without data."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr
from xdsl.dialects.func import FuncOp

from ..dialects.nn import GatherOp, OpaqueOp
from ..ir.array import Array
from ..ir.dtypes import Tensor, is_float, numpy_dtype
from ..ir.functions import input_dimensions
from ..support.diagnostics import describe
from ..support.limits import require
from .decoding import CACHED, LENGTH_AXIS, following, follows_tokens, is_cache
from .samples import Samples, fits, input_types
from .stored import ArrayRows

SYNTHETIC_SAMPLES = 8
_DYNAMIC_SIZE = 8
_RANDOM_BYTES = 8
"""Bytes of a random number before it is converted."""
_SOURCE = "synthetic data"


def synthetic_samples(function: FuncOp, seed: int = 0, count: int = SYNTHETIC_SAMPLES) -> Samples:
    """Seeded inputs for a model without data: standard normal floats, integers that its gathers accept.

    Unknown sizes become 8, the first axis 1 (the batch); axes with the same name have the same size. Masks and positions of a
    decoder are those of tokens that its cache precedes.
    """
    random = np.random.default_rng(seed)
    types = input_types(function)
    shapes = _shapes(function)
    known = _following(types, shapes)
    rows: dict[str, ArrayRows] = {}
    for i, (name, type_) in enumerate(types.items()):
        shape = known[name].shape if name in known else shapes[name]
        dtype = numpy_dtype(type_.element_type)
        # sizes of 0 do not make up for others: numpy cannot make such shapes
        size = count * prod(max(d, 1) for d in shape) * _RANDOM_BYTES
        require(size, f"synthetic data for input '{name}' of shape {list(shape)}", describe(function.location))
        if name in known:
            array = np.stack([known[name]] * count).astype(dtype)
        elif is_float(type_.element_type):
            array = random.standard_normal((count, *shape)).astype(dtype)
        else:
            limit = _integer_limit(function, i)
            array = random.integers(0, limit, (count, *shape)).astype(dtype)
        rows[name] = ArrayRows(array, _SOURCE)
    return Samples(rows, types, count, _SOURCE, synthetic=True)


def _shapes(function: FuncOp) -> dict[str, tuple[int, ...]]:
    sizes: dict[str, int] = {}
    """Sizes by the name of an axis."""
    found: dict[str, tuple[int, ...]] = {}
    for (name, type_), names in zip(input_types(function).items(), input_dimensions(function), strict=True):
        shape, index = list(type_.get_shape()), len(found)
        for i, (size, axis) in enumerate(zip_longest(shape, names[: len(shape)], fillvalue="")):
            if size == DYNAMIC_INDEX:
                default = 1 if i == 0 else _head_size(function, index) if i > LENGTH_AXIS else _DYNAMIC_SIZE
                shape[i] = sizes.setdefault(axis, default) if axis else default
        found[name] = tuple(shape)
    return found


def _head_size(function: FuncOp, index: int) -> int:
    """The size of the heads if an input is the cache of a carried GroupQueryAttention, else that of unknown sizes."""
    for use in function.body.block.args[index].uses:
        op = use.operation
        if isinstance(op, OpaqueOp) and op.op_type.data == "GroupQueryAttention" and op.attrs is not None:
            heads, width = op.attrs.data.get("num_heads"), op.outputs[0].type.get_shape()[-1]
            if isinstance(heads, IntegerAttr) and width != DYNAMIC_INDEX:
                return width // heads.value.data
    return _DYNAMIC_SIZE


def _following(types: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The masks and positions of a decoder with a cache, if the model takes integers of their shape; none for other models."""
    integers = [name for name, shape in shapes.items() if len(shape) == 2 and not is_float(types[name].element_type)]
    ids = [name for name in (*integers, *shapes) if not follows_tokens(name) and not CACHED.search(name)]
    tokens = next((shapes[name][:2] for name in ids if len(shapes[name]) > 1), None)
    past = [shape[LENGTH_AXIS] for name, shape in shapes.items() if is_cache(name) and len(shape) > LENGTH_AXIS]
    if tokens is None or not past:
        return {}
    found = {name: following(name, tokens[0], past[0], tokens[1]) for name in integers if follows_tokens(name)}
    return {name: array for name, array in found.items() if fits(array.shape, types[name].get_shape())}


def _integer_limit(function: FuncOp, index: int) -> int:
    """The exclusive limit of safe integers: the size of the tables that the input indexes, 2 if there are none."""
    limits: list[int] = []
    for use in function.body.block.args[index].uses:
        if isinstance(use.operation, GatherOp) and use.index == 1:
            gather = use.operation
            limits.append(cast(Tensor, gather.input.type).get_shape()[gather.axis.value.data])
    known = [n for n in limits if n != DYNAMIC_INDEX]
    return min(known, default=2)
