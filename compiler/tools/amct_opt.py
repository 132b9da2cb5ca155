"""`amct-opt`: read a model or module, run passes in the order of their flags, write the result."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .. import frontends
from ..diagnostics import CompileError, Remark, remarks_yaml
from ..options import build
from ..pipelines import make_pass, parse_pipeline, peak_memory, run_passes
from ..session import Session
from ..targets import Target
from ..text import module_text, parse_module
from ..universe import FRONTENDS, PASSES, TARGETS, new_session, target_named

_FLAG = re.compile(r"--([a-z][a-z0-9-]*)(?:=(.*))?", re.DOTALL)
_SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """The whole tool on an argument list. Returns the exit status; a user's mistake is one located line on stderr."""
    try:
        flags, rest = split_pass_flags(argv)
        args = _parser().parse_args(rest)
        return _Driver(args, [_pass_of(f) for f in flags]).run()
    except CompileError as e:
        print(e, file=sys.stderr)
        return 1


def split_pass_flags(argv: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Take pass flags and `-p` out, in order: argparse would let a bare `--quantize` swallow the input file."""
    flags: list[tuple[str, str]] = []
    rest: list[str] = []
    arguments = iter(argv)
    for arg in arguments:
        match = _FLAG.fullmatch(arg)
        if match is not None and match[1] in PASSES:
            flags.append((match[1], match[2] or ""))
        elif arg in ("-p", "--passes"):
            flags.append(("", next(arguments, "")))
        elif arg.startswith("--passes="):
            flags.append(("", arg.partition("=")[2]))
        else:
            rest.append(arg)
    return flags, rest


def _pass_of(flag: tuple[str, str]) -> list[ModulePass]:
    name, text = flag
    return [make_pass(name, text)] if name else parse_pipeline(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "amct-opt",
        description="Post-training-quantization compiler: reads a model, runs passes in the order given, writes the result.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: amct-opt model.onnx --fuse-bn --quantize=data=calib.npz -t onnx -o model_qdq.onnx",
    )
    add = parser.add_argument
    add("input", metavar="INPUT", help=f"a file ending in {', '.join(FRONTENDS)}, or - for module text on stdin")
    add("-o", dest="output", metavar="OUT", type=Path, help="write to OUT (and beside it); else module text to stdout")
    add("-t", "--target", default="mlir", metavar="TARGET", help=f"output format: {', '.join(TARGETS)} (default mlir)")
    add("-p", "--passes", metavar="PIPELINE", help="passes as xDSL pipeline text, xDSL's own among them")
    add("--profile", default="ascend", help="target profile that decides what is quantized (default ascend)")
    add("--skip-fusion", default="", metavar="LAYER,...", help="layers that no fusion may touch")
    add("--remarks", choices=("missed", "applied", "all", "none"), help="print remarks to stderr")
    add("--remarks-output", type=Path, metavar="F", help="write all remarks to F, as YAML")
    add("--split-input-file", action="store_true", help="treat the parts of the input between // ----- lines apart")
    add("--verify-diagnostics", action="store_true", help="print errors to stdout and exit with 0")
    add("--print-op-generic", action="store_true", help="print the generic form")
    add("--print-debuginfo", action="store_true", help="print locations")
    add("--print-ir-after-all", action="store_true", help="print the module to stderr after each pass")
    add("--timing", action="store_true", help="print time and peak memory of each pass to stderr")
    add("--allow-unregistered-dialect", action="store_true", help="accept operations of unknown dialects")
    add("--version", action="version", version=f"amct-opt {version('amct-opt')} with xdsl {version('xdsl')}")
    group = parser.add_argument_group("passes, run in the order given; options as --pass='key=value key=a,b'")
    for name in PASSES:
        group.add_argument(f"--{name}", metavar="OPTIONS", help=argparse.SUPPRESS if name == "passes" else None)
    return parser


class _Driver:
    def __init__(self, args: argparse.Namespace, passes: Sequence[list[ModulePass]]):
        self.args = args
        self.passes = [p for group in passes for p in group]
        self.target = _target(args)
        self.remarks: list[Remark] = []

    def run(self) -> int:
        texts: list[str] = []
        status = 0
        for module, session in self._modules():
            try:
                texts.append(self._process(module, session))
            except CompileError as e:
                if not self.args.verify_diagnostics:
                    raise
                texts.append(f"{e}\n")
            finally:
                self._report(session)
        if self.args.output is None:
            sys.stdout.write("// -----\n".join(texts))
        if self.args.remarks_output is not None:
            self.args.remarks_output.write_text(remarks_yaml(self.remarks), "utf-8")
        return status

    def _process(self, module: ModuleOp | CompileError, session: Session) -> str:
        if isinstance(module, CompileError):
            raise module
        run_passes(module, self.passes, session, self._after)
        if self.args.output is None:
            return module_text(module, generic=self.args.print_op_generic, locations=self.args.print_debuginfo)
        self._protect(module)
        self.target.write(module, self.args.output, session)
        return ""

    def _session(self) -> Session:
        session = new_session()
        session.allow_unregistered = self.args.allow_unregistered_dialect
        session.profile = self.args.profile
        session.skip_fusion = frozenset(n for n in self.args.skip_fusion.split(",") if n)
        wanted = self.args.remarks
        if wanted not in (None, "none"):
            session.on_remark = lambda r: print(r, file=sys.stderr) if wanted in ("all", r.kind) else None
        return session

    def _modules(self) -> Iterator[tuple[ModuleOp | CompileError, Session]]:
        path = Path(self.args.input)
        session = self._session()
        if self.args.input != "-" and path.suffix != ".mlir":
            yield _attempt(lambda: frontends.read(path, session)), session
            return
        name = "<stdin>" if self.args.input == "-" else str(path)
        text = sys.stdin.read() if self.args.input == "-" else _read_text(path)
        for chunk, offset in _chunks(text) if self.args.split_input_file else [(text, 0)]:
            chunk_session = self._session()
            yield _attempt(lambda c=chunk, o=offset, s=chunk_session: parse_module(s, c, name, o)), chunk_session

    def _after(self, done: ModulePass, module: ModuleOp, seconds: float) -> None:
        if self.args.print_ir_after_all:
            print(f"// IR after --{done.name}", file=sys.stderr)
            sys.stderr.write(module_text(module, locations=self.args.print_debuginfo))
        if self.args.timing:
            print(f"{done.name:<24} {seconds:9.3f} s   peak {peak_memory() / 2**20:8.0f} MiB", file=sys.stderr)

    def _report(self, session: Session) -> None:
        self.remarks.extend(session.remarks)
        missed = sum(r.kind == "missed" for r in session.remarks)
        if self.args.remarks is None and missed:
            print(f"{missed} missed remark(s); --remarks=missed shows them", file=sys.stderr)

    def _protect(self, module: ModuleOp) -> None:
        """Nothing that was read is overwritten."""
        from ..dialects.nn import ConstantOp, ExternalAttr

        read = {Path(self.args.input).resolve()}
        for op in module.walk():
            if isinstance(op, ConstantOp) and isinstance(op.value, ExternalAttr) and op.value.data.weight.path:
                read.add(op.value.data.weight.path.resolve())
        for file in self.target.files(self.args.output):
            if file.resolve() in read:
                raise CompileError(
                    "would overwrite a file that was read", where=str(file), hint="choose another name for -o"
                )


def _target(args: argparse.Namespace) -> Target:
    name, _, options = args.target.partition("{")
    if name not in TARGETS:
        raise CompileError(f"no target is called '{name}'", hint=f"targets are {', '.join(TARGETS)}")
    target = build(target_named(name), options.removesuffix("}"), f"-t {name}")
    if name != "mlir" and args.output is None:
        raise CompileError(f"target {name} writes a binary file", hint=f"name it with -o OUT{target.ending}")
    if args.output is not None and args.split_input_file:
        raise CompileError("--split-input-file prints to stdout", hint="leave out -o")
    if name == "mlir":
        fields: dict[str, Any] = {"generic": args.print_op_generic, "locations": args.print_debuginfo}
        return replace(target, **{k: v for k, v in fields.items() if v})
    return target


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise CompileError("is no UTF-8 text", where=str(path)) from None


def _chunks(text: str) -> Iterator[tuple[str, int]]:
    """The parts between `// -----` lines, and how many lines come before each."""
    start = 0
    for match in _SPLIT.finditer(text):
        yield text[start : match.start()], text.count("\n", 0, start)
        start = match.end()
    yield text[start:], text.count("\n", 0, start)


def _attempt(read: Any) -> ModuleOp | CompileError:
    try:
        return read()
    except CompileError as e:
        return e


if __name__ == "__main__":
    main()
