"""`amct atc-check`: what ATC takes of files, a script that runs it, and its log next to that."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.diagnostics import CompileError
from ..support.tables import numbered, print_table, some
from ..transforms.quantization.options import CHIPS
from .parser import add_command
from .shared import add_json, command_session, print_json

if TYPE_CHECKING:
    from ..flows.atc import Checked, Logged
    from ..targets.onnx_ascend.atc import Finding

_DESCRIPTION = """\
Holds ONNX files to what is known about ATC, Huawei's model compiler, without it: types and opsets in the registry of its
parser, names, inputs, and the attributes that its plug-ins read; with --chip, the kernels of the chip as well. Each node is
  confirmed   ATC's open sources take it
  unknown     they do not say
  refused     ATC reports an error, or computes something else
Also writes a script that runs ATC on the files, once per soc_version, and whose log --log reads back."""


def add_parser(commands: Any) -> None:
    """The command `amct atc-check` and its options."""
    usage, summary = "FILES [options]", "check files for ATC, and read its log"
    parser = add_command(commands, "atc-check", usage, summary, _DESCRIPTION, run)
    add = parser.add_argument
    text = "an ONNX file, or a folder: its files with operators of AMCT's, also beneath it; all if none has one"
    add("path", metavar="FILES", type=Path, help=text)
    add("--chip", choices=CHIPS, help="check the kernels of this chip as well")
    add("--log", type=Path, metavar="LOG", help="what ATC printed, when the script ran it; no script is written then")
    add("--script", type=Path, metavar="SCRIPT", help="the script that runs ATC (default: atc.sh in the folder)")
    add_json(add)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for files that cannot be read, and, after the tables, if ATC refuses one."""
    from ..flows.atc import check, read_log, write_script

    session = command_session(args)
    session.chip = args.chip
    if not args.path.exists():
        raise CompileError("there is no such file or folder", where=str(args.path))
    checked = check(args.path, session)
    logged = None if args.log is None else read_log(_text(args.log), checked)
    script = args.script or (args.path if args.path.is_dir() else args.path.parent) / "atc.sh"
    if logged is None:
        write_script(checked, args.path, script)
    if args.json:
        print_json(args, _data(checked, logged, script))
    else:
        _print_tables(checked, logged, script)
    refused = sum(each.status == "refused" for file in checked for each in file.all)
    if logged is not None and (failed := {(each.name, each.soc) for each in logged if each.says != "compiled"}):
        raise CompileError(f"ATC did not compile {numbered(len(failed), 'model')}", where=str(args.log))
    if logged is None and refused:
        raise CompileError(f"ATC refuses {numbered(refused, 'operation')}", where=str(args.path), hint=_HINT)


_HINT = "the script runs ATC all the same; --log reads what it says"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where=str(path)) from None


def _print_tables(checked: Sequence[Checked], logged: Sequence[Logged] | None, script: Path) -> None:
    _print_part("nodes", {(file.name, str(file.opset)): file.nodes for file in checked}, ("file", "opset"))
    if any(file.kernels for file in checked):
        _print_part("kernels", {(file.name,): file.kernels for file in checked}, ("file",))
    if logged is None:
        print_table("script", (), [("written", f"{script}: bash {script.name} SOC_VERSION ... runs ATC on the files")])
        return
    headers = ("file", "soc_version", "code", "node", "type", "the check says", "ATC says")
    table = [(e.name, e.soc or "-", e.code or "-", e.node or "-", e.type or "-", e.says, e.message) for e in logged]
    print_table("log", headers, table)


def _print_part(title: str, files: Mapping[tuple[str, ...], Sequence[Finding]], headers: tuple[str, ...]) -> None:
    """What is known about the nodes, or the kernels, of files: by file, by type, and by reason what is not confirmed."""
    rows = [(*file, *map(str, _counts(found).values())) for file, found in files.items()]
    print_table(title, (*headers, "confirmed", "unknown", "refused"), rows)
    confirmed = Counter(each.type for found in files.values() for each in found if each.status == "confirmed")
    if confirmed:
        print_table(f"{title}: confirmed", ("type", "count"), [(t, str(n)) for t, n in sorted(confirmed.items())])
    groups: dict[Finding, dict[str, str]] = {}
    for file, found in files.items():
        for each in found:
            if each.status != "confirmed":
                groups.setdefault(each._replace(node=""), {}).setdefault(each.node or "-", file[0])
    if groups:
        columns = ("type", "status", "rule", "code", "reason", title, "first file")
        table = [
            (e.type or "-", e.status, e.rule, e.code or "-", e.reason, some([*of]), next(iter(of.values())))
            for e, of in groups.items()
        ]
        print_table(f"{title}: not confirmed", columns, sorted(table, key=lambda row: row[1]))


def _counts(found: Sequence[Finding]) -> dict[str, int]:
    counts = Counter(each.status for each in found)
    return {"confirmed": counts["confirmed"], "unknown": counts["unknown"], "refused": counts["refused"]}


def _data(checked: Sequence[Checked], logged: Sequence[Logged] | None, script: Path) -> dict[str, Any]:
    found = {
        file.name: {
            "opset": file.opset,
            "nodes": [each._asdict() for each in file.nodes],
            "kernels": [each._asdict() for each in file.kernels],
        }
        for file in checked
    }
    log = None if logged is None else [vars(each) for each in logged]
    return {"checked": found, "log": log, "script": str(script) if log is None else None}
