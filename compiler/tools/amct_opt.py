"""`amct-opt`: read a model or module, run passes in the order of their flags, write the result."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .. import __version__, frontends
from ..flows.options import ResultOptions
from ..frontends.mlir import parse, refuse_options
from ..ir.text import elided, module_text, print_module
from ..pipelines.options import build, leaves, options, owners
from ..pipelines.passes import Passes, make_pass, parse_pipeline, run_passes
from ..pipelines.timing import Timer
from ..session import Session
from ..session.catalogue import PASSES, PIPELINES
from ..session.universe import new_session
from ..support.diagnostics import CompileError, Remark, UsageError, remarks_yaml
from ..support.files import filling, read_text, refuse_overwriting, replacing
from ..support.limits import HELP
from ..support.tables import numbered
from ..targets import Target
from ..targets.mlir import MlirTarget, check_ending
from ..transforms.quantization.options import DataOptions, SessionOptions
from .entry import explained, run_tool
from .parser import TOOLS, USAGE, Parser
from .shared import MODEL, add_import_options, add_option, import_options, options_of

if TYPE_CHECKING:
    from ..examine.checking.checker import Checker

_SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_STDIN = Path("-")
_READABLE = 32
"""Bytes of an array that a terminal shows; a reader skips more."""
_QUANTIZATION = frozenset({"quantize", "calibrate", "convert-observers", "shift-accumulators"})
"""Passes that keep operations that they do not quantize: a module that cannot be written before cannot be after them."""


def main() -> None:
    """The command line `amct-opt`."""
    run_tool("amct-opt", run)


def run(argv: Sequence[str]) -> int:
    """The whole tool on an argument list. Returns the exit status; a user error prints one located line on stderr."""
    try:
        known = new_session()
        args = parser(known).parse_args(_separated(argv, known))
        if args.list_patterns is not None:
            return _list_patterns(args)
        return _Driver(args, known).run()
    except CompileError as e:
        print(e, file=sys.stderr)
        return USAGE if isinstance(e, UsageError) else 1
    except (OSError, MemoryError) as e:
        if isinstance(e, BrokenPipeError):
            raise
        print(explained(e, "amct-opt"), file=sys.stderr)
        return 1


def _separated(argv: Sequence[str], known: Session) -> list[str]:
    """Rewrites a bare `--quantize` as `--quantize=`, so that argparse does not read the input file as its options."""
    return [
        f"{arg}=" if arg.startswith("--") and (arg[2:] in known.passes or arg == "--check") else arg for arg in argv
    ]


class _Parser(Parser):
    def hint(self, unknown: Sequence[str]) -> str:
        apart = [word for word in unknown if "=" in word and not word.startswith("-")]
        return f"options are part of their pass: --PASS='{' '.join(apart)}'" if apart else super().hint(unknown)

    def having(self, option: str) -> list[str]:
        """A pass that has it, else commands of `amct`."""
        known = new_session().passes
        found = [name for name in known if option[2:].replace("-", "_") in leaves(known[name])]
        if not found:
            return super().having(option)
        name = "quantize" if "quantize" in found else found[0]
        return [f"passes, such as --{name}='{option[2:]}=...'"]


class _Version(argparse.Action):
    """Looks up versions only when `--version` is given: that takes longer than parsing the other options."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"amct-opt {__version__} with xdsl {version('xdsl')}")
        sys.exit()


