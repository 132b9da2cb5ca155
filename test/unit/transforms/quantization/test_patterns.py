"""Layers by the names that remarks print, and by patterns: a name that has wildcards is a name first."""

from __future__ import annotations

import pytest

from amct_opt.configuration.settings import Settings
from amct_opt.ir.layer_names import LayerNames
from amct_opt.ir.text import parse_module
from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.pipelines.passes import make_pass
from amct_opt.session import Session
from amct_opt.session.catalogue import PROFILES
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.fusion.fuse_all import FuseAllPass
from amct_opt.transforms.fusion.fuse_modules import fuse_modules
from amct_opt.transforms.quantization.decide.layers import resolve
from amct_opt.transforms.quantization.profiles import profile_of

from ...values import parsed

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
    settings = resolve(Settings(skip_layers=(given,), only_layers=(given,)), module, ASCEND).settings
    assert (settings.skip_layers, settings.only_layers) == (found, found)


def test_names_override_patterns() -> None:
    module = parse_module(new_session(), _text())
    given = {"fc1": 8, "net.head.a": 6, "*": 4, "net.*.?": 3}
    settings = resolve(Settings(weight_bits=given), module, ASCEND).settings
    assert settings.weight_bits == dict(zip(LAYERS, (8, 4, 6, 3), strict=True))


def test_nothing_matches() -> None:
    module = parse_module(new_session(), _text())
    with pytest.raises(
        CompileError, match=r"skip_layers names '\*/hed/\*', which is not a layer or module of the model"
    ):
        resolve(Settings(skip_layers=("*/hed/*",)), module, ASCEND)


def test_fusion(capsys: pytest.CaptureFixture[str]) -> None:
    """Patterns become the layers that they match; those that match nothing get the warning that names get."""
    module, session = parsed(_text())
    session.skip_fusion = frozenset({"*/head/*", "fc[1]", "*/hed/*"})
    FuseAllPass().apply(session, module)
    assert session.skip_fusion == {*LAYERS[1:], "*/hed/*"}
    assert "--skip-fusion names '*/hed/*', which is not a layer" in capsys.readouterr().err
    assert LayerNames.of(module).expanded(["fc?", "fc1"]) == ["fc1"]


UNNAMED = """
func.func @main(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<0.5> : tensor<2x3x1x1xf32>
  %k = nn.constant dense<2.0> : tensor<1x2x1x1xf32>
  %a = nn.conv %x, %w : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.mul %a, %k : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %0 = nn.softmax %b axis 1 : tensor<1x2x4x4xf32>
  %c = nn.mul %0, %k from <onnx, "Mul", "mul1"> : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %c : tensor<1x2x4x4xf32>
}
"""
"""Layers with a name of the source, a name in the text, and none."""


@pytest.mark.parametrize("profile", PROFILES)
def test_every_name_in_remarks_is_accepted(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    def session_with(*skipped: str) -> Session:
        session = new_session()
        session.profile, session.skip_fusion = profile, frozenset(skipped)
        return session

    session = session_with()
    module = parse_module(session, UNNAMED)
    FuseAllPass(do_fusion=False).apply(session, module)
    make_pass("quantize").apply(session, module)
    names = {remark.layer for remark in session.remarks} | {"nn.softmax"}
    assert names >= {"b", "mul1"}
    capsys.readouterr()
    for name in names:
        session = session_with(name)
        module = parse_module(session, UNNAMED)
        resolve(Settings(skip_layers=(name,)), module, profile_of(session))
        FuseAllPass().apply(session, module)
        assert capsys.readouterr().err == ""
        with pytest.raises(CompileError) as e:
            fuse_modules(module, [[name, "x"]], session)
        assert "no layer or module is called" not in e.value.message or "'x'" in e.value.message


def test_what_a_name_keeps_from_fusion_is_no_matter_of_words() -> None:
    """Both names, and the pattern for one of them, each keep the product out of the convolution."""
    session = new_session()
    session.skip_fusion = frozenset({"a", "b"})
    module = parse_module(session, UNNAMED)
    FuseAllPass(config=Settings(skip_fusion_layers=("[b]",))).apply(session, module)
    assert not [r for r in session.remarks if "anyway" in r.reason]
    assert [op.name for op in module.walk() if op.name == "nn.mul"] == ["nn.mul"] * 2
