"""Modules of amct-opt in upstream MLIR: `lowering` to linalg, targets `linalg`, `ascendnpu-ir` and `tosa`, and the engine `iree`.

`amct-opt` finds them by name once the package is installed: `--convert-to-linalg`, `-t linalg`, `--engine iree`.
"""
