"""What each step of compiling takes per operation, on chains and residual networks of growing size, without verification.

    python benchmarks/compile_path.py [OPERATIONS ...]

Processor time in microseconds, divided by the operations of the network, constants not counted. `fuse-all` is to take at most
250, and no step more than 1.5 times per operation what it takes at the smallest size. Observers get parameters by hand. In the
chain every second operation is rewritten; parsing is xDSL's, and nothing between the passes is passed on as text.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.tools.tables import print_table
from amct_opt.transforms.quantization.parameters import activation_params
from amct_opt.universe import new_session

SIZES = (1_000, 10_000, 100_000)
CHANNELS = 4


class Network:
    """A block that grows; weights are seeded noise."""

    def __init__(self) -> None:
        self.block = Block(arg_types=[TensorType(f32, (1, CHANNELS, 8, 8))])
        self.value: SSAValue = self.block.args[0]
        self.operations = 0
        self.rng = np.random.default_rng(0)

    def constant(self, *shape: int) -> SSAValue:
        op = nn.ConstantOp.of(self.rng.uniform(0.5, 1, shape).astype(np.float32), "k")
        self.block.add_op(op)
        return op.result

    def add(self, op: nn.NNOp) -> SSAValue:
        self.block.add_op(op)
        self.operations += 1
        self.value = op.results[0]
        return self.value

    def conv_norm(self) -> None:
        conv = self.add(nn.ConvOp.make(self.value, self.constant(CHANNELS, CHANNELS, 1, 1)))
        self.add(nn.BatchNormOp.make(conv, *(self.constant(CHANNELS) for _ in range(4))))

    def finish(self) -> ModuleOp:
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


BLOCKS = {"chain": chain, "residual": residual}


def measure(kind: str, size: int) -> tuple[str, ...]:
    """One row of the table."""
    net = Network()
    while net.operations < size:
        BLOCKS[kind](net)
    module, session = net.finish(), new_session()

    def each(action: Callable[[], object]) -> str:
        gc.collect()
        start = time.process_time()
        action()
        return f"{1e6 * (time.process_time() - start) / net.operations:.0f}"

    def of_pass(name: str) -> str:
        return each(partial(make_pass(name).apply, session, module))

    text = module_text(module)
    cells = [each(partial(verify, module)), each(partial(module_text, module))]
    cells.append(each(partial(parse_module, new_session(), text)))
    del text
    cells += [of_pass("canonicalize"), of_pass("fuse-all"), of_pass("insert-observers")]
    set_parameters(module)
    cells += [of_pass("convert-observers"), of_pass("lower-to-ascend"), of_pass("fuse-requant")]
    return kind, str(net.operations), *cells


def set_parameters(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, nn.ObserveOp):
            op.qparams = activation_params(-1, 1, 8, symmetric=False)


STEPS = ("verify", "print", "parse", "canonicalize", "fuse-all", "insert", "convert", "lower", "requant")


def main(sizes: tuple[int, ...]) -> None:
    rows = [measure(kind, size) for kind in BLOCKS for size in sizes]
    print_table("us per operation", ("network", "operations", *STEPS), rows)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
