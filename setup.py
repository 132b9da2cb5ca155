"""The long description of the package: README.md, with links that work outside of a checkout.

Links to files of the repository get the base that `[tool.amct-opt]` of pyproject.toml has. While it is empty there is nothing
that they could lead to: links become their text and the path in the repository, and pictures are left out.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!\w+:)(?P<path>[^)]+)\)")


def described(readme: str, base: str) -> str:
    """README.md's text, with absolute links below `base`, or without links to files."""
    if base:
        return LINK.sub(rf"\g<picture>[\g<text>]({base.rstrip('/')}/\g<path>)", readme)
    return LINK.sub(lambda link: "" if link["picture"] else f"{link['text']} ({link['path']})", readme)


if __name__ == "__main__":
    settings = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))
    text = described((HERE / "README.md").read_text("utf-8"), settings["tool"]["amct-opt"]["links"])
    setup(long_description=text, long_description_content_type="text/markdown")
