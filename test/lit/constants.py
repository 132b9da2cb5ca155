"""Prints a text test with its constants: `// CONSTANT: %name = ...` of the file stands in every function that uses the name."""

import re
import sys
from pathlib import Path

_CONSTANT = re.compile(r"^// CONSTANT: (%(\w+) = .*)\n", re.MULTILINE)
_FUNCTION = re.compile(r"^func\.func .*?^}$", re.MULTILINE | re.DOTALL)


def completed(text: str) -> str:
    """The text, each function with the constants that it uses and does not have itself."""
    constants: list[tuple[str, str]] = _CONSTANT.findall(text)

    def with_constants(function: re.Match[str]) -> str:
        head, body = function[0].split("\n", 1)
        has = set(re.findall(r"%(\w+)(?:, %\w+)* =|%(\w+): ", function[0]))
        own = {name for names in has for name in names}
        used = [line for line, name in constants if name not in own and re.search(rf"%{name}\b(?!\.)", body)]
        return "\n".join([head, *(f"  {line}" for line in used), body])

    return _FUNCTION.sub(with_constants, text)


if __name__ == "__main__":
    sys.stdout.write(completed(Path(sys.argv[1]).read_text("utf-8")))
