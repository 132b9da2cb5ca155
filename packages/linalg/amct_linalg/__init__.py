"""Modules of amct-opt in upstream MLIR: `lowering` to linalg, the targets `linalg` and `ascendnpu-ir`, and the engine `iree`.

`amct-opt` finds them by name once the package is installed: `--convert-to-linalg`, `-t linalg`, `--engine iree`.
"""
