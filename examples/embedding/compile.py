"""The larger compiler at work: its own model in, a quantized one out, with the passes of both.

python examples/embedding/compile.py [OUTDIR]
"""

import sys
from pathlib import Path

import numpy as np
import toy

from amct_opt import (
    Activation,
    Calibration,
    Executable,
    Settings,
    execute,
    load,
    new_session,
    quantize,
    run_pipeline,
    save,
)

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "digits"


def main(out: Path) -> tuple[float, float]:
    """Top-1 on the images that training has not seen, in float and quantized."""
    session = new_session()
    if "toy" not in session.profiles:  # where the package is installed, its plugin has done it
        toy.register(session)
    session.profile = "toy"
    session.on_remark = print

    module, _ = load(HERE / "digits.toy", session)
    original = module.clone()
    run_pipeline(module, "toy-fold-gain,toy-lower", session, after=lambda done, _, seconds: print(f"-- {done.name}"))
    one = {"image": np.load(DATA / "heldout.npz")["image"][:1]}
    np.testing.assert_allclose(execute(module, one)["logits"], execute(original, one)["logits"], rtol=1e-4, atol=1e-4)

    settings = Settings(common=Calibration(Activation("spread{deviations=5}")))
    quantize(module, session, settings, data=np.load(DATA / "calib.npz")["image"])
    for path, target in (("digits.onnx", "onnx"), ("digits.mlir", "mlir"), ("digits.h", "toy-header")):
        print(*save(module, out / path, session, target), sep="\n")
    return top1(original), top1(module)


def top1(module) -> float:
    images, labels = np.load(DATA / "heldout.npz")["image"], np.load(DATA / "heldout_labels.npy")
    logits = Executable(module).run({"image": images})["logits"]
    return float((logits.argmax(1) == labels).mean())


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/embedding")
    out.mkdir(parents=True, exist_ok=True)
    floating, quantized = main(out)
    print(f"top-1: {floating:.2%} in float, {quantized:.2%} quantized")
