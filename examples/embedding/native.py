"""A compiler in one file: an ONNX model in, native int8 code out, through the dialects of amct_opt and IREE.

python examples/embedding/native.py MODEL DATA OUTDIR

OUTDIR gets `model.vmfb`, the code, and `model.safetensors`, the weights, which `iree-run-module` or a C program loads.
"""

import sys
from pathlib import Path

import iree.compiler as compiler
import iree.runtime as runtime
import numpy as np
from amct_linalg.iree import COMPILE_OPTIONS

from amct_opt import Executable, load, quantize, run_pipeline, save


def build(model: Path, data: Path, out: Path):
    """Writes the native code; returns the module of `ascend` that it was made of."""
    module, session = load(model)
    run_pipeline(module, "fuse-all", session)
    quantize(module, session, data=data)
    run_pipeline(module, "lower-to-ascend,fuse-requant", session)
    out.mkdir(parents=True, exist_ok=True)
    text, *_ = save(module, out / "model.mlir", session, "linalg")
    compiler.compile_file(str(text), output_file=str(out / "model.vmfb"), extra_args=COMPILE_OPTIONS)
    return module


def opened(out: Path):
    """The native function: arrays in, arrays out."""
    config = runtime.Config("local-task")
    weights = runtime.ParameterIndex()
    weights.load(str(out / "model.safetensors"))
    parameters = runtime.create_io_parameters_module(config.vm_instance, weights.create_provider(scope="model"))
    code = runtime.VmModule.mmap(config.vm_instance, str(out / "model.vmfb"))
    return runtime.load_vm_modules(parameters, code, config=config)[-1].main


def main(model: Path, data: Path, out: Path) -> int:
    """Builds, and counts the outputs of the first samples that differ from the interpreter's."""
    module = build(model, data, out)
    interpreter, native = Executable(module), opened(out)
    arrays = np.load(data)
    samples = {name: arrays[name][:1] for name in interpreter.inputs}
    expected = interpreter.run(samples)
    found = native(*samples.values())
    results = found if isinstance(found, tuple) else (found,)
    pairs = zip(expected.values(), map(np.asarray, results), strict=True)
    differing = sum(int((a != b).sum()) for a, b in pairs)
    print(f"{out / 'model.vmfb'}: {differing} of {sum(a.size for a in expected.values())} outputs differ")
    return differing


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])) > 0)
