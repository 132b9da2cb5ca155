"""docs/migrating.md has every option of `amct calibration`, field of a simplified configuration and parameter of onnxruntime."""

from __future__ import annotations

import argparse
import inspect
import re

import pytest

from compiler.configuration.simplified_schema import FIELDS
from compiler.tools import amct_calibration

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
    commands = argparse.ArgumentParser().add_subparsers()
    amct_calibration.add_parser(commands)
    text = commands.choices["calibration"].format_usage()
    options = set(re.findall(r"--\w+", text))
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
