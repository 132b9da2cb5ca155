"""Horizon's `fuse_modules` on PyTorch modules: all its combinations compute the same, and are regions of what is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.dialects.nn import FusedOp, ObserveOp
from amct_opt.support.diagnostics import CompileError

from ...frameworks import needs, torch

pytestmark = needs("torch", "onnxscript")

COMBINATIONS = [
    (compute, norm, add, activation)
    for compute in ("Conv2d", "ConvTranspose2d")
    for norm in (True, False)
    for add in (True, False)
    for activation in ("", "ReLU", "ReLU6")
    if add or activation or (norm and compute == "ConvTranspose2d")
]
"""The 21 of Horizon's table."""


def name_of(combination: tuple[str, bool, bool, str]) -> str:
    compute, norm, add, activation = combination
    return "_".join(filter(None, (compute, "bn" * norm, "add" * add, activation)))


def chain_of(combination: tuple[str, bool, bool, str]) -> list[str]:
    _, norm, add, activation = combination
    return ["conv", *["bn"] * norm, *["add"] * add, *["act"] * bool(activation)]


@pytest.fixture(scope="module")
def network() -> Any:
    """A module per combination, in grouped and in plain convolutions, one after the other."""
    from .networks import chain, chains

    torch.manual_seed(0)
    return chains([chain(*each, groups=1 + i % 2) for i, each in enumerate(COMBINATIONS)]).eval()


def test_every_combination_computes_the_same(network: Any) -> None:
    assert len(COMBINATIONS) == 21
    x = torch.randn(2, 4, 6, 6)
    for each, combination in zip(network, COMBINATIONS, strict=True):
        fused = amct_opt.torch.fuse_modules(each, [chain_of(combination)])
        kinds = [type(m).__name__ for m in fused.children() if not isinstance(m, torch.nn.Identity)]
        compute, _, add, activation = combination
        prefix = compute.removesuffix("2d")
        assert kinds == [f"{prefix}{'Add' * add}{activation}2d"], name_of(combination)
        with torch.no_grad():
            torch.testing.assert_close(fused(x), each(x), rtol=1e-5, atol=1e-5, msg=name_of(combination))
    assert not any(isinstance(m, torch.nn.Identity) and "activation" not in n for n, m in network.named_modules())


@pytest.mark.slow
def test_regions_are_loaded_and_have_no_points_inside(network: Any) -> None:
    fusing = [[f"{i}.{name}" for name in chain_of(each)] for i, each in enumerate(COMBINATIONS) if each[2] or each[3]]
    fused = amct_opt.torch.fuse_modules(network, fusing)
    x = torch.randn(2, 4, 6, 6)
    module, session = amct_opt.load(fused, (x,))
    regions = [op for op in module.walk() if isinstance(op, FusedOp)]
    assert len(regions) == len(fusing) == 20
    with torch.no_grad():
        expected = network(x).numpy()
    np.testing.assert_allclose(amct_opt.execute(module, {"input": x.numpy()})["output"], expected, rtol=1e-4, atol=1e-4)
    session.profile = "qdq"
    amct_opt.run_pipeline(module, "fuse,insert-observers", session)
    points = [op for op in module.walk() if isinstance(op, ObserveOp)]
    assert points
    assert not [op for op in points if isinstance(op.parent_op(), FusedOp)]


def test_by_index_and_in_place() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU()).eval()
    x = torch.randn(1, 1, 5, 5)
    with torch.no_grad():
        expected = model(x)
        assert amct_opt.torch.fuse_modules(model, ["0", "1", "2"], inplace=True) is model
        torch.testing.assert_close(model(x), expected)
    assert list(model.state_dict()) == ["0.weight", "0.bias"]


def test_the_other_order_of_operands() -> None:
    from .networks import chain

    model: Any = chain("Conv2d", False, True, "ReLU", groups=1)
    fused = amct_opt.torch.fuse_modules(model, [["conv", "add", "act"]])
    fused.add.swap_inputs()
    x, y = torch.randn(1, 4, 6, 6), torch.randn(1, 4, 6, 6)
    with torch.no_grad():
        torch.testing.assert_close(fused.add.add(y, x), model.act(model.conv(x) + y))


