"""Common parts of the `amct` commands: arguments, reading a model, protecting files that were read."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..diagnostics import CompileError
from ..files import refuse_overwriting
from ..pipelines.options import composed, leaves, names, shapes
from ..session import ImportOptions, Session
from ..universe import FRONTENDS
from .parser import Parser
from .settings_file import add_settings

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..runtime.data import Preprocess
    from ..transforms.quantization.data_options import BackendOptions, ClusterOptions, DataOptions
    from ..transforms.quantization.request import QuantizeOptions

MODEL = f"a file ending in {', '.join(FRONTENDS)}, or the folder of a SavedModel"
"""The formats that are read, for --help."""

PROFILE = (
    "target profile: ascend (default), ascend-a2 (for Atlas A2 and A3: products of two activations as well), "
    "qdq (onnxruntime's integer kernels), ppq (values aligned as PPQ does), or a plugin's"
)
INTEGERS = "run a quantized nn module in integers, as onnxruntime runs its QDQ file (profiles qdq, ppq)"

CHECK = """run the module after each pass beside the one before it, layer by layer, and compare with what the pass promises
(docs/checking.md); also what was read and written, with onnxruntime if it is installed. DATA: samples, as --quantize takes them
(default: synthetic); the first two runs are used"""
"""What `--check` does, for --help."""

IMAGE_OPTIONS = ("preprocess", "resize", "crop", "pad", "scale", "mean", "std", "layout", "color")


def add_import_options(add: Callable[..., object], prefix: str = "", inputs: str = "inputs") -> None:
    """Options for reading a model; `add` is the `add_argument` of their group.

    Commands that read two models put a prefix before the names for the second. `inputs` is what the first is called where
    `--inputs` are data.
    """
    text = "names of the inputs, which may lie inside the graph (default: found in the model)"
    dest = f"{prefix}input_names".replace("-", "_")
    add(f"--{prefix}{inputs}", dest=dest, default="", metavar="NAME,...", help=text)
    add(f"--{prefix}outputs", default="", metavar="NAME,...", help="names of the outputs (default: found in the model)")
    add(
        f"--{prefix}input-shape",
        default="",
        metavar="NAME:SIZES;...",
        help="shapes of inputs, such as 'x:1,224,224,3;ids:?,16'; ? (or -1) is a size not known before run time",
    )
    add(f"--{prefix}signature", default="", metavar="NAME", help="the signature of a SavedModel")
    add(
        f"--{prefix}weights",
        type=Path,
        metavar="FILE",
        help="the file with the weights, for formats that keep them apart (Caffe)",
    )


def import_options(args: argparse.Namespace, prefix: str = "") -> ImportOptions:
    """The values of these options. Raises CompileError for malformed ones."""
    given = {name: getattr(args, f"{prefix}{name}".replace("-", "_")) for name in _READING}
    return ImportOptions(
        inputs=names(given["input_names"]),
        outputs=names(given["outputs"]),
        shapes=shapes(given["input_shape"], ",", f"--{prefix}input-shape"),
        signature=given["signature"],
        weights=given["weights"],
    )


_READING = ("input_names", "outputs", "input_shape", "signature", "weights")
_READING_OPTION = re.compile(r"(?<![\w-])--(inputs|outputs|input-shape|signature|weights)(?![\w-])")


NAMES_OF_INPUTS = "input-names"
"""What the names of inputs are called where `--inputs` are data."""


def load_with(
    args: argparse.Namespace, path: Path, prefix: str = "", inputs: str = "inputs"
) -> tuple[ModuleOp, Session]:
    """Reads a model with its own options; hints name them as `add_import_options` did. Raises CompileError."""
    try:
        return load_module(path, import_options(args, prefix), command_session(args))
    except CompileError as e:
        spelled = {"inputs": inputs}
        hint = _READING_OPTION.sub(lambda m: f"--{prefix}{spelled.get(m[1], m[1])}", e.hint)
        raise CompileError(e.message, where=e.where, hint=hint, option=e.option) from None


def add_amct_files(add: Callable[..., object]) -> None:
    """AMCT's options for the files to read and write; `add` is the `add_argument` of a parser."""
    add("--model", type=Path, required=True, help=MODEL)
    add("--weights", type=Path, help="the .caffemodel of a .prototxt")
    add(
        "--outputs",
        default="",
        help="names of the output tensors (TensorFlow), such as 'scope/Softmax:0;scope/boxes:0'",
    )
    add(
        "--save_path",
        required=True,
        help="folder and prefix of the results, such as results/model; missing folders are created",
    )
    text = "ascend (default), or ascend-a2, for Atlas A2 and A3: products of two activations are quantized as well"
    add("--profile", default="ascend", choices=("ascend", "ascend-a2"), help=text)


