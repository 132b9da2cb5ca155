"""A target: the integer weights of a quantized module as a C header."""

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from amct_opt import CompileError, Session, Target
from amct_opt.dialects.nn import ConstantOp
from amct_opt.rewriting import layer_of
from amct_opt.support.files import replacing


@dataclass(frozen=True)
class HeaderTarget(Target):
    """Options of a target are its fields: `-t 'toy-header{prefix=net_}'`, `save(..., prefix="net_")`."""

    name = "toy-header"
    ending = ".h"

    prefix: str = ""

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        weights = [op for op in module.walk() if isinstance(op, ConstantOp) and op.array.dtype == "int8"]
        if not weights:
            raise CompileError("holds no integer weights", where=str(path), hint="--quantize comes before")
        lines = []
        for op in weights:
            name = self.prefix + layer_of(op).replace(".", "_")
            numbers = ", ".join(map(str, op.array.reshape(-1)))
            lines.append(f"static const int8_t {name}[{op.array.size}] = {{{numbers}}};\n")
        with replacing(path) as stream:  # all of it or nothing
            stream.write(f"#include <stdint.h>\n{''.join(lines)}".encode())
        return [path]
