"""The frontend: `NAME.toy` is a list of layers in JSON, `NAME.npz` next to it has their weights."""

import json
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, FileLineColLoc, FunctionType, IntAttr, ModuleOp, NameLoc, StringAttr, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from amct_opt import CompileError, Session
from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, tensor
from amct_opt.ir.functions import value_attributes

from .dialect import GainOp, SquashOp


def read(path: Path, session: Session) -> ModuleOp:
    """The model in a file. A mistake in it is a CompileError that says where."""
    try:
        net = json.loads(path.read_text())
        weights = np.load(path.with_suffix(".npz"))
    except (OSError, ValueError) as e:
        raise CompileError(f"cannot be read: {e}", where=str(path)) from None
    block = Block(arg_types=[tensor(f32, (DYNAMIC, *net["input"]["shape"]))])
    value: SSAValue = block.args[0]
    value.name_hint = nn.name_hint(net["input"]["name"])
    for layer in net["layers"]:
        if (convert := _LAYERS.get(layer["kind"])) is None:
            hint = f"there are {', '.join(_LAYERS)}"
            raise CompileError(f"unknown kind '{layer['kind']}'", where=f"{path}: layer '{layer['name']}'", hint=hint)
        for op in convert(layer, value, weights):
            op.location = NameLoc(
                StringAttr(layer["name"]), FileLineColLoc(StringAttr(str(path)), IntAttr(0), IntAttr(0))
            )
            block.add_op(op)
            value = op.results[0]
    block.add_op(ReturnOp(value))
    function = FuncOp("main", FunctionType.from_lists(block.arg_types, [value.type]), Region(block))
    function.arg_attrs = ArrayAttr([value_attributes(net["input"]["name"])])
    function.res_attrs = ArrayAttr([value_attributes(net["output"])])
    return ModuleOp([function])


def _dense(layer, x, weights):
    name = layer["name"]
    weight, bias = (nn.ConstantOp.of(weights[f"{name}.{key}"], f"{name}.{key}") for key in ("weight", "bias"))
    return [weight, bias, nn.MatMulOp.make(x, weight, bias, name=name, origin=_origin(layer))]


def _flatten(layer, x, weights):
    return [nn.FlattenOp.make(x, name=layer["name"], origin=_origin(layer))]


def _gain(layer, x, weights):
    return [GainOp.make(x, factor=layer["factor"], name=layer["name"], origin=_origin(layer))]


def _squash(layer, x, weights):
    return [SquashOp.make(x, name=layer["name"], origin=_origin(layer))]


def _origin(layer) -> nn.OriginAttr:
    """The layer that remarks, settings and records speak of."""
    return nn.OriginAttr.of("toy", layer["kind"], layer["name"])


_LAYERS = {"dense": _dense, "flatten": _flatten, "gain": _gain, "squash": _squash}
