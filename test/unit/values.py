"""Modules from text, and what tests look up in them: the numbers of a constant, what makes a value, a kernel.

Where there is none, they fail. And random numbers for tables of cases, and hostile ones for files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.runtime.kernels import kernel_for
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

T = TypeVar("T", bound=Operation)


def parsed(text: str, name: str = "net.mlir", profile: str = "") -> tuple[ModuleOp, Session]:
    """A module from its text, verified, and a session of this profile, or of the default one. `name` is the file in locations."""
    session = new_session()
    session.profile = profile or session.profile
    module = parse_module(session, text, name)
    verify(module)
    return module, session


def dense(array: np.ndarray[Any, np.dtype[Any]]) -> str:
    """A constant of float32 in text, with its type."""
    return f'dense<"0x{array.tobytes().hex()}"> : tensor<{"x".join(map(str, array.shape))}xf32>'


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[Any]]:
    """Normal numbers, always the same for a shape and a seed. Tests draw from the fixture `rng`."""
    return np.asarray(np.random.default_rng([seed, *shape]).normal(size=shape), np.float32)


def numbers_of(value: SSAValue | None) -> np.ndarray[Any, np.dtype[Any]]:
    """The array of a constant."""
    array = nn.array_of(value)
    assert array is not None
    return array


def made_by(value: SSAValue | None, kind: type[T]) -> T:
    """The operation of this class whose result a value is."""
    assert value is not None
    assert isinstance(value.owner, kind)
    return value.owner


def kernel_of(op: Operation) -> Callable[..., Any]:
    """What computes an operation. Whether it returns an array or several, the test knows."""
    kernel = kernel_for(op)
    assert kernel is not None
    return kernel


def layer_of(op: nn.NNOp) -> str:
    """The source's layer that an operation was read from."""
    assert op.origin is not None
    return op.origin.layer.data


def module_of(op: Operation) -> ModuleOp:
    """The module that an operation is directly in."""
    module = op.parent_op()
    assert isinstance(module, ModuleOp)
    return module


BAD = object()
"""The place of a hostile number, alone or in a list."""


def put(value: Any, number: float) -> Any:
    """The value, or a list of values, with the number in place of BAD."""
    if value is BAD:
        return number
    return [put(v, number) for v in value] if isinstance(value, list) else value


def error_of(path: Path) -> str:
    """The message of the one located line with which a file is refused, or "" if the text of its module reads back."""
    session = new_session()
    try:
        module = frontends.read(path, session)
        verify(module)
    except CompileError as e:
        located = e
    else:
        text = module_text(module)
        assert module_text(parse_module(session, text)) == text
        return ""
    assert str(path) in str(located)
    assert "\n" not in located.message
    return located.message
