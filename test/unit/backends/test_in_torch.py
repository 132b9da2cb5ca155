"""The backend `torch`: the floats of PyTorch, to the bit, in the memory order that a program was exported with."""

from contextlib import closing
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt import backends
from amct_opt.backends import Runner, Wanted, Work
from amct_opt.diagnostics import CompileError
from amct_opt.ir.functions import input_orders, main_function
from amct_opt.runtime.data import Spool

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

SEEDED = np.random.default_rng(3)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.second = torch.nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return self.second(torch.relu(self.first(x)))


@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions_are_those_of_torch(channels_last: bool) -> None:
    """oneDNN sums in another order where channels are last in memory: the inputs of the export say where they are."""
    net = Net().eval()
    array = SEEDED.normal(size=(2, 3, 16, 16)).astype(np.float32)
    x = torch.from_numpy(array)
    x = x.to(memory_format=torch.channels_last) if channels_last else x
    module, session = amct_opt.load(net, (x,))
    function = main_function(module)
    assert list(input_orders(function).values()) == ([(0, 2, 3, 1)] if channels_last else [])
    found: list[np.ndarray] = []
    value = function.body.block.last_op.operands[0]
    with closing(Spool(function, "test")) as spool:
        spool.add({"x": array})
        work = Work(
            module, {value: Wanted()}, spool.samples(), lambda _, a: found.append(a.copy()), lambda: None, session
        )
        Runner("torch").run(work)
    with torch.no_grad():
        assert found[0].tobytes() == np.ascontiguousarray(net(x).numpy()).tobytes()


def test_torch_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "torch_installed", lambda: False)
    with pytest.raises(CompileError, match="backend torch requires PyTorch") as error:
        Runner("torch")
    assert "amct-opt[torch]" in error.value.hint
