"""Checks files by what ATC, Huawei's model compiler, takes, writes the script that runs it, and reads its log back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import ModelProto, ValueInfoProto

from .. import frontends
from ..dialects.ascend import AscendOp
from ..dialects.nn import ConstantOp, NNOp
from ..formats.onnx.file import without_weights
from ..formats.onnx.graphs import all_nodes, domain_of
from ..formats.wire import MalformedError, mapped
from ..lowering.ascend import LowerToAscendPass
from ..lowering.ascend.chips import library
from ..lowering.ascend.chips.kernels import RULE, kernel_of, nothing_known
from ..rewriting import Refusal, layer_of
from ..session import Session
from ..support.diagnostics import CompileError
from ..support.files import replacing
from ..targets.onnx_ascend.atc import Finding, findings
from ..targets.onnx_ascend.table import OPERATORS


@dataclass(frozen=True)
class Checked:
    """A file, and what ATC does with it."""

    name: str
    """Its path in the folder."""
    model: ModelProto
    """Without its external data."""
    nodes: Sequence[Finding]
    kernels: Sequence[Finding] = ()
    """Whether the chip of the session has kernels; `type` is the operator with its element types."""

    @property
    def opset(self) -> int:
        return next((each.version for each in self.model.opset_import if not domain_of(each.domain)), 0)

    @property
    def all(self) -> Sequence[Finding]:
        return (*self.nodes, *self.kernels)


def check(path: Path, session: Session) -> list[Checked]:
    """Checks an ONNX file, or the files in a folder and those beneath it that have operators of AMCT's; all if none has one.

    Notes the files of the folder that are not checked. Raises CompileError for what is not ONNX, and if there is no file.
    """
    folder = path if path.is_dir() else path.parent
    files = sorted(path.rglob("*.onnx")) if path.is_dir() else [path]
    models = {each: _read(each) for each in files}
    if not models:
        raise CompileError("has no ONNX file", where=str(path), hint="amct quantize and amct convert write them")
    deployed = [each for each, model in models.items() if any(n.op_type in OPERATORS for n in model.graph.node)]
    for each in files if deployed and path.is_dir() else ():
        if each not in deployed:
            session.note(f"{each.relative_to(folder)} is not checked: it has no operator of AMCT's, unlike other files")
    if session.chip is not None and not library(session.chip):
        session.note(nothing_known(session.chip))
    return [
        Checked(str(each.relative_to(folder)), models[each], findings(models[each]), _kernels(each, session))
        for each in deployed or files
    ]


def _read(path: Path) -> ModelProto:
    if path.suffix.lower() != ".onnx":
        hint = "ATC reads files of TensorFlow and Caffe with other parsers, of which nothing is known here"
        raise CompileError("is not an ONNX file", where=str(path), hint=hint)
    data = mapped(path)
    try:
        return ModelProto.FromString(without_weights(data.data)[0])
    except (MalformedError, DecodeError):
        raise CompileError("is not an ONNX model", where=str(path), hint="the file is damaged or truncated") from None


def _kernels(path: Path, session: Session) -> list[Finding]:
    """Whether the chip has a kernel for each operation of a file."""
    if (chip := session.chip) is None or not library(chip):
        return []
    silent = session.silent()
    try:
        module = frontends.read(path, silent)
        LowerToAscendPass().apply(silent, module)
    except CompileError as e:
        return [Finding("", "", "unknown", RULE, f"the file cannot be lowered: {e.message}")]
    found: list[Finding] = []
    for op in module.walk():
        if isinstance(op, AscendOp):
            kernel, name = kernel_of(op, chip), layer_of(op)
            if isinstance(kernel, Refusal):
                operator = op.name.removeprefix("ascend.")
                found.append(Finding(name, operator, "refused", RULE, kernel.reason, "EZ3003"))
            elif kernel.row is None:
                found.append(
                    Finding(name, str(kernel), "unknown", RULE, f"chip {chip}: its rows of types are not known")
                )
            else:
                found.append(Finding(name, str(kernel), "confirmed"))
        elif isinstance(op, NNOp) and not isinstance(op, ConstantOp):
            found.append(Finding(layer_of(op), op.name, "unknown", RULE, "no operator of Ascend IR is known for it"))
    return found


_MARK = "# Written by amct atc-check"
_SCRIPT = """\
#!/bin/bash
{mark}: compiles each model once per soc_version; what ATC says goes into atc.log.
# bash {name} Ascend910B4 [SOC_VERSION ...]     then     amct atc-check {folder} --log atc.log
# Further options of ATC, such as --insert_op_conf=aipp.cfg, are those in ATC_OPTIONS.
set -u
cd "$(dirname "$0")" || exit 1
[ $# -gt 0 ] || {{ echo "usage: bash {name} SOC_VERSION ..., such as Ascend310P3 or Ascend910B4" >&2; exit 2; }}
command -v atc > /dev/null || {{ echo "atc is not on the PATH: source set_env.sh of the toolkit" >&2; exit 1; }}
mkdir -p om
compile() {{
    local model=$1 om=$2
    shift 2
    for soc in $socs; do
        echo "amct-opt: $model on $soc"
        atc --framework=5 --model="$model" --output="om/${{om}}_$soc" --soc_version="$soc" "$@" \\
            ${{ATC_OPTIONS:-}}
    done
}}
socs=$*
{sizes}{{
{lines}
}} 2>&1 | tee atc.log
"""


def write_script(checked: Sequence[Checked], folder: Path, file: Path) -> None:
    """Writes a script for bash that runs ATC on each file for each soc_version that it is given.

    A batch size that is not known is 1; other sizes that are not known are variables that the user sets. Raises CompileError if
    `file` exists and is not such a script.
    """
    if file.exists() and _MARK not in file.read_text("utf-8", errors="replace"):
        raise CompileError(
            "exists, and is not a script of amct atc-check", where=str(file), hint="--script names another"
        )
    needed = {size: where for each in checked for value in _inputs(each.model) for size, where in _needed(value)}
    sizes = "".join(f': "${{{size}:?set it to {where}}}"\n' for size, where in needed.items())
    made = [re.sub(r"\W", "_", each.name.removesuffix(".onnx")) for each in checked]
    named = zip(checked, made, strict=True)
    lines = [f"compile {shlex.join([each.name, om])}{_shapes(each.model)}" for each, om in named]
    known = {"mark": _MARK, "name": file.name, "folder": shlex.quote(str(folder))}
    with replacing(file) as stream:
        stream.write(_SCRIPT.format(**known, sizes=sizes, lines="\n".join(lines)).encode())


def _inputs(model: ModelProto) -> list[ValueInfoProto]:
    constants = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in constants]


def _shapes(model: ModelProto) -> str:
    """The option with the shapes of inputs, if a size is not known."""
    inputs = _inputs(model)
    if all(dim.HasField("dim_value") for each in inputs for dim in each.type.tensor_type.shape.dim):
        return ""
    shapes = ";".join(f"{_quoted(each.name)}:{','.join(_sizes(each))}" for each in inputs)
    return f' --input_shape="{shapes}"'


def _quoted(name: str) -> str:
    """A name as a part of a text in double quotes."""
    return re.sub(r'(["$`\\])', r"\\\1", name)


def _sizes(value: ValueInfoProto) -> Iterator[str]:
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if dim.HasField("dim_value"):
            yield str(dim.dim_value)
        else:
            yield f"${{{_variable(value, axis)}}}" if axis else "1"


def _needed(value: ValueInfoProto) -> Iterator[tuple[str, str]]:
    """The variables for the sizes of an input that are not known, with what they are."""
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if axis and not dim.HasField("dim_value"):
            yield _variable(value, axis), f"the size of axis {axis} of {_NO_WORD.sub('_', value.name)}"


_NO_WORD = re.compile(r"[^A-Za-z0-9_]")


def _variable(value: ValueInfoProto, axis: int) -> str:
    name = value.type.tensor_type.shape.dim[axis].dim_param or f"{value.name}_{axis}"
    return f"size_{_NO_WORD.sub('_', name)}"


CODES: Mapping[str, str] = {
    "E10501": "registered",
    "E11010": "attributes",
    "E13009": "names",
    "E16001": "ends",
    "E16002": "registered",
    "E19010": "registered",
    "EZ3002": RULE,
    "EZ3003": RULE,
    "EZ9010": RULE,
}
"""The rules that say beforehand that ATC reports an error, by its code."""


@dataclass(frozen=True)
class Logged:
    """A line of ATC's log about a file: that it is compiled, or an error."""

    name: str
    soc: str
    code: str
    """Empty if the file is compiled, or nothing says whether."""
    node: str
    type: str
    says: str
    """What the check says about it."""
    message: str


_RUN = re.compile(r"^amct-opt: (.+) on (\S+)$")
_CODE = re.compile(r"\b(E[A-Z]?\d{4,5})\b\)?:\s*(?:\[PID: \d+\]\s*)?(?:\d{4}-[\d.:-]+\s*)?")
_NAMED = re.compile(r"\[([^\[\]]+?)\]?, optype \[([^\]]+)\]|optype \[?([\w.:]+?)\]?\.?$")
_SUCCESS = "ATC run success"


def read_log(text: str, checked: Sequence[Checked]) -> list[Logged]:
    """What ATC says about each file and soc_version, next to what the check says. Runs without a line of the script's are of the
    only file. Raises CompileError for a log of other files.
    """
    known = {each.name: each for each in checked}
    found: list[Logged] = []
    for name, soc, lines in _runs(text, checked):
        if name not in known:
            hint = f"files are {', '.join(known)}"
            raise CompileError(f"the log is about '{name}', which is not among the files that are checked", hint=hint)
        errors = [*_errors(lines, known[name], soc)]
        if not errors:
            built = any(_SUCCESS in line for line in lines)
            errors = [Logged(name, soc, "", "", "", "compiled" if built else "no result in the log", "")]
        found += errors
    return found


def _runs(text: str, checked: Sequence[Checked]) -> Iterator[tuple[str, str, list[str]]]:
    """The lines about each file and soc_version."""
    name, soc, lines = checked[0].name if len(checked) == 1 else "", "", list[str]()
    for line in text.splitlines():
        if (run := _RUN.match(line)) is None:
            lines.append(line)
            continue
        if soc:
            yield name, soc, lines
        name, soc, lines = run[1], run[2], []
    if soc or name:
        yield name, soc, lines
    elif any(line.strip() for line in lines):
        hint = "name the one file that the log is about, or run the script that the command writes"
        raise CompileError("the log does not say which file it is about", hint=hint)


def _errors(lines: Iterable[str], checked: Checked, soc: str) -> Iterator[Logged]:
    """The errors, each once; lines after a code that name an operator are about the same error."""
    code, seen = "", set[tuple[str, str]]()
    for line in lines:
        start = _CODE.search(line)
        if start is not None:
            code = start[1]
        named = _NAMED.search(line)
        if not code or (start is None and named is None):
            continue
        message = line[start.end() :].strip() if start else line.strip()
        for node, kind in _nodes(message, named, checked):
            if (code, node) not in seen:
                seen.add((code, node))
                yield Logged(checked.name, soc, code, node, kind, _says(code, node, checked), message)


def _nodes(message: str, named: re.Match[str] | None, checked: Checked) -> list[tuple[str, str]]:
    """The nodes that a message is about, with their types: by name, as the beginning of the name of an operator that ATC makes
    of a node, or all of a type.
    """
    nodes = {each.name: each.op_type for each in all_nodes(checked.model.graph.node)}
    if named is not None and named[3]:
        wanted = named[3].rpartition("::")[2]
        return [(name, kind) for name, kind in nodes.items() if kind == wanted] or [("", wanted)]
    text = named[1] if named is not None else message
    if named is None:
        inside = [name for name in nodes if name and re.search(rf"(?<![\w/.]){re.escape(name)}(?![\w/])", text)]
    else:
        inside = [name for name in nodes if name and text.startswith(name)]
    name = max(inside, key=len, default="")
    return [(name, nodes.get(name, named[2].rpartition("::")[2] if named is not None else ""))]


def _says(code: str, node: str, checked: Checked) -> str:
    """What the check says about a node for which ATC reports an error."""
    rule = CODES.get(code, "")
    where = checked.kernels if rule == RULE else checked.nodes
    about = [each for each in where if each.node == node]
    if any(each.status == "refused" for each in about):
        return f"refused, as ATC does ({next(each.rule for each in about if each.status == 'refused')})"
    if unknown := next((each for each in about if each.status == "unknown"), None):
        return f"unknown ({unknown.rule}): {unknown.reason}"
    if rule == RULE and not about:
        return f"not checked ({RULE}): --chip checks it"
    if about:
        return f"confirmed: the rule '{rule}' is wrong" if rule else "confirmed: no rule is about this error"
    return f"nothing ({rule})" if rule else "nothing: no rule is about this error"
