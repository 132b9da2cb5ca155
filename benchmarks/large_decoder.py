"""A decoder of 1.1 billion parameters to int4 in groups of 32; whole processes.

    python benchmarks/large_decoder.py [LAYERS [ROUNDS]]

The network has the shapes of TinyLlama (22 layers), seeded noise as float32 weights in external data, and a cache that goes in
and out. `copy` is `cp` of that data. `amct quantize` rounds to nearest, which takes no data; it writes all that it does by
default, and opens the file in onnxruntime; the ONNX file alone is what `amct-opt` writes. By default scales of groups are those
of least squared error (`search`); the other rows leave that search out (`--no-weight-search`). Own memory is what no file holds:
RssAnon and RssShmem of `/proc/PID/status`, every hundredth of a second; weights that are mapped from the model's file are not
in it. It is to be at most 2.5 GB, and wall clock and processor time at most 3 times those of the copy; ratios are round by
round, `median (least-most)`.

Memory is reached, and the time of the clock by rounding to nearest; processor time is not. A third of it does not depend on the
size of weights: Python and its packages, 1,300 operations that are read, verified, decided on and written, and the page of the
report. The rest computes scales and integers, packs them, takes a hash of the 0.9 GB that are written, and writes them. The
search tries up to 21 scales for each group.

GPTQ takes data, and runs the network layer by layer. Its memory is that of the largest layer: networks of 1 and 3 layers,
without the head, on 8 samples of 32 tokens. What grows with the number of layers is a scale for 32 weights, and at the end a byte
for each weight. Linux only.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import process
from environments import CACHE
from large_model import Weights
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from amct_opt.support.tables import print_table

LAYERS = 22
VOCABULARY, WIDTH, INNER = 32000, 2048, 5632
HEADS, CACHED, SIZE = 32, 4, 64
"""Heads of queries, heads of keys and values, and the size of each."""
POSITIONS = 2048
OPSET = 21
SAMPLES, TOKENS = 8, 32


_NEAREST = "--no-weight-search"


class _Graph:
    """Nodes and weights, added one after the other; a value is named as what makes it."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.small: list[TensorProto] = []

    def add(self, name: str, op_type: str, *operands: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, list(operands), [name], name, **attributes))
        return name

    def numbers(self, name: str, values: Sequence[float], shape: Sequence[int], kind: int = TensorProto.INT64) -> str:
        self.small.append(helper.make_tensor(name, kind, shape, values))
        return name

    def linear(self, name: str, x: str, rows: int, columns: int) -> str:
        return self.add(
            name, "MatMul", x, self.weights.normal(f"{name}.weight", rows, columns, spread=0.5 * rows**-0.5)
        )

    def norm(self, name: str, x: str) -> str:
        mean = self.add(f"{name}.mean", "ReduceMean", self.add(f"{name}.square", "Mul", x, x), "last", keepdims=1)
        root = self.add(f"{name}.root", "Sqrt", self.add(f"{name}.shifted", "Add", mean, "epsilon"))
        weight = self.weights.normal(f"{name}.weight", WIDTH, spread=0.1, mean=1)
        return self.add(name, "Mul", self.add(f"{name}.divided", "Div", x, root), weight)

    def heads(self, name: str, x: str) -> str:
        """[batch, tokens, heads * size] as [batch, heads, tokens, size]."""
        apart = self.add(f"{name}.apart", "Reshape", x, "apart")
        return self.add(name, "Transpose", apart, perm=[0, 2, 1, 3])

    def rotated(self, name: str, x: str) -> str:
        first, second = f"{name}.first", f"{name}.second"
        self.nodes.append(helper.make_node("Split", [x], [first, second], f"{name}.split", axis=-1, num_outputs=2))
        turned = self.add(f"{name}.turned", "Concat", self.add(f"{name}.negative", "Neg", second), first, axis=-1)
        parts = (self.add(f"{name}.cos", "Mul", x, "cos"), self.add(f"{name}.sin", "Mul", turned, "sin"))
        return self.add(name, "Add", *parts)

    def repeated(self, name: str, x: str) -> str:
        """Each head of a cache as often as queries read it: [batch, heads, tokens, size]."""
        apart = self.add(f"{name}.one", "Unsqueeze", x, "two")
        often = self.add(f"{name}.often", "Expand", apart, "often")
        return self.add(name, "Reshape", often, "joined")

    def attention(self, name: str, x: str, past: str, present: str) -> str:
        def part(letter: str, count: int) -> str:
            return self.heads(f"{name}.{letter}", self.linear(f"{name}.{letter}_proj", x, WIDTH, count * SIZE))

        queries = self.rotated(f"{name}.q_rotated", part("q", HEADS))
        keys = self.rotated(f"{name}.k_rotated", part("k", CACHED))
        keys = self.add(f"{present}.key", "Concat", f"{past}.key", keys, axis=2)
        values = self.add(f"{present}.value", "Concat", f"{past}.value", part("v", CACHED), axis=2)
        across = self.add(f"{name}.across", "Transpose", self.repeated(f"{name}.keys", keys), perm=[0, 1, 3, 2])
        scores = self.add(f"{name}.scores", "MatMul", queries, across)
        masked = self.add(f"{name}.masked", "Add", self.add(f"{name}.scaled", "Mul", scores, "root"), "mask")
        shares = self.add(f"{name}.shares", "Softmax", masked, axis=-1)
        mixed = self.add(f"{name}.mixed", "MatMul", shares, self.repeated(f"{name}.values", values))
        back = self.add(f"{name}.back", "Transpose", mixed, perm=[0, 2, 1, 3])
        return self.linear(f"{name}.o_proj", self.add(f"{name}.flat", "Reshape", back, "flat"), WIDTH, WIDTH)

    def gated(self, name: str, x: str) -> str:
        gate = self.linear(f"{name}.gate_proj", x, WIDTH, INNER)
        silu = self.add(f"{name}.silu", "Mul", gate, self.add(f"{name}.sigmoid", "Sigmoid", gate))
        product = self.add(f"{name}.product", "Mul", silu, self.linear(f"{name}.up_proj", x, WIDTH, INNER))
        return self.linear(f"{name}.down_proj", product, INNER, WIDTH)

    def positions(self) -> None:
        """`cos` and `sin` [tokens, size] of the positions after the cache, and `mask` [tokens, all tokens]."""
        self.numbers("epsilon", [1e-5], [], TensorProto.FLOAT)
        self.numbers("root", [SIZE**-0.5], [], TensorProto.FLOAT)
        self.numbers("zero", [0], [])
        self.numbers("one", [1], [])
        self.numbers("two", [2], [1])
        self.numbers("last", [-1], [1])
        self.numbers("apart", [0, 0, -1, SIZE], [4])
        self.numbers("flat", [0, 0, -1], [3])
        self.numbers("often", [1, 1, HEADS // CACHED, 1, 1], [5])
        self.numbers("joined", [0, HEADS, -1, SIZE], [4])
        frequencies = [10000 ** (-2 * i / SIZE) for i in range(SIZE // 2)]
        self.numbers("frequencies", [*frequencies, *frequencies], [SIZE], TensorProto.FLOAT)
        self.numbers("hidden", [-1e9], [], TensorProto.FLOAT)
        self.numbers("seen", [0], [], TensorProto.FLOAT)
        tokens = self.add("tokens", "Gather", self.add("ids_shape", "Shape", "input_ids"), "one")
        cached = self.add("cached_shape", "Shape", "past_key_values.0.key")
        past = self.add("past", "Gather", cached, self.numbers("length", [2], []))
        total = self.add("total", "Add", past, tokens)
        here = self.add("here", "Unsqueeze", self.add("from_past", "Range", past, total, "one"), "last")
        everywhere = self.add("everywhere", "Range", "zero", total, "one")
        angles = self.add("angles", "Mul", self.add("here_float", "Cast", here, to=TensorProto.FLOAT), "frequencies")
        self.add("cos", "Cos", angles)
        self.add("sin", "Sin", angles)
        self.add("mask", "Where", self.add("visible", "LessOrEqual", everywhere, here), "seen", "hidden")


def write(folder: Path, layers: int = LAYERS) -> int:
    """Write `model.onnx` and `model.onnx.data` into a folder, matrix by matrix; returns how many bytes the data is."""
    with (folder / "model.onnx.data").open("wb") as stream:
        weights = Weights(stream, "model.onnx.data")
        graph = _Graph(weights)
        graph.positions()
        table = weights.normal("embed_tokens.weight", VOCABULARY, WIDTH, spread=0.02)
        x = graph.add("embed_tokens", "Gather", table, "input_ids")
        cache: list[ValueInfoProto] = []
        present: list[ValueInfoProto] = []
        for i in range(layers):
            name = f"layers.{i}"
            past, new = f"past_key_values.{i}", f"present.{i}"
            inner = graph.attention(f"{name}.self_attn", graph.norm(f"{name}.input_norm", x), past, new)
            x = graph.add(f"{name}.attended", "Add", x, inner)
            x = graph.add(f"{name}.out", "Add", x, graph.gated(f"{name}.mlp", graph.norm(f"{name}.post_norm", x)))
            for part in ("key", "value"):
                cache.append(_value(f"{past}.{part}", "batch", CACHED, "past", SIZE))
                present.append(_value(f"{new}.{part}", "batch", CACHED, "total", SIZE))
        graph.linear("logits", graph.norm("norm", x), WIDTH, VOCABULARY)
        size = stream.tell()
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"]), *cache]
    outputs = [_value("logits", "batch", "tokens", VOCABULARY), *present]
    made = helper.make_graph(graph.nodes, "decoder", inputs, outputs, [*weights.tensors, *graph.small])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.save(model, folder / "model.onnx")
    return size


def _value(name: str, *shape: str | int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _tokens(path: Path, layers: int) -> None:
    """Samples of token ids in front of which nothing is cached."""
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (SAMPLES, TOKENS))
    empty = np.zeros((SAMPLES, CACHED, 0, SIZE), np.float32)
    cache = {f"past_key_values.{i}.{part}": empty for i in range(layers) for part in ("key", "value")}
    np.savez(path, **dict[str, Any](input_ids=ids, **cache))


def _in_groups(folder: Path, layers: int, rounds: int) -> None:
    model, out = folder / "decoder", folder / "out"
    model.mkdir()
    size = write(model, layers)
    data = model / "model.onnx.data"
    options = "weight-only=true weight-bits=4 group-size=32 weight-search=false"
    tool = [
        sys.executable,
        "-m",
        "amct_opt.tools.amct_opt",
        str(model / "model.onnx"),
        "--profile",
        "qdq",
        "--fuse-all",
    ]
    commands = {
        "copy": ["cp", str(data), str(folder / "copy")],
        **{f"amct quantize, {name}": [*_quantize(model, out, name), _NEAREST] for name in ("qdq", "ascend")},
        "amct quantize, qdq, search": _quantize(model, out, "qdq"),
        "amct-opt -t onnx": [*tool, f"--quantize={options}", "-t", "onnx{external=true}", "-o", str(out / "only.onnx")],
    }
    process.run(commands["copy"])
    costs = process.in_turn(rounds, *(partial(process.run, command) for command in commands.values()))
    rows = [
        (
            name,
            process.spread([c.wall for c in each]).text(),
            process.spread([c.cpu for c in each]).text(),
            process.ratios([c.wall for c in each], [c.wall for c in costs[0]]).text(),
            process.ratios([c.cpu for c in each], [c.cpu for c in costs[0]]).text(),
            process.spread([c.own for c in each]).text(1e6, 0),
        )
        for name, each in zip(commands, costs, strict=True)
    ]
    headers = ("", "wall s", "cpu s", "wall / copy", "cpu / copy", "own MB")
    print_table(f"{size / 4e6:.0f} million parameters, {size / 1e6:.0f} MB", headers, rows)
    shutil.rmtree(out)


def _gptq(folder: Path, layers: int) -> tuple[str, ...]:
    model, tokens, out = folder / f"decoder{layers}", folder / f"tokens{layers}.npz", folder / f"out{layers}"
    model.mkdir()
    size = write(model, layers)
    _tokens(tokens, layers)
    given = ("--round-weights", "gptq", "--data", str(tokens), "--keep-float", "logits", "--no-report")
    cost = process.run([*_quantize(model, out, "qdq"), *given])
    shutil.rmtree(model)
    shutil.rmtree(out)
    return (f"{layers}", f"{size / 1e6:.0f}", f"{cost.wall:.0f}", f"{cost.cpu:.0f}", f"{cost.own / 1e6:.0f}")


def _quantize(model: Path, out: Path, profile: str) -> list[str]:
    weights = ("--weight-only", "--weight-bits", "4", "--group-size", "32")
    command = [sys.executable, "-m", "amct_opt.tools.amct", "quantize", str(model), *weights]
    return [*command, "--profile", profile, "-q", "-o", str(out)]


def main(layers: int = LAYERS, rounds: int = 3) -> None:
    CACHE.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="decoder-", dir=CACHE))
    try:
        _in_groups(folder, layers, rounds)
        rows = [_gptq(folder, count) for count in (1, 3)]
        print_table("gptq", ("layers", "weights MB", "wall s", "cpu s", "own MB"), rows)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