def amct_imports(args: argparse.Namespace) -> ImportOptions:
    """The import options among them."""
    return ImportOptions(outputs=names(args.outputs.replace(";", ",")), weights=args.weights)


def add_configuration(add: Callable[..., object]) -> None:
    """AMCT's option for its configuration."""
    add(
        "--calibration_config",
        help="AMCT's configuration, simplified or JSON (.json) (default: IFMR for activations, ARQ for weights)",
    )


def add_run_data(parser: argparse.ArgumentParser, *names: str) -> None:
    """`--data` of a run, under further names as well, and how images become inputs."""
    text = """an .npz file with one array per model input, by name, a .npy file, a folder with one .npy file per input or with
.npz files, or, with --preprocess, or --scale, --mean and --std, a folder of images"""
    parser.add_argument(*names, "--data", dest="data", metavar="DATA", type=Path, required=True, help=text)
    add_image_options(parser.add_argument_group("images").add_argument)


def image_form(args: argparse.Namespace) -> Preprocess | None:
    """How images become inputs; None for other data. Raises CompileError for malformed options."""
    from ..transforms.quantization.data_options import DataOptions

    return DataOptions(**image_options(args)).image_form()


_DATA = """an .npz file with one array per input, samples on the first axis; a .npy file for the only input; a folder with one
.npy file per input; a folder of shards, or its address (s3://...): .npz files, .parquet files with a column per input, or
.tar files as WebDataset has them; a group of Zarr (x.zarr); FILE.py:FUNCTION, which gives batches (FILE.py is executed); with
--data-types a folder of raw binaries per input, separated by ;, one run per file; with --preprocess, or --scale, --mean and
--std, a folder of images or of folders of them"""


def add_data_options(add: Callable[..., object]) -> None:
    """Options for calibration data; `add` is the `add_argument` of their group."""
    add_samples_options(add, f"{_DATA}. Synthetic when not given")
    add(
        "--batch-num",
        type=positive,
        metavar="N",
        help="calibrate on the first N batches, measure on the next N/10; required if the data function never ends",
    )


def add_samples_options(add: Callable[..., object], help: str = _DATA) -> None:
    """Options for data in any form."""
    add("--data", metavar="DATA", help=help)
    add(
        "--data-types",
        default="",
        metavar="TYPE,...",
        help="types of raw binaries, one per input, such as float32,int64",
    )
    text = "shards of a folder that cannot be read: stop (default), or skip them and warn; skip reads all of the data first"
    add("--on-error", choices=("stop", "skip"), default="stop", help=text)
    add_image_options(add)


def add_image_options(add: Callable[..., object]) -> None:
    """Options for how images become inputs; `add` is the `add_argument` of their group."""
    text = """how images become inputs: imagenet (torchvision's classifiers), caffe (also Keras's of mode caffe), tf (-1 to 1), or
yolo (letterbox, 0 to 1); the options below override it"""
    add("--preprocess", metavar="NAME", help=text)
    add("--resize", metavar="N|HxW", help="shorter side of images, or both sides without keeping proportions; bilinear")
    add("--crop", metavar="N|HxW", help="size of the centre of images that is used (default: the model's)")
    add(
        "--pad",
        metavar="N|HxW|input",
        help="size that images are fitted into, on gray, in place of --resize and --crop",
    )
    add("--scale", type=float, metavar="WHITE", help="value of white before mean and std: 255 (default) or 1")
    text = "mean of images after --scale, one value or one per channel; inputs are (pixel - mean) / std"
    add("--mean", default="", metavar="M,...", help=text)
    add("--std", default="", metavar="S,...", help="standard deviation of images after --scale")
    add("--layout", choices=("NCHW", "NHWC"), help="of images (default: what the shape of the input says)")
    add("--color", choices=("rgb", "bgr", "gray"), help="channels of images (default: rgb, or gray for one channel)")


