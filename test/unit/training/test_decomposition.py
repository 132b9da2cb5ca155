"""AMCT's tensor decomposition: the ranks, the layers that replace a convolution, and the file about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amct_training.ranks import rank_of
from amct_training.tensor_decompose import auto_decomposition, decompose_network

from amct_opt.support.diagnostics import CompileError

from ..frameworks import nn, torch

RANKS: dict[tuple[int, int, int, int], tuple[int, ...]] = {
    (64, 64, 3, 3): (32, 32, 32),
    (128, 96, 3, 3): (48, 48, 48),
    (256, 300, 3, 3): (160, 160, 160),
    (16, 3, 7, 7): (16, 16, 16),
    (64, 80, 5, 7): (48, 48, 48),
    (200, 200, 3, 3): (80, 96, 80),
}
"""By channels and kernel, of singular values that fall evenly, steeply, and that are 0: those of AMCT's library."""


@pytest.mark.parametrize("layer", RANKS)
def test_ranks(layer: tuple[int, int, int, int]) -> None:
    channels, kernel = layer[:2], layer[2:]
    i = np.arange(min(channels) * min(kernel))
    evenly, steeply = 0.01 * (len(i) - i), np.where(i < len(i) // 6.4, 2.0, 0.1) * (1 - i / (2 * len(i)))
    assert tuple(rank_of(values, channels, kernel) for values in (evenly, steeply, 0.0 * i)) == RANKS[layer]


def low_rank() -> Any:
    """Convolutions whose weights have a low rank, so that the decomposition is exact."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(0)
            self.wide: Any = nn.Conv2d(64, 72, (3, 5), padding=(1, 2))
            self.inner: Any = nn.Sequential(nn.Conv2d(72, 64, (7, 3), (2, 1), bias=False), nn.ReLU())
            self.small: Any = nn.Conv2d(64, 4, 1)
            self.first: Any = nn.Conv2d(4, 4, 7, padding="same", padding_mode="reflect")
            self.second: Any = nn.Conv2d(4, 4, 7)
            self.second.weight = self.first.weight
            for conv in (self.wide, self.inner[0], self.first):
                outputs, inputs, height, width = conv.weight.shape
                a = torch.randn(inputs, 2, height, generator=generator)
                b = torch.randn(outputs, 2, width, generator=generator)
                conv.weight.data = torch.einsum("irh,orw->oihw", a, b) / 64

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(self.small(self.inner(self.wide(x)))))

    return Net().eval()


@pytest.mark.slow
def test_decomposed(tmp_path: Path) -> None:
    """The model computes the same; the file gives another model its structure."""
    model, x = low_rank(), torch.randn(1, 64, 22, 12, generator=torch.Generator().manual_seed(1))
    expected, bias = model(x), model.wide.bias.clone()
    file = tmp_path / "made" / "info.json"
    found, changes = auto_decomposition(model, str(file))
    assert found is model
    assert changes == {name: [f"{name}.0", f"{name}.1"] for name in ("wide", "inner.0", "first", "second")}
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-4)
    first, last = model.wide
    assert [(c.kernel_size, c.stride, c.padding) for c in (first, last)] == [
        ((3, 1), (1, 1), (1, 0)),
        ((1, 5), (1, 1), (0, 2)),
    ]
    assert first.bias is None
    assert torch.equal(last.bias, bias)
    assert [c.kernel_size for c in model.inner[0]] == [(7, 1), (1, 3)]
    assert [c.stride for c in model.inner[0]] == [(2, 1), (1, 1)]
    assert model.second[0].weight is model.first[0].weight
    assert not model.wide.training
    entries = json.loads(file.read_text())
    assert [(e["ori_layer_info"]["name"], e["mode"]) for e in entries] == [
        ("wide", "SCFK"),
        ("inner.0", "FCSK"),
        ("first", "SCFK"),
        ("second", "SCFK"),
    ]
    assert entries[0]["decom_nodes"]["first"] == {"weight_shape": [32, 64, 3, 1]}
    again, same = decompose_network(low_rank(), file)
    assert same == changes
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(x), model(x))


def test_a_convolution_alone() -> None:
    """It is not changed itself."""
    conv = nn.Conv2d(64, 64, 3).half()
    weight = conv.weight.clone()
    model, changes = auto_decomposition(conv)
    assert changes == {"": ["0", "1"]}
    assert isinstance(conv, nn.Conv2d)
    assert torch.equal(conv.weight, weight)
    assert model[0].weight.dtype == torch.float16


def doubled() -> nn.Module:
    """A convolution that computes something else."""

    class Doubled(nn.Conv2d):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    return Doubled(64, 64, 3)


KEPT: dict[str, Callable[[], nn.Module]] = {
    "groups": lambda: nn.Conv2d(64, 64, 3, groups=2),
    "dilation": lambda: nn.Conv2d(64, 64, 3, dilation=(1, 2)),
    "stride": lambda: nn.Conv2d(64, 64, 3, stride=(1, 3)),
    "kernel": lambda: nn.Conv2d(64, 64, (2, 3)),
    "channels": lambda: nn.Conv2d(64, 63, 5),
    "few channels": lambda: nn.Conv2d(2, 2, 7),
    "one dimension": lambda: nn.Conv1d(64, 64, 3),
    "subclass": doubled,
    "bfloat16": lambda: nn.Conv2d(64, 64, 3, dtype=torch.bfloat16),
}


@pytest.mark.parametrize("case", KEPT)
def test_kept(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layer = KEPT[case]()
    model, changes = auto_decomposition(nn.Sequential(layer), tmp_path / "info.json")
    assert (model[0], changes, list(tmp_path.iterdir())) == (layer, {}, [])
    assert ("bfloat16 are not decomposed" in capsys.readouterr().err) == (case == "bfloat16")


def refused(path: Path, change: Callable[[Any], object]) -> None:
    auto_decomposition(nn.Sequential(nn.Conv2d(64, 64, 3)), path)
    entries = json.loads(path.read_text())
    change(entries)
    path.write_text(json.dumps(entries))
    decompose_network(nn.Sequential(nn.Conv2d(64, 64, 3)), path)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no module": (lambda _: auto_decomposition([]), "must be a torch.nn.Module, not a list"),
    "not finite": (
        lambda _: auto_decomposition(nn.Sequential(nn.Conv2d(64, 64, 3).requires_grad_(False).apply(_spoil))),
        "0: error: its weight has values that are infinite",
    ),
    "no file": (lambda path: decompose_network(nn.ReLU(), path), "info.json"),
    "no list": (
        lambda path: (path.write_text("{}"), decompose_network(nn.ReLU(), path)),
        "info.json: error: must be a JSON list",
    ),
    "another layer": (
        lambda path: refused(path, lambda e: e[0]["ori_layer_info"].update(name="1")),
        "info.json: error: entry[0]: '1' is not a Conv2d layer of the model",
    ),
    "another stride": (
        lambda path: refused(path, lambda e: e[0]["ori_layer_info"].update(stride=[2, 1])),
        "layer '0' has stride [1, 1] in the model, [2, 1] in the file",
    ),
    "another mode": (lambda path: refused(path, lambda e: e[0].update(mode="SCSK")), "layer '0' cannot become"),
    "another rank": (
        lambda path: refused(path, lambda e: e[0]["decom_nodes"]["first"].update(weight_shape=[16, 64, 3, 1])),
        "layer '0' cannot become weights of the shapes [16, 64, 3, 1] and [64, 32, 1, 3]",
    ),
}


def _spoil(module: nn.Module) -> None:
    module.get_parameter("weight")[0, 0, 0, 0] = float("inf")


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    call, message = REFUSED[case]
    with pytest.raises(CompileError) as caught:
        call(tmp_path / "info.json")
    assert message in str(caught.value)
