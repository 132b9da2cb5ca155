#!/bin/sh
# A quantized model leaves for an upstream MLIR, its quantization written in MLIR's own `quant` dialect, and comes back: the same numbers.
#
#     sh examples/embedding/upstream.sh [OUTDIR]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-out/embedding}
tool=$(command -v mlir-opt || command -v iree-opt) || { echo "no mlir-opt or iree-opt: pip install '.[mlir]'" >&2; exit 1; }
mkdir -p "$out"
cd "$out"  # arrays are looked up beside the text

amct-opt "$here/../digits/digits.onnx" --fuse-all --quantize="data=$here/../digits/calib.npz" -o sent.mlir
amct-opt sent.mlir --nn-to-quant --print-op-generic --print-debuginfo -o generic.mlir
# No --canonicalize here: upstream takes dcast(qcast(x)) for x, which forgets the rounding.
"$tool" generic.mlir --allow-unregistered-dialect --cse \
    --mlir-print-op-generic --mlir-print-debuginfo --mlir-print-local-scope -o upstream.mlir
cp generic.safetensors upstream.safetensors
amct-opt upstream.mlir --quant-to-nn -o back.mlir
grep -c 'quant.qcast' upstream.mlir
amct compare sent.mlir back.mlir --data "$here/../digits/heldout.npz"
