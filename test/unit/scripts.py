"""What stands next to the package: scripts of docs and examples as modules, and projects as pip installs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@cache
def script(path: str) -> Any:
    """The script at a path from the repository's root, without its ending: `docs/accuracy`. It is executed once."""
    spec = spec_from_file_location(path.replace("/", "_"), ROOT / f"{path}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def installed(project: Path, folder: Path) -> Path:
    """Install a project in a folder, for PYTHONPATH: from a copy, as building leaves files, and without network. Returns it."""
    copy, site = shutil.copytree(project, folder / "project"), folder / "site"
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *offline, "--target", site, copy], check=True)
    return site
