"""Integers of weights that are not the nearest ones, apart from the module: read, and put back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from ....diagnostics import op_error
from ....dialects.nn import ConstantOp, DequantizeOp, constant_of, dequantize_of
from ....rewriting import erase_dead_constants, layer_of
from ..decide.sites import Site, sites
from ..profiles import Profile

Integers = np.ndarray[Any, np.dtype[Any]]


def stored_integers(module: ModuleOp, layers: Collection[str], profile: Profile) -> dict[str, Integers]:
    """The integers of the weights of quantized layers, by name, in the shapes and dtypes of the module."""
    found = _weights(module, layers, profile)
    return {layer_of(site.compute): constant.array for site, _, _, constant in found}


def put_integers(module: ModuleOp, integers: Mapping[str, Integers], profile: Profile) -> None:
    """Give the weights of quantized layers these integers. Raises CompileError, located at a layer, if they do not fit."""
    for site, index, back, constant in list(_weights(module, integers, profile)):
        array = integers[layer_of(site.compute)]
        if (array.shape, array.dtype) != (constant.array.shape, constant.array.dtype):
            wanted, given = ("x".join(map(str, (*a.shape, a.dtype))) for a in (constant.array, array))
            raise op_error(site.compute, f"has a weight of {wanted}; its integers were found for {given}")
        new = ConstantOp.of(array, f"{constant.key}.rounded", constant.location)
        again = back.clone()  # another layer may read it
        again.operands[0] = new.result
        Rewriter.insert_op([new, again], InsertPoint.after(back))
        site.set_operand(index, again.result)
        if not back.result.uses:
            Rewriter.erase_op(back)
    erase_dead_constants(module)


def _weights(
    module: ModuleOp, layers: Collection[str], profile: Profile
) -> Iterator[tuple[Site, int, DequantizeOp, ConstantOp]]:
    for site in sites(module, profile.rows):
        index = profile.rows[type(site.compute)].weight
        if index is None or layer_of(site.compute) not in layers:
            continue
        back = dequantize_of(site.operand(index))
        constant = None if back is None else constant_of(back.input)
        if back is not None and constant is not None:
            yield site, index, back, constant