class _Help(argparse.Action):
    """Prints the help of the tool, or of the pass that is named."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: object, values: Any, *_: Any) -> NoReturn:
        if values is None:
            parser.print_help()
        else:
            print(_help_of(values.removeprefix("--"), new_session()))
        sys.exit(0)


def _list_patterns(args: argparse.Namespace) -> int:
    """Print a description of the pass, and its patterns, as they are for the profile."""
    from ..pipelines.described import patterns

    session = new_session()
    session.profile = args.profile or session.profile
    print("\n".join(patterns(args.list_patterns.removeprefix("--"), session)))
    return 0


def _help_of(name: str, known: Session) -> str:
    """The help of a pass: its purpose and its options. Raises CompileError for a pass that does not exist."""
    from ..pipelines.described import statement

    made = known.passes[name]
    lines = [f"--{name}: {PASSES[name].summary if name in PASSES else _summary(made)}", "", statement(made), ""]
    found = [each for owner in owners(made) for each in options(owner)]
    lines.append(f"options, as in --{name}='key=value key=a,b':" if found else "It has no options.")
    for each in found:
        default = f", default {each.shown}" if each.shown else ""
        lines.append(f"  {each.name} ({each.values}{default})")
        lines += wrap(each.text, 100, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def parser(known: Session) -> Parser:
    """The parser of the tool, with a flag for each pass that the session knows."""
    tool = _Parser(
        "amct-opt",
        usage="amct-opt [INPUT] [--PASS[=OPTIONS] ...] [-p PIPELINE] [-t TARGET] [-o OUT]",
        description="Post-training-quantization compiler: reads a model, runs passes in the order given, writes the result.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"{HELP}\n\nexample: amct-opt model.onnx --fuse-bn --quantize='data=calib.npz' -t onnx -o model_qdq.onnx",
        allow_abbrev=False,
        add_help=False,
    )
    tool.others = lambda: TOOLS["amct"]().commands().values()
    add = tool.add_argument
    text = "print this, or what one pass does and its options, and exit"
    add("-h", "--help", metavar="PASS", nargs="?", action=_Help, help=text)
    text = "print what a pass is and its patterns, as the profile has them, with conditions, in the order of trying, and exit"
    add("--list-patterns", metavar="PASS", help=text)
    add("input", metavar="INPUT", nargs="?", type=Path, default=_STDIN, help=f"{MODEL}; - is stdin")
    add("-o", "--output", metavar="OUT", type=Path, help="write to OUT (and next to it); else module text to stdout")
    text = (
        f"output format: {', '.join(known.targets)} (default mlir, or linalg for -o if --convert-to-linalg comes last)"
    )
    add("-t", "--target", metavar="TARGET", help=text)
    for each in options(SessionOptions):
        add_option(add, each)
    add("--remarks", choices=("missed", "applied", "all", "none"), help="print remarks to stderr")
    add("--remarks-output", type=Path, metavar="F", help="write all remarks to F, as YAML")
    text = "treat the parts of the input between // ----- lines separately"
    add("--split-input-file", action="store_true", help=text)
    add("--verify-diagnostics", action="store_true", help="print errors to stdout and exit with 0")
    text = f"on stdout, print sizes of arrays of more than N bytes in place of their bytes (on a terminal: {_READABLE})"
    add("--elide", type=int, metavar="N", help=text)
    add("--print-op-generic", action="store_true", help="print the generic form")
    add("--print-debuginfo", action="store_true", help="print locations")
    add("--print-ir-after-all", action="store_true", help="print the module to stderr after each pass")
    add("--check", metavar="DATA", help=leaves(ResultOptions)["check"].brief({}))
    add("--timing", action="store_true", help="print time and peak memory of each pass and phase to stderr")
    add("--allow-unregistered-dialect", action="store_true", help="accept operations of unknown dialects")
    add("--version", action=_Version, nargs=0, help="print versions and exit")
    add_import_options(tool.add_argument_group("how the model is read").add_argument)
    group = tool.add_argument_group(
        "passes, which run in the order given, with options as in --PASS='key=value key=a,b'"
    )
    for name in known.passes:
        named, summary = partial(_Flag, name), PASSES[name].summary if name in PASSES else _summary(known.passes[name])
        group.add_argument(f"--{name}", metavar="", dest="flags", action="append", type=named, help=summary)
    pipeline = partial(_Flag, "")
    group.add_argument(
        "-p", "--passes", metavar="PIPELINE", dest="flags", action="append", type=pipeline, help=_PIPELINE
    )
    return tool


_PIPELINE = (
    f"passes as xDSL pipeline text, xDSL's own and {', '.join(PIPELINES)} among them; may be placed between the flags"
)


def _summary(pass_class: type[ModulePass]) -> str:
    """The summary of a plugin's pass."""
    return (pass_class.__doc__ or "").strip().partition("\n")[0].replace("%", "%%")


