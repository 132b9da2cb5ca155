"""Layers by patterns: a name that has wildcards is a name first."""

from __future__ import annotations

import pytest

from amct_opt.configuration.settings import Settings
from amct_opt.diagnostics import CompileError
from amct_opt.ir.layer_names import LayerNames
from amct_opt.ir.text import parse_module
from amct_opt.transforms.fusion.fuse_all import FuseAllPass
from amct_opt.transforms.quantization.layers import checked
from amct_opt.transforms.quantization.profiles import PROFILES
from amct_opt.universe import new_session

LAYERS = ("fc1", "fc[1]", "/net/head/a/MatMul", "/net/head/b/MatMul")


def _text() -> str:
    lines = [
        f'  %{i + 1} = nn.matmul %{i}, %w from <onnx, "MatMul", "{name}"> '
        ": (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>"
        for i, name in enumerate(LAYERS)
    ]
    head = "func.func @main(%0: tensor<2x2xf32>) -> tensor<2x2xf32> {\n  %w = nn.constant dense<1.0> : tensor<2x2xf32>"
    return "\n".join([head, *lines, f"  func.return %{len(LAYERS)} : tensor<2x2xf32>", "}"])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("*/head/*", LAYERS[2:]),
        ("fc[1]", ("fc[1]",)),
        ("fc?", ("fc1",)),
        ("fc[12]", ("fc1",)),
        ("net.head.*", LAYERS[2:]),
        ("*", LAYERS),
        ("[!n]*", LAYERS),
    ],
)
def test_skipped(given: str, found: tuple[str, ...]) -> None:
    module = parse_module(new_session(), _text())
    settings = checked(Settings(skip_layers=(given,), only_layers=(given,)), module, PROFILES["ascend"])
    assert (settings.skip_layers, settings.only_layers) == (found, found)


def test_names_override_patterns() -> None:
    module = parse_module(new_session(), _text())
    given = {"fc1": 8, "net.head.a": 6, "*": 4, "net.*.?": 3}
    settings = checked(Settings(weight_bits=given), module, PROFILES["ascend"])
    assert settings.weight_bits == dict(zip(LAYERS, (8, 4, 6, 3), strict=True))


def test_nothing_matches() -> None:
    module = parse_module(new_session(), _text())
    with pytest.raises(
        CompileError, match=r"skip_layers names '\*/hed/\*', which is not a layer or module of the model"
    ):
        checked(Settings(skip_layers=("*/hed/*",)), module, PROFILES["ascend"])


def test_fusion(capsys: pytest.CaptureFixture[str]) -> None:
    """Patterns become the layers that they match; those that match nothing get the warning that names get."""
    session = new_session()
    module = parse_module(session, _text())
    session.skip_fusion = frozenset({"*/head/*", "fc[1]", "*/hed/*"})
    FuseAllPass().apply(session, module)
    assert session.skip_fusion == {*LAYERS[1:], "*/hed/*"}
    assert "--skip-fusion names '*/hed/*', which is not a layer" in capsys.readouterr().err
    assert LayerNames.of(module).expanded(["fc?", "fc1"]) == ["fc1"]
