"""Plans: order, last-use release, watching, and errors that say where."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.runtime import executor, plan
from amct_opt.runtime.executor import Executable, RunError, compile_block
from amct_opt.runtime.kernels import Array, quantization
from amct_opt.runtime.program import Program
from amct_opt.runtime.sizes import once_per_shape
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

X = np.array([-1, 2, -3, 4], np.float32)


def module(body: str, result: str = "%y") -> ModuleOp:
    lines = "\n".join(body.strip().splitlines())
    text = f'func.func @main(%x: tensor<4xf32> {{nn.name = "x"}}) -> (tensor<4xf32> {{nn.name = "y"}}) {{\n{lines}\n'
    return parse_module(new_session(), f"{text}func.return {result} : tensor<4xf32>\n}}\n", "net.mlir")


def operations(m: ModuleOp) -> list[Operation]:
    return list(main_function(m).body.block.ops)


DIAMOND = """
  %a = nn.relu %x : tensor<4xf32>
  %b = nn.neg %a : tensor<4xf32>
  %c = nn.abs %a : tensor<4xf32>
  %y = nn.sub %b, %c : tensor<4xf32>
"""


def test_results_by_name() -> None:
    result = executor.run(module(DIAMOND), {"x": X})
    assert list(result) == ["y"]
    assert result["y"].tolist() == [0, -4, 0, -8]


def test_a_plan_runs_many_times_and_keeps_nothing() -> None:
    runner = Executable(module(DIAMOND))
    first = runner.run({"x": X})["y"]
    second = runner.run({"x": -X})["y"]
    assert first.tolist() == [0, -4, 0, -8]
    assert second.tolist() == [-2, 0, -6, 0]


def live_counts(m: ModuleOp, inputs: dict[str, Array]) -> list[int]:
    """How many computed arrays are alive whenever another has been computed."""
    alive: list[weakref.ref[Array]] = []
    counts: list[int] = []

    def watch(_: SSAValue, array: Array) -> None:
        alive.append(weakref.ref(array))
        counts.append(sum(r() is not None for r in alive))

    computed = [r for op in operations(m) for r in op.results if not isinstance(op, nn.ConstantOp)]
    Executable(m, computed).run(inputs, watch)
    return counts


def test_arrays_are_released_after_their_last_use() -> None:
    # a; a b; a b c; then a is gone: b c y
    assert live_counts(module(DIAMOND), {"x": X}) == [1, 2, 3, 3]


def test_a_long_chain_needs_two_arrays() -> None:
    chain = "%0 = nn.neg %x : tensor<4xf32>\n" + "\n".join(f"%{i + 1} = nn.neg %{i} : tensor<4xf32>" for i in range(30))
    assert max(live_counts(module(chain, "%30"), {"x": X})) == 2


def test_a_result_that_nobody_uses_is_released_at_once() -> None:
    body = """
      %a = nn.relu %x : tensor<4xf32>
      %dead = nn.abs %a : tensor<4xf32>
      %y = nn.neg %a : tensor<4xf32>
    """
    assert live_counts(module(body), {"x": X}) == [1, 2, 2]


def test_constants_and_outputs_are_kept() -> None:
    body = """
      %k = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
      %y = nn.add %x, %k : tensor<4xf32>
      %z = nn.neg %y : tensor<4xf32>
    """
    runner = Executable(module(body))
    for _ in range(2):
        assert runner.run({"x": X})["y"].tolist() == [0, 4, 0, 8]


def test_constant_weights_are_dequantized_once() -> None:
    body = """
      %q = nn.constant dense<[1, -2, 3, 4]> : tensor<4xi8>
      %y = nn.dequantize %q by <i8, scale = 0.5, zero_point = 2> : (tensor<4xi8>) -> tensor<4xf32>
      %z = nn.add %x, %y : tensor<4xf32>
    """
    runner = Executable(module(body))
    first, second = (runner.run({"x": X})["y"] for _ in range(2))
    assert first.tolist() == [-0.5, -2, 0.5, 1]
    assert first is second
    assert not first.flags.writeable, "a caller could change the weights of the next run"


def test_large_weights_are_dequantized_where_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
      %q = nn.constant dense<[1, -2, 3, 4]> : tensor<4xi8>
      %a = nn.dequantize %q by <i8, scale = 0.5> : (tensor<4xi8>) -> tensor<4xf32>
      %b = nn.dequantize %q by <i8, scale = 0.25> : (tensor<4xi8>) -> tensor<4xf32>
      %c = nn.add %x, %a : tensor<4xf32>
      %d = nn.add %c, %a : tensor<4xf32>
      %y = nn.add %d, %b : tensor<4xf32>
    """
    assert live_counts(module(body), {"x": X}) == [1, 2, 3, 3, 4], "both are kept"
    monkeypatch.setattr(quantization, "KEPT_WEIGHT", 0)
    assert live_counts(module(body), {"x": X}) == [1, 2, 3, 2, 3]


