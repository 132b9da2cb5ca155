"""docs/configuration.md lists every field and option."""

from dataclasses import fields
from pathlib import Path

from compiler.configuration.record import NUMBERS, TYPES
from compiler.configuration.simplified_schema import FIELDS
from compiler.transforms.quantization.options import SettingsOptions

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text("utf-8")
ROWS = {row.split("|")[1].strip(): row for row in PAGE.splitlines() if row.startswith("| ")}


def test_fields_of_configurations() -> None:
    for message, declared in FIELDS.items():
        (row,) = [row for names, row in ROWS.items() if message in names.split(", ")]
        assert [name for name in declared if f"`{name}`" not in row] == []


def test_fields_of_records() -> None:
    assert [name for name in TYPES if f"`{name}`" not in PAGE] == []
    shared = set.intersection(*(set(numbers) for numbers in NUMBERS.values())) - {"skip_fusion"}
    for flavour, numbers in NUMBERS.items():
        assert [name for name in numbers if name not in shared and f"`{name}`" not in ROWS[flavour]] == []


def test_options() -> None:
    options = [f"`{f.name.replace('_', '-')}`" for f in fields(SettingsOptions)]
    assert [option for option in options if not any(option in key for key in ROWS)] == []
