"""`quantize(model, loader)`: batches in every form, of which only the inputs are taken; `evaluate` takes labels as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.frontends.torch.batches import Arguments, array
from amct_opt.support.diagnostics import CompileError

from ...frameworks import needs, torch

pytestmark = needs("torch", "onnxscript")


def test_a_module_from_a_loader_to_files_and_accuracy(tmp_path: Path) -> None:
    """Batches of one sample leave the batch axis open; the last batch may be smaller."""
    from .networks import small

    model, _ = small()
    images = torch.randn(11, 3, 8, 8)
    with torch.no_grad():
        labels = model(images).argmax(1)
    dataset = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4)
    module, session = amct_opt.quantize(model, loader, profile="qdq")
    amct_opt.save(module, tmp_path / "model.onnx", session, "onnx")
    scores = amct_opt.evaluate(tmp_path / "model.onnx", torch.utils.data.DataLoader(dataset, batch_size=1))
    (scored,) = scores.models
    assert scores.samples == 11
    assert scored.top1 is not None
    assert scored.top1.right >= 9
    found = amct_opt.execute(module, {"x": images.numpy()})["output"]
    with torch.no_grad():
        expected = model(images).numpy()
    assert 10 * np.log10((expected**2).sum() / ((found - expected) ** 2).sum()) > 20
    quantized = [remark.layer for remark in session.remarks if remark.kind == "applied"]
    assert {"stem.0", "block.conv", "fc"} <= {*quantized}


def test_forms_of_batches() -> None:

    class Two(torch.nn.Module):
        def forward(self, x: Any, mask: Any, scale: float = 1.0) -> Any:
            return x * mask * scale

    x, mask, y = (torch.arange(4.0).reshape(2, 2) + i for i in range(3))
    one, two = Arguments.of(torch.nn.ReLU()), Arguments.of(Two())
    for batch in (x, (x,), [x, y], {"input": x, "labels": y}, ({"input": x}, y)):
        assert one.inputs(batch) == {"input": x}
    for batch in ((x, mask), (x, mask, y), {"mask": mask, "x": x, "labels": y}, ({"x": x, "mask": mask}, y)):
        assert two.inputs(batch) == {"x": x, "mask": mask}
        if len(batch) > 2 or isinstance(batch[0] if isinstance(batch, tuple) else None, dict):
            assert two.labels(batch) is y
    for batch, message in ((x, "no 'mask'"), ({"x": x}, "no 'mask'"), ([], "no 'x'")):
        with pytest.raises(CompileError, match=message):
            two.inputs(batch)
    with pytest.raises(CompileError, match="no labels"):
        one.labels(x)


def test_what_is_not_a_loader() -> None:
    model, x = torch.nn.ReLU().eval(), torch.ones(2, 2)
    mistakes: list[tuple[Any, dict[str, Any], str]] = [
        (3, {}, "gives no batches"),
        (["abc"], {}, "the batch holds a str where the model takes a tensor"),
        (map(float, ["1", "x"]), {}, "loader, batch 1: error: cannot be read: ValueError: could not convert"),
        ([], {}, "gave no batch"),
        ([x], {"data": [x]}, "the loader is the data"),
        ([x], {"profile": "x"}, "no profile is called 'x'"),
    ]
    for loader, options, message in mistakes:
        with pytest.raises(CompileError, match=message):
            amct_opt.quantize(model, loader, **options)


def test_half_precision_is_read() -> None:
    """bfloat16, which torch gives numpy no array of."""
    values = array(torch.tensor([1.0, -0.5], dtype=torch.bfloat16))
    assert str(values.dtype) == "bfloat16"
    assert values.astype(float).tolist() == [1.0, -0.5]
