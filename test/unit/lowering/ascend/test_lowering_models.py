"""Whole models: `--fuse-all --quantize --lower-to-ascend --legalize-ascend` leaves nothing in `nn`, loses no layer's integers,
and what `-t onnx-ascend` writes computes, read back, the same bits.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from amct_opt import frontends
from amct_opt.dialects import ascend
from amct_opt.ir.functions import input_names, main_function
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import layer_of
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx_ascend import OnnxAscendTarget
from amct_opt.targets.onnx_ascend.deployable import deployable

from ...scripts import script

EXAMPLES = Path(__file__).parents[4] / "examples"
FAST = (("onnx", "digits"), ("onnx", "transformer"), ("caffe", "mobilenet"))
SLOW = (
    *(("onnx", name) for name in ("squeezenet", "shufflenet", "resnet50", "mobilenet", "densenet121")),
    *(("onnx", name) for name in ("inception_v1", "inception_v2")),
    *(("caffe", name) for name in ("resnet50", "googlenet")),
    ("tf_keras", "MobileNetV2"),
    ("keras", "ResNet50"),
)
MODELS = [*FAST, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)]


def model_file(framework: str, name: str, folder: Path) -> tuple[Path, ImportOptions]:
    """The model's file, and the options of its import."""
    match framework, name:
        case "onnx", "digits":
            return EXAMPLES / "digits" / "digits.onnx", ImportOptions()
        case "onnx", "transformer":
            return EXAMPLES / "models" / "transformer.onnx", ImportOptions()
        case "onnx", _:
            pytest.importorskip("onnxruntime")
            models = script("examples/models/mobilenet" if name == "mobilenet" else "examples/models/light")
            onnx.save(models.build() if name == "mobilenet" else models.build(name), folder / "model.onnx")
            return folder / "model.onnx", ImportOptions()
        case "caffe", _:
            pytest.importorskip("cv2")
            prototxt, weights = script("examples/caffe/nets").generate(name, folder, 64, 0.25)
            return prototxt, ImportOptions(weights=weights)
        case _:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            pytest.importorskip("tensorflow")
            pytest.importorskip(framework)
            models = script("examples/tensorflow/applications")
            models.write_frozen(models.build(framework, name, 64).function, folder / "model.pb")
            return folder / "model.pb", ImportOptions()


def data(module: Any, equivalence: Any, seed: int) -> dict[str, np.ndarray]:
    """Numbers of the size of the model's input, smooth enough not to be averaged away."""
    inputs = equivalence.random_inputs(module, seed)
    rng = np.random.default_rng(seed)
    return {k: (v + rng.normal(size=(len(v), *(1,) * (v.ndim - 1)))).astype(v.dtype) for k, v in inputs.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "name"), MODELS)
def test_model(framework, name, tmp_path, equivalence):
    path, options = model_file(framework, name, tmp_path)
    session = new_session()
    session.imports = options
    module = frontends.read(path, session)
    make_pass("fuse-all", "").apply(session, module)
    np.savez(tmp_path / "data.npz", **dict[str, Any](data(module, equivalence, 0)))
    make_pass("quantize", f"data={tmp_path / 'data.npz'}").apply(session, module)
    lowered = equivalence.after(module, "lower-to-ascend", "legalize-ascend", session=session)
    missed = [
        (r.layer, r.rule, r.reason) for r in session.remarks if (r.pass_name, r.kind) == ("lower-to-ascend", "missed")
    ]
    assert not missed
    assert_all_integers(lowered, session)
    inputs = data(module, equivalence, 1)
    assert set(inputs) == set(input_names(main_function(lowered)))
    expected = run(module, inputs)
    for key, array in run(lowered, inputs).items():
        assert np.isfinite(array).all()
        assert np.abs(array - expected[key]).max() <= 0.25 * np.ptp(expected[key]), key
    assert_read_back(module, inputs, tmp_path / "deploy.onnx")


def assert_all_integers(lowered: Any, session: Any) -> None:
    """Every layer that quantization was applied to has an accumulator."""
    quantized = {r.layer for r in session.remarks if (r.pass_name, r.kind) == ("insert-observers", "applied")}
    kinds = ascend.AscendDequantOp
    found = Counter(layer_of(op) for op in lowered.walk() if isinstance(op, kinds))
    assert quantized
    assert quantized == set(found)


def assert_read_back(module: Any, inputs: dict[str, np.ndarray], path: Path) -> None:
    expected = run(deployable(module, new_session()), inputs)
    OnnxAscendTarget().write(module, path, new_session())
    read = frontends.read(path, new_session())
    verify(read)
    actual = run(read, inputs)
    for key, array in expected.items():
        assert actual[key].tobytes() == array.tobytes(), key
