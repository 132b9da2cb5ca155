"""`-t ascendnpu-ir`: what `bishengir-opt` of the package `ascendnpu-ir` lowers down to hivm, where it is installed.

Its verifiers accept wrong shapes, too. Therefore what it makes of its own operations for upstream is compiled by IREE, and the
numbers are compared.
`AMCT_UPDATE=1 pytest -m slow` on this file writes the tables in docs/linalg.md again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from amct_linalg.ascendnpu_ir import AscendNpuIrTarget
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp

import amct_opt
from amct_opt.dialects.ascend import AscendQuantOp
from amct_opt.dialects.nn import ConstantOp, QuantizeOp
from amct_opt.dialects.nn.shapes import shape_of
from amct_opt.examine.reduction.module import ModuleForm
from amct_opt.ir.functions import input_names, main_function
from amct_opt.support.diagnostics import CompileError

from ..examine.checking import faults as residual_networks
from ..scripts import ROOT
from .native import called, compiled_text
from .test_operations import f32, of_ascend, of_integers

PAGE = ROOT / "docs" / "linalg.md"
DIGITS = ROOT / "examples" / "digits"
HFUSION = [f"--convert-{each}-to-hfusion" for each in ("tensor", "linalg", "arith", "math")]
HIVM = ["--convert-hfusion-to-hivm", "--convert-tensor-to-hivm"]


def tool() -> str:
    """The path of `bishengir-opt`; skips the test where there is none."""
    package = find_spec("ascendnpuir")
    inside = Path(str(package.origin)).parent / "bin" / "bishengir-opt" if package is not None else None
    found = shutil.which("bishengir-opt") or (str(inside) if inside is not None else None)
    return found or pytest.skip("ascendnpu-ir is not installed")


def sent(module: ModuleOp, folder: Path) -> str:
    """Why a module does not arrive at hivm; empty if it does."""
    session, text = amct_opt.new_session(), folder / "m.mlir"
    try:
        AscendNpuIrTarget().write(module, text, session)
    except CompileError:
        return next(f"no form: `{r.rule}`" for r in session.remarks if r.kind == "missed")
    for options, name in ((HFUSION, "hfusion.mlir"), (HIVM, "hivm.mlir")):
        command = [tool(), str(text), *options, "-o", str(folder / name)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if "rror: " in line or "ERROR: " in line]
            return "rejected: " + (lines[0].rpartition("rror: ")[2] if lines else f"status {result.returncode}")
        text = folder / name
    return ""


@pytest.mark.slow
def test_operations(tmp_path: Path) -> None:
    tool()
    verdicts: dict[str, list[str]] = {}
    for name, sample in (of_ascend(f32) | {f"{n} (int8)": s for n, s in of_integers().items()}).items():
        verdicts.setdefault(sent(sample.module, tmp_path) or "accepted down to hivm", []).append(name)
    rows = [f"| {verdict} | {', '.join(f'`{name}`' for name in names)} |" for verdict, names in verdicts.items()]
    settle("ascendnpu-ir", ["| `bishengir-opt` | operations |", "| --- | --- |", *rows])


def settle(name: str, table: Sequence[str]) -> None:
    """Compares a table with that of the page, or writes it there."""
    start, end = f"<!-- {name} -->\n", "<!-- end -->\n"
    text = "\n".join([*table, ""])
    before, _, rest = PAGE.read_text("utf-8").partition(start)
    if os.environ.get("AMCT_UPDATE"):
        PAGE.write_text(before + start + text + end + rest.partition(end)[2], "utf-8")
    assert start + text + end in PAGE.read_text("utf-8"), "run with AMCT_UPDATE=1"


def resnet(depth: int) -> ModelProto:
    """A seeded residual network that ends in its logits; 20 is ResNet-20 for images of 32 x 32."""
    model = residual_networks.network(depth)
    softmax = model.graph.node.pop()
    model.graph.output[0].name = softmax.input[0]
    return model


def transformer() -> ModelProto:
    """Two layers of an encoder and a classifier, for 2 sequences of 16 tokens."""
    model = onnx.load(ROOT / "examples" / "models" / "transformer.onnx")
    for dimension, size in zip(model.graph.input[0].type.tensor_type.shape.dim, (2, 16), strict=False):
        dimension.dim_value = size
    return model


def digits() -> ModelProto:
    model = onnx.load(DIGITS / "digits.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    return model


NETWORKS: Mapping[str, Callable[[], ModelProto]] = {
    "digits": digits,
    "ResNet-20": partial(resnet, 20),
    "transformer": transformer,
}
STAGES = {"nn": "", "ascend": ",lower-to-ascend", "requant": ",lower-to-ascend,fuse-requant"}


def quantized(model: ModelProto, passes: str) -> ModuleOp:
    module, session = amct_opt.load(model)
    amct_opt.run_pipeline(module, f"infer-shapes,fuse-all,quantize{passes}", session)
    return module


def pieces(module: ModuleOp, least: int = 6) -> Iterator[ModuleOp]:
    """A module in parts of at least this many operations, cut before quantizations.

    The time of `--convert-tensor-to-hivm` grows exponentially with the number of convolutions.
    """
    operations = [op for op in main_function(module).body.block.ops if not isinstance(op, ConstantOp | ReturnOp)]
    count, cut = ModuleForm().parts(module)
    assert count == len(operations)
    starts = [0]
    for i, op in enumerate(operations):
        if isinstance(op, AscendQuantOp | QuantizeOp) and min(i - starts[-1], count - i) >= least:
            starts.append(i)
    for first, last in pairwise([*starts, count]):
        part = cut(range(first, last))
        assert part is not None, f"operations {first} to {last} are not a module"
        yield part


@pytest.mark.slow
def test_networks(tmp_path: Path) -> None:
    """Every operation of the networks, with its sizes and weights there."""
    tool()
    rows: list[str] = []
    for name, build in NETWORKS.items():
        for stage, passes in STAGES.items():
            module = quantized(build(), passes)
            parts = list(pieces(module))
            rejected = [reason for part in parts if (reason := sent(part, tmp_path))]
            verdict = "accepted down to hivm" if not rejected else "; ".join(dict.fromkeys(rejected))
            rows.append(f"| {name} | {stage} | {ModuleForm().parts(module)[0]} | {len(parts)} | {verdict} |")
    head = ["| network | stage | operations | in parts | `bishengir-opt` |", "| --- | --- | ---: | ---: | --- |"]
    settle("ascendnpu-ir networks", [*head, *rows])


@pytest.mark.slow
@pytest.mark.parametrize("passes", STAGES.values())
def test_the_digits_network_arrives_at_hivm(passes: str, tmp_path: Path) -> None:
    """As a whole."""
    tool()
    assert sent(quantized(digits(), passes), tmp_path) == ""
    text = (tmp_path / "hivm.mlir").read_text()
    assert "hacc.entry" in text
    assert "hivm.hir.matmul" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "error"),
    [(digits, 0.0), (partial(resnet, 8), 0.0), (transformer, 1e-6)],
    ids=["digits", "resnet", "transformer"],
)
def test_the_numbers_on_its_way_back(build: Callable[[], ModelProto], error: float, tmp_path: Path) -> None:
    """hfusion, written for upstream by `bishengir-opt` itself and compiled by IREE, gives the outputs of the interpreter.

    Those of the transformer come from norms and softmax, in float; the others are equal to the bit. Its way back writes
    `hfusion.cast` without the rounding, which `math.roundeven` stands for here.
    """
    module = quantized(build(), STAGES["requant"])
    text, hfusion, rounded, back = (tmp_path / f"{name}.mlir" for name in ("m", "hfusion", "rounded", "back"))
    AscendNpuIrTarget().write(module, text, amct_opt.new_session())
    subprocess.run([tool(), str(text), *HFUSION, "-o", str(hfusion)], check=True)
    rounding = r"hfusion.cast \{round_mode = #hfusion.round_mode<rint>\} ins\((%\w+) : (tensor<[^>]*f32>)\) outs\([^)]*\) -> \2\n"
    rounded.write_text(re.sub(rounding, r"math.roundeven \1 : \2\n", hfusion.read_text()))
    options = ["--execution-engine-convert-hfusion-to-upstream", "--linalg-generalize-named-ops"]
    subprocess.run([tool(), str(rounded), *options, "-o", str(back)], check=True)
    back.write_text(re.sub(r"attributes \{hacc[^}]*\}", "", back.read_text()))
    (argument,) = main_function(module).body.block.args
    x = np.random.default_rng(4).normal(size=shape_of(argument)).astype(np.float32)
    (name,) = input_names(main_function(module))
    (expected,) = amct_opt.execute(module, {name: x}).values()
    (found,) = called(compiled_text(back).main, [x])
    np.testing.assert_allclose(found, expected, rtol=0, atol=error)


def test_what_it_writes(tmp_path: Path) -> None:
    """Operations on whole tensors, products of int8 into int32, rounding by hfusion; no generic operation is left."""
    (path,) = AscendNpuIrTarget().write(
        quantized(digits(), STAGES["ascend"]), tmp_path / "m.mlir", amct_opt.new_session()
    )
    text = path.read_text()
    assert "attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>}" in text
    assert "linalg.generic" not in text
    assert text.count("linalg.matmul") == 5 + 32, (
        "one for each layer, and for each channel of the depthwise convolution"
    )
    assert "hfusion.cast {round_mode = #hfusion.round_mode<rint>}" in text
