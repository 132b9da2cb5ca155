"""The options of quantization, each declared once: name, type, default, and below it what it means. Flags of commands, options of
passes, keys of settings files, keywords in Python and the generated pages follow from this.

Objects are data; `request.py`, `data.py` and `running.py` act on them. `--help` loads this module, which therefore loads little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, get_args

from ...configuration.ranges import Bits, GroupSize, WeightBits, at_least
from ...pipelines.options import option, values_of, warn_of_rename
from ...support.diagnostics import CompileError

if TYPE_CHECKING:
    from ...configuration.record import Record
    from ...configuration.settings import Settings
    from ...data import Preprocess, Samples
    from ...engines.cluster import Workers
    from ...session import Session
    from .profiles import Alignment, Mode, Profile
else:  # what Python may give in place of text
    Workers = Preprocess = Record = Samples = Settings = object

Engine = Literal["auto", "numpy", "onnxruntime", "iree", "torch"]
Device = Literal["cpu", "cuda"]
Chip = Literal["310", "310b", "310p", "910", "910b", "910c", "950"]
CHIPS: tuple[str, ...] = get_args(Chip)
Method = Literal["nearest", "gptq", "mismatch", "adaround", "block"]
"""Methods of rounding weights."""

_WHAT, _SHARED, _RECOVERY = "what is quantized", "which values share scales", "recovery of accuracy"
"""Headings of options."""


def engine_named(name: str) -> str:
    """The name of an engine. `interpreter`, the one of numpy in the last release, is warned of."""
    if name != "interpreter":
        return name
    warn_of_rename("the engine interpreter", "numpy")
    return "numpy"


@dataclass(frozen=True)
class SessionOptions:
    """Options of all passes of a session."""

    GROUP: ClassVar[str] = _WHAT

    profile: str | None = None
    """Target profile: ascend (default), ascend-a2 (for Atlas A2 and A3: products of two activations as well), qdq, also called
    cpu or onnxruntime (its integer kernels), openvino (those of OpenVINO), ppq (values aligned as PPQ does), or a plugin's.
    """
    chip: Chip | None = None
    """The chip of profiles ascend and ascend-a2: what its operator library has no kernel for stays float, with a remark, or takes
    the form that has one. Of 910b (Atlas A2) all operators are known, of 950 AscendQuant, of others nothing, which a note says.
    """
    skip_fusion: tuple[str, ...] = option((), "LAYER,...")
    """Layers that no fusion may touch."""
    rules: Literal["extended", "amct", "tf1.15", "tf2.6"] | None = None
    """What fusions ask of layers from TensorFlow. extended: that folding is exact; amct: what AMCT's manual says, to the letter;
    tf1.15, tf2.6: the same under these versions of TensorFlow (amct is as tf2.6). When not given: extended, and amct for AMCT's
    own commands and configurations.
    """

    def give(self, session: Session) -> None:
        """Set the options of a session."""
        session.profile, session.skip_fusion = self.profile or session.profile, frozenset(self.skip_fusion)
        session.rules, session.chip = self.rules, self.chip


@dataclass(frozen=True, kw_only=True)
class SettingsOptions:
    """Options, and the settings that they make. Together with a configuration they are added to it: lists are joined, and what is
    said of all layers takes the place of what the file says of all layers.
    """

    GROUP: ClassVar[str] = "ranges and widths"

    config: str | Settings | None = option(None, group=_WHAT)
    """A configuration of AMCT: JSON in a file ending in .json, else a simplified one."""
    record: str | Record | None = option(None, group="results")
    """A record file of AMCT: its parameters are taken for the layers that it lists, the others stay float."""
    observer: str | None = None
    """The algorithm that finds ranges, with its options: `hfmg{num-of-bins=2048}`; mse when neither this nor `config` names one.
    If fewer than 16 samples calibrate, mse clips nothing (`mse{fewest=1}` does).
    """
    bits: Bits | None = None
    """Bits of activations; 8 when neither this nor `config` gives them."""
    weight_bits: WeightBits | None = None
    """Bits of weights, where the layer's type takes them; 8 when neither this nor `config` gives them. 2 bits are for groups
    (`group-size`); 3 bits are stored in 4, 6 and 7 in 8.
    """
    layer_weight_bits: tuple[str, ...] = option((), "LAYER:BITS,...")
    """Bits of the weights of single layers, `conv1:8,layer2.0:4`, in place of all other settings."""
    layer_bits: tuple[str, ...] = option((), "LAYER:BITS,...")
    """Bits of the activations of single layers, `conv1:16`, in place of all other settings: of the input; in profiles that
    quantize values, of the result.
    """
    channel_wise: bool | None = None
    """A scale for each output channel of weights; where the layer's type can, when not given."""
    weight_only: bool | None = option(None, group=_WHAT)
    """True to quantize only the weights of matrix products (`weight_compress_only`): inputs stay float, nothing is calibrated."""
    dynamic: bool | None = option(None, group=_WHAT)
    """True to quantize matrix products to int8 without data: their weights (`weight-only`), and in each run their inputs, by a
    scale for each row, that is, for each token.
    """
    weight_asymmetric: bool | None = None
    """Zero points for weights that are quantized by themselves (`weight-only`)."""
    group_size: GroupSize | None = None
    """Input channels that share a scale, for each output channel, of weights that are quantized by themselves (`weight-only`)."""
    weight_format: Literal["fp8-e4m3", "fp8-e5m2", "hif8", "mxfp8", "mxfp4", "nvfp4"] | None = None
    """Floats of 8 or 4 bits in place of integers, for weights that are quantized by themselves (`weight-only`). fp8-e4m3,
    fp8-e5m2 and hif8 have a scale for each output channel, of convolutions as well; mxfp8 and mxfp4 a power of two for each 32
    input channels; nvfp4 an E4M3 scale for each 16, and one for the tensor.
    """
    embeddings: bool = option(False, group=_WHAT)
    """Tables of embeddings as well, where weights are quantized by themselves (`weight-only`): matrices of which a Gather picks
    rows. A row has the scales of an output channel.
    """
    activation_format: Literal["fp8-e4m3", "fp8-e5m2"] | None = None
    """Floats of 8 bits for the inputs of layers whose weights have a number format: that of `weight-format`, or the same where it
    is not given (`weight-only` need not be). A tensor has one scale, by which the largest magnitude of data becomes the largest
    float.
    """
    weight_search: bool | None = None
    """True to search for the scales of weights with the least squared error, in place of those that cover the largest weight.
    It needs no data. When neither this nor `config` says so: for groups of weights of 4 bits or less.
    """
    portable: Literal["strict", "auto", "off"] | None = None
    """Weights of 8 bits whose sums of products are exact in onnxruntime on every processor, in profiles that quantize values: of
    all layers (`strict`), of all where the outputs lose little by it and otherwise of those at risk (`auto`, the default), or of
    none.
    """
    activation_offset: bool | None = None
    """False for activations without a zero point."""
    dmq: float | None = option(None, group=_RECOVERY)
    """How much of the spread of activations goes into the weights, 0.2 to 0.8: the `migration_strength` of all layers.
    No layer is balanced when not given.
    """
    fakequant_precision_mode: Literal["FORCE_FP16_QUANT"] | None = None
    """Scales of activations, and those of accumulators in Ascend's dialect, keep as many bits as float16's have."""
    joint_quant: bool | None = option(None, group=_SHARED)
    """Values that an addition joins share their parameters (AMCT); in place of the configuration's."""
    weights_first: bool | None = None
    """Whether ranges of activations are found while layers compute with quantized weights, as in AMCT. When not given: if there
    is a configuration file.
    """
    shift: bool | None = option(None, group=_SHARED)
    """Sums keep 16 bits, shifted by what data or the record says. Needs `joint-quant`, which shifts them unless this is false."""
    skip_layers: tuple[str, ...] = option((), "LAYER,...", _WHAT, also="--keep-float")
    """Layers that stay in float. Names of layers, here and in the other lists, are those of the model, paths of PyTorch modules,
    or patterns such as `*/head/*`.
    """
    skip_layer_types: tuple[str, ...] = option((), "TYPE,...", _WHAT)
    """Types of layers that stay in float, as the source calls them."""
    only_layers: tuple[str, ...] = option((), "LAYER,...", _WHAT)
    """The only layers that are quantized; that one of these cannot be quantized is an error."""
    tensor_quantize: tuple[str, ...] = option((), "LAYER:INDEX,...", _WHAT)
    """Single inputs to quantize, such as `pool1:0,add:1`: a layer of max pooling or addition and the index of its input."""

    def files(self) -> list[Path]:
        """The files that are named."""
        return [Path(each) for each in (self.config, self.record) if isinstance(each, str)]


