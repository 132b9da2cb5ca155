"""The site of the documentation, and its picture of the package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..scripts import ROOT, script


@pytest.mark.slow
def test_the_picture_is_current() -> None:
    written = script("docs/generate/architecture").picture()
    assert (ROOT / "docs" / "architecture.svg").read_text("utf-8") == written, (
        "run: python docs/generate/architecture.py"
    )


@pytest.mark.slow
def test_the_site_has_every_page_and_no_broken_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.html")}
    index = Path("README.html")
    assert {*pages} - {index} <= written
