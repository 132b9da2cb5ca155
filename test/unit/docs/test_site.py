"""The site of the documentation, and its picture of the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from ..scripts import ROOT, script

OVER = "<script>document.body.dataset.over = document.documentElement.scrollWidth - innerWidth</script></body>"
"""Says by how many pixels a page is wider than the window."""


@pytest.mark.slow
def test_the_picture_is_current() -> None:
    written = script("docs/generate/architecture").picture()
    assert (ROOT / "docs" / "architecture.svg").read_text("utf-8") == written, (
        "run: python docs/generate/architecture.py"
    )


def build(settings: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Without --quiet, which hides warnings from the count that makes a strict build fail."""
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(settings), "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_has_every_page(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    written = {path.relative_to(site) for path in site.rglob("*.html")}
    index = Path("README.html")
    assert {*pages} - {index} <= written


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("b.md#--two-words", ""),
        ("nosuchpage.md", "'nosuchpage.md', but the target is not found"),
        ("b.md#nosuchanchor", "does not contain an anchor '#nosuchanchor'"),
        ("#nosuchanchor", "there is no such anchor on this page"),
    ],
)
def test_the_site_is_not_built_with_a_broken_link(link: str, message: str, tmp_path: Path) -> None:
    """By the settings of the site, on two pages. Anchors are those that code hosts make."""
    pages = {"a.md": f"# A\n\n[link]({link})\n", "b.md": "# B\n\n## `--two words`\n"}
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": "docs",
        "hooks": [str(ROOT / "docs" / "generate" / "site.py")],
        "nav": [*pages],
    }
    (tmp_path / "docs").mkdir()
    for name, text in pages.items():
        (tmp_path / "docs" / name).write_text(text)
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert (done.returncode != 0) == bool(message), done.stderr
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 420])
@pytest.mark.parametrize("page", ["index", "tutorial", "generated/commands", "generated/passes", "measured/accuracy"])
def test_pages_are_drawn(page: str, width: int, site: Path, browser, tmp_path: Path) -> None:
    """They are not blank, and not wider than the window: tables and code scroll by themselves."""
    image = pytest.importorskip("PIL.Image")
    drawn = site / f"{page}.html"
    browser(drawn, f"--screenshot={tmp_path / 'page.png'}", f"--window-size={width},1000")
    pixels = np.asarray(image.open(tmp_path / "page.png").convert("L"))
    assert pixels.shape[1] == width
    assert pixels.std() > 10
    measured = drawn.with_name(f"measured_{width}_{drawn.name}")
    measured.write_text(drawn.read_text("utf-8").replace("</body>", OVER), "utf-8")
    least = 500  # pixels: the narrowest window that has a layout without a screen
    dom, _ = browser(measured, "--dump-dom", f"--window-size={max(width, least)},1000")
    over = re.search(r'data-over="(-?\d+)"', dom)
    assert over is not None
    assert int(over[1]) <= 0
