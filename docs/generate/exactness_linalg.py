"""Writes the last parts of docs/measured/exactness.md: `exactness_linalg.py [MODEL...]` (minutes each; other rows stay).

Every model is compiled in the stages of `exactness.py`; `-t linalg` writes them and IREE compiles what is written. In the first
part all integers between layers become outputs, also the int32 sums, and are compared with those of the interpreter. For the
second one the interpreter runs every operation on the operands that native code had.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import exactness
import numpy as np
from amct_linalg.iree import IreeModule
from xdsl.dialects.builtin import FunctionType, IntegerType, ModuleOp
from xdsl.dialects.func import ReturnOp

import amct_opt
from amct_opt.data.inputs import load_runs
from amct_opt.dialects.nn import ConstantOp, NNOp
from amct_opt.dialects.nn.shapes import element_of
from amct_opt.examine.checking.native import NativeGraph, Operations, operations_apart
from amct_opt.ir.functions import body, main_function, return_op
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.metrics import Differences
from amct_opt.transforms.inline_fused import inline_fused

Array = np.ndarray[Any, np.dtype[Any]]

END_TO_END = "## The interpreter and IREE"
BY_OPERATION = "## Each operation in IREE"
STAGES: Mapping[str, Sequence[str]] = {END_TO_END: ("ascend", "requant"), BY_OPERATION: ("nn", "ascend", "requant")}
"""The stages that each part compares."""


class Agreement(NamedTuple):
    """How many integers were compared, how many differ and by how much at most, and the SQNR of the float outputs in dB."""

    integers: int
    differing: int
    most: int
    sqnr: float


def show_integers(module: ModuleOp) -> None:
    """Makes every integer tensor between layers an output."""
    inline_fused(module)
    function = main_function(module)
    block, last = body(function), return_op(function)
    layers = [op for op in block.ops if isinstance(op, NNOp) and not isinstance(op, ConstantOp)]
    made = [r for op in layers for r in op.results if isinstance(element_of(r), IntegerType)]
    outputs = [*last.arguments, *(v for v in made if v not in last.arguments)]
    last.detach()
    last.erase()
    block.add_op(ReturnOp(*outputs))
    function.function_type = FunctionType.from_lists([a.type for a in block.args], [v.type for v in outputs])
    function.res_attrs = None


def agreement(module: ModuleOp, runs: Sequence[Mapping[str, Array]]) -> Agreement:
    """The integers of a module in both engines, on the same samples."""
    show_integers(module)
    interpreter, native = Executable(module), IreeModule(module, amct_opt.new_session())
    integers = differing = most = 0
    reals = Differences()
    for inputs in runs:
        named = dict(zip(interpreter.inputs, inputs.values(), strict=True))
        for a, b in zip(interpreter.run(named).values(), native.run(named).values(), strict=True):
            if a.dtype.kind == "f":
                reals.add(a, b)
                continue
            apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
            integers += apart.size
            differing += int(np.count_nonzero(apart))
            most = max(most, int(apart.max(initial=0)))
    return Agreement(integers, differing, most, reals.sqnr)


def row(model: str, stage: str, found: Agreement) -> str:
    outputs = "equal" if found.sqnr == float("inf") else f"{found.sqnr:.1f} dB"
    return f"| {model} | {stage} | {found.integers} | {found.differing} | {found.most} | {outputs} |"


def row_of_operations(model: str, stage: str, found: Operations) -> str:
    counts = f"{found.integers} | {found.differing} | {found.floats} | {found.beyond}"
    return f"| {model} | {stage} | {counts} | {found.share:.3f} |"


Rows = dict[str, dict[str, list[str]]]
"""The rows of each part, by model."""


def measured(names: Sequence[str], folder: Path) -> Rows:
    """The rows of these models, whose files are written into `folder`."""
    rows: Rows = {heading: {} for heading in STAGES}
    for name in names:
        model = exactness.MODELS[name](folder)
        with tempfile.TemporaryDirectory() as work:
            modules = exactness.stages(model, Path(work))
            runs = list(load_runs(model.measured, main_function(modules["nn"])).inputs)
            rows[BY_OPERATION][name] = [
                row_of_operations(name, stage, by_operation(modules[stage], runs)) for stage in STAGES[BY_OPERATION]
            ]
            rows[END_TO_END][name] = [row(name, stage, agreement(modules[stage], runs)) for stage in STAGES[END_TO_END]]
        print(*(line for part in rows.values() for line in part[name]), sep="\n", file=sys.stderr, flush=True)
    return rows


def by_operation(module: ModuleOp, runs: Sequence[Mapping[str, Array]]) -> Operations:
    """Every operation on the operands that native code had."""
    graph = NativeGraph(module, amct_opt.new_session(), IreeModule)
    return operations_apart(graph, [dict(zip(graph.inputs, inputs.values(), strict=True)) for inputs in runs])


def part(heading: str, rows: Mapping[str, Sequence[str]]) -> str:
    """A part of the page with these rows, by model."""
    lines = (line for name in exactness.MODELS for line in rows.get(name, ()))
    return "\n".join([heading, "", _WHY[heading], "", *HEADS[heading], *lines, ""])


def kept(page: str) -> Rows:
    """The rows that the page has."""
    rows: Rows = {heading: {} for heading in STAGES}
    for heading, found in rows.items():
        for line in page.partition(heading)[2].partition("\n## ")[0].splitlines():
            if (name := line.strip("| ").partition(" | ")[0]) in exactness.MODELS:
                found.setdefault(name, []).append(line)
    return rows


HEADS: Mapping[str, Sequence[str]] = {
    END_TO_END: (
        "| model | stage | integers | differing | at most | outputs |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ),
    BY_OPERATION: (
        "| model | stage | integers | differing | floats | beyond the bound | largest part of it |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ),
}

_WHY = {
    END_TO_END: """\
This part and the next are generated by `python docs/generate/exactness_linalg.py`,
for the models in the tables. This one compares all
integers between layers, the int32 sums among them, of the interpreter and of native code: `-t linalg`, compiled by IREE 3.13 on
x86 with VNNI.

`nn` in float is not in this table: its convolutions add float32 in another order, so that a number next to a tie may be
rounded the other way. Of the 2896512 int8 elements of digits 4 differ, by one step; of the transformer's 164864 none does.""",
    BY_OPERATION: """\
The interpreter runs every operation on the operands that native code had, and the results are compared. Integers and truth values
must be equal. Floats must be within the bound of `--check` ([checking.md](../checking.md#what-rounding-explains)): both are that
close to the exact result, so that they are at most twice as far apart; what is computed exactly must be equal. The last column is
the largest difference divided by its bound.""",
}


def main() -> None:
    page = exactness.TARGET.read_text("utf-8")
    rows = kept(page)
    with tempfile.TemporaryDirectory() as folder:
        for heading, found in measured(sys.argv[1:] or list(exactness.MODELS), Path(folder)).items():
            rows[heading] |= found
    before = page.partition(END_TO_END)[0].rstrip()
    exactness.TARGET.write_text(
        "\n\n".join([before, *(part(each, rows[each]).rstrip() for each in STAGES)]) + "\n", "utf-8"
    )


if __name__ == "__main__":
    main()
