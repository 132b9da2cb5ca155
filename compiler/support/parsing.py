"""Errors of the libraries that parse JSON, YAML and TOML, as errors with a place."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from json import JSONDecodeError
from typing import Any

from .diagnostics import CompileError, first_line
from .limits import HINT, shortage


@contextmanager
def parsing(where: str) -> Generator[None]:
    """A text of JSON, YAML or TOML is parsed. Raises CompileError, located in the file `where` as far as the library says, for
    text of another form or nested too deeply, numbers that Python does not convert, and a lack of memory.
    """
    try:
        yield
    except RecursionError:
        raise CompileError("is nested too deeply", where=where) from None
    except MemoryError as e:
        raise CompileError(shortage(e), where=where, hint=HINT) from None
    except JSONDecodeError as e:
        raise CompileError(f"is not JSON: {e.msg}", where=f"{where}:{e.lineno}:{e.colno}") from None
    except (
        ValueError,
        OverflowError,
    ) as e:  # a date that does not exist, an integer with more digits than Python converts
        what = "is not TOML" if type(e).__name__ == "TOMLDecodeError" else "cannot be read"
        raise CompileError(f"{what}: {first_line(e).partition(';')[0]}", where=where) from None
    except Exception as e:
        yaml: Any = sys.modules.get("yaml")
        if yaml is None or not isinstance(e, yaml.YAMLError):
            raise
        mark: Any = getattr(e, "problem_mark", None)
        problem = getattr(e, "problem", None) or first_line(e)
        place = where if mark is None else f"{where}:{mark.line + 1}"
        raise CompileError(f"is not YAML: {problem}", where=place) from None
