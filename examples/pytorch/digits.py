"""A network for scikit-learn's digits in PyTorch, trained in seconds when this file is imported, and loaders of its data."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.add = torch.ao.nn.quantized.FloatFunctional()
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.add.add(self.bn(self.conv(x)), x))


class Digits(nn.Module):
    def __init__(self, width: int = 12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.layer1 = nn.Sequential(Block(width), Block(width))
        self.fc = nn.Linear(width, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.fc(self.layer1(self.stem(image)).mean((2, 3)))


torch.manual_seed(0)
torch.set_num_threads(1)  # threads would only wait for each other: the tensors are small
_digits: Any = load_digits()
_images = torch.tensor(_digits.images / 8 - 1, dtype=torch.float32).unsqueeze(1)
_labels = torch.tensor(_digits.target)
_order = torch.randperm(len(_labels))
_train, _test = _order[400:], _order[:400]

train_loader = DataLoader(TensorDataset(_images[_train], _labels[_train]), batch_size=64, shuffle=True)
test_loader = DataLoader(TensorDataset(_images[_test], _labels[_test]), batch_size=100)
model = Digits()

_optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
for _ in range(5):
    for _image, _label in train_loader:
        _optimizer.zero_grad()
        nn.functional.cross_entropy(model(_image), _label).backward()
        _optimizer.step()
