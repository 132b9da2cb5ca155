"""docs/migrating.md has every option of `amct calibration`, field of a simplified configuration and parameter of onnxruntime."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

from amct_opt.configuration.simplified_schema import FIELDS
from amct_opt.tools import amct_calibration
from amct_opt.tools.parser import Parser

from .pages import PAGES

PAGE = PAGES["docs/migrating.md"].read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables under a heading."""
    section = re.split(r"\n#+ ", PAGE.partition(f" {heading}\n")[2])[0]
    return [
        [cell.strip() for cell in row.strip("|").split("|")] for row in section.splitlines() if row.startswith("| ")
    ]


def named(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)]


def test_options_of_calibration() -> None:
    commands = Parser("amct").add_subparsers()
    amct_calibration.add_parser(commands)
    text = commands.choices["calibration"].format_help()
    options = set(re.findall(r"--\w[\w-]+", text)) - {"--help"}
    assert set(named([row[0] for row in rows("Options of `calibration`")])) == options


@pytest.mark.parametrize("message", [m for m in FIELDS if not m.startswith("_")])
def test_fields_of_configurations(message: str) -> None:
    found: dict[str, list[str]] = {}
    current = ""
    for owner, field, *_ in rows("Configuration, field by field"):
        current = owner or current
        found.setdefault(current, []).extend(named([field]))
    assert sorted(found[message]) == sorted(FIELDS[message])


def test_parameters_of_onnxruntime() -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    parameters = inspect.signature(quantization.quantize_static).parameters
    assert [
        name for name in parameters if name not in named([row[0] for row in rows("onnxruntime.quantization")])
    ] == []


@pytest.mark.parametrize("framework", ["onnx", "tensorflow", "caffe"])
def test_python_functions(framework: str) -> None:
    """Every function is in the table, with the parameters that it has, in their order; those without defaults are all there."""
    module = import_module(f"amct_opt.amct.{framework}")
    listed: dict[str, list[str]] = {}
    for call, modules, *_ in rows("Python functions")[8:]:
        if f"`{framework}`" in modules:
            listed.update({name: given.split(", ") for name, given in re.findall(r"`(\w+)(?:\((.*?)\))?`", call)})
    functions = {name: value for name in module.__all__ if inspect.isfunction(value := getattr(module, name))}
    classes = {name for name in module.__all__ if inspect.isclass(getattr(module, name))}
    assert set(listed) - classes == set(functions)
    for name, function in functions.items():
        parameters = list(inspect.signature(function).parameters)
        given = [each.partition("=")[0] for each in listed[name] if each not in ("", "...")]
        assert given == (parameters[: len(given)] if "..." in listed[name] else parameters), name