class _Flag(NamedTuple):
    name: str
    """The name of a pass; empty for a pipeline."""
    text: str

    def passes(self, known: Passes) -> list[ModulePass]:
        return [make_pass(self.name, self.text, known)] if self.name else parse_pipeline(self.text, known)


class _Driver:
    def __init__(self, args: argparse.Namespace, known: Session):
        self.args = args
        self.imports = import_options(args)
        flags: list[_Flag] = args.flags or []
        self.passes = [each for flag in flags for each in flag.passes(known.passes)]
        self.target = _target(args, known, self.passes)
        self.remarks: list[Remark] = []
        self.timer = Timer() if args.timing else None

    def run(self) -> int:
        """Process every part of the input separately: an error in one does not hide errors in the next."""
        status = 0
        for i, (read, session) in enumerate(self._parts()):
            if i:
                print("// -----")
            try:
                with session.phase("read"):
                    module = read()
                self._process(module, session)
            except CompileError as e:
                print(e, file=sys.stdout if self.args.verify_diagnostics else sys.stderr)
                status = 0 if self.args.verify_diagnostics else 1
            finally:
                self._tell_missed(session)
                self.remarks.extend(session.remarks)
        if self.timer is not None:
            print("\n".join(self.timer.lines()), file=sys.stderr)
        if self.args.remarks_output is not None:
            with replacing(self.args.remarks_output) as stream:
                stream.write(remarks_yaml(self.remarks).encode())
        return status

    def _parts(self) -> Iterator[tuple[Callable[[], ModuleOp], Session]]:
        path: Path = self.args.input
        if path != _STDIN and not (path.suffix == ".mlir" and self.args.split_input_file):
            session = self._session()
            yield partial(frontends.read, path, session), session
            return
        name = "<stdin>" if path == _STDIN else str(path)
        refuse_options(self.imports, name)
        text = _stdin_text() if path == _STDIN else read_text(path)
        for chunk, lines_before in _chunks(text) if self.args.split_input_file else [(text, 0)]:
            session = self._session()
            yield partial(parse, session, chunk, name, lines_before), session

    def _session(self) -> Session:
        session = new_session()
        session.allow_unregistered = self.args.allow_unregistered_dialect
        options_of(self.args, SessionOptions).give(session)
        session.imports = self.imports
        if self.timer is not None:
            session.phase = self.timer.phase
        wanted = self.args.remarks
        if wanted not in (None, "none"):
            session.on_remark = lambda r: print(r, file=sys.stderr) if wanted in ("all", r.kind) else None
        return session

    def _process(self, module: ModuleOp, session: Session) -> None:
        if self.args.output is not None:
            self._protect(module)
        first = next((i for i, each in enumerate(self.passes) if each.name in _QUANTIZATION), len(self.passes))
        quantization = self.passes[first:]
        checker = session.checker = self._checker(module, session)
        if checker is not None:
            checker.reading(self.args.input, module)
        run_passes(module, self.passes[:first], session, self._after)
        if quantization and all(each.name in _QUANTIZATION for each in quantization):
            self.target.check(module, session)
        if quantization:
            run_passes(module, quantization, session, self._after)
        with session.phase("write"):
            self._write(module, session)
        if checker is not None:
            session.note(checker.summary())

    def _checker(self, module: ModuleOp, session: Session) -> Checker | None:
        """The checker for `--check`; None without it."""
        if self.args.check is None:
            return None
        from ..examine.checking.checker import Checker
        from ..transforms.quantization.data import available

        data = DataOptions(self.args.check or None)
        return Checker(available(data, module, session) if self.args.check else None)

    def _write(self, module: ModuleOp, session: Session) -> None:
        output, checker = self.args.output, session.checker
        if output is None:
            if isinstance(self.target, MlirTarget):
                self._print(module, self.target, session)
            return
        self.target.warn_of_functions(module, session)
        if checker is None or (output.exists() and not output.is_file()):
            self.target.write(module, output, session)
            return
        with filling(output.parent) as folder:
            self.target.write(module, folder / output.name, session)
            checker.writing(folder / output.name, module, self.target, session)

    def _print(self, module: ModuleOp, target: MlirTarget, session: Session) -> None:
        """Print the text; for a reader, which a terminal has, without the bytes of large arrays."""
        limit = _READABLE if self.args.elide is None and sys.stdout.isatty() else self.args.elide
        if limit is None:
            print_module(module, sys.stdout, generic=target.generic, locations=target.locations)
            return
        text, count = elided(module_text(module, generic=target.generic, locations=target.locations), limit)
        print(text)
        if count:
            session.note(f"arrays printed by their size: {count}; files (-o) and pipes get their bytes")

    def _protect(self, module: ModuleOp) -> None:
        """Refuse to overwrite any file that was read, even if the passes left no trace of it."""
        from ..dialects.nn import weights_of

        mapped = (file for weight in weights_of(module) if (file := weight.file) is not None)
        read = {*frontends.files_of(self.args.input, self.imports), *mapped}
        refuse_overwriting(self.target.files(self.args.output), read)

    def _after(self, done: ModulePass, module: ModuleOp, _: float) -> None:
        if self.args.print_ir_after_all:
            print(f"// IR after --{done.name}", file=sys.stderr)
            print_module(module, sys.stderr, locations=self.args.print_debuginfo)

    def _tell_missed(self, session: Session) -> None:
        missed = sum(r.kind == "missed" for r in session.remarks)
        if self.args.remarks is None and missed:
            print(f"{numbered(missed, 'missed remark')}; --remarks=missed shows them", file=sys.stderr)


