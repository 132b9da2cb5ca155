"""An MLIR of upstream's, where there is one: `mlir-opt`, or IREE's `iree-opt` (`pip install '.[mlir]'`)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from amct_opt.dialects import nn
from amct_opt.ir.dtypes import as_stored
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.weights import Weight
from amct_opt.session.universe import new_session

CANDIDATES = ("mlir-opt", *(f"mlir-opt-{version}" for version in range(30, 16, -1)), "iree-opt")
PLACES = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
MLIR = next(filter(None, (shutil.which(name, path=PLACES) for name in CANDIDATES)), None)

needs_upstream = pytest.mark.skipif(
    MLIR is None, reason=f"no upstream MLIR on PATH (any of {', '.join(CANDIDATES[:3])}, ..., iree-opt)"
)


def upstream(text: str, *options: str) -> str:
    """The text after upstream's parser, verifier and printer, in generic form with locations."""
    argv = [
        str(MLIR),
        "--allow-unregistered-dialect",
        "--mlir-print-op-generic",
        "--mlir-print-debuginfo",
        "--mlir-print-local-scope",
        *options,
    ]
    result = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def parse(text: str) -> ModuleOp:
    return parse_module(new_session(), text, "net.mlir")


def generic(module: ModuleOp) -> str:
    return module_text(module, generic=True, locations=True)


SPLIT = "// -----\n"


def through_upstream(*modules: ModuleOp) -> None:
    """What upstream has read is what it reads again, after our custom form; constants have the same bits.

    Upstream drops the names of values and sorts attributes, so its own text is what is compared.
    """
    seen = upstream(SPLIT.join(map(generic, modules)), "--split-input-file")
    again = [parse(part) for part in seen.split(SPLIT)]
    texts = [generic(parse(module_text(each, locations=True))) for each in again]
    assert upstream(SPLIT.join(texts), "--split-input-file") == seen
    assert list(map(bits, again)) == list(map(bits, modules))


def bits(module: ModuleOp) -> list[tuple[str, bytes]]:
    constants = [op for op in module.walk() if isinstance(op, nn.ConstantOp)]
    held = [c for c in constants if not isinstance(c.value, nn.ExternalAttr) or c.value.data.weight.in_memory_only]
    return [(str(c.result.type), as_stored(c.array).tobytes()) for c in held]


def meaning(module: ModuleOp) -> list[Any]:
    """Everything about a module but the names of values: operations, operands, types, attributes, arrays and locations."""
    numbers: dict[SSAValue, int] = {}
    found: list[Any] = []
    for op in module.walk():
        arguments = [a for region in op.regions for block in region.blocks for a in block.args]
        for value in (*arguments, *op.results):
            numbers[value] = len(numbers)
        held = {key: _value(a) for table in (op.properties, op.attributes) for key, a in table.items()}
        types = [v.type for v in (*arguments, *op.results)]
        found.append((op.name, [numbers[o] for o in op.operands], types, held, op.location))
    return found


def _value(attribute: Attribute) -> object:
    if isinstance(attribute, nn.ExternalAttr):
        return attribute.type, _array(attribute.data.weight)
    if isinstance(attribute, nn.QParamsAttr) and isinstance(scale := attribute.data.scale, Weight):
        return attribute.data.storage, _array(scale), attribute.data.zero_point, attribute.data.axis
    return attribute


def _array(weight: Weight) -> tuple[str, bytes]:
    return weight.key, as_stored(weight.array).tobytes()
