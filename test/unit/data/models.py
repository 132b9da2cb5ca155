"""Functions with inputs of given types, which are all that data has to fit."""

from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp

from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.session.universe import new_session


def function(arguments: str) -> FuncOp:
    """Of `%x: tensor<?x2xf32>, %y: tensor<1xi64>`; the inputs are called x and y."""
    names = [a.split(":")[0] for a in arguments.split(", ")]
    typed = ", ".join(f'{a} {{nn.name = "{n[1:]}"}}' for a, n in zip(arguments.split(", "), names, strict=True))
    return main_function(parse_module(new_session(), f"func.func @main({typed}) {{\n  func.return\n}}"))


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path