def test_weights_of_large_models_leave_memory_behind_their_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[Array] = []
    monkeypatch.setattr(plan, "release", released.append)
    m = module("%k = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n%y = nn.add %x, %k : tensor<4xf32>")
    for most, count in ((16, 0), (15, 2)):
        monkeypatch.setattr(plan, "_RESIDENT", most)
        runner = Executable(m)
        for _ in range(2):
            assert runner.run({"x": X})["y"].tolist() == [0, 4, 0, 8]
        assert [each.tolist() for each in released] == [[1, 2, 3, 4]] * count


def test_inputs_may_be_returned() -> None:
    assert executor.run(module("", "%x"), {"x": X})["y"] is X


def test_watch_sees_arguments_and_results_in_order() -> None:
    m = module(DIAMOND)
    ops = operations(m)
    argument = main_function(m).body.block.args[0]
    seen: list[tuple[SSAValue, Sequence[float]]] = []
    Executable(m, [argument, ops[2].results[0]]).run({"x": X}, lambda v, a: seen.append((v, a.tolist())))
    assert [v for v, _ in seen] == [argument, ops[2].results[0]]
    assert [a for _, a in seen] == [X.tolist(), [0, 2, 0, 4]]


def test_several_results() -> None:
    body = """
      %p, %q = nn.split %x sizes [1, 3] : (tensor<4xf32>) -> (tensor<1xf32>, tensor<3xf32>)
      %y = nn.concat %q, %p axis 0 : (tensor<3xf32>, tensor<1xf32>) -> tensor<4xf32>
    """
    assert executor.run(module(body), {"x": X})["y"].tolist() == [2, -3, 4, -1]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "no data for input x\n  hint: given are none"),
        ({"X": X}, "no data for input x\n  hint: given are X"),
        ({"x": X, "b": X, "a": X}, "the model has no input a, b\n  hint: the inputs are x"),
        ({"x": X[:3]}, "input 'x' has shape [3], but the model takes [4]"),
        ({"x": X[None]}, "input 'x' has shape [1, 4], but the model takes [4]"),
        ({"x": X.astype(np.float64)}, "input 'x' is of float64, but the model takes float32"),
    ],
)
def test_inputs_that_do_not_fit(inputs: dict[str, Array], message: str) -> None:
    with pytest.raises(RunError) as caught:
        executor.run(module(DIAMOND), inputs)
    assert str(caught.value) == f"error: {message}"


def test_unknown_sizes_take_any() -> None:
    body = "%y = nn.relu %x : tensor<?x2xf32>"
    text = (
        "func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {\n" + body + "\nfunc.return %y : tensor<?x2xf32>\n}"
    )
    runner = Executable(parse_module(new_session(), text, "net.mlir"))
    for n in (0, 1, 5):
        assert runner.run({"x": np.ones((n, 2), np.float32)})["result0"].shape == (n, 2)
    with pytest.raises(RunError, match="has shape"):
        runner.run({"x": np.ones((2, 3), np.float32)})


def test_a_failing_kernel_is_located() -> None:
    body = """
      %i = nn.constant dense<[0, 9]> : tensor<2xi64>
      %g = nn.gather %x, %i : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
      %y = nn.concat %g, %g axis 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    """
    with pytest.raises(RunError, match="out of bounds") as caught:
        executor.run(module(body), {"x": X})
    assert caught.value.where.startswith("net.mlir:3:")


