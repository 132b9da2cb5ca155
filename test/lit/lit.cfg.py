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
from texts import SUBSTITUTIONS  # noqa: E402

config.environment["PATH"] = os.pathsep.join([str(tools()), os.environ.get("PATH", "")])  # noqa: F821
config.environment["OPENBLAS_NUM_THREADS"] = "1"  # noqa: F821

config.substitutions += SUBSTITUTIONS  # noqa: F821
