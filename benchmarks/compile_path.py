"""What each step of compiling takes per operation, on networks of growing size, without verification.

    python benchmarks/compile_path.py [OPERATIONS ...]

Processor time in microseconds, divided by the operations of the network, constants not counted; in parentheses its ratio to that
of the next smaller size, which is to be at most 1.5. `fuse-all` is to take at most 250 for `chain` and `residual`. `insert`,
`calibrate` and `convert` are the steps of `--quantize`; calibration runs on synthetic inputs. `write` and `read` are of ONNX.
`peak` is the most memory of a process with a network of that size, less that of one with a network of one block, in KiB per
operation. In `chain` every second operation is rewritten, in `sums` none; in `fan` all operations read one value. Parsing is
xDSL's, and nothing between the passes is passed on as text.
"""

from __future__ import annotations

import gc
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.pipelines.timing import peak_memory
from amct_opt.session.universe import new_session
from amct_opt.support.tables import print_table

SIZES = (1_000, 10_000, 100_000)
CHANNELS = 4


class Network:
    """A block that grows; weights are seeded noise."""

    def __init__(self) -> None:
        self.block = Block(arg_types=[TensorType(f32, (1, CHANNELS, 8, 8))])
        self.value: SSAValue = self.block.args[0]
        self.parts: list[SSAValue] = []
        """Values that are joined at the end."""
        self.operations = 0
        self.rng = np.random.default_rng(0)

    def constant(self, *shape: int, largest: float = 1) -> SSAValue:
        op = nn.ConstantOp.of(self.rng.uniform(largest / 2, largest, shape).astype(np.float32), "k")
        self.block.add_op(op)
        return op.result

    def add(self, op: nn.NNOp) -> SSAValue:
        self.block.add_op(op)
        self.operations += 1
        self.value = op.results[0]
        return self.value

    def conv(self) -> SSAValue:
        """A convolution after which values do not grow, however many there are."""
        return self.add(nn.ConvOp.make(self.value, self.constant(CHANNELS, CHANNELS, 1, 1, largest=1e-3)))

    def conv_norm(self) -> None:
        self.add(nn.BatchNormOp.make(self.conv(), *(self.constant(CHANNELS) for _ in range(4))))

    def finish(self) -> ModuleOp:
        if self.parts:
            self.add(nn.ConcatOp.make(self.parts, axis=1))
        self.block.add_op(ReturnOp(self.value))
        types = ([a.type for a in self.block.args], [self.value.type])
        return ModuleOp([FuncOp("main", types, Region(self.block))])


def chain(net: Network) -> None:
    """Convolution, batch norm, relu, factor, summand."""
    net.conv_norm()
    net.add(nn.ReluOp.make(net.value))
    net.add(nn.MulOp.make(net.value, net.constant(CHANNELS, 1, 1)))
    net.add(nn.AddOp.make(net.value, net.constant(CHANNELS, 1, 1)))


def residual(net: Network) -> None:
    """A block as ResNet has it: two convolutions with batch norms around a relu, a sum, a relu."""
    start = net.value
    net.conv_norm()
    net.add(nn.ReluOp.make(net.value))
    net.conv_norm()
    net.add(nn.AddOp.make(net.value, start))
    net.add(nn.ReluOp.make(net.value))


def convolutions(net: Network) -> None:
    net.conv()


def sums(net: Network) -> None:
    """Constants are added that nothing absorbs."""
    net.add(nn.AddOp.make(net.value, net.constant(CHANNELS, 1, 1)))


def fan(net: Network) -> None:
    """Convolutions of one value and their relus, all joined."""
    net.add(nn.ReluOp.make(net.conv()))
    net.parts.append(net.value)
    net.value = net.block.args[0]


BLOCKS = {"chain": chain, "residual": residual, "convolutions": convolutions, "sums": sums, "fan": fan}

Row = tuple[int, list[float], int]
"""Operations, microseconds per operation of each step, peak memory in bytes."""


def measure(kind: str, size: int) -> Row:
    """One row of the table."""
    net = Network()
    while net.operations < size:
        BLOCKS[kind](net)
    module, session = net.finish(), new_session()
    times: list[float] = []

    def each(action: Callable[[], object]) -> None:
        gc.collect()
        start = time.process_time()
        action()
        times.append(1e6 * (time.process_time() - start) / net.operations)

    text = module_text(module)
    each(partial(verify, module))
    each(partial(module_text, module))
    each(partial(parse_module, new_session(), text))
    del text
    for name, options in QUANTIZATION.items():
        each(partial(make_pass(name, options).apply, session, module))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        each(partial(session.targets["onnx"]().write, module, path, session))
        each(partial(frontends.read, path, new_session()))
    for name in LOWERING:
        each(partial(make_pass(name).apply, session, module))
    return net.operations, times, peak_memory()


QUANTIZATION = {
    "canonicalize": "",
    "fuse-all": "",
    "insert-observers": "",
    "calibrate": "engine=numpy",
    "convert-observers": "",
}
LOWERING = ("lower-to-ascend", "fuse-requant")
STEPS = (
    *("verify", "print", "parse", "canonicalize", "fuse-all", "insert", "calibrate", "convert"),
    *("write", "read", "lower", "requant", "peak"),
)


def main(sizes: tuple[int, ...]) -> None:
    rows: list[tuple[str, ...]] = []
    # each in its own process: memory that one network needed is not the next one's
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for kind in BLOCKS:
            _, before, least = pool.apply(measure, (kind, 1))
            for i, size in enumerate(sizes):
                count, times, peak = pool.apply(measure, (kind, size))
                pairs = zip(times, before, strict=True)
                cells = [f"{now:.0f} ({now / then:.2f})" if i else f"{now:.0f}" for now, then in pairs]
                rows.append((kind, str(count), *cells, f"{(peak - least) / count / 1024:.1f}"))
                before = times
    print_table("us per operation", ("network", "operations", *STEPS), rows)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
