"""The names of `horizon_plugin_pytorch.quantization` that programs which fuse need: the stubs are torch's."""

from torch.ao.quantization import DeQuantStub as DeQuantStub, QuantStub as QuantStub

from ..api.torch import fuse_known_modules as fuse_known_modules