def test_mistakes() -> None:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Linear(2, 2), nn.BatchNorm2d(2, track_running_stats=False)
    )
    chains = {
        ("0", "9"): "there is no module '9'",
        ("0",): "is not a chain that is fused",
        ("3", "2"): "Linear, ReLU is not a chain",
        ("0", "2", "1"): "Conv2d, ReLU, BatchNorm2d is not a chain",
        ("0", "1"): "the batch norm has 3 channels, the convolution gives 2",
        ("0", "4"): "no running statistics",
    }
    for chain, message in chains.items():
        with pytest.raises(CompileError, match=message) as caught:
            amct_opt.torch.fuse_modules(model, [chain])
        assert caught.value.where


def test_a_fuser_for_torch_in_a_sequential(recwarn: pytest.WarningsRecorder) -> None:
    """A program for Horizon's plugin, by indices: the plugin's import alone is another."""
    import amct_opt.torch as horizon
    from amct_opt.torch.quantization import DeQuantStub, QuantStub

    class Stem(torch.nn.Sequential):
        def __init__(self, channels: int) -> None:
            super().__init__(
                QuantStub(), torch.nn.Conv2d(3, channels, 3), torch.nn.BatchNorm2d(channels), DeQuantStub()
            )

    model: Any = Stem(4).eval()
    model[2].running_mean.uniform_(-1, 1)
    x = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        expected = model(x)
        torch.quantization.fuse_modules(
            model, ["1", "2"], inplace=True, fuser_func=horizon.quantization.fuse_known_modules
        )
        torch.testing.assert_close(model(x), expected, rtol=1e-5, atol=1e-5)
    assert [type(m) for m in model] == [QuantStub, torch.nn.Conv2d, torch.nn.Identity, DeQuantStub]


@pytest.mark.parametrize("fusing", ["fuse_modules", "fuse_modules_qat"])
def test_a_fuser_for_torch_by_names_in_training(fusing: str, recwarn: pytest.WarningsRecorder) -> None:
    from amct_opt.torch.quantization import DeQuantStub, QuantStub, fuse_known_modules

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = QuantStub(), DeQuantStub()
            self.convolve = torch.nn.Conv2d(3, 3, 1, bias=False)
            self.norm, self.act = torch.nn.BatchNorm2d(3), torch.nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.out(self.act(self.norm(self.convolve(self.into(x)))))

    model: Any = Block().train()
    model.norm.running_mean.uniform_(-1, 1)
    x = torch.randn(2, 3, 4, 4)
    with torch.no_grad():
        expected = model.eval()(x)
    fuse = getattr(torch.ao.quantization, fusing)
    fused = fuse(model.train(), [["convolve", "norm", "act"]], fuser_func=fuse_known_modules)
    assert fused is not model
    assert type(fused.convolve).__name__ == "ConvReLU2d"
    assert fused.convolve.training
    assert isinstance(model.norm, torch.nn.BatchNorm2d)
    with torch.no_grad():
        torch.testing.assert_close(fused.eval()(x), expected, rtol=1e-5, atol=1e-5)


def test_a_fuser_for_torch_takes_no_other_fusers(recwarn: pytest.WarningsRecorder) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    fuse, fuser = torch.ao.quantization.fuse_modules, amct_opt.torch.fuse_known_modules
    with pytest.raises(CompileError, match="Linear, ReLU is not a chain"):
        fuse(model, ["0", "1"], fuser_func=fuser)
    own = {"additional_fuser_method_mapping": {(torch.nn.Linear, torch.nn.ReLU): lambda *_: model}}
    with pytest.raises(CompileError, match="is for torch's fuse_known_modules"):
        fuse(model, ["0", "1"], fuser_func=fuser, fuse_custom_config_dict=own)
