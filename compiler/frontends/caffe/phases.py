"""Selects the layers of the net of inference: rules of phase, level and stage, and layers for training only."""

from __future__ import annotations

from ...formats.caffe.schema import ENUMS, Message
from ...support.diagnostics import CompileError

TEST, TRAIN = ENUMS["Phase"]["TEST"], ENUMS["Phase"]["TRAIN"]

DATA = frozenset(
    {
        "AnnotatedData",
        "Data",
        "DummyData",
        "HDF5Data",
        "ImageData",
        "Input",
        "MemoryData",
        "Python",
        "VideoData",
        "WindowData",
    }
)
"""Layers that bring data into a net if they read no blob. Only Input declares its shape."""

_MEASURES = frozenset({"Accuracy", "DetectionEvaluate", "HDF5Output", "MultiBoxLoss", "SoftmaxWithLoss"})


def is_measure(op_type: str) -> bool:
    """Whether a layer compares the net's results with labels, or stores them: a loss or the accuracy."""
    return op_type in _MEASURES or op_type.endswith("Loss")


def included(layer: Message, state: Message, where: str) -> bool:
    """Whether a layer is part of the net in the phase TEST, at the level and in the stages of `state` (Caffe's FilterNet)."""
    if len(layer.include) and len(layer.exclude):
        raise CompileError("has `include` and `exclude` rules, only one kind is allowed", where=where)
    if len(layer.include):
        return any(_meets(state, rule) for rule in layer.include)
    return not any(_meets(state, rule) for rule in layer.exclude)


def _meets(state: Message, rule: Message) -> bool:
    stages = set(state.stage)
    return (
        not (rule.HasField("phase") and rule.phase != TEST)
        and not (rule.HasField("min_level") and state.level < rule.min_level)
        and not (rule.HasField("max_level") and state.level > rule.max_level)
        and stages.issuperset(rule.stage)
        and stages.isdisjoint(rule.not_stage)
    )
