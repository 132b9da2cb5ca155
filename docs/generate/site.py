"""A hook of mkdocs: links to files that are not pages of the site become their text and the path in the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>(?![a-z]+:|#)[^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Called by mkdocs for each page, with its text."""
    docs = Path(config.docs_dir).resolve()
    folder = Path(page.file.abs_src_path).resolve().parent

    def shown(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        if docs in target.parents or not target.exists():
            return link[0]
        return f"{link['text']} (`{target.relative_to(docs.parent)}`)"

    return _LINK.sub(shown, markdown)
