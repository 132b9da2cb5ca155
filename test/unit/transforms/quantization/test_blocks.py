"""Rounding of weights block by block: which layers are together, what that wins, and what is said where it cannot be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import to_text
from amct_opt.data.given import samples_from
from amct_opt.dialects import nn
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.passes import parse_pipeline, run_passes
from amct_opt.rewriting import layer_of
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.metrics import sqnr
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.options import DataOptions, Method
from amct_opt.transforms.quantization.recover import round_weights as passes
from amct_opt.transforms.quantization.recover.round_weights import RoundWeightsPass, blocks, folds, reconstruction
from amct_opt.transforms.quantization.recover.round_weights.blocks import blocks_of

from ...values import dense, parsed

T = "tensor<?x8x6x6xf32>"


def network(*lines: str, results: Sequence[str] = ("y",)) -> str:
    """A network of convolutions `NAME = conv INPUT`, and of other operations, as written. `mix` is a convolution whose weight has
    rank one.
    """
    rng = np.random.default_rng(0)
    body: list[str] = []
    for line in lines:
        name, _, what = line.partition(" = ")
        kind, *operands = what.split()
        values = ", ".join(f"%{each}" for each in operands)
        if kind in ("conv", "mix"):
            numbers = rng.normal(size=(8, 8, 3, 3)) / 6
            if kind == "mix":
                numbers = np.zeros_like(numbers)
                numbers[:, :, 1, 1] = np.outer(rng.normal(size=8), np.abs(rng.normal(size=8))) / 4
            weight = dense(numbers.astype(np.float32))
            body.append(f"%{name}.w = nn.constant {weight}")
            signature = f"({T}, tensor<8x8x3x3xf32>) -> {T}"
            body.append(
                f'%{name} = nn.conv {values}, %{name}.w pads [1, 1, 1, 1] from <onnx, "Conv", "{name}"> : {signature}'
            )
        elif kind in ("reshaped", "flat"):
            size, sizes = f"{name}.n", f"{name}.sizes"
            if kind == "reshaped":
                body.append(f'%{sizes} = nn.shape {values} from <onnx, "Shape", "{size}"> : ({T}) -> tensor<4xi64>')
            else:
                body.append(f"%{sizes} = nn.constant dense<[1, 8, 6, 6]> : tensor<4xi64>")
            signature = f"({T}, tensor<4xi64>) -> {T}"
            body.append(f'%{name} = nn.reshape {values}, %{sizes} from <onnx, "Reshape", "{name}"> : {signature}')
        else:
            body.append(f'%{name} = nn.{kind} {values} from <onnx, "{kind}", "{name}"> : {T}')
    returned = ", ".join(f"%{name}" for name in results)
    types = ", ".join(T for _ in results)
    names = ", ".join(f'{T} {{nn.name = "{name}"}}' for name in results)
    text = "\n  ".join(body)
    return (
        f'func.func @main(%x: {T} {{nn.name = "x"}}) -> ({names}) {{\n  {text}\n  func.return {returned} : {types}\n}}'
    )


RESIDUAL = (
    "a = conv x",
    "ar = relu a",
    "b = conv ar",
    "br = relu b",
    "c = conv br",
    "s = add c ar",
    "sr = relu s",
    "y = conv sr",
)
GRAPHS: dict[str, tuple[Sequence[str], Sequence[str], list[str]]] = {
    "a chain": (("a = conv x", "ar = relu a", "y = conv ar"), "y", ["a", "y"]),
    "a residual sum": (RESIDUAL, "y", ["a", "b c", "y"]),
    "a shortcut with a layer": (("a = conv x", "b = conv a", "c = conv a", "y = add b c"), "y", ["a", "b c"]),
    "a sum in a sum": (("a = conv x", "b = conv a", "s = add b a", "c = conv s", "y = add c x"), "y", ["a b c"]),
    "a value inside that is an output": (("a = conv x", "b = conv a", "y = add b x"), ("y", "a"), ["a", "b"]),
    "a value inside that is read behind": (
        ("a = conv x", "b = conv a", "s = add b x", "c = conv s", "y = add c a"),
        "y",
        ["a b c"],
    ),
    "two branches that end apart": (("a = conv x", "b = conv a", "c = conv a"), ("b", "c"), ["a", "b", "c"]),
    "a product of branches": (("a = conv x", "g = sigmoid a", "m = mul a g", "y = conv m"), "y", ["a", "y"]),
}


def found_in(module: ModuleOp) -> list[str]:
    """The layers of each block."""
    layers = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    return [" ".join(map(layer_of, block.layers)) for block in blocks_of(module, layers).blocks]


@pytest.mark.parametrize("name", GRAPHS)
def test_layers_on_all_paths_to_a_sum_are_a_block(name: str) -> None:
    lines, results, expected = GRAPHS[name]
    assert found_in(parse_module(new_session(), network(*lines, results=tuple(results)))) == expected


def test_the_largest_part_that_is_not_too_large_is_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, results, _ = GRAPHS["a sum in a sum"]
    monkeypatch.setattr(blocks, "MOST_LAYERS", 2)
    assert found_in(parse_module(new_session(), network(*lines, results=results))) == ["a", "b", "c"]


def test_a_block_has_its_own_points_and_the_activations_behind_it() -> None:
    session = new_session()
    module = parse_module(session, network(*RESIDUAL))
    run_passes(module, parse_pipeline("insert-observers", session.passes), session)
    layers = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    names = [[row.op.name.removeprefix("nn.") for row in block.rows] for block in blocks_of(module, layers).blocks]
    inner = ["observe", "conv", "relu", "observe", "conv", "add", "relu"]
    assert names == [["observe", "conv", "relu"], inner, ["observe", "conv"]]


def data(count: int, seed: int) -> np.ndarray:
    """Samples with correlated channels."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(count, 6, 6, 3)) @ np.random.default_rng(9).normal(size=(3, 8))
    return np.ascontiguousarray(mixed.transpose(0, 3, 1, 2), dtype=np.float32)


