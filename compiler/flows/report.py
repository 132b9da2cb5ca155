"""`amct report`: the page of a finished run, from the files in its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ..files import replacing
from ..limits import locating
from ..reports.model_explorer import node_data
from ..reports.network import DrawnLayer, layers_of
from ..reports.page import page_of
from ..reports.reading import Run, read_run
from ..universe import new_session

PAGE, NODE_DATA = "report.html", "model_explorer.json"


def report_of(folder: Path) -> Path:
    """Write `report.html` into the folder of a finished run, only from its files. Returns its path.

    What the folder lacks is left out of the page, with a sentence. Raises CompileError, located, for a folder without a summary,
    for damaged files, and without the extra `report`.
    """
    run = read_run(folder, new_session())
    return write_page(run, layers_of(run))


def write_page(run: Run, layers: Sequence[DrawnLayer]) -> Path:
    """Write the page of a run, with its layers. Raises CompileError without the extra `report`."""
    path = run.folder / PAGE
    with locating(PAGE):
        page = page_of(run, layers)
    with replacing(path) as stream:
        stream.write(page.encode(errors="backslashreplace"))
    return path


def node_data_of(folder: Path) -> Path:
    """Write `model_explorer.json` into the folder of a finished run: the errors of layers, for Model Explorer. Returns its path.

    Raises CompileError, located, if the run has no ONNX file or no errors of layers.
    """
    data = node_data(read_run(folder, new_session()))
    with replacing(folder / NODE_DATA) as stream:
        stream.write(f"{json.dumps(data, indent=1, ensure_ascii=False)}\n".encode(errors="backslashreplace"))
    return folder / NODE_DATA


def can_draw() -> bool:
    """Whether the extra `report` is installed."""
    return all(find_spec(name) is not None for name in ("jinja2", "plotly"))