def test_an_operation_without_kernel_is_located() -> None:
    body = '%y = "builtin.unrealized_conversion_cast"(%x) : (tensor<4xf32>) -> tensor<4xf32>'
    with pytest.raises(CompileError, match="cannot be run: it has no kernel") as caught:
        Executable(module(body))
    assert caught.value.where.startswith("net.mlir:2:")


def test_a_missing_side_file_is_located() -> None:
    body = """
      %k = nn.constant #nn.external<"nowhere.safetensors#w", tensor<4xf32>>
      %y = nn.add %x, %k : tensor<4xf32>
    """
    with pytest.raises(CompileError, match=r"nowhere\.safetensors") as caught:
        Executable(module(body))
    assert caught.value.where.startswith("net.mlir:2:")


FUSED = """
  %w = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %y = nn.fused "AddReLU" (%a = %x, %b = %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    %s = nn.add %a, %b : tensor<4xf32>
    %d = nn.div %s, %b : tensor<4xf32>
    %r = nn.relu %d : tensor<4xf32>
    nn.yield %r : tensor<4xf32>
  }
"""


def test_fused_regions() -> None:
    assert executor.run(module(FUSED), {"x": X})["y"].tolist() == [0, 2, 0, 2]


def test_errors_inside_a_fused_region_name_the_inner_operation() -> None:
    body = FUSED.replace("xf32", "xi32").replace("[1.0, 2.0, 3.0, 4.0]", "[1, 0, 3, 4]")
    text = f"func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {{{body}func.return %y : tensor<4xi32>\n}}"
    runner = Executable(parse_module(new_session(), text, "net.mlir"))
    with pytest.raises(RunError, match="integer division by zero") as caught:
        runner.run({"x": X.astype(np.int32)})
    assert caught.value.where.startswith("net.mlir:5:")


def test_compile_block_stops_at_any_wanted_value() -> None:
    m = module(DIAMOND)
    inner = operations(m)[1].results[0]
    assert isinstance(inner, OpResult)
    plan = compile_block(main_function(m).body.block, [inner])
    assert plan.run([X])[0].tolist() == [0, -2, 0, -4]


SIZES = """
  %s = nn.shape %x : (tensor<?x?x4xf32>) -> tensor<3xi64>
  %c = nn.slice %s starts [0] ends [2] axes [0] : (tensor<3xi64>) -> tensor<2xi64>
  %r = nn.constant dense<[2, -1]> : tensor<2xi64>
  %to = nn.concat %c, %r axis 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %y = nn.reshape %x, %to : (tensor<?x?x4xf32>, tensor<4xi64>) -> tensor<?x?x2x2xf32>
  %p = nn.unsqueeze %to axes [0] : (tensor<4xi64>) -> tensor<1x4xi64>
  %n = nn.shape %to : (tensor<4xi64>) -> tensor<1xi64>
  %q = nn.unsqueeze %n axes [0] : (tensor<1xi64>) -> tensor<1x1xi64>
"""


def sizes_module(results: dict[str, str]) -> ModuleOp:
    types = ", ".join(results.values())
    head = f"func.func @main(%x: tensor<?x?x4xf32>) -> ({types})"
    return parse_module(new_session(), f"{head} {{{SIZES}func.return {', '.join(results)} : {types}\n}}\n", "net.mlir")


def plan_names(m: ModuleOp) -> list[str]:
    """The rows of the plan, sizes once per shape."""
    found: list[str] = []

    def note(program: Program) -> Program:
        rewritten = once_per_shape(program)
        found.extend(row.op.name for row in rewritten.rows)
        return rewritten

    Executable(m, rewrite=note)
    return found


