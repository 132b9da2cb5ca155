"""Common parts of the `amct` commands: arguments, reading a model, protecting files that were read."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from ..flows.options import ResultOptions
from ..pipelines.options import Option, composed, leaves, names, numbers, shapes, warn_of_rename
from ..session import ImportOptions, Session
from ..session.catalogue import FRONTENDS
from ..support.diagnostics import CompileError
from ..support.files import refuse_overwriting
from ..transforms.quantization.options import (
    AllOptions,
    ClusterOptions,
    DataOptions,
    ImageOptions,
    SessionOptions,
    engine_named,
)
from .parser import TOOLS, Parser
from .settings_file import add_settings, relative_to

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..data import Preprocess
    from ..data.inputs import Runs

_T = TypeVar("_T")

MODEL = f"a file ending in {', '.join(FRONTENDS)}, or a folder with a SavedModel or an ONNX model"
"""The formats that are read, for --help."""

INTEGERS = "run a quantized nn module in integers, as onnxruntime runs its QDQ file (profiles qdq, ppq)"


ENGINES = "numpy, the interpreter (default), iree, as native code, openvino, or an engine of a plugin"
"""The engines of a session, for --help."""


def add_model_and_folder(add: Callable[..., object]) -> None:
    """The model that is read, and `-o`, the folder that is written."""
    add("model", metavar="MODEL", type=Path, help=MODEL)
    text = "folder for the results, created if missing"
    add("-o", "--output", metavar="OUTDIR", type=Path, required=True, help=text)


def add_import_options(add: Callable[..., object], prefix: str = "", inputs: str = "inputs") -> None:
    """Options for reading a model; `add` is the `add_argument` of their group.

    Commands that read two models put a prefix before the names for the second. `inputs` is what the first is called where
    `--inputs` are data.
    """
    text = "names of the inputs, which may lie inside the graph (default: found in the model)"
    dest = f"{prefix}input_names".replace("-", "_")
    add(f"--{prefix}{inputs}", dest=dest, default="", metavar="NAME,...", help=text)
    add(f"--{prefix}outputs", default="", metavar="NAME,...", help="names of the outputs (default: found in the model)")
    text = "shapes of inputs, such as 'x:1,224,224,3;ids:?,16'; ? (or -1) is a size not known before run time"
    add(f"--{prefix}input-shape", default="", metavar="NAME:SIZES;...", help=text)
    text = "numbers that inputs are from now on, such as use_cache_branch=true: an If takes its branch (ONNX)"
    add(f"--{prefix}input-value", default="", metavar="NAME=NUMBER;...", help=text)
    text = "types of operators that stay as they are, with the runtime's kernels, such as Attention (ONNX)"
    add(f"--{prefix}carry", default="", metavar="TYPE,...", help=text)
    add(f"--{prefix}signature", default="", metavar="NAME", help="the signature of a SavedModel")
    text = "the file with the weights, for formats that keep them apart (Caffe)"
    add(f"--{prefix}weights", type=Path, metavar="FILE", help=text)


def import_options(args: argparse.Namespace, prefix: str = "") -> ImportOptions:
    """The values of these options. Raises CompileError for malformed ones."""
    given = {name: getattr(args, f"{prefix}{name}".replace("-", "_")) for name in _READING}
    return ImportOptions(
        inputs=names(given["input_names"]),
        outputs=names(given["outputs"]),
        shapes=shapes(given["input_shape"], ",", f"--{prefix}input-shape"),
        values=numbers(given["input_value"], f"--{prefix}input-value"),
        carried=names(given["carry"]),
        signature=given["signature"],
        weights=given["weights"],
    )


_READING = ("input_names", "outputs", "input_shape", "input_value", "carry", "signature", "weights")
_READING_OPTION = re.compile(r"(?<![\w-])--(inputs|outputs|input-shape|input-value|carry|signature|weights)(?![\w-])")


NAMES_OF_INPUTS = "input-names"
"""The option for the names of inputs in commands where `--inputs` are data."""


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
    text = "names of the output tensors (TensorFlow), such as 'scope/Softmax:0;scope/boxes:0'"
    add("--outputs", default="", help=text)
    text = "folder and prefix of the results, such as results/model; missing folders are created"
    add("--save_path", required=True, help=text)
    text = "ascend (default), or ascend-a2, for Atlas A2 and A3: products of two activations are quantized as well"
    add("--profile", default="ascend", choices=("ascend", "ascend-a2"), help=text)
    add_option(add, leaves(SessionOptions)["rules"])


def amct_imports(args: argparse.Namespace) -> ImportOptions:
    """The import options among them."""
    return ImportOptions(outputs=names(args.outputs.replace(";", ",")), weights=args.weights)


def add_configuration(add: Callable[..., object]) -> None:
    """AMCT's option for its configuration."""
    text = "AMCT's configuration, simplified or JSON (.json) (default: IFMR for activations, ARQ for weights)"
    add("--calibration_config", help=text)


