"""AMCT's quantization-aware training (`retrain`, with its layers in `nn`) and tensor decomposition (`tensor_decompose`).

Scripts find them where AMCT has them, in `amct_opt.amct.pytorch`, once the package is installed.
"""