def test_sizes_are_computed_once_per_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    m = sizes_module({"%y": "tensor<?x?x2x2xf32>", "%p": "tensor<1x4xi64>"})
    assert plan_names(m) == ["nn.concat", "nn.reshape", "nn.unsqueeze"]
    runner = Executable(m)
    runs: list[int] = []
    run = executor.Plan.run
    monkeypatch.setattr(executor.Plan, "run", lambda plan, *a: (runs.append(len(plan.steps)), run(plan, *a))[1])
    for n in (3, 3, 5, 3):
        result = runner.run({"x": np.ones((n, 1, 4), np.float32)})
        assert result["result0"].shape == (n, 1, 2, 2)
        assert result["result1"].tolist() == [[n, 1, 2, -1]]
        assert not result["result1"].flags.writeable, "a caller could change the sizes of the next run"
    assert runs == [3, 3, 3, 3, 3, 3, 3], "the plan four times, that of the sizes but for the second run"


def test_the_shape_of_sizes_is_one_of_sizes() -> None:
    runner = Executable(sizes_module({"%q": "tensor<1x1xi64>"}))
    for n in (3, 5):
        assert runner.run({"x": np.ones((n, 1, 4), np.float32)})["result0"].tolist() == [[4]]


def random_sizes(rng: np.random.Generator) -> ModuleOp:
    """Values of rank 1 that follow from shapes, from each other's shapes and from an input, half of them read as matrices."""
    lines, pool = ["%x0 = nn.shape %x : (tensor<?x?x4xf32>) -> tensor<3xi64>"], [("%x0", 3), ("%z", 2)]
    lines.append("%one = nn.constant dense<2> : tensor<i64>")
    results: list[tuple[str, str]] = []
    for i in range(1, 12):
        (a, n), (b, m) = (pool[int(k)] for k in rng.integers(0, len(pool), 2))
        of_a, of_b = f"tensor<{n}xi64>", f"tensor<{m}xi64>"
        made = {
            "shape": (f"nn.shape {a} : ({of_a}) -> tensor<1xi64>", 1),
            "concat": (f"nn.concat {a}, {b} axis 0 : ({of_a}, {of_b}) -> tensor<{n + m}xi64>", n + m),
            "slice": (f"nn.slice {a} starts [-1] ends [9] axes [0] : ({of_a}) -> tensor<1xi64>", 1),
            "mul": (f"nn.mul {a}, %one : ({of_a}, tensor<i64>) -> {of_a}", n),
        }
        text, size = made[str(rng.choice([*made]))]
        lines.append(f"%x{i} = {text}")
        pool.append((f"%x{i}", size))
        if rng.random() < 0.5:
            lines.append(f"%y{i} = nn.unsqueeze %x{i} axes [0] : (tensor<{size}xi64>) -> tensor<1x{size}xi64>")
            results.append((f"%y{i}", f"tensor<1x{size}xi64>"))
    results.append((pool[-1][0], f"tensor<{pool[-1][1]}xi64>"))
    types, values = ", ".join(t for _, t in results), ", ".join(v for v, _ in results)
    head = f"func.func @main(%x: tensor<?x?x4xf32>, %z: tensor<2xi64>) -> ({types})"
    body = "\n".join(lines)
    return parse_module(new_session(), f"{head} {{\n{body}\nfunc.return {values} : {types}\n}}", "net.mlir")


def test_sizes_are_those_without_remembering(rng: np.random.Generator) -> None:
    """Whatever follows from what: sizes of sizes, of inputs that are sizes, and of both."""
    for _ in range(12):
        m = random_sizes(rng)
        plain, remembering = Executable(m, rewrite=lambda program: program), Executable(m)
        for n in (3, 3, 5):
            given = {"x": np.ones((n, 2, 4), np.float32), "z": np.array([n, 7])}
            for name, value in plain.run(given).items():
                np.testing.assert_array_equal(remembering.run(given)[name], value)


def test_sizes_that_are_asked_for_are_the_caller_s_own() -> None:
    m = sizes_module({"%y": "tensor<?x?x2x2xf32>", "%to": "tensor<4xi64>"})
    assert plan_names(m) == ["nn.shape", "nn.slice", "nn.concat", "nn.reshape"]
    first, second = (Executable(m).run({"x": np.ones((3, 1, 4), np.float32)})["result1"] for _ in range(2))
    assert first is not second
    assert first.flags.writeable