def add_run_data(parser: Parser, *names: str) -> None:
    """Adds `--data` of a run, under further names as well, and the options for the conversion of images to inputs."""
    text = """an .npz file with one array per model input, by name, a .npy file, a folder with one .npy file per input or with
.npz files, or, with --preprocess, or --scale, --mean and --std, a folder of images"""
    parser.add_argument(*names, "--data", dest="data", metavar="DATA", type=Path, required=True, help=text)
    add_run_form(parser)


def add_run_form(parser: Parser) -> None:
    """Adds the options for the part of a run's data to use, and for the conversion of images to inputs."""
    add_option(parser.add_argument, leaves(DataOptions)["samples"])
    add_options(parser, ImageOptions)


def add_pair(parser: Parser, *names: str, inputs: str = "inputs") -> None:
    """Two models, A and B, the data of the run, which has further names, and how both are read."""
    parser.add_argument("a", metavar="A", type=Path, help=f"the reference: {MODEL}")
    parser.add_argument("b", metavar="B", type=Path, help="the model to compare with it")
    add_run_data(parser, *names)
    add_batch(parser)
    add_import_options(parser.add_argument_group("how A is read").add_argument, inputs=inputs)
    add_import_options(parser.add_argument_group("how B is read").add_argument, "b-", inputs)


def load_pair(args: argparse.Namespace, inputs: str = "inputs") -> tuple[ModuleOp, ModuleOp, Runs]:
    """A, B, and the data for A. Raises CompileError, located in B for inputs that A does not have."""
    from ..data.inputs import load_runs
    from ..ir.functions import main_function
    from ..runtime.comparison import matched_inputs

    (a, _), (b, _) = load_with(args, args.a, inputs=inputs), load_with(args, args.b, "b-", inputs)
    try:
        matched_inputs(a, b)
    except CompileError as e:
        raise e.at(str(args.b)) from None
    return a, b, load_runs(args.data, main_function(a), args.batch, image_form(args), args.samples)


def image_form(args: argparse.Namespace) -> Preprocess | None:
    """The conversion of images to inputs; None for other data. Raises CompileError for malformed options."""
    from ..transforms.quantization.data import image_form

    return image_form(options_of(args, ImageOptions))


def add_options(parser: Parser, declared: type[Any], only: Collection[str] = (), without: Collection[str] = ()) -> None:
    """The options that a class of options declares, under their headings."""
    groups = {group.title: group for group in parser.groups()}
    for each in leaves(declared).values():
        if each.flags and each.field not in without and (not only or each.field in only):
            title = each.facts.group
            if title and title not in groups:
                groups[title] = parser.add_argument_group(title)
            add_option(groups.get(title, parser).add_argument, each)


