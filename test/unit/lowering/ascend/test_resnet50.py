"""ResNet-50 from ONNX to `ascend`: every value of the interpreter equals the exact reference."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from amct_opt import frontends
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.session.universe import new_session

EXAMPLES = Path(__file__).parents[4] / "examples" / "models"


@pytest.mark.slow
def test_resnet50_has_no_differing_element(tmp_path, monkeypatch, exact):
    pytest.importorskip("onnxruntime")
    monkeypatch.syspath_prepend(EXAMPLES)
    import light

    try:
        onnx.save(light.build("resnet50"), tmp_path / "resnet50.onnx")
        images = light.images(3, seed=7)
    finally:
        sys.modules.pop("light", None)
    session = new_session()
    module = frontends.read(tmp_path / "resnet50.onnx", session)
    name = main_input(module)
    np.savez(tmp_path / "calib.npz", **dict[str, Any]({name: images[:2]}))
    for each, options in (("fuse-bn", ""), ("quantize", f"data={tmp_path / 'calib.npz'}"), ("lower-to-ascend", "")):
        make_pass(each, options).apply(session, module)
        verify(module)
    operations = [op.name for op in module.walk()]
    assert operations.count("ascend.Conv2D") == 53
    assert operations.count("ascend.MatMulV2") == 1
    values = exact.assert_equal(module, images[2:])
    accumulators = [a for a in values.values() if a.dtype == np.int32]
    assert len(accumulators) == operations.count("ascend.AscendDequant")
    assert all(np.ptp(a) > 0 for a in accumulators)


def main_input(module):
    from amct_opt.ir.functions import input_names, main_function

    return input_names(main_function(module))[0]
