"""What stands next to the package: scripts of docs and examples as modules, projects as pip installs them, environments."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from .frameworks import Later

ROOT = Path(__file__).parents[2]


def script(path: str) -> Any:
    """The script at a path from the repository's root, without its ending: `docs/accuracy`. It is executed once, when used, and
    imports those next to it.
    """
    return Later(partial(_executed, path))


@cache
def _executed(path: str) -> Any:
    spec = spec_from_file_location(path.replace("/", "_"), ROOT / f"{path}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / Path(path).parent)
        spec.loader.exec_module(module)
    return module


def installed(project: Path, folder: Path) -> Path:
    """Install a project in a folder, for PYTHONPATH: from a copy, as building leaves files, and without network. Returns it."""
    copy, site = shutil.copytree(project, folder / "project"), folder / "site"
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *offline, "--target", site, copy], check=True)
    return site


def environment(requirements: Iterable[str], home: Path) -> Path:
    """Make an environment with what `pip install` would bring, as links to what is installed here. Returns its folder.

    The test is skipped if a package is not installed.
    """
    venv.create(home, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(home), "platbase": str(home)}))
    for each in _closure(requirements):
        for top in {file.parts[0] for file in each.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists() and (source := Path(str(each.locate_file(top)))).exists():
                (site / top).symlink_to(source)
        for entry in each.entry_points.select(group="console_scripts"):
            tool = home / "bin" / entry.name
            tool.write_text(
                f"#!{home}/bin/python\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n"
            )
            tool.chmod(0o755)
    return home


def _closure(requirements: Iterable[str]) -> Iterator[Distribution]:
    """Distributions that are installed, and all that they require."""
    waiting, seen = [*map(Requirement, requirements)], set[tuple[str, str]]()
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            if (wanted.name, extra) in seen:
                continue
            seen.add((wanted.name, extra))
            try:
                found = distribution(wanted.name)
            except PackageNotFoundError:
                pytest.skip(f"{wanted.name} is not installed")
            if not extra:
                yield found
            needs = map(Requirement, found.requires or ())
            waiting += [each for each in needs if not each.marker or each.marker.evaluate({"extra": extra})]