def add_option(add: Callable[..., object], option: Option) -> None:
    """The flag of an option; `add` is the `add_argument` of its group."""
    value, kind = option.facts.value, option.type
    form: dict[str, Any] = {"metavar": value or option.field.upper(), "type": positive if kind is int else kind}
    if kind is bool:
        form = {"action": argparse.BooleanOptionalAction}
    elif option.is_list:
        form = {"metavar": value or "NAME,...", "default": ""}
    elif option.choices:
        form = {"type": type(option.choices[0]), "choices": option.choices, "default": option.default}
    elif value.startswith("["):
        form = {"metavar": value.strip("[]"), "nargs": "?", "const": ""}
    elif option.default is not None:
        form["default"] = option.default
    add(*option.flags, dest=option.field, help=option.brief(_flags()).replace("%", "%%"), **form)
    if was := option.facts.was:
        old = {**form, "type": _renamed(form["type"], f"--{was}", f"--{option.name}"), "default": argparse.SUPPRESS}
        add(f"--{was}", dest=option.field, help=argparse.SUPPRESS, **old)


def _renamed(read: Callable[[str], Any], was: str, name: str) -> Callable[[str], Any]:
    """Reads a value that was given under the option's old name."""

    def reading(text: str) -> Any:
        warn_of_rename(was, name)
        return read(text)

    return reading


@cache
def _flags() -> Mapping[str, str]:
    """The flags of all options that have one, by name."""
    every = [*leaves(SessionOptions).values(), *leaves(AllOptions).values(), *leaves(ResultOptions).values()]
    return {each.name: each.flags[0] for each in every if each.flags}


def options_of(args: argparse.Namespace, declared: type[_T]) -> _T:
    """The options of a class from its flags, or else the defaults. Raises CompileError for malformed ones."""
    said: dict[str, Any] = {}
    for each in (each for each in leaves(declared).values() if each.flags):
        value = getattr(args, each.field, None)
        if value is not None:
            said[each.field] = _listed(each, names(value)) if each.is_list else value
    return composed(declared, said)


def _listed(option: Option, words: Sequence[str]) -> tuple[Any, ...]:
    try:
        return tuple(map(get_args(option.type)[0], words))
    except ValueError:
        what = f"--{option.name}"
        message = f"{what}: '{','.join(words)}' is not a list of numbers"
        raise CompileError(message, hint=f"write {what} 123.7,116.3,103.5", option=what) from None


def add_quantization(parser: Parser, without: Collection[str] = ("record",)) -> None:
    """Adds the options of quantization, of the data, of the engine that runs the model meanwhile, and of reading the model."""
    add_settings(parser)
    for each in (SessionOptions, AllOptions):
        add_options(parser, each, without=without)
    add_import_options(parser.add_argument_group("how the model is read").add_argument)


def quantizing_session(args: argparse.Namespace) -> Session:
    """A session with the profile, the fusions to skip, and how the model is read."""
    session = command_session(args)
    options_of(args, SessionOptions).give(session)
    session.imports = import_options(args)
    session.commands = command_lines(args)
    return session


def note_target(args: argparse.Namespace, session: Session) -> None:
    """Report the target for which a run quantizes, and how to ask for the other one, if no profile is given."""
    if args.profile is None:
        from ..transforms.quantization.profiles import QDQ, profile_of

        mine = profile_of(session)
        session.note(f"quantizing for {mine.target} (profile {mine.name}); --profile cpu is for {QDQ.target}")


_OWN = (
    *leaves(ClusterOptions),
    *("output", "record", "run", "settings", "trust_settings", "quiet", "verbose", "json", "labels"),
)
"""Arguments of one run only, those that do not change a result, and labels, which only some commands have."""


def command_lines(args: argparse.Namespace) -> dict[str, str]:
    """The command lines that read the same model and data in the same way, for advice; those of tune and evaluate have a goal."""
    commands, labels = TOOLS["amct"]().commands(), getattr(args, "labels", None)
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
    """A line with the options that differ from their defaults, without those that a run has of its own."""
    words: list[str] = parser.prog.split()
    for action, value in _differing(parser, args):
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


def _differing(parser: Parser, args: argparse.Namespace) -> Iterator[tuple[argparse.Action, Any]]:
    """Yields the options of a command that differ from their defaults, without those that a run has of its own."""
    for action in parser.actions():
        value = getattr(args, action.dest, action.default)
        if action.help == argparse.SUPPRESS or action.dest in _OWN or value in (action.default, None, ""):
            continue
        if action.choices is None or value in action.choices:  # it may be of another command's option of that name
            yield action, value


