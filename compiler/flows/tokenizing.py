"""The token ids of a text, made in a process of its own: what reads tokenizers panics or ends its process at some of them.

`python tokenizing.py TOKENIZER BYTES SECONDS` reads the text from stdin and writes the ids as int64 to stdout. If the library
raises, it ends with status `NOT_READ` or `FAILED`, and with the reason on stderr.
"""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from importlib import import_module
from pathlib import Path
from signal import SIGXCPU
from typing import Any

NOT_READ, FAILED = 3, 4
"""The status where the tokenizer cannot be read, and where it fails on the text."""
_MEMORY, _SHARE = 1 << 30, 64
"""Bytes that a tokenizer may take for itself, and for each byte of its file and of the text."""
_SECONDS, _RATE = 30, 100_000
"""Seconds of a processor for itself, and bytes of both files for which it gets another one."""


def token_ids(tokenizer: Path, text: bytes) -> bytes:
    """The ids as int64. Raises ValueError with the reason if there are none."""
    size = tokenizer.stat().st_size + len(text)
    memory, seconds = _MEMORY + _SHARE * size, _SECONDS + size // _RATE
    command = [sys.executable, "-P", __file__, str(tokenizer), str(memory), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, input=text, capture_output=True, env=environment, check=False)
    if not done.returncode:
        return done.stdout
    if done.returncode in (NOT_READ, FAILED):
        what = "is not a tokenizer" if done.returncode == NOT_READ else "does not make tokens of the text"
        raise ValueError(f"{what}: {done.stderr.decode(errors='replace').splitlines()[-1]}")
    limit = f"{seconds} s of a processor" if done.returncode == -SIGXCPU else f"{memory >> 20} MB"
    raise ValueError(f"ended the process that read it, which may take {limit}")


def _main(path: str, memory: int, seconds: int) -> int:
    from resource import RLIM_INFINITY, RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA, getrlimit, setrlimit

    for kind, most in ((RLIMIT_DATA, memory), (RLIMIT_CPU, seconds), (RLIMIT_CORE, 0)):
        soft, hard = getrlimit(kind)
        setrlimit(kind, (min(each for each in (most, soft, hard) if each != RLIM_INFINITY), hard))
    status = NOT_READ
    try:
        tokenizers: Any = import_module("tokenizers")
        tokenizer = tokenizers.Tokenizer.from_file(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        status = FAILED
        ids = tokenizer.encode(sys.stdin.buffer.read().decode(), add_special_tokens=False).ids
    except BaseException as e:  # panics of the library are not Exceptions
        lines = str(e).split("\n")
        print(f"\n{lines[0] or type(e).__name__}", file=sys.stderr)
        return status
    sys.stdout.buffer.write(array("q", ids))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
