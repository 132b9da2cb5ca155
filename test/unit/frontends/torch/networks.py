"""The architectures that people bring from PyTorch, narrow and shallow: what they are made of is all there.

Normalizations have statistics and weights of their own: fresh ones are the identity, and would hide what folds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.ao.nn.quantized as nnq
from torch import Tensor, nn
from torch.nn import functional as F


class Network(NamedTuple):
    """A module in evaluation mode, and the inputs of one run: two samples."""

    module: nn.Module
    inputs: tuple[Tensor, ...]


def conv(
    cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU
) -> nn.Sequential:
    """Convolution, batch norm, activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
    ]
    return nn.Sequential(*layers, *([] if act is None else [act()]))


class BasicBlock(nn.Module):
    """ResNet's; the addition is a FloatFunctional, as in torch's quantizable models."""

    def __init__(self, cin: int, cout: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.downsample = None if stride == 1 and cin == cout else conv(cin, cout, 1, stride, act=None)
        self.add = nnq.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(self.add.add(y, x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """ResNet-18, two blocks in each of four layers."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(width, width), BasicBlock(width, width))
        self.layer2 = nn.Sequential(BasicBlock(width, 2 * width, 2), BasicBlock(2 * width, 2 * width))
        self.layer3 = nn.Sequential(BasicBlock(2 * width, 4 * width, 2), BasicBlock(4 * width, 4 * width))
        self.layer4 = nn.Sequential(BasicBlock(4 * width, 8 * width, 2), BasicBlock(8 * width, 8 * width))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class SqueezeExcite(nn.Module):
    def __init__(self, width: int, gate: type[nn.Module]):
        super().__init__()
        self.fc1 = nn.Conv2d(width, width // 2, 1)
        self.relu = nn.ReLU()
        self.fc2 = nn.Conv2d(width // 2, width, 1)
        self.gate = gate()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.fc2(self.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


class InvertedResidual(nn.Module):
    """MobileNetV2's, with V3's and EfficientNet's squeeze and excitation if a gate is given."""

    def __init__(self, cin: int, cout: int, stride: int, act: type[nn.Module], gate: type[nn.Module] | None = None):
        super().__init__()
        hidden = 3 * cin
        excite = [] if gate is None else [SqueezeExcite(hidden, gate)]
        depthwise = conv(hidden, hidden, 3, stride, hidden, act)
        self.block = nn.Sequential(conv(cin, hidden, 1, act=act), depthwise, *excite, conv(hidden, cout, 1, act=None))
        self.residual = stride == 1 and cin == cout

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x) if self.residual else self.block(x)


def mobile(act: type[nn.Module], gate: type[nn.Module] | None) -> nn.Module:
    """MobileNetV2, MobileNetV3 or EfficientNet."""
    blocks = [InvertedResidual(*shape, act, gate) for shape in ((8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 24, 2))]
    return nn.Sequential(
        conv(3, 8, 3, 2, act=act),
        nn.Sequential(*blocks),
        conv(24, 48, 1, act=act),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(48, 10),
    )


class LayerNorm2d(nn.LayerNorm):
    """Over channels, as torchvision writes it."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.pwconv2(self.act(self.pwconv1(y)))).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 4, 4), LayerNorm2d(16))
        self.stages = nn.Sequential(
            ConvNeXtBlock(16), nn.Sequential(LayerNorm2d(16), nn.Conv2d(16, 32, 2, 2)), ConvNeXtBlock(32)
        )
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.stages(self.stem(x)).mean((2, 3))))


class ViT(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, 8, 8)
        self.cls_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class WindowAttention(nn.Module):
    """Swin's: attention in windows, shifted cyclically, with a learned bias of relative positions."""

    def __init__(self, width: int, heads: int, window: int, shift: int):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.1)
        self.index: Tensor
        axis = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (axis[:, :, None] - axis[:, None]) + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        n, s = self.window, self.shift
        y = torch.roll(self.norm1(x), (-s, -s), (1, 2)) if s else self.norm1(x)
        y = y.view(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)
        qkv = self.qkv(y).reshape(-1, n * n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(n * n, n * n, self.heads).permute(2, 0, 1)
        weights = (qkv[0] @ qkv[1].transpose(-2, -1) * (c // self.heads) ** -0.5 + bias).softmax(-1)
        y = self.proj((weights @ qkv[2]).transpose(1, 2).reshape(-1, n * n, c))
        y = y.view(b, h // n, w // n, n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        x = x + (torch.roll(y, (s, s), (1, 2)) if s else y)
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 16, 4, 4)
        self.blocks = nn.Sequential(WindowAttention(16, 2, 4, 0), WindowAttention(16, 2, 4, 2))
        self.reduction = nn.Linear(64, 32, bias=False)
        self.last = WindowAttention(32, 4, 4, 0)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.patch_embed(x).permute(0, 2, 3, 1))
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.head(self.norm(self.last(self.reduction(x))).mean((1, 2)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Sequential(conv(3, 8), conv(8, 8))
        self.down2 = nn.Sequential(conv(8, 16), conv(16, 16))
        self.bottom = conv(16, 32)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(32, 16, 2, 2)
        self.left2 = conv(32, 16)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.left1 = conv(24, 8)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.down1(x)
        b = self.down2(self.pool(a))
        y = self.left2(torch.cat([self.up2(self.bottom(self.pool(b))), b], 1))
        return self.out(self.left1(torch.cat([self.up1(y), a], 1)))


class Detector(nn.Module):
    """YOLO's parts: SiLU, cross-stage blocks, pooled pyramids, upsampling, and boxes decoded on a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 8, 3, 2, act=nn.SiLU)
        self.stage1 = conv(8, 16, 3, 2, act=nn.SiLU)
        self.left, self.right = conv(8, 8, 3, act=nn.SiLU), conv(8, 8, 3, act=nn.SiLU)
        self.join = conv(32, 16, 1, act=nn.SiLU)
        self.stage2 = conv(16, 32, 3, 2, act=nn.SiLU)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.spp = conv(96, 32, 1, act=nn.SiLU)
        self.up = nn.Upsample(scale_factor=2)
        self.heads = nn.ModuleList([nn.Conv2d(48, 7, 1), nn.Conv2d(32, 7, 1)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage1(self.stem(x))
        a, b = x.chunk(2, 1)
        c = self.left(b)
        p3 = self.join(torch.cat([a, b, c, self.right(c)], 1))
        y = self.stage2(p3)
        z = self.pool(y)
        p4 = self.spp(torch.cat([y, z, self.pool(z)], 1))
        p3 = torch.cat([self.up(p4), p3], 1)
        return torch.cat([self._boxes(head(p)) for head, p in zip(self.heads, (p3, p4), strict=True)], 1)

    def _boxes(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        y = x.permute(0, 2, 3, 1).reshape(b, h * w, c)
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([columns, rows], -1).reshape(1, h * w, 2)
        centre, size, scores = y.split((2, 2, c - 4), -1)
        return torch.cat([(centre.sigmoid() * 2 - 0.5 + grid) / w, (size.sigmoid() * 2) ** 2, scores.sigmoid()], -1)


class Bert(nn.Module):
    def __init__(self, width: int = 32, words: int = 100):
        super().__init__()
        self.word, self.position = nn.Embedding(words, width), nn.Embedding(32, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.norm(self.word(input_ids) + self.position(torch.arange(input_ids.shape[1])))
        x = self.encoder(x, src_key_padding_mask=attention_mask == 0)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        parts = self.c_attn(self.ln_1(x)).split(c, 2)
        q, k, v = (p.view(b, n, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, width: int = 32, words: int = 100):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(32, width)
        self.h = nn.ModuleList([GPTBlock(width, 4), GPTBlock(width, 4)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class LSTMClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.lstm = nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(48, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.fc(self.lstm(self.embedding(tokens))[0].mean(1))


def _image() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 32, 32),)


def _words() -> tuple[Tensor, ...]:
    return (torch.randint(0, 100, (2, 12)),)


NETWORKS: Mapping[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, ...]]]] = {
    "resnet18": (ResNet, _image),
    "mobilenet_v2": (lambda: mobile(nn.ReLU6, None), _image),
    "mobilenet_v3": (lambda: mobile(nn.Hardswish, nn.Hardsigmoid), _image),
    "efficientnet": (lambda: mobile(nn.SiLU, nn.Sigmoid), _image),
    "convnext": (ConvNeXt, _image),
    "vit": (ViT, _image),
    "swin": (Swin, _image),
    "unet": (UNet, _image),
    "detector": (Detector, _image),
    "bert": (Bert, lambda: (*_words(), torch.tensor([[1] * 12, [1] * 9 + [0] * 3]))),
    "gpt": (GPT, _words),
    "lstm": (LSTMClassifier, _words),
}


def network(name: str) -> Network:
    """A network with seeded weights, the same each time."""
    torch.manual_seed(0)
    make, inputs = NETWORKS[name]
    module = make().eval()
    for each in module.modules():
        _informative(each)
    return Network(module, inputs())


def _informative(module: Any) -> None:
    if isinstance(module, nn.BatchNorm2d | nn.LayerNorm):
        nn.init.uniform_(module.weight, 0.5, 1.5)
        nn.init.normal_(module.bias, 0, 0.3)
    if isinstance(module, nn.BatchNorm2d):
        module.running_mean.normal_(0, 0.3)  # pyright: ignore[reportOptionalMemberAccess]
        module.running_var.uniform_(0.5, 1.5)  # pyright: ignore[reportOptionalMemberAccess]


class Block(nn.Module):
    """A residual block whose activation is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.skip, self.relu = nnq.FloatFunctional(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.relu(self.skip.add(self.bn(self.conv(x)), x)) * 2 - 1)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU6())
        self.block, self.fc = Block(), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.block(self.stem(x)).mean((2, 3)))


def small() -> Network:
    """The fastest network that has a name of each kind."""
    torch.manual_seed(0)
    module = Small().eval()
    for each in module.modules():
        _informative(each)
    return Network(module, (torch.randn(2, 3, 8, 8),))


class Chain(nn.Module):
    """A convolution, and what Horizon's `fuse_modules` fuses with it; the result has the shape of the input."""

    def __init__(self, compute: str, norm: bool, add: bool, activation: str, groups: int):
        super().__init__()
        self.conv = getattr(nn, compute)(4, 4, 3, padding=1, groups=groups, bias=add)
        self.bn = nn.BatchNorm2d(4) if norm else None
        self.add = nnq.FloatFunctional() if add else None
        self.act = getattr(nn, activation)() if activation else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y = y if self.bn is None else self.bn(y)
        y = y if self.add is None else self.add.add(y, x)
        return y if self.act is None else self.act(y)


def chain(compute: str, norm: bool, add: bool, activation: str, groups: int) -> nn.Module:
    module = Chain(compute, norm, add, activation, groups).eval()
    for each in module.modules():
        _informative(each)
    return module


def chains(each: list[nn.Module]) -> nn.Sequential:
    return nn.Sequential(*each)
