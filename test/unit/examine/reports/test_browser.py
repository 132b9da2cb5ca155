"""The page in a real browser, without a window: it draws, reports no error, and its table and menu work."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

BLUE = (0x25, 0x63, 0xA8)
"""The color of what is quantized, in all drawings."""

AFTER = """<script>
new MutationObserver(() => { %s }).observe(document.body, {attributeFilter: ["data-drawn"]});
</script></body>"""
"""What is done once the page is drawn."""

USE = """
const box = document.getElementById("search");
const type = (text) => { box.value = text; box.dispatchEvent(new Event("input")); };
const rows = () => [...document.getElementById("table").tBodies[0].rows].filter((row) => !row.hidden);
const seen = {};
type("nn.conv depth"); seen.found = rows().map((row) => row.cells[1].textContent).join();
type(""); seen.all = rows().length;
document.getElementById("table").tHead.rows[0].cells[7].click();
seen.sorted = rows().map((row) => parseFloat(row.cells[7].textContent)).every((x, i, all) => !i || all[i - 1] <= x);
rows().find((row) => row.cells[1].textContent === "fc1").click();
seen.chosen = document.getElementById("chosen").selectedOptions[0].textContent;
seen.weights = document.querySelector("#weights .gtitle").textContent;
document.body.dataset.used = JSON.stringify(seen);
"""
"""What a user does: search, sort by SQNR, click a row."""


@pytest.mark.slow
def test_it_draws(browser, digits_run: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    _, log = browser(digits_run / "report.html", f"--screenshot={tmp_path / 'page.png'}", "--window-size=1300,2400")
    assert "CONSOLE" not in log, log
    pixels = np.asarray(image.open(tmp_path / "page.png").convert("RGB"))
    assert pixels.shape[1] == 1300
    assert np.count_nonzero((pixels == BLUE).all(axis=-1)) > 5000, "bars of histogram and weights"
    assert pixels.std() > 10, "not blank"


@pytest.mark.slow
def test_it_is_dark_where_that_is_preferred(browser, digits_run: Path, tmp_path: Path) -> None:
    """Drawings as well, on the screen of a phone, which it does not overflow."""
    image = pytest.importorskip("PIL.Image")
    options = (f"--screenshot={tmp_path / 'page.png'}", "--window-size=500,2400", "--force-dark-mode")
    _, log = browser(digits_run / "report.html", *options, "--blink-settings=preferredColorScheme=0")
    assert "CONSOLE" not in log, log
    pixels = np.asarray(image.open(tmp_path / "page.png").convert("L"))
    assert np.mean(pixels > 200) < 0.1, "no white areas"
    wide = (digits_run / "report.html").read_text("utf-8")
    tell = "document.body.dataset.over = document.documentElement.scrollWidth - innerWidth"
    (tmp_path / "wide.html").write_text(wide.replace("</body>", AFTER % tell), "utf-8")
    dom, _ = browser(tmp_path / "wide.html", "--dump-dom", "--window-size=500,900")
    assert 'data-over="0"' in dom


@pytest.mark.slow
def test_it_can_be_used(browser, digits_run: Path, tmp_path: Path) -> None:
    page = tmp_path / "used.html"
    page.write_text((digits_run / "report.html").read_text("utf-8").replace("</body>", AFTER % USE), "utf-8")
    dom, log = browser(page, "--dump-dom")
    assert "CONSOLE" not in log, log
    assert 'data-drawn="true"' in dom
    for plot in ("curve", "histogram", "weights"):
        assert re.search(rf'id="{plot}" class="plot js-plotly-plot"', dom), plot
    assert dom.count('class="point"') > 30
    used = re.search(r'data-used="([^"]*)"', dom)
    assert used is not None, "the script stopped"
    seen = used[1].replace("&quot;", '"')
    assert '"found":"depthwise1"' in seen
    assert '"sorted":true' in seen
    assert "fc1 (nn.matmul)" in re.sub(r"\s+", " ", seen)
    assert '"weights":"Weights: 10 channels' in seen


@pytest.mark.slow
def test_names_from_outside_do_nothing(browser, unfriendly_run: Path) -> None:
    dom, log = browser(unfriendly_run / "report.html", "--dump-dom")
    assert "CONSOLE" not in log, log
    assert 'data-drawn="true"' in dom
    assert "<b onload" not in dom