# the names are those of PPQ's settings
@dataclass(frozen=True, kw_only=True)
class PointOptions:
    """Options of profiles that quantize values. What is not given is the profile's: profile ppq aligns as PPQ does, qdq aligns
    nothing. Aligned values are a `group` in the module. They have the same bits and symmetry; others are left out, with a remark.
    """

    GROUP: ClassVar[str] = _SHARED

    activation_type: tuple[str, ...] = option((), "TYPE,...")
    """The activations that take the point of the operation before them, `Relu,Clip,LeakyRelu` or `relu,clip,leaky_relu`; the
    profile's when not given.
    """
    fuse_activation: bool | None = None
    """False leaves a point between an operation and its activation; regions of nn.fused have none in any case."""
    fuse_passive_op: bool | None = None
    """False gives the results of passive operations points of their own."""
    align_elementwise: Literal["large", "output", "none"] | None = None
    """How Add and Sub are aligned. large: the operands take the range that holds all of them; output: they take the result's
    parameters. In profile ppq large.
    """
    align_concat: Literal["large", "output", "none"] | None = None
    """How Concat is aligned: large and output as those of additions. In profile ppq output."""
    align_pooling: Literal["input", "output", "none"] | None = None
    """How average pooling is aligned. input: the result takes the input's parameters; output: the reverse."""
    align_resize: Literal["input", "output", "none"] | None = None
    """How resizing is aligned: input and output as those of pooling. In profile ppq output."""
    force_alignment_overlap: bool | None = None
    """True when not given: others that read an aligned value read it by the shared parameters, whose range covers it. False: a
    value that others read as well, or that is an output, keeps its own, and is quantized once more for the aligned operation.
    """

    def check_points(self, profile: Profile) -> None:
        """Raises CompileError for an option that the profile has no use for."""
        given = [name.replace("_", "-") for name, value in values_of(self).items() if value not in (None, ())]
        if given and not profile.facts.aligned:
            raise CompileError(
                f"profile {profile.name} does not support {given[0]}",
                hint="it is an option of profiles that quantize values: qdq, openvino, ppq",
                option=given[0],
            )

    def modes(self, profile: Profile, joint_quant: bool) -> Mapping[Alignment, Mode]:
        """The alignment of each kind of operation. Joint quantization is of additions, where `align-elementwise` is not given."""
        given: Mapping[Alignment, Mode | None] = {
            "elementwise": self.align_elementwise or ("joint" if joint_quant else None),
            "concat": self.align_concat,
            "pooling": self.align_pooling,
            "resize": self.align_resize,
        }
        return {kind: mode or profile.alignment.get(kind, "none") for kind, mode in given.items()}

    def activations(self, profile: Profile) -> frozenset[str]:
        """The kinds of activations, `leaky_relu`; none with `fuse-activation=false`. Raises CompileError for an unknown one."""
        if self.fuse_activation is False:
            return frozenset()
        from ..fusion.fuse_activation.activations import kinds_named

        return kinds_named(self.activation_type) or profile.activations