def data_options(args: argparse.Namespace) -> DataOptions:
    """The values of these options. Raises CompileError for malformed ones."""
    from ..transforms.quantization.data_options import DataOptions

    batch_num = getattr(args, "batch_num", None)
    types, images = names(args.data_types), image_options(args)
    return DataOptions(args.data, batch_num=batch_num, data_types=types, on_error=args.on_error, **images)


def image_options(args: argparse.Namespace) -> dict[str, Any]:
    """The values of the options for images, as fields of `DataOptions`. Raises CompileError for malformed ones."""
    given = {name: getattr(args, name) for name in IMAGE_OPTIONS}
    return {**given, "mean": _numbers(args.mean, "--mean"), "std": _numbers(args.std, "--std")}


def add_quantize_options(parser: Parser, title: str = "") -> None:
    """Options for what is quantized and how: the common ones, then every other option of `QuantizeOptions`, under headings.

    `title` comes before each heading.
    """
    add_settings(parser)
    adders = {name: parser.add_argument_group(f"{title}{name}").add_argument for name in _HEADINGS}
    add = adders[_WHAT]
    add("--config", metavar="CONFIG", help="AMCT's configuration, JSON (.json) or simplified")
    add("--profile", default="ascend", help=PROFILE)
    text = """layers that stay in float. Names of layers, here and in the other lists, are those of the model, paths of PyTorch
modules, or patterns such as '*/head/*'"""
    add("--skip-layers", "--keep-float", dest="skip_layers", default="", metavar="LAYER,...", help=text)
    add("--only-layers", default="", metavar="LAYER,...", help="the only layers that are quantized")
    add("--skip-fusion", default="", metavar="LAYER,...", help="layers that no fusion may touch")
    text = "weights of matrix products alone: inputs stay float"
    add("--weight-only", action=argparse.BooleanOptionalAction, help=text)
    add = adders[_NUMBERS]
    add("--observer", help="how ranges are found (default: mse, or what --config says)")
    add("--weight-bits", type=int, choices=(3, 4, 6, 7, 8), help="bits of weights (default: 8, or what --config says)")
    text = "bits of the weights of single layers, in place of all other settings"
    add("--layer-weight-bits", default="", metavar="LAYER:BITS,...", help=text)
    text = "with --weight-only: a scale for each output channel and N input channels; 16, 32, 64, 128 or 256"
    add("--group-size", type=int, choices=(16, 32, 64, 128, 256), metavar="N", help=text)
    add = adders["recovery of accuracy"]
    text = "even out channels between layers by powers of two before quantization, where data shows that it helps"
    add("--equalize", action=argparse.BooleanOptionalAction, help=text)
    text = "choose ranges of activations by the outputs of the layers that read them"
    add("--fit-ranges", action=argparse.BooleanOptionalAction, help=text)
    text = "choose the integers of weights by the layers' outputs (default: the nearest)"
    add("--round-weights", choices=("gptq", "mismatch", "adaround"), help=text)
    text = "add to biases what quantization shifts layers' outputs by"
    add("--correct-bias", action=argparse.BooleanOptionalAction, help=text)
    parser.later(lambda: _add_other_settings(adders, parser.names()))


_WHAT, _NUMBERS, _SHARED = "what is quantized", "ranges and widths", "which values share scales"
_HEADINGS: Mapping[str, Collection[str]] = {
    _WHAT: ("skip_layer_types", "tensor_quantize"),
    _NUMBERS: (),
    "recovery of accuracy": ("dmq",),
    _SHARED: ("joint_quant", "shift"),
}
"""Headings of options in --help, with the settings of `SettingsOptions` that belong there; its others are ranges and widths."""


