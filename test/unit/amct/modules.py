"""Networks of PyTorch that AMCT's functions take, and data of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

X = torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(0))
VALUES = torch.tensor([[[-1.0, 8, 0, 0], [3, -2, 0, 0]]]) / 8


class Net(nn.Module):
    """A layer with a batch norm, one that is not quantized, and a result in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, image: torch.Tensor, scale: float = 1.0) -> dict[str, Any]:
        features = torch.relu(self.norm(self.conv(image))).mean((2, 3))
        return {"features": features, "nothing": None, "logits": self.fc(features) * scale}


class Sequences(nn.Module):
    """A recurrent layer, whose states are a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor, states: tuple[torch.Tensor, torch.Tensor]) -> Any:
        return self.rnn(x, states)


class Attention(nn.Module):
    """The linear layers whose outputs a cache keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.k, self.v, self.act = nn.Linear(4, 2), nn.Linear(4, 2), nn.ReLU()
        for module, factor in ((self.k, 1.0), (self.v, 2.0)):
            module.weight.data = factor * torch.eye(2, 4)
            module.bias.data.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.k(x) + self.act(self.v(x))
