"""`amct report`: the page of a finished run, from the files in its folder."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from ..examine.reports.model_explorer import node_data
from ..examine.reports.page import page_of
from ..examine.reports.reading import Run, read_run
from ..support.diagnostics import CompileError
from ..support.files import replacing
from ..support.limits import locating
from ..transforms.quantization.profiles import QDQ
from .check import rounded
from .measurement import HUGE

PAGE, NODE_DATA = "report.html", "model_explorer.json"


def report_of(folder: Path, final: Path | None = None) -> Path:
    """Write `report.html` into the folder of a finished run, only from its files. Returns its path. The page names `final` where
    the files are moved there.

    What the folder lacks is left out of the page, with a sentence. Raises CompileError, located, for a folder without a summary,
    for damaged files, and without the extra `report`.
    """
    run, path = read_run(folder), folder / PAGE
    with locating(PAGE):
        page = page_of(replace(run, folder=final or folder), _rounded(run))
    with replacing(path) as stream:
        stream.write(page.encode(errors="backslashreplace"))
    return path


def _rounded(run: Run) -> list[tuple[str, str, str]]:
    """What onnxruntime computes in float or rounds twice in the file of a run for it: the layer, the reason and what mends it.

    A huge network, whose weights would be in memory, has one row that says how to examine it.
    """
    file = run.folder / Path(run.files.get("onnx", "")).name
    if run.metadata.get("profile") != QDQ.name or run.onnxruntime is None or not file.is_file():
        return []
    if run.sizes.get("float_weights", 0) > HUGE:
        reason = f"the report does not examine weights of more than {HUGE >> 20} MiB"
        return [(file.name, reason, f"amct check {file.name} --for onnxruntime")]
    try:
        return [(each.layer, each.reason, each.mend) for each in rounded(file)]
    except CompileError as e:
        if isinstance(e.__context__, OSError):  # of temporary files, not of this one
            raise
        return [(file.name, e.message, e.hint)]


def node_data_of(folder: Path) -> Path:
    """Write `model_explorer.json` into the folder of a finished run: the errors of layers, for Model Explorer. Returns its path.

    Raises CompileError, located, if the run has no ONNX file or no errors of layers.
    """
    data = node_data(read_run(folder))
    with replacing(folder / NODE_DATA) as stream:
        stream.write(f"{json.dumps(data, indent=1, ensure_ascii=False)}\n".encode(errors="backslashreplace"))
    return folder / NODE_DATA


def can_draw() -> bool:
    """Whether the extra `report` is installed."""
    return all(find_spec(name) is not None for name in ("jinja2", "plotly"))