AS_THE_PROFILE = PointOptions()
"""Every option as the profile has it."""


@dataclass(frozen=True, kw_only=True)
class RecoveryOptions:
    """Each option runs a separate pass; of these the correction of biases runs by default, on a few samples, and where channels
    are uneven the ones that make up for it.
    """

    GROUP: ClassVar[str] = _RECOVERY

    rotate: bool = False
    """Spread outliers of the residual stream and of attention's values by Hadamard matrices that cancel out, before quantization,
    where data shows that it helps.
    """
    equalize: bool | None = None
    """Even out channels between layers by powers of two that cancel out, before quantization, where data shows that it helps.
    When not given: if a norm scales a channel more than eight times as much as most, or a depthwise convolution reads one that is
    so much larger, unless there is a configuration or a record, or only weights are quantized.
    """
    fit_ranges: bool = False
    """Choose ranges of activations by the outputs of the layers that read them."""
    round_weights: Method | None = None
    """Choose the integers of weights by layers' outputs: `gptq`, `mismatch` or `adaround`; by those of several layers together:
    `block`, which takes PyTorch; `nearest` does not. When not given: by `mismatch`, on part of `data`, those of layers that have
    4 bits or less, or one scale for uneven output channels, unless there is a configuration or a record, or only weights are
    quantized.
    """
    correct_bias: bool | None = None
    """Correct biases for the mean shift of layers' outputs by quantization. When not given: on part of `data`, at most 48
    runs, if 16 samples or more calibrate, unless there is a configuration or a record, weights are rounded by data, or only
    weights are quantized.
    """

    def given(self, step: RecoveryStep) -> bool:
        """Whether a step is to run on all layers: by default some run on a part."""
        return bool(step.option) and getattr(self, step.option) not in (None, False, "nearest")

    @property
    def rounds_weights(self) -> bool:
        """Whether weights are to be rounded by outputs, in all layers: the default does so in some."""
        return self.round_weights not in (None, "nearest")