class _Engines:
    """The names of engines, with those of plugins, which are loaded where a value is given."""

    def __init__(self, others: Sequence[str]):
        self.others = others

    def __iter__(self) -> Iterator[str]:
        from ..session.universe import new_session

        return iter((*self.others, *new_session().engines))


def add_engine(add: Callable[..., object], text: str, *others: str, default: str | None = None) -> None:
    """Adds `--engine`, which takes the engines of a session, and others."""
    add("--engine", metavar="ENGINE", type=engine_named, choices=_Engines(others), default=default, help=text)


def quantize_settings(args: argparse.Namespace, folder: Path) -> str:
    """The options of `amct quantize` among those of another command, as YAML for `--settings` in a file of this folder: without
    the model.
    """
    import yaml

    options = _differing(TOOLS["amct"]().commands()["quantize"], args)
    given = {
        action.option_strings[0].lstrip("-"): _setting(action, value, folder)
        for action, value in options
        if action.option_strings
    }
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True)


def _setting(action: argparse.Action, value: Any, folder: Path) -> bool | int | float | str | list[str]:
    """The value of an option in a file: a list, where its text is one."""
    if isinstance(value, bool | int | float):
        return value
    text, form = relative_to(folder, action.dest, str(value)), str(action.metavar or "")
    return text.split(form[-4]) if form.endswith("...") else text


def add_batch(parser: Parser) -> None:
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
    """Adds `--json`, for commands that print tables."""
    add("--json", action="store_true", help="print JSON in place of tables; numbers that are not finite are null")


_READ = ("model", "models", "data", "test", "labels")
_INSIDE = re.compile(r"(?<=\.py|npz):[^:]+$")
"""The part after a file's name: the function of a script, the array of an archive."""


def check_files(args: argparse.Namespace) -> None:
    """Raises CompileError for a model, data or labels that do not exist, before any library is loaded that reads them."""
    for name in _READ:
        given: Any = getattr(args, name, None)
        for text in map(str, given if isinstance(given, list) else [given]):  # pyright: ignore[reportUnknownArgumentType]
            file = Path(_INSIDE.sub("", text))
            if given is None or "://" in text or ";" in text or (name, text) == ("labels", "folders"):
                continue
            if not file.exists() and (name[:5] != "model" or file.suffix.lower() in FRONTENDS):
                none = "there is no such file" if file.suffix else "there is no such file or folder"
                message = none if name[:5] != "model" else "cannot be read: No such file or directory"
                raise CompileError(message, where=str(file))


def print_json(args: argparse.Namespace, data: Mapping[str, Any]) -> None:
    """Print data as one JSON object on stdout, after the command and the version (docs/embedding.md has the keys)."""
    from .. import __version__

    print(json.dumps({"command": args.command, "version": __version__, **data}, indent=2, ensure_ascii=False))


def command_session(args: argparse.Namespace) -> Session:
    """A new session, which prints every remark to stderr with --verbose."""
    from ..session.universe import new_session

    session = new_session()
    if args.verbose:
        session.on_remark = lambda remark: print(remark, file=sys.stderr)
    return session


def load_module(
    path: Path, imports: ImportOptions | None = None, session: Session | None = None
) -> tuple[ModuleOp, Session]:
    """Read a model or module as a verified module, in a new session if none is given. Raises CompileError."""
    from ..api import load
    from ..session.universe import new_session

    session = session or new_session()
    if imports is not None:
        session.imports = imports
    return load(path, session)


def protect(writes: Sequence[Path], reads: Iterable[Path]) -> None:
    """Raises CompileError if a file that was read would be overwritten, or if the output folder does not exist."""
    refuse_overwriting(writes, reads)
    for path in writes:
        if not path.parent.is_dir():
            raise CompileError("the folder does not exist", where=str(path.parent))