def rounded(text: str, method: Method, bits: int = 3) -> tuple[ModuleOp, Session]:
    """The network with weights of these bits, calibrated on 40 samples and rounded by them."""
    module, session = parsed(text)
    given = DataOptions(data=samples_from(data(40, 1), module))
    for each in parse_pipeline("insert-observers{weight-bits=3},calibrate", session.passes):
        run_passes(module, [replace(each, data=given.data) if hasattr(each, "data") else each], session)
    module = parse_module(session, to_text(module).replace("weight i3", f"weight i{bits}"))
    run_passes(module, [RoundWeightsPass(method=method, data=given.data)], session)
    return module, session


def said(session: Session, rule: str) -> dict[str, str]:
    """The reasons of a rule, by layer."""
    return {r.layer: r.reason for r in session.remarks if r.pass_name == "round-weights" and r.rule == rule}


@pytest.mark.slow
def test_layers_together_come_closer_than_one_after_the_other() -> None:
    """The second layer adds up all channels of the first: only together they know which of its errors cancel."""
    text = network("a = conv x", "r = relu a", "b = mix r", "y = add b x")
    reference = Executable(parse_module(new_session(), text)).run({"x": data(64, 2)})["y"]
    errors: dict[Method, float] = {}
    methods: tuple[Method, ...] = ("mismatch", "block")
    for method in methods:
        module, session = rounded(text, method, bits=2)
        run_passes(module, parse_pipeline("convert-observers", session.passes), session)
        errors[method] = sqnr(reference, Executable(module).run({"x": data(64, 2)})["y"])
        assert f" by {method}, " in said(session, "rounded")["a"]
    assert errors["block"] > errors["mismatch"] + 0.5


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconstruction, "STEPS", 10)


@pytest.mark.usefixtures("quick")
def test_each_layer_says_what_its_block_gains_and_the_same_command_finds_the_same_integers() -> None:
    first, session = rounded(network(*RESIDUAL), "block")
    reasons = said(session, "rounded")
    assert reasons.keys() == {"a", "b", "c", "y"}
    assert reasons["b"] == reasons["c"]
    assert reasons["b"].startswith("SQNR of the output of its block of 2 layers")
    assert reasons["y"].startswith("SQNR of its output")
    assert reasons["y"].endswith("(on 5 samples held back)")
    assert to_text(rounded(network(*RESIDUAL), "block")[0]) == to_text(first)


@pytest.mark.usefixtures("quick")
def test_fewer_than_sixteen_samples_judge_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "FEW", 100)
    _, session = rounded(network(*RESIDUAL), "block")
    assert said(session, "rounded")["b"].endswith("(on 40 samples, held back in turns)")


@pytest.mark.usefixtures("quick")
def test_a_block_that_torch_does_not_compute_is_rounded_one_layer_after_the_other() -> None:
    """The sizes of a shape are integers."""
    lines = ("a = conv x", "b = conv a", "s = reshaped b", "t = add s a", "y = conv t")
    _, session = rounded(network(*lines), "block")
    assert said(session, "block") == dict.fromkeys(
        ("b",), "its block has nn.shape 's.n', which PyTorch does not compute here: it is rounded by mismatch"
    )
    assert " by mismatch, " in said(session, "rounded")["b"]


@pytest.mark.usefixtures("quick")
def test_sizes_of_one_sample_in_an_operation_keep_samples_apart() -> None:
    """A model of a batch of 1 whose reshapes say so."""
    text = network("a = conv x", "s = flat a", "b = conv s", "t = add b x", "y = conv t").replace("?x8x6x6", "1x8x6x6")
    _, session = rounded(text, "block")
    assert said(session, "rounded").keys() == {"a", "b", "y"}


def test_without_torch_it_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "torch_installed", lambda: False)
    with pytest.raises(CompileError, match="rounding of weights by block requires PyTorch to be installed") as found:
        rounded(network(*RESIDUAL), "block")
    assert found.value.hint == "pip install 'amct-opt[torch]'"