def _add_other_settings(adders: Mapping[str, Callable[..., object]], known: Collection[str]) -> None:
    """The settings without an option so far, described by the dataclass; `record` is an option of its own."""
    from ..pipelines.described import options, owners
    from ..transforms.quantization.request import PointOptions, QuantizeOptions

    for owner in owners(QuantizeOptions):
        default = _SHARED if owner is PointOptions else _NUMBERS
        for each in (each for each in options(owner) if each.field not in known and each.field != "record"):
            add = adders[next((name for name, fields in _HEADINGS.items() if each.field in fields), default)]
            text = f"{each.text[0].lower()}{each.text[1:]}".removesuffix(".").replace("`", "").replace("%", "%%")
            flag = f"--{each.name}"
            if each.type is bool:
                add(flag, action=argparse.BooleanOptionalAction, help=text)
            elif each.is_list:
                add(flag, default="", metavar=_ITEMS.get(each.field, "NAME,..."), help=text)
            elif each.choices:
                add(flag, type=type(each.choices[0]), choices=each.choices, help=text)
            else:
                add(flag, type=each.type, metavar=each.type.__name__.upper(), help=text)


_ITEMS = {"skip_layer_types": "TYPE,...", "activation_type": "TYPE,...", "tensor_quantize": "LAYER:INDEX,..."}
"""What the lists among them hold."""


def quantize_options(args: argparse.Namespace) -> QuantizeOptions:
    """The values of these options, and of `--record` if the command has it."""
    from ..transforms.quantization.request import QuantizeOptions

    given: dict[str, Any] = {}
    for name, leaf in leaves(QuantizeOptions).items():
        value = getattr(args, name, None)
        if value is not None:
            given[name] = names(value) if leaf.field.default == () else value
    return composed(QuantizeOptions, given)


def quantizing_session(args: argparse.Namespace) -> Session:
    """A session with the profile, the fusions to skip, and how the model is read."""
    session = command_session(args)
    session.profile = args.profile
    session.imports = import_options(args)
    session.skip_fusion = frozenset(names(args.skip_fusion))
    session.commands = command_lines(args)
    return session


_OWN = (
    "output",
    "record",
    "run",
    "settings",
    "quiet",
    "verbose",
    "json",
    "labels",
    "cluster",
    "cluster_tls",
    "cluster_store",
    "checkpoint",
)
"""Arguments of one run only, those that change no result, and labels, which not all of the commands have."""


def command_lines(args: argparse.Namespace) -> dict[str, str]:
    """The command lines that read the same model and data in the same way, for advice; those of tune and evaluate have a goal."""
    from .amct import parser

    commands, labels = parser().commands(), getattr(args, "labels", None)
    given = argparse.Namespace(**vars(args), models=args.model)
    lines = {name: _words(commands[name], given) for name in ("quantize", "sensitivity", "tune", "evaluate")}
    if labels is not None:
        lines["quantize"] += ["--labels", labels]
        lines["tune"] += ["--labels", labels, *([] if "--drop" in lines["tune"] else ["--drop", "1"])]
    elif not {"--sqnr", "--evaluator", "--drop"} & {*lines["tune"]}:
        lines["tune"] += ["--sqnr", "30"]
    lines["evaluate"] += ["--labels", labels or ("folders" if _has_folders(args.data) else "LABELS")]
    return {name: shlex.join(words) for name, words in lines.items()}


def _has_folders(data: str | None) -> bool:
    folder = Path(data or "")
    return bool(data) and folder.is_dir() and any(each.is_dir() for each in folder.iterdir())


def _words(parser: Parser, args: argparse.Namespace) -> list[str]:
    """A line with the options that differ from what they are by default, without those that a run has of its own."""
    words: list[str] = parser.prog.split()
    for action in parser.complete().actions():
        value = getattr(args, action.dest, action.default)
        if action.dest in _OWN or value == action.default or value is None or value == "":
            continue
        option = action.option_strings[-1 if value is False else 0 :][:1]
        text = str(value)
        # a value such as -1,1 would be taken for an option
        words += (
            option
            if isinstance(value, bool)
            else [f"{option[0]}={text}"]
            if text[:1] == "-" and option
            else [*option, text]
        )
    return words


