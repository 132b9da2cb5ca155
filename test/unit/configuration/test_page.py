"""docs/configuration.md lists every field and option. AMCT_UPDATE=1 writes the table of fields."""

from collections.abc import Callable, Iterator
from pathlib import Path

from amct_opt.configuration.record import NUMBERS, TYPES
from amct_opt.configuration.simplified_schema import ENUMS, FIELDS, ONLY_IN

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text("utf-8")
ROWS = {row.split("|")[1].strip(): row for row in PAGE.splitlines() if row.startswith("| ")}


def schema() -> Iterator[str]:
    """A row for each field of the simplified configuration."""
    yield "| message | field | type | default | in |"
    yield "| --- | --- | --- | --- | --- |"
    for message, declared in FIELDS.items():
        for name, (_, text) in declared.items():
            type_, _, default = text.partition(" = ")
            flavours = ", ".join(ONLY_IN.get((message, name), ("all",)))
            yield f"| {message} | `{name}` | {_type(type_)} | {default} | {flavours} |"


def _type(text: str) -> str:
    """`oneof wts_quant_algo ARQuantize` -> ARQuantize, one of `wts_quant_algo`."""
    kind, _, rest = text.partition(" ")
    if kind == "oneof":
        group, _, message = rest.partition(" ")
        return f"{message}, one of `{group}`"
    return ", ".join(ENUMS[text]) if text in ENUMS else text


def test_fields_of_configurations(generated: Callable[..., None]) -> None:
    generated("configuration.md", fields="\n".join(schema()))


def test_fields_of_records() -> None:
    assert [name for name in TYPES if f"`{name}`" not in PAGE] == []
    shared = set.intersection(*(set(numbers) for numbers in NUMBERS.values())) - {"skip_fusion"}
    for flavour, numbers in NUMBERS.items():
        assert [name for name in numbers if name not in shared and f"`{name}`" not in ROWS[flavour]] == []