class RecoveryStep(NamedTuple):
    """A step that wins accuracy back. Checks, searches and reports know it by this row."""

    name: str
    """The pass."""
    called: str
    """The noun for what it does, in messages."""
    option: str = ""
    """The field of `RecoveryOptions` that asks for it; empty for what settings ask for layer by layer."""
    of_channels: bool = False
    """It changes channels before quantization: the pass has `even`, and a record, whose parameters are those of the channels as
    they are, excludes it.
    """
    of_integers: bool = True
    """It works on integers: inputs in floats of 8 bits exclude it."""
    place: int = 0
    """Its place among the steps that `amct tune` tries, the most promising first."""
    tried: object = True
    """The value of the option that is tried."""


RECOVERY = (
    RecoveryStep("rotate", "rotation", "rotate", of_channels=True, of_integers=False, place=2),
    RecoveryStep("equalize", "equalization", "equalize", of_channels=True, place=1),
    RecoveryStep("balance-channels", "balancing"),
    RecoveryStep("fit-ranges", "fitting of ranges", "fit_ranges", place=4),
    RecoveryStep("round-weights", "rounding of weights", "round_weights", place=0, tried="mismatch"),
    RecoveryStep("correct-bias", "correction of biases", "correct_bias", place=3),
)
"""The steps in the order in which they run."""

BY_DEFAULT = RecoveryOptions()
NO_RECOVERY = RecoveryOptions(equalize=False, round_weights="nearest", correct_bias=False)


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions:
    """The options of all of quantization."""

    settings: SettingsOptions = SettingsOptions()
    points: PointOptions = AS_THE_PROFILE
    recovery: RecoveryOptions = BY_DEFAULT


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Options for how images become inputs."""

    GROUP: ClassVar[str] = "images"

    preprocess: str | Preprocess | None = option(None, "NAME")
    """How images become inputs: imagenet (torchvision's classifiers), caffe (also Keras's of mode caffe), tf (-1 to 1), or yolo
    (letterbox, 0 to 1). The options below override it.
    """
    resize: str | None = option(None, "N|HxW")
    """Shorter side of images (256), or both sides (HEIGHTxWIDTH, without keeping proportions), reached bilinearly."""
    crop: str | None = option(None, "N|HxW")
    """Size of the centre of images that is used, 224 or HEIGHTxWIDTH; default: the model's."""
    pad: str | None = option(None, "N|HxW|input")
    """Size that images are fitted into on gray, 640, HEIGHTxWIDTH or `input` (the model's), in place of `resize` and `crop`."""
    scale: float | None = option(None, "WHITE")
    """Value of white in images before `mean` and `std`: 255 (default) or 1."""
    mean: tuple[float, ...] = option((), "M,...")
    """Mean of images after `scale`, one value or one per channel. Inputs are `(pixel * scale / 255 - mean) / std`."""
    std: tuple[float, ...] = option((), "S,...")
    """Standard deviation of images after `scale`, one value or one per channel."""
    layout: Literal["NCHW", "NHWC"] | None = None
    """Layout of the image input; default: what its shape says."""
    color: Literal["rgb", "bgr", "gray"] | None = None
    """Channels of images; default: rgb, or gray for inputs of one channel."""


