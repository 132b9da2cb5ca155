"""Every layer of torch.nn in its forms, from modules and from files, next to torch: many layers are one module."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt.ir.functions import input_names, main_function
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ...exact import exact_file
from ...frameworks import later, needs
from .layers import FAMILIES, LEFT_OUT, REFUSED, Case, Family, families, first_of_each, together

torch = later("torch")
pytestmark = [needs("torch", "onnxscript"), pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")]


def exported(inputs: Mapping[str, Any], cases: Sequence[Case], path: Path | None) -> ModuleOp:
    """The layers as an imported module, through a file if a path is given."""
    module, arguments = together([*inputs], cases), tuple(inputs.values())
    if path is None:
        return amct_opt.load(module, arguments)[0]
    torch.export.save(torch.export.export(module, arguments), path)
    return amct_opt.load(path)[0]


def wrong(inputs: Mapping[str, Any], cases: Sequence[Case], path: Path | None) -> list[str]:
    """The cases that cannot be imported, each with its error, and those that compute something else."""
    try:
        module = exported(inputs, cases, path)
    except CompileError as e:
        if len(cases) == 1:
            return [f"{cases[0].text}: {e}"]
        half = len(cases) // 2
        return [*wrong(inputs, cases[:half], path), *wrong(inputs, cases[half:], path)]
    arrays = zip(input_names(main_function(module)), inputs.values(), strict=True)
    found = iter(amct_opt.execute(module, {name: tensor.numpy() for name, tensor in arrays}).values())
    pairs = [(case, [(next(found), result) for result in _results(inputs, case)]) for case in cases]
    return [case.text for case, results in pairs if not all(_equal(*each) for each in results)]


def _results(inputs: Mapping[str, Any], case: Case) -> list[Any]:
    with torch.no_grad():
        results = case.layer()(*(inputs[name].clone() for name in case.arguments))
    return [r.numpy() for r in torch.utils._pytree.tree_leaves(results) if r is not None]


def _equal(found: np.ndarray, expected: np.ndarray) -> bool:
    fits = (found.shape, found.dtype) == (expected.shape, expected.dtype)
    return fits and bool(np.allclose(found, expected, rtol=1e-4, atol=1e-5))


def checked(family: Family, path: Path | None) -> None:
    cases = [case for case in family.cases if case.text not in REFUSED]
    assert wrong(family.inputs, cases, path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_all_forms(name: str, tmp_path: Path) -> None:
    checked(families()[name], None)
    checked(families()[name], tmp_path / "m.pt2")


@pytest.mark.slow
@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    """What torch's exporter refuses is one line, at the layer."""
    family, case = next((f, c) for f in families().values() for c in f.cases if c.text == text)
    with pytest.raises(CompileError, match=REFUSED[text]) as caught:
        exported({name: family.inputs[name] for name in case.arguments}, [case], None)
    assert caught.value.where.startswith("Layers")
    assert len(caught.value.message.splitlines()) == 1


OPEN = {
    "AvgPool2d(3, 2, 1, ceil_mode=True, divisor_override=2)": (2, 3, 6, 7),
    "Upsample(scale_factor=(1.5, 0.6), mode='bilinear', align_corners=True)": (2, 3, 6, 7),
    "LSTM(4, 6, proj_size=3, batch_first=True)": (2, 5, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", OPEN)
def test_forms_with_any_batch(text: str) -> None:
    """What is rewritten does not take the batch from the example."""
    layer, x = Case(text, ["x"]).layer(), torch.randn(OPEN[text])
    module, _ = amct_opt.load(layer, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    other = torch.cat([x.flip(0), x, x])
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(layer(other))[0].numpy()
    (name,) = input_names(main_function(module))
    assert _equal(next(iter(amct_opt.execute(module, {name: other.numpy()}).values())), expected)


@pytest.mark.parametrize(
    ("text", "shape", "axis"),
    [
        ("Upsample(scale_factor=(1.5, 0.6), mode='bilinear', align_corners=True)", (2, 3, 6, 7), 2),
        ("EmbeddingBag(10, 4)", (2, 5), 0),
    ],
)
def test_forms_that_need_sizes(text: str, shape: Sequence[int], axis: int) -> None:
    x = torch.zeros(shape, dtype=torch.int64 if "Embedding" in text else torch.float32)
    with pytest.raises(CompileError, match="needs sizes that are fixed"):
        amct_opt.load(Case(text, ["x"]).layer(), (x,), dynamic_shapes=({axis: torch.export.Dim("size", min=2)},))


def test_every_layer_is_there() -> None:
    """The classes of torch.nn except containers, base classes and what only training uses."""
    known = {case.kind for family in families().values() for case in family.cases} | LEFT_OUT
    classes = {
        name for name, each in vars(torch.nn).items() if inspect.isclass(each) and issubclass(each, torch.nn.Module)
    }
    assert classes - known == set()


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["ascend", "qdq"])
def test_quantized(profile: str, tmp_path: Path) -> None:
    """Each layer in integers stays near itself in float: simulated, lowered, and in the file that is written."""
    import onnxruntime

    family = first_of_each()
    cases = [case for case in family.cases if case.text not in REFUSED]
    module, session = exported(family.inputs, cases, None), new_session()
    arrays = dict(zip(input_names(main_function(module)), (t.numpy() for t in family.inputs.values()), strict=True))
    expected = [*amct_opt.execute(module, arrays).values()]
    session.profile = profile
    amct_opt.run_pipeline(module, "fold-constants,canonicalize,fuse-all", session)
    amct_opt.quantize(module, session, data=[arrays])
    lowered = module.clone()
    amct_opt.run_pipeline(lowered, "lower-to-ascend", session)
    amct_opt.save(module, tmp_path / "m.onnx", session, "onnx")
    peer = onnxruntime.InferenceSession(exact_file(tmp_path / "m.onnx"))
    named = {i.name: arrays[i.name] for i in peer.get_inputs()}
    computed = (
        *(amct_opt.execute(each, arrays).values() for each in (module, lowered)),
        [*map(np.asarray, peer.run(None, named))],
    )
    layers = [case.text for case in cases for _ in _results(family.inputs, case)]
    for found in computed:
        pairs = zip(layers, found, expected, strict=True)
        assert [text for text, a, e in pairs if e.dtype.kind == "f" and not _near(a, e)] == []


def _near(found: np.ndarray, expected: np.ndarray) -> bool:
    """20 dB and more."""
    error = np.linalg.norm(found.astype(np.float64) - expected)
    return bool(error <= 0.1 * np.linalg.norm(expected.astype(np.float64)))