def add_data_and_reading(parser: argparse.ArgumentParser) -> None:
    """The groups of options that say what calibrates, what runs the model meanwhile, and how the model is read."""
    add_data_options(parser.add_argument_group("calibration data").add_argument)
    add_backend_options(parser.add_argument_group("how calibration runs the model").add_argument)
    reading = parser.add_argument_group("how the model is read").add_argument
    add_import_options(reading)


def add_backend_options(add: Callable[..., object]) -> None:
    """Options for how calibration runs the model; `add` is the `add_argument` of their group."""
    text = "what runs the model: numpy, onnxruntime, iree, or auto (default): numpy or onnxruntime, whichever should finish first"
    add("--backend", default="auto", choices=("auto", "numpy", "onnxruntime", "iree"), help=text)
    add(
        "--threads",
        type=positive,
        metavar="N",
        help="number of threads of onnxruntime (default: one per core, at most 8)",
    )
    add_cluster(add)
    text = "folder that keeps what a cluster has computed: the same command goes on where it was stopped"
    add("--checkpoint", metavar="DIR", help=text)


def add_cluster(add: Callable[..., object]) -> None:
    """`--cluster`, the machines that share the work."""
    text = "Dask cluster that shares the work: local:N for N processes here, or a scheduler, tcp://host:8786"
    add("--cluster", metavar="CLUSTER", help=text)
    text = "certificate of the authority, own certificate and key, PEM files, for a scheduler at tls://host:8786"
    add("--cluster-tls", metavar="CA,CERT,KEY", default="", help=text)
    text = "folder or address (s3://...) that all workers see: weights are put there, and not sent to each worker"
    add("--cluster-store", metavar="DIR", help=text)


def backend_options(args: argparse.Namespace) -> BackendOptions:
    """The values of these options."""
    from ..transforms.quantization.data_options import BackendOptions

    return BackendOptions(backend=args.backend, threads=args.threads, **vars(cluster_options(args)))


def cluster_options(args: argparse.Namespace) -> ClusterOptions:
    """The values of those of `add_cluster`, and the checkpoint."""
    from ..transforms.quantization.data_options import ClusterOptions

    return ClusterOptions(
        cluster=args.cluster,
        cluster_tls=names(args.cluster_tls),
        cluster_store=args.cluster_store,
        checkpoint=args.checkpoint,
    )


def _numbers(text: str, what: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, names(text)))
    except ValueError:
        message = f"{what}: '{text}' is not a list of numbers"
        raise CompileError(message, hint=f"write {what} 123.7,116.3,103.5", option=what) from None


def add_batch(parser: argparse.ArgumentParser) -> None:
    """`--batch`, how many samples run at a time."""
    parser.add_argument(
        "--batch", metavar="N", type=positive, help="run N samples at a time, if the model takes any number"
    )


def positive(text: str) -> int:
    """An argument that counts something."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive integer")
    return int(text)


def add_json(add: Callable[..., object]) -> None:
    """`--json`, of commands that print tables."""
    add("--json", action="store_true", help="print JSON in place of tables; numbers that are not finite are null")


def print_json(args: argparse.Namespace, data: Mapping[str, Any]) -> None:
    """Print data as one JSON object on stdout, behind the command and the version (docs/embedding.md has the keys)."""
    from .. import __version__

    print(json.dumps({"command": args.command, "version": __version__, **data}, indent=2, ensure_ascii=False))


def command_session(args: argparse.Namespace) -> Session:
    """A new session, which prints every remark to stderr with --verbose."""
    from ..universe import new_session

    session = new_session()
    if args.verbose:
        session.on_remark = lambda remark: print(remark, file=sys.stderr)
    return session


def load_module(
    path: Path, imports: ImportOptions | None = None, session: Session | None = None
) -> tuple[ModuleOp, Session]:
    """Read a model or module as a verified module, in a new session if none is given. Raises CompileError."""
    from ..api import load
    from ..universe import new_session

    session = session or new_session()
    if imports is not None:
        session.imports = imports
    return load(path, session)


def protect(writes: Sequence[Path], reads: Iterable[Path]) -> None:
    """Raises CompileError if a file that was read would be overwritten, or if the output folder does not exist."""
    refuse_overwriting(writes, reads)
    for path in writes:
        if not path.parent.is_dir():
            raise CompileError("there is no such folder", where=str(path.parent))