@dataclass(frozen=True)
class DataOptions:
    """Options that name data and how much of it is used."""

    GROUP: ClassVar[str] = "data"

    data: str | Samples | None = None
    """An .npz file with one array per input, samples on the first axis; an .npy file for the only input; a folder with one .npy
    file per input, or one per sample, in a folder per input if there are several; a folder of shards, or its address
    (s3://...): .npz files, .parquet files with a column per input, or .tar files as WebDataset has them; a group of Zarr
    (x.zarr); `FILE.py:FUNCTION`, which gives batches (FILE.py is executed); with `data-types` a folder of raw binaries per input,
    separated by ;, one run per file; with `preprocess`, or `scale`, `mean` and `std`, a folder of images or of folders of them.
    Calibration takes synthetic inputs when not given.
    """
    _: KW_ONLY
    samples: int | None = option(None, "N", flag=False, also="--num-samples")
    """The first this many samples, no more than there are; all when not given."""
    seed: int = option(0, flag=False)
    """The seed of the synthetic inputs, which are used without data."""
    data_types: tuple[str, ...] = option((), "TYPE,...")
    """Types of raw binaries, one per input: `float32,int64`. A file holds one run."""
    input_shape: str | None = option(None, flag=False)
    """Shapes of raw binaries, `images:1,3,224,224;ids:1,16`: the order of the folders, and sizes that the model leaves open."""
    images: ImageOptions = ImageOptions()
    on_error: Literal["stop", "skip"] = "stop"
    """What to do with shards of a folder that cannot be read: `stop` (default), or `skip` them, with a warning that counts them,
    which reads all of the data first.
    """
    batch_num: int | None = option(None, "N")
    """How many batches, each one run of the model, calibrate: the first N; by default the configuration's number, else all.
    A command that measures does so on the next N/10. A function that never ends needs it.
    """

    def __post_init__(self) -> None:
        """Raises CompileError for no samples and no batches."""
        for name, number in (("samples", self.samples), ("batch_num", self.batch_num)):
            if number is not None:
                at_least(name, number, 1)

    def files(self) -> list[Path]:
        """The files and folders that are named."""
        from ...data import data_files

        return data_files(self.data) if isinstance(self.data, str) else []


NO_DATA = DataOptions()


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """What shares the work."""

    GROUP: ClassVar[str] = "what shares the work"

    cluster: str | Workers | None = None
    """A Dask cluster that shares the work, with the same result: `local:N` for N processes here, or a scheduler,
    `tcp://host:8786`.
    """
    cluster_tls: tuple[str, ...] = option((), "CA,CERT,KEY")
    """PEM files for a cluster at `tls://host:8786`: the authority's certificate, the own certificate, its key.
    `none` in place of them trusts everyone who reaches a scheduler on another machine.
    """
    cluster_store: str | None = option(None, "DIR")
    """A folder or an address (`s3://...`) that all workers see: weights are put there, and not sent to each worker."""
    checkpoint: str | None = option(None, "DIR")
    """A folder that keeps what a cluster has computed: the same work goes on where it was stopped."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options that affect speed only."""

    GROUP: ClassVar[str] = "what runs the model"

    engine: Engine = option("auto", was="backend")
    """What runs the model: `numpy`, `onnxruntime`, `iree`, `torch`, or `auto` (default): numpy or onnxruntime, whichever should
    finish first; for a model from PyTorch that is calibrated as AMCT does it is torch.
    """
    threads: int | None = option(None, "N")
    """How many batches onnxruntime runs at a time; when not given as many as there are cores, at most 8."""
    device: Device = "cpu"
    """Where onnxruntime computes: `cpu` (default), or `cuda` on a GPU of NVIDIA, for which `engine` is onnxruntime. Weights are
    rounded by numpy in any case.
    """
    sharing: ClusterOptions = ClusterOptions()


AUTOMATIC = EngineOptions()


@dataclass(frozen=True, kw_only=True)
class AllOptions:
    """What is quantized and how, the data that calibrates, and what runs the model meanwhile."""

    quantization: QuantizeOptions = QuantizeOptions()
    calibration: DataOptions = NO_DATA
    running: EngineOptions = AUTOMATIC
