"""Links from page to page lead somewhere: files exist, anchors are headings, and every page can be reached from README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import PAGES, ROOT, headings, links


def local(page: Path) -> list[tuple[str, Path, str]]:
    """The links of a page to files of the repository: as written, the file, the anchor."""
    found: list[tuple[str, Path, str]] = []
    for link in links(page.read_text("utf-8")):
        if "://" not in link and not link.startswith("mailto:"):
            target, _, anchor = link.partition("#")
            found.append((link, (page.parent / target).resolve() if target else page, anchor))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    broken = [
        link
        for link, target, anchor in local(PAGES[page])
        if not target.exists() or (anchor and anchor not in headings(target.read_text("utf-8")))
    ]
    assert broken == []


def test_every_page_is_linked() -> None:
    start = ROOT / "README.md"
    reached, todo = {start}, [start]
    while todo:
        for _, target, _ in local(todo.pop()):
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                todo.append(target)
    assert [name for name, path in PAGES.items() if path not in reached] == []
