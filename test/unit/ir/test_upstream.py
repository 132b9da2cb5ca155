"""Through a real MLIR: what upstream reads and prints of our generic form comes back as it was."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.ir.functions import input_names, main_function

from .upstream import generic, needs_upstream, parse, through_upstream, upstream

LIT = Path(__file__).parents[2] / "lit" / "dialects"

pytestmark = needs_upstream


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["nn", "ascend", "quant"])
def test_every_operation(dialect: str) -> None:
    texts = [file.read_text() for file in sorted((LIT / dialect).glob("ops*.mlir"))]
    assert texts
    through_upstream(*(parse(part) for text in texts for part in re.split(r"(?m)^// -----.*$", text)))


ELEMENTS = ("float64", "float32", "float16", "bfloat16", "int64", "int8", "uint8", "int4", "int2", "bool")
LOCATIONS = (
    "unknown",
    '"net.onnx":0:0',
    '"a b.mlir":3:14',
    '"层"("net.onnx":0:0)',
    'fused["a", "b"("f":1:2)]',
    'callsite("a" at "b")',
)


def constants(name: str) -> ModuleOp:
    """Arrays of an element type in decimals, as bytes, as a splat; with what decimals cannot hold where there is such a thing."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    values = np.array(
        [0, 1, 1, 0, 1] if name == "bool" else [-0.0, 1.5, -2, 7, 3] if dtype.kind in "fV" else [0, 1, 7, 3, 5]
    )
    special = (
        [np.inf, -np.inf, np.nan, 1e-5, 16777215] if name in ("float64", "float32", "float16", "bfloat16") else [1]
    )
    with np.errstate(over="ignore", invalid="ignore"):  # casts to small integers set its flag on some processors
        arrays = [values.astype(dtype), np.tile(values, 40).astype(dtype), np.array(special).astype(dtype)]
    arrays += [np.full((2, 3), values[1]).astype(dtype), np.array(1).astype(dtype)]
    return ModuleOp([nn.ConstantOp.of(array, f"k{i}") for i, array in enumerate(arrays)])


def test_every_element_type() -> None:
    through_upstream(*map(constants, ELEMENTS))


def test_locations() -> None:
    through_upstream(*(parse(f"%c = nn.constant dense<1> : tensor<1xi8> loc({at})") for at in LOCATIONS))


def test_names_of_any_characters() -> None:
    module = parse(
        r"""
        func.func @main(%x: tensor<?x2xf32> {nn.name = "层/\"x\"\\\0A", nn.dims = ["batch", ""]}) {
          %y = nn.observe %x as "é:0" by "min-max" from <onnx, "Conv", "ünï\22\\", {"键" = "值"}> : tensor<?x2xf32>
          func.return
        }"""
    )
    through_upstream(module)
    again = parse(upstream(generic(module)))
    assert input_names(main_function(again)) == ['层/"x"\\\n']


def test_upstream_finds_what_our_verifier_finds() -> None:
    """The dominance error that xDSL lets through."""
    early = "%a = nn.relu %b : tensor<2xf32>\n %b = nn.relu %x : tensor<2xf32>"
    module = parse(f"func.func @main(%x: tensor<2xf32>) {{\n {early}\n func.return }}")
    with pytest.raises(AssertionError, match="does not dominate"):
        upstream(generic(module))
