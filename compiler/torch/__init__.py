"""`amct_opt.torch`: functions for programs that have PyTorch (docs/pytorch.md). Importing it imports torch."""

from ..api.torch import (
    exported as exported,
    fake_quantized as fake_quantized,
    fuse_known_modules as fuse_known_modules,
    fuse_modules as fuse_modules,
)
from . import quantization as quantization
