"""The runner of pages itself: what it takes, and what it has to refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import Block, blocks_of, headings, links, run_page


def page(folder: Path, language: str, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(f"# Title\n\n```{language}\n{text}\n```\n", "utf-8")
    return path


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("bash", "x=1\necho $x"),
        ("console", "$ printf 'one 1.25\\ntwo\\n\\nthree\\n'\none 1.26\n...\nthree"),
        ("console", "$ echo 'a.mlir:3:1: error: bad'\na.mlir:...: error: bad"),
        ("console", "$ echo a\na\n$ echo b \\\n    c\nb c"),
        ("console", "$ echo fails; false\nfails"),
        ("python", "assert 1 + 1 == 2"),
        ("json", '{"a": 1}'),
        ("toml", "a = 1"),
        ("text", "anything"),
    ],
)
def test_runs(tmp_path: Path, language: str, text: str) -> None:
    run_page(page(tmp_path, language, text), tmp_path)


@pytest.mark.parametrize(
    ("language", "text", "reason"),
    [
        ("bash", "false\necho", "page.md:3: exit status 1"),
        ("console", "$ echo 1.25\n1.5", "prints no line\n1.5"),
        ("console", "$ printf 'one\\ntwo\\n'\none", "prints more:\ntwo"),
        ("console", "$ printf 'one\\ntwo\\n'\ntwo", "prints no line\ntwo"),
        ("console", "$ echo 12\n13", "prints no line"),
        ("console", "echo", "begins with a command"),
        ("python", "assert 1 + 1 == 3", "AssertionError"),
        ("json", "{", "page.md:3"),
        ("cobol", "x", "cobol"),
    ],
)
def test_refuses(tmp_path: Path, language: str, text: str, reason: str) -> None:
    with pytest.raises(AssertionError) as caught:
        run_page(page(tmp_path, language, text), tmp_path)
    assert reason in str(caught.value)


def test_files(tmp_path: Path) -> None:
    run_page(page(tmp_path, "python", "# part/x.py\nimport none_such"), tmp_path)
    assert (tmp_path / "part" / "x.py").read_text() == "# part/x.py\nimport none_such\n"
    assert Block("python", "# two words\n", 1).file is None


def test_blocks_headings_and_links() -> None:
    text = "# A *b* `c-d`\n\n[x](y.md#z) `[not](this)`\n\n```text\n# no heading, [no](link)\n```\n\n## A\n\n## A\n"
    assert [(b.language, b.line) for b in blocks_of(text)] == [("text", 5)]
    assert headings(text) == {"a-b-c-d", "a", "a-1"}
    assert links(text) == ["y.md#z"]
