#!/bin/sh
# Plain xdsl-opt, which knows nothing of this project: the entry point `xdsl.universe` brings dialects and passes along. They take
# part in its pipelines beside its own, `cse` here, on modules that mix dialects; remarks go to stderr.
#
#     sh examples/embedding/xdsl_opt.sh
set -eu
cd "$(dirname "$0")"

# Fusion and lowering of nn, common subexpressions of arith, in one pipeline.
xdsl-opt net.mlir -p 'fuse-mul,fuse-activation,cse,dce'

# Options are xDSL's: strings in quotes, dashes for underscores. Without data, calibration takes seeded numbers and says so.
xdsl-opt net.mlir -p 'fuse-mul,quantize{observer="minmax" seed=7},nn-to-quant,canonicalize'
