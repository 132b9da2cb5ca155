"""Text tests: `lit test/lit` with the project's virtual environment first on PATH (or run by its own `lit`)."""

# pyright: reportUndefinedVariable=false

import os
import sys
from pathlib import Path

import lit.formats

config.name = "amct-opt"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir", ".test"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = str(Path(__file__).parent)  # noqa: F821
config.test_exec_root = os.environ.get("AMCT_LIT_OUTPUT", str(Path(__file__).parent / "Output"))  # noqa: F821

# amct-opt, amct, filecheck and xdsl-opt of the environment that lit itself runs in, before any other on PATH
sys.path.insert(0, str(Path(config.test_source_root).parent))  # noqa: F821
from forks import tools  # noqa: E402

config.environment["PATH"] = os.pathsep.join([str(tools()), os.environ.get("PATH", "")])  # noqa: F821
config.environment["OPENBLAS_NUM_THREADS"] = "1"  # noqa: F821

# `%s` in these is replaced afterwards, by lit.
config.substitutions += [  # noqa: F821
    # custom -> generic -> custom
    ("ROUNDTRIP", "amct-opt %s --print-op-generic | amct-opt -"),
    # the text, with the constants that it states once
    ("CONSTANTS", f"{sys.executable} {config.test_source_root}/constants.py %s"),  # noqa: F821
    # every part between `// -----` lines on its own; errors go to stdout, the exit status is 0
    ("VERIFY_DIAGNOSTICS", "amct-opt %s --split-input-file --verify-diagnostics"),
]
