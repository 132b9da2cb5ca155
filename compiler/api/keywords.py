"""The options of quantization as keywords of Python, and in docstrings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

from ..configuration.ranges import Bits, GroupSize, WeightBits
from ..configuration.record import Record
from ..configuration.settings import Settings
from ..data import Preprocess
from ..pipelines.options import leaves
from ..transforms.quantization.options import AllOptions, Device, Engine, Method

PathLike: TypeAlias = "str | os.PathLike[str]"


class Message(Protocol):
    """An ONNX model or a GraphDef."""

    def SerializeToString(self, *args: Any, **kwargs: Any) -> bytes: ...


class TensorFlowGraph(Protocol):
    """A `tf.Graph`."""

    def as_graph_def(self, *args: Any, **kwargs: Any) -> Any: ...


class ExportedProgram(Protocol):
    """A `torch.export.ExportedProgram`."""

    @property
    def graph_module(self) -> Any: ...


Model: TypeAlias = "PathLike | Message | TensorFlowGraph | ExportedProgram | Callable[..., Any]"
"""A model's path, or an object of a framework in memory: modules of PyTorch, models of Keras and functions can be called."""
_F = TypeVar("_F", bound=Callable[..., Any])


# begin keywords (generated)
class DataKeywords(TypedDict, total=False):
    """Options of data."""

    seed: int
    data_types: Sequence[str]
    input_shape: str | None
    preprocess: str | Preprocess | None
    resize: str | None
    crop: str | None
    pad: str | None
    scale: float | None
    mean: Sequence[float]
    std: Sequence[float]
    layout: Literal["NCHW", "NHWC"] | None
    color: Literal["rgb", "bgr", "gray"] | None
    on_error: Literal["stop", "skip"]
    batch_num: int | None


class Keywords(DataKeywords, total=False):
    """Options of quantization and of data."""

    config: PathLike | Settings | None
    record: PathLike | Record | None
    observer: str | None
    bits: Bits | None
    weight_bits: WeightBits | None
    layer_weight_bits: Sequence[str]
    layer_bits: Sequence[str]
    channel_wise: bool | None
    weight_only: bool | None
    dynamic: bool | None
    weight_asymmetric: bool | None
    group_size: GroupSize | None
    weight_format: Literal["fp8-e4m3", "fp8-e5m2", "hif8", "mxfp8", "mxfp4", "nvfp4"] | None
    embeddings: bool
    activation_format: Literal["fp8-e4m3", "fp8-e5m2"] | None
    weight_search: bool | None
    portable: Literal["strict", "auto", "off"] | None
    activation_offset: bool | None
    dmq: float | None
    fakequant_precision_mode: Literal["FORCE_FP16_QUANT"] | None
    joint_quant: bool | None
    weights_first: bool | None
    shift: bool | None
    skip_layers: Sequence[str]
    skip_layer_types: Sequence[str]
    only_layers: Sequence[str]
    tensor_quantize: Sequence[str]
    activation_type: Sequence[str]
    fuse_activation: bool | None
    fuse_passive_op: bool | None
    align_elementwise: Literal["large", "output", "none"] | None
    align_concat: Literal["large", "output", "none"] | None
    align_pooling: Literal["input", "output", "none"] | None
    align_resize: Literal["input", "output", "none"] | None
    force_alignment_overlap: bool | None
    rotate: bool
    equalize: bool | None
    fit_ranges: bool
    round_weights: Method | None
    correct_bias: bool | None
    engine: Engine
    threads: int | None
    device: Device
    cluster_tls: Sequence[str]
    cluster_store: str | None
    checkpoint: str | None


class FileKeywords(Keywords, total=False):
    """Options of quantization, of data and of files."""

    also: Sequence[str]
    matmul_nbits: bool
    quantize_cache: bool
    simulate_formats: bool
    faster_than_float: bool
    effort: Literal[0, 1, 2]
    recipe: Literal["detection"] | None


# end keywords


class NoSuchOption:
    """The type of a keyword that is not an option. No value has it, so that type checkers complain, and name the keyword."""


if TYPE_CHECKING:

    class NamedKeywords(FileKeywords, total=False, extra_items=NoSuchOption):
        """FileKeywords, for a function with overloads: without `extra_items` no overload would match a misspelt keyword."""


def with_options(function: _F) -> _F:
    """A function whose docstring lists the options that it takes as keywords."""
    names = {each.name: f"`{each.field}`" for each in leaves(AllOptions).values()}
    known = [each for each in leaves(AllOptions).values() if each.field in Keywords.__annotations__]
    items = [f"* `{each.field}`: {each.spelled(names)}" for each in known]
    lines = [line for item in items for line in wrap(item, 118, initial_indent="    ", subsequent_indent="      ")]
    function.__doc__ = "\n".join([(function.__doc__ or "").rstrip(), "", "    Options:", "", *lines, "    "])
    return function
