"""The backend `torch`: the floats of PyTorch, to the bit, in the memory order that a program was exported with."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt import engines
from amct_opt.data import Spool
from amct_opt.engines import Runner, Wanted, Work
from amct_opt.ir.functions import input_names, input_orders, main_function, return_op
from amct_opt.support.diagnostics import CompileError

from ..frameworks import needs, torch

pytestmark = needs("torch", "onnxscript")


@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions_are_those_of_torch(channels_last: bool, rng: np.random.Generator) -> None:
    """oneDNN sums in another order where channels are last in memory: the inputs of the export say where they are."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
            self.second = torch.nn.Conv2d(16, 16, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return self.second(torch.relu(self.first(x)))

    x = torch.from_numpy(rng.normal(size=(2, 3, 16, 16)).astype(np.float32))
    orders = same_bits(Net().eval(), x.to(memory_format=torch.channels_last) if channels_last else x)
    assert orders == ([(0, 2, 3, 1)] if channels_last else [])


def same_bits(net: Any, x: Any) -> list[Any]:
    """Runs a module here and in torch, which must give the same bits. Returns the orders of its input's axes, where recorded."""
    module, session = amct_opt.load(net, (x,))
    function = main_function(module)
    found: list[np.ndarray] = []
    value = return_op(function).operands[0]
    (name,) = input_names(function)
    with closing(Spool(function, "test")) as spool:
        spool.add({name: np.ascontiguousarray(x.numpy())})
        work = Work(
            module, {value: Wanted()}, spool.samples(), lambda _, a: found.append(a.copy()), lambda: None, session
        )
        Runner("torch").run(work)
    with torch.no_grad():
        assert found[0].tobytes() == np.ascontiguousarray(net(x).numpy()).tobytes()
    return list(input_orders(function).values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("Linear(1024, 32)", (4, 1024)),
        ("AvgPool1d(3, padding=1)", (2, 4, 33)),
        ("AvgPool2d(2)", (2, 16, 16, 16)),
        ("AvgPool2d(3, 2, 1, count_include_pad=False)", (2, 4, 17, 17)),
        ("AvgPool2d(3, 2, 1, ceil_mode=True)", (2, 16, 16, 16)),
        ("ConvTranspose2d(24, 16, 3, 2, 1, 1)", (4, 24, 8, 8)),
        ("LayerNorm(32)", (4, 12, 32)),
        ("SiLU()", (4, 1024)),
        ("Hardsigmoid()", (4, 1024)),
        ("Hardswish()", (4, 1024)),
        ("GELU()", (4, 1024)),
        ("Tanh()", (4, 1024)),
        ("Softmax(-1)", (4, 1024)),
        ("PReLU(4)", (2, 4, 33)),
        ("SELU()", (4, 1024)),
        ("BatchNorm2d(4)", (2, 4, 8, 8)),
        ("AdaptiveAvgPool2d(1)", (2, 4, 8, 8)),
    ],
)
def test_layers_are_those_of_torch(layer: str, shape: Sequence[int], rng: np.random.Generator) -> None:
    same_bits(eval(f"torch.nn.{layer}").eval(), torch.from_numpy((rng.normal(size=shape) * 3).astype(np.float32)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_are_those_of_torch(kind: str, rng: np.random.Generator) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.rnn = getattr(torch.nn, kind)(24, 24)

        def forward(self, x: Any) -> Any:
            return self.rnn(x, (x[:1], x[1:2]) if kind == "LSTM" else x[:1])[0]

    same_bits(Net().eval(), torch.from_numpy(rng.normal(size=(5, 4, 24)).astype(np.float32)))


def test_powers_are_those_of_torch(rng: np.random.Generator) -> None:
    """Its square roots are not always the nearest float32: that depends on the processor."""
    x = rng.uniform(0, 3, 4096).astype(np.float32)
    for exponent in (0.2, 0.5):
        assert Runner("torch").power(x, exponent).tobytes() == (torch.from_numpy(x) ** exponent).numpy().tobytes()


def test_torch_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "torch_installed", lambda: False)
    with pytest.raises(CompileError, match="engine torch requires PyTorch") as error:
        Runner("torch")
    assert "amct-opt[torch]" in error.value.hint
