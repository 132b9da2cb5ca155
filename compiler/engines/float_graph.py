"""The ONNX file that computes only the wanted values of a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import TensorProto, helper
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from ..dialects import nn
from ..dialects.nn.shapes import element_of
from ..formats.onnx.file import write_to_run
from ..ir.functions import body, main_function, return_op, value_attributes
from ..session import Session
from ..targets.graph import in_layout, source
from ..targets.onnx import FORM, model_of, written_graph
from .work import Wanted

_REDUCTIONS = ("ReduceMin", "ReduceMax", "ReduceSum")
"""The sum reveals NaN, which onnxruntime's minimum and maximum ignore."""


@dataclass(frozen=True)
class Shown:
    """Equal values, and the outputs for them: the value itself, or its minimum, maximum and sum."""

    values: tuple[SSAValue, ...]
    outputs: tuple[str, ...]

    @property
    def reduced(self) -> bool:
        return len(self.outputs) > 1


def write_float_graph(module: ModuleOp, wanted: Mapping[SSAValue, Wanted], path: Path) -> list[Shown]:
    """Write the graph that computes the wanted values, which are not arguments, with its weights in a separate file;
    weights that are mapped from a file there already stay in it. Returns the graph's outputs.

    Raises CompileError, located, if an operation has no form in ONNX.
    """
    groups: dict[SSAValue, list[SSAValue]] = {}
    for value in wanted:
        groups.setdefault(source(value), []).append(value)
    names = {same[0]: f"observed/{i}" for i, same in enumerate(groups.values())}
    session = Session()
    graph, proto, _ = written_graph(
        in_layout(reduced_to(module, [*names], [*names.values()]), "NCHW", session), FORM, session, None
    )
    shown: list[Shown] = []
    outputs = {info.name: info for info in proto.output}
    del proto.output[:]
    for same, (value, name) in zip(map(tuple, groups.values()), names.items(), strict=True):
        if element_of(value) != f32 or not all(wanted[v].extremes for v in same):
            proto.output.append(outputs[name])
            shown.append(Shown(same, (name,)))
            continue
        reduced = tuple(f"{name}/{kind}" for kind in _REDUCTIONS)
        for kind, output in zip(_REDUCTIONS, reduced, strict=True):
            proto.node.append(helper.make_node(kind, [name], [output], output, keepdims=0))
            proto.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, []))
        shown.append(Shown(same, reduced))
    write_to_run(model_of(graph, module), proto, graph.initializers, path)
    return shown


def reduced_to(module: ModuleOp, values: Sequence[SSAValue], names: Sequence[str]) -> ModuleOp:
    """A copy that returns these values by these names, without unneeded operations."""
    copies: dict[SSAValue, SSAValue] = {}
    copy = module.clone(copies)
    function = main_function(copy)
    results = [copies[value] for value in values]
    old = return_op(function)
    body(function).erase_op(old)
    body(function).add_op(ReturnOp(*results))
    types = [r.type for r in results]
    function.function_type = FunctionType.from_lists(function.function_type.inputs.data, types)
    function.res_attrs = ArrayAttr([value_attributes(name) for name in names])
    _erase_unused(body(function))
    return copy


def _erase_unused(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if op is not block.last_op and all(result.first_use is None for result in op.results):
            block.erase_op(op)


def in_order(module: ModuleOp, values: Sequence[SSAValue]) -> list[SSAValue]:
    """Values in the order of the module, its arguments first, without constants."""
    computed: list[SSAValue] = [
        *body(main_function(module)).args,
        *(result for op in module.walk() for result in op.results),
    ]
    position = {value: i for i, value in enumerate(computed)}
    return sorted((v for v in values if nn.constant_of(v) is None), key=position.__getitem__)