_TO_LINALG = "convert-to-linalg"
"""The pass after which a file is for upstream's tools."""


def _target(args: argparse.Namespace, known: Session, passes: Sequence[ModulePass]) -> Target:
    """The target with its options. Raises CompileError if the format cannot be written, before anything is read."""
    upstream = args.output is not None and passes and passes[-1].name == _TO_LINALG
    name, brace, options = (args.target or ("linalg" if upstream else MlirTarget.name)).partition("{")
    target_class = known.targets[name]
    if brace and not options.endswith("}"):
        raise CompileError(f"-t {args.target}: the options do not end in }}")
    target = build(target_class, options.removesuffix("}"), f"-t {name}")
    output: Path | None = args.output
    if output is not None and args.split_input_file:
        raise CompileError("--split-input-file prints to stdout", hint="leave out -o")
    if args.elide is not None and (output is not None or args.elide < 0):
        raise CompileError("--elide N is for text on stdout, and N is at least 0", hint="leave out -o")
    if output is not None and not output.parent.is_dir():
        raise CompileError("the folder does not exist", where=str(output.parent))
    if isinstance(target, MlirTarget):
        if output is not None:
            check_ending(output, known)
        generic, locations = args.print_op_generic, args.print_debuginfo
        return replace(target, generic=target.generic or generic, locations=target.locations or locations)
    if output is None:
        raise CompileError(f"target {name} writes a binary file", hint=f"name it with -o OUT{target.ending}")
    return target


def _stdin_text() -> str:
    if sys.stdin.isatty():
        raise CompileError("no input", where="amct-opt", hint="name a file, or pipe module text in")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise CompileError("is not UTF-8 text", where="<stdin>") from None
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where="<stdin>") from None


def _chunks(text: str) -> Iterator[tuple[str, int]]:
    """The parts between `// -----` lines, each with the number of lines before it."""
    start = 0
    for match in _SPLIT.finditer(text):
        yield text[start : match.start()], text.count("\n", 0, start)
        start = match.end()
    yield text[start:], text.count("\n", 0, start)


if __name__ == "__main__":
    main()
