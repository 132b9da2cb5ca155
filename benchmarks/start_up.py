"""How long the tool takes before it does anything: whole processes.

    python benchmarks/start_up.py [ROUNDS]

`--help` is to take at most 0.3 s and not to import numpy, two passes on a small file at most 0.5 s. `python` does nothing.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import process

from amct_opt.support.tables import print_table

ROUNDS = 9
MODULE = """func.func @main(%x: tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %w = nn.constant dense<0.5> : tensor<4x4x1x1xf32>
  %v = nn.constant dense<2.0> : tensor<4xf32>
  %y = nn.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %z = nn.batch_norm %y, %v, %v, %v, %v : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  func.return %z : tensor<1x4x8x8xf32>
}
"""  # noqa: E501
_HELP = """
import sys
from amct_opt.tools import amct_opt
try:
    amct_opt.run(["--help"])
except SystemExit:
    print("numpy" in sys.modules)
"""


def main(rounds: int = ROUNDS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "small.mlir"
        model.write_text(MODULE)
        tool = [sys.executable, "-m", "amct_opt.tools.amct_opt"]
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "amct-opt --help": [*tool, "--help"],
            "amct-opt, --fuse-bn --canonicalize": [*tool, str(model), "--fuse-bn", "--canonicalize"],
        }
        process.run(commands["amct-opt, --fuse-bn --canonicalize"])
        costs = process.in_turn(rounds, *(partial(process.run, command) for command in commands.values()))
    rows = [
        (name, process.spread([c.wall for c in each]).text(), process.spread([c.cpu for c in each]).text())
        for name, each in zip(commands, costs, strict=True)
    ]
    print_table("start-up", ("", "wall s", "cpu s"), rows)
    imported = process.run([sys.executable, "-c", _HELP]).output.splitlines()[-1]
    print(f"--help imports numpy: {'yes' if imported == 'True' else 'no'}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
