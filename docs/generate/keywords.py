"""Writes the keywords of `compiler/api/keywords.py` from the classes of options: `python docs/generate/keywords.py`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from amct_opt.flows.options import ResultOptions
from amct_opt.pipelines.options import Option, leaves
from amct_opt.transforms.quantization.options import AllOptions, DataOptions

TARGET = Path(__file__).parents[2] / "compiler" / "api" / "keywords.py"
BEGIN, END = "# begin keywords (generated)\n", "\n\n# end keywords\n"
OWN = {
    "data": "each function has it by position",
    "cluster": "it is called client",
    "samples": "of sensitivity they are those that measure",
}
"""Options that are not keywords, and why."""
OWN_OF_FILES = {
    "opset": "only quantize_file writes files",
    "labels": "quantize takes arrays as well",
    "check": "it is a truth value or data",
}
"""Options of files that are not keywords, and why."""


def main() -> None:
    TARGET.write_text(module(TARGET.read_text("utf-8")), "utf-8")


def module(text: str) -> str:
    """The text of the module with its generated part."""
    before, rest = text.split(BEGIN)
    data = {name: each for name, each in leaves(DataOptions).items() if name not in OWN}
    others = {name: each for name, each in leaves(AllOptions).items() if name not in data and name not in OWN}
    parts = [_class("DataKeywords", "TypedDict, total=False", "Options of data.", data)]
    parts += [_class("Keywords", "DataKeywords, total=False", "Options of quantization and of data.", others)]
    files = {name: each for name, each in leaves(ResultOptions).items() if name not in OWN_OF_FILES}
    parts += [_class("FileKeywords", "Keywords, total=False", "Options of quantization, of data and of files.", files)]
    return "".join([before, BEGIN, "\n\n".join(parts), END, rest.partition(END)[2]])


def _class(name: str, bases: str, about: str, options: dict[str, Option]) -> str:
    lines = [f"class {name}({bases}):", f'    """{about}"""', "", *(f"    {n}: {_type(e)}" for n, e in options.items())]
    return "\n".join([*lines, ""])


def _type(option: Option) -> str:
    """Lists of any kind stand for tuples, and paths for text that names a file."""
    hint = inspect.get_annotations(option.owner)[option.field].replace("'", '"')
    return (
        re.sub(r"tuple\[(\w+), \.\.\.\]", r"Sequence[\1]", hint)
        .replace("str | Record", "PathLike | Record")
        .replace("str | Settings", "PathLike | Settings")
    )


if __name__ == "__main__":
    main()
