"""PyTorch modules, exported programs and `.pt2` files: names, numbers, and files that must not run anything."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt.dialects.nn import ConstantOp, NNOp
from amct_opt.frontends.torch.archive import load_program
from amct_opt.ir.functions import input_names, main_function
from amct_opt.ir.layer_names import LayerNames
from amct_opt.rewriting import layer_of
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct

from ...frameworks import later, needs

torch = later("torch")
pytestmark = needs("torch", "onnxscript")

LAYERS = [
    "stem.0", "stem.1", "stem.2", "block.conv", "block.bn", "block.skip", "block.relu@0", "block.mul",
    "block.sub", "block.relu@1", "fc",
]  # fmt: skip
WEIGHTS = {"stem.0.weight", "stem.1.running_var", "block.conv.weight", "block.conv.bias", "fc.weight", "fc.bias"}


class Case(NamedTuple):
    module: Any
    inputs: tuple[Any, ...]
    shapes: Any
    program: Any
    path: Path


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    from .networks import small

    module, inputs = small()
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(module, inputs, dynamic_shapes=shapes)
    path = tmp_path_factory.mktemp("torch") / "model.pt2"
    torch.export.save(program, path)
    return Case(module, inputs, shapes, program, path)


def layers(module: ModuleOp) -> list[str]:
    return [layer_of(op) for op in module.walk() if isinstance(op, NNOp) and not isinstance(op, ConstantOp)]


@pytest.mark.slow
def test_a_module_has_the_names_of_its_author(case: Case) -> None:
    module, _ = amct_opt.load(case.module, case.inputs, dynamic_shapes=case.shapes)
    assert [name for name in layers(module) if "mean" not in name] == LAYERS
    constants = {op.key for op in module.walk() if isinstance(op, ConstantOp) and (op.key or "").endswith(WEIGHTS_END)}
    assert WEIGHTS <= constants <= case.module.state_dict().keys()
    with torch.no_grad():
        expected = case.module(*case.inputs).numpy()
    for batch in (2, 1):
        found = amct_opt.execute(module, {"x": case.inputs[0].numpy()[:batch]})["output"]
        np.testing.assert_allclose(found, expected[:batch], rtol=1e-5, atol=1e-6)
    assert {*map(layer_of, LayerNames.of(module).find("block.relu"))} == {"block.relu@0", "block.relu@1"}
    assert case.module.block.skip.add(1, 2) == 3, "the module itself is as it was"


WEIGHTS_END = ("weight", "bias", "running_mean", "running_var")


def test_a_file_has_the_graph_of_its_program(case: Case) -> None:
    program = load_program(torch, case.path)
    assert str(program.graph) == str(case.program.graph)
    assert [node.meta.get("nn_module_stack") for node in program.graph.nodes] != [None] * len(program.graph.nodes)
    for name, weight in case.module.state_dict().items():
        torch.testing.assert_close(program.state_dict[name], weight, rtol=0, atol=0)


def test_commands_read_files(case: Case, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(size=(9, 3, 8, 8)).astype(np.float32))
    options = ["--data", str(tmp_path / "d.npz"), "--skip-layers", "block", "-o", str(tmp_path / "out"), "--no-report"]
    assert amct.run(["quantize", str(case.path), *options]) == 0
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    kept = {row["layer"] for row in summary["layers"]["left_in_float"]}
    assert "block.conv" in kept
    assert {row["layer"] for row in summary["layers"]["quantized"]} >= {"stem.0", "fc"}


def test_what_cannot_be_traced(case: Case) -> None:
    with pytest.raises(CompileError, match="example inputs are needed"):
        amct_opt.load(case.module)
    with pytest.raises(CompileError, match="are fixed"):
        amct_opt.load(case.program, case.inputs)
    with pytest.raises(CompileError, match="are for PyTorch modules"):
        amct_opt.load("model.onnx", example_inputs=case.inputs)
    with pytest.raises(CompileError, match="torch cannot export it"):
        amct_opt.load(case.module, (torch.zeros(1, 4, 8, 8),))
    training = torch.nn.Sequential(torch.nn.Dropout())
    with pytest.raises(CompileError) as caught:
        amct_opt.load(training, (torch.zeros(1),))
    assert str(caught.value).startswith("Sequential: error: is in training mode")
    assert caught.value.hint == "call module.eval() first"


def test_layers_without_modes_need_no_evaluation_mode() -> None:
    x = torch.randn(2, 2, 6, 6, 6)
    model = torch.nn.Sequential(torch.nn.Conv3d(2, 4, 3, bias=False))
    module, _ = amct_opt.load(model, (x,))
    (found,) = amct_opt.execute(module, {"input": x.numpy()}).values()
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    for kind in (torch.nn.BatchNorm2d(2), torch.nn.RReLU(), torch.nn.LSTM(2, 2), torch.nn.MultiheadAttention(2, 1)):
        with pytest.raises(CompileError, match="is in training mode"):
            amct_opt.load(torch.nn.Sequential(kind), (x,))


def test_results_have_names_and_values_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:

    class Results(torch.nn.Module):
        """Results of each kind: below a key, an input, a weight, one of them twice, None; a buffer changes with each call."""

        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(3, 2)
            self.register_buffer("calls", torch.zeros(2))

        def forward(self, x: Any) -> Any:
            self.calls.add_(1)
            y = self.fc(x) + self.calls
            return {"x": y, "same": x, "none": None, "weight": self.fc.weight, "pair": (y, {"sum": y + 1})}

    model, x = Results().eval(), torch.randn(2, 3)
    module, session = amct_opt.load(model, (x,))
    assert input_names(main_function(module)) == ["x"]
    assert "fc.weight" in {op.key for op in module.walk() if isinstance(op, ConstantOp)}
    with torch.no_grad():
        expected = model(x)
    found = amct_opt.execute(module, {"x": x.numpy()})
    y, total = expected["pair"]
    values = {"x_1": y, "same": x, "weight": expected["weight"], "pair_0": y, "pair_1": total["sum"]}
    assert list(found) == list(values)
    for name, value in values.items():
        np.testing.assert_allclose(found[name], value.detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
    warning = "Results: each call changes calls; the imported module always starts from the stored values"
    assert session.warnings == [warning]
    assert capsys.readouterr().err == f"warning: {warning}\n"


def test_results_that_are_not_tensors() -> None:

    class Constant(torch.nn.Module):
        def __init__(self, *results: Any):
            super().__init__()
            self.results = results

        def forward(self, x: Any) -> Any:
            return self.results

    with pytest.raises(CompileError) as caught:
        amct_opt.load(Constant(None, 7).eval(), (torch.zeros(3),))
    assert str(caught.value).splitlines() == [
        "Constant: error: 'output_1' is the constant 7, not a tensor",
        "  hint: return tensors only, or torch.tensor(...) of the constant",
    ]
    with pytest.raises(CompileError, match="Constant: error: returns no tensors"):
        amct_opt.load(Constant(None).eval(), (torch.zeros(3),))


def test_trees_of_files(tmp_path: Path) -> None:
    """Arguments by keyword, dictionaries in arguments, and ordered dictionaries as results, in a file."""

    class Ordered(torch.nn.Module):
        def forward(self, x: Any, *, scale: Any) -> Any:
            return OrderedDict(sum=x + scale["a"], product=(x * scale["a"],))

    x, scale = torch.ones(2), {"a": torch.full((2,), 3.0)}
    torch.export.save(torch.export.export(Ordered(), (x,), {"scale": scale}), tmp_path / "m.pt2")
    module, _ = amct_opt.load(tmp_path / "m.pt2")
    found = amct_opt.execute(module, {"x": x.numpy(), "scale_a": scale["a"].numpy()})
    assert {name: value.tolist() for name, value in found.items()} == {"sum": [4.0, 4.0], "product_0": [3.0, 3.0]}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_modules_of_torch_compile(case: Case) -> None:
    module, _ = amct_opt.load(torch.compile(case.module), case.inputs)
    assert [name for name in layers(module) if "mean" not in name] == LAYERS


def test_control_flow_that_depends_on_data(capfd: pytest.CaptureFixture[str]) -> None:
    """One line: torch itself prints the graph."""

    class Branches(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else x + 1

    with pytest.raises(
        CompileError, match="Branches: error: torch cannot export it: Could not guard on data-dependent"
    ):
        amct_opt.load(Branches().eval(), (torch.zeros(3),))
    assert capfd.readouterr() == ("", "")


def test_without_the_extra(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(CompileError) as caught:
        amct_opt.load(case.path)
    assert str(caught.value) == (
        f"{case.path}: error: PyTorch models require the package onnxscript\n  hint: pip install 'amct-opt[torch]'"
    )


class Harmful:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return open, (str(self.marker), "w")


def changed(case: Case, path: Path, **changes: Callable[[bytes], bytes]) -> Path:
    """The file with other contents of parts, by the ends of their names (`_` for what a keyword cannot contain)."""
    with ZipFile(case.path) as source, ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            for part, change in changes.items():
                data = change(data) if part in name else data
            target.writestr(name, data)
    return path


def edited(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        parsed = json.loads(data)
        change(parsed)
        return json.dumps(parsed).encode()

    return edit


def set_all(parsed: Any, key: str, value: str) -> None:
    if isinstance(parsed, dict):
        for name in parsed:
            if name == key and isinstance(parsed[name], str):
                parsed[name] = value
            set_all(parsed[name], key, value)
    for each in parsed if isinstance(parsed, list) else ():
        set_all(each, key, value)


EVIL = "__import__('pathlib').Path('{}').touch()"
GRAPHS = {
    "a size that is code": ("expr_str", EVIL, "is not a size"),
    "a size that calls": ("expr_str", "preview(1)", "is not a size"),
    "a size without end": ("expr_str", "Pow(Integer(9), Integer(99999999))", "is not a size"),
    "an operator that is not": ("target", "torch.hub.os.system", "is not an operator of torch"),
    "an operator on files": ("target", "torch.ops.aten.from_file.default", "is not an operator of torch"),
    "a tree that imports": (
        "in_spec",
        '[1, {"type": "builtins.dict", "context": "[{\\"__enum__\\": true, \\"fqn\\": \\"a:B\\"}]", "children_spec": []}]',
        "is not a tree",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_that_would_run_code(name: str, case: Case, tmp_path: Path) -> None:
    key, value, message = GRAPHS[name]
    marker = tmp_path / "run"
    change = edited(lambda parsed: set_all(parsed, key, value.format(marker) if value == EVIL else value))
    path = changed(case, tmp_path / "m.pt2", **{"models/model.json": change})
    with pytest.raises(CompileError, match=message) as caught:
        amct_opt.load(path)
    assert caught.value.where == str(path)
    assert not marker.exists()


def test_nothing_is_unpickled(case: Case, tmp_path: Path) -> None:
    """Example inputs are left out; a pickled weight is an error."""
    import io

    marker, data = tmp_path / "run", io.BytesIO()
    torch.save(Harmful(marker), data)
    samples = changed(case, tmp_path / "samples.pt2", sample_inputs=lambda _: data.getvalue())
    assert load_program(torch, samples).example_inputs is None

    def pickle_first(parsed: Any) -> None:
        next(iter(parsed["config"].values()))["use_pickle"] = True

    weights = changed(
        case, tmp_path / "weights.pt2", weights_config=edited(pickle_first), weight_0=lambda _: data.getvalue()
    )
    with pytest.raises(CompileError, match="is pickled: reading it would run code"):
        amct_opt.load(weights)
    assert not marker.exists()


def test_files_that_are_not_programs(case: Case, tmp_path: Path) -> None:
    whole = case.path.read_bytes()
    torch.save(case.module.state_dict(), tmp_path / "state.pt2")
    contents = {"truncated": whole[:-200], "empty": b"", "text": b"hello"}
    for name, data in contents.items():
        (tmp_path / f"{name}.pt2").write_bytes(data)
    compiled = tmp_path / "compiled.pt2"
    compiled.write_bytes(whole)
    with ZipFile(compiled, "a") as archive:
        archive.writestr("model/data/aotinductor/model/model.so", b"")
    damaged = changed(case, tmp_path / "damaged.pt2", **{"models/model.json": lambda data: data[:-9]})
    short = changed(case, tmp_path / "short.pt2", weight_0=lambda data: data[:-2])
    missing = tmp_path / "missing.pt2"
    messages = {
        "compiled": "contains compiled code",
        "damaged": "not JSON",
        "short": "torch cannot load it",
        "missing": "No such",
    }
    for path in (*(tmp_path / f"{name}.pt2" for name in ("state", *contents)), compiled, damaged, short, missing):
        with pytest.raises(CompileError, match=messages.get(path.stem, "is not a PyTorch program")) as caught:
            amct_opt.load(path)
        assert caught.value.where == str(path)
        assert caught.value.hint or path == missing
