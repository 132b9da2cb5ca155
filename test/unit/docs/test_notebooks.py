"""The notebooks of docs/notebooks: their code runs from top to bottom."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    """As a program, in the notebook's folder; what it writes goes into a temporary folder. It has no outputs of its own."""
    cells = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells)
    for package in sorted({*re.findall(r"^(?:import|from) (torch|torchao|brevitas|modelopt)\b", code, re.MULTILINE)}):
        pytest.importorskip(package, reason=f"{package} is not installed")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, cwd=notebook.parent, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
