"""Every expansion computes what the kernel of the operation computes, in the tolerance that targets are held to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from amct_opt.dialects import ascend, nn
from amct_opt.ir.dtypes import element_type
from amct_opt.runtime.kernels import bare_kernel_for

from ..targets.operations import CASES, Array, Case
from ..values import numbers_of

PACKAGE = Path(__file__).parents[3] / "compiler"


def made(case: Case, arrays: Sequence[Array]) -> nn.NNOp:
    """The operation of a case, with operands of the types of these arrays."""
    op = case.build(*Block(arg_types=[TensorType(element_type(a.dtype), a.shape) for a in arrays]).args)
    return op if isinstance(op, nn.NNOp) else op.owner


def operation(case: Case) -> type[Any]:
    try:
        return type(made(case, case.arrays))
    except VerifyException:
        return object


EXPANDED = {name: case for name, case in CASES.items() if operation(case) in nn.expandable()}


def by_steps(op: nn.NNOp, arrays: Sequence[Array]) -> Array | None:
    if (expansion := nn.expanded(op)) is None:
        return None
    kernels: dict[nn.NNOp, Any] = {step: bare_kernel_for(step) for step in expansion.steps}
    return expansion.computed(arrays, lambda constant: constant.array, lambda step, xs: kernels[step](*xs))[0]


@pytest.mark.parametrize("name", EXPANDED)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_kernel_computes_the_expansion(name: str, dtype: str) -> None:
    case = EXPANDED[name]
    given = [a.astype(dtype) if a.dtype == np.float32 else a for a in case.arrays]
    try:
        op = made(case, given)
    except VerifyException:  # parameters of float32
        pytest.skip("has no form in this type")
    arrays = [*given, *(numbers_of(v) for v in op.operands[len(given) :])]
    with np.errstate(all="ignore"):
        found = by_steps(op, arrays)
        if found is None:
            pytest.skip("has no expansion with these properties")
        kernel: Any = bare_kernel_for(op)
        case.check(found, kernel(*arrays))


def test_an_activation_is_three_files() -> None:
    """A class, an expansion and a row, as docs/howto/op.md shows."""
    naming = {
        p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py") if "HardShrinkOp" in p.read_text("utf-8")
    }
    assert naming == {"dialects/nn/elementwise.py", "dialects/nn/expansions.py", "formats/onnx/operators.py"}
    page = (PACKAGE.parent / "docs" / "howto" / "op.md").read_text("utf-8")
    assert "nn.hard_shrink" in page
    assert set(re.findall(r"^\+\+\+ b/compiler/(\S+)", page, re.MULTILINE)) == naming


def test_every_expansion_has_a_case() -> None:
    assert {operation(case) for case in EXPANDED.values()} == set(nn.expandable()) - set(ascend.EXPANDED)
