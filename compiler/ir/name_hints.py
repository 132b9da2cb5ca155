"""Names of values in module text that xDSL keeps as name hints."""

from __future__ import annotations

import re

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_$.-]")
_DIGITS = "0123456789"


def name_hint(name: str) -> str | None:
    """A name hint made from `name` that xDSL does not change when it is set, cloned, printed and parsed.

    Other characters become `_`, and a leading digit gets the prefix `v`: `387` is printed as `%v387`. xDSL removes one
    `_<digits>` from the end of a hint whenever it is set, because the printer distinguishes equal hints by such
    numbers; all of them are removed here, so that nothing is left to remove. None if nothing is left of the name.
    """
    hint = _NOT_IN_NAMES.sub("_", name).strip("_")
    while (stem := hint.rstrip(_DIGITS)).endswith("_"):
        hint = stem.rstrip("_")
    return f"v{hint}" if hint[:1].isdigit() else hint or None
