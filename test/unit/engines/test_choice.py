"""Which backend `auto` takes: by operations and sizes, and by nothing that is measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from amct_opt.data import samples
from amct_opt.data.given import samples_from
from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC
from amct_opt.engines import Work, worthwhile
from amct_opt.engines.estimate import PRODUCTS, numbers, weights
from amct_opt.session.universe import new_session


class Net:
    """A module of one input, any number of samples at a time; weights are zeros, of which nobody asks the numbers."""

    def __init__(self, *shape: int):
        self.block = Block(arg_types=[TensorType(f32, [DYNAMIC, *shape])])
        self.x: SSAValue = self.block.args[0]
        self.channels = shape[0]

    def add(self, kind: Any, *operands: Any, **properties: Any) -> None:
        op = kind.make(self.x, *operands, **properties)
        self.block.add_op(op)
        self.x = op.results[0]

    def weight(self, *shape: int) -> SSAValue:
        constant = nn.ConstantOp.beside(np.zeros(shape, np.float32), "w")
        self.block.add_op(constant)
        return constant.result

    def conv(self, out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        weight, pads = self.weight(out, self.channels // groups, kernel, kernel), [kernel // 2] * 4
        self.add(nn.ConvOp, weight, strides=[stride, stride], pads=pads, groups=groups)
        self.add(nn.ReluOp)
        self.channels = out

    def work(self, samples: int, *sizes: int) -> Work:
        self.block.add_op(ReturnOp(self.x))
        main = FuncOp("main", ([a.type for a in self.block.args], [self.x.type]), Region([self.block]))
        module = ModuleOp([main])
        data = samples_from(np.broadcast_to(np.float32(0), (samples, *sizes)), module)
        return Work(module, {}, data, lambda *_: None, lambda: None, new_session())


def mobile_net(net: Net, width: float = 1.0) -> Net:
    """The layers of MobileNet V1."""
    net.conv(int(32 * width), 3, 2)
    steps = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for out, stride in steps:
        net.conv(net.channels, 3, stride, groups=net.channels)
        net.conv(int(out * width), 1)
    return net


def residual_net(net: Net) -> Net:
    """As many layers and channels as ResNet-20 has."""
    for out, stride in [(16, 1)] * 7 + [(32, 2)] + [(32, 1)] * 5 + [(64, 2)] + [(64, 1)] * 5:
        net.conv(out, 3, stride)
    return net


def perceptron(net: Net, *widths: int) -> Net:
    sizes = (net.channels, *widths)
    for before, after in pairwise(sizes):
        net.add(nn.MatMulOp, net.weight(before, after))
        net.add(nn.ReluOp)
    return net


def first_worthwhile(work: Work) -> int:
    """From how many samples on onnxruntime is taken."""
    counts = (n for n in (2**k for k in range(20)) if worthwhile(replace(work, samples=replace(work.samples, count=n))))
    return next(counts)


@pytest.mark.parametrize(
    ("width", "size", "samples"), [(1.0, 224, 8), (1.0, 160, 16), (1.0, 96, 32), (0.5, 224, 16), (0.25, 96, 128)]
)
def test_depthwise_networks(width: float, size: int, samples: int) -> None:
    net = mobile_net(Net(3, size, size), width)
    assert first_worthwhile(net.work(1, 3, size, size)) == samples


def test_other_networks() -> None:
    assert first_worthwhile(residual_net(Net(3, 32, 32)).work(1, 3, 32, 32)) == 64
    assert first_worthwhile(perceptron(Net(640), *[128] * 4, 8, *[128] * 4, 640).work(1, 640)) >= 2**14
    assert first_worthwhile(perceptron(Net(4096), 4096, 4096).work(1, 4096)) == 1024  # weights take time to load


def test_networks_of_many_small_operations() -> None:
    """onnxruntime loads each of them, and the more there are the longer each takes."""
    assert first_worthwhile(perceptron(Net(16), *[16] * 20).work(1, 16)) == 2**18
    assert first_worthwhile(perceptron(Net(16), *[16] * 2000).work(1, 16)) == 2**15


def test_every_input_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(samples, "samples_per_run", lambda rows, type_: asked.append(rows))
    count = 200
    block = Block(arg_types=[TensorType(f32, [DYNAMIC, 2])] * count)
    block.add_op(ReturnOp(*block.args))
    types = [a.type for a in block.args]
    module = ModuleOp([FuncOp("main", (types, types), Region([block]))])
    data = samples_from({f"arg{i}": np.zeros((4, 2), np.float32) for i in range(count)}, module)
    asked.clear()
    numbers(Work(module, {}, replace(data), lambda *_: None, lambda: None, new_session()))
    assert len(asked) == count


def test_windows_count_and_products_little() -> None:
    def count(kernel: int, groups: int) -> int:
        net = Net(64, 10, 10)
        net.conv(64, kernel, groups=groups)
        return numbers(net.work(1, 64, 10, 10))

    results = 2 * 64 * 100
    assert count(1, 1) == results + 64 * 64 * 100 // PRODUCTS
    assert count(3, 64) == results + 64 * 9 * 100 + 64 * 9 * 100 // PRODUCTS
    assert count(3, 1) == results + 64 * 9 * 100 + 64 * 64 * 9 * 100 // PRODUCTS


def test_sizes_are_those_of_the_data() -> None:
    """A height and width that the model leaves open; and each run counts, of however many samples."""
    known, unknown = Net(3, 32, 32), Net(3, DYNAMIC, DYNAMIC)
    for net in (known, unknown):
        net.conv(8, 3)
    works = [net.work(10, 3, 32, 32) for net in (known, unknown)]
    assert numbers(works[0]) == numbers(works[1]) == 10 * numbers(replace(works[0], samples=works[0].samples.head(1)))
    together = replace(works[0].samples, at_a_time=5)
    assert numbers(replace(works[0], samples=together)) == numbers(works[0])
    assert weights(works[0]) == 8 * 3 * 9
