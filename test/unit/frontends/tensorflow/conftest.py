"""Graphs that TensorFlow builds, freezes and runs, in the manner of both its versions, to compare imports with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.ir.functions import input_names, main_function, output_names
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions, Session
from amct_opt.session.universe import new_session

from ...frameworks import tf

Array = np.ndarray[Any, np.dtype[Any]]
Tensor = Any
"""Of TensorFlow."""

Graph = tuple[bytes, Sequence[Array]]
"""A frozen GraphDef, and what TensorFlow computes with it."""


def kinds(module: ModuleOp) -> list[str]:
    """The operations of `nn`, constants left out."""
    names = [op.name.removeprefix("nn.") for op in module.walk() if op.name.startswith("nn.")]
    return [name for name in names if name != "constant"]


@dataclass(frozen=True)
class Frozen:
    """A frozen graph in a file. Its inputs are called x0, x1, ..., its outputs y0, y1, ..."""

    path: Path
    inputs: dict[str, Array]
    outputs: dict[str, Array]

    def session(self) -> Session:
        """One in which the graph is read with its inputs and outputs, whatever else nothing reads."""
        session = new_session()
        session.imports = ImportOptions(inputs=tuple(self.inputs), outputs=tuple(self.outputs))
        return session

    def read(self) -> ModuleOp:
        return frontends.read(self.path, self.session())


def _named(outputs: Tensor | Sequence[Tensor]) -> list[Tensor]:
    several = outputs if isinstance(outputs, list | tuple) else [outputs]
    return [tf.identity(y, f"y{i}") for i, y in enumerate(several)]


def _session(
    function: Callable[..., Any], inputs: Sequence[Array], specs: Sequence[Any], variables: Sequence[Array]
) -> Graph:
    """In the manner of TensorFlow 1: a graph with placeholders and variables, frozen by the session that ran it."""
    tf1 = tf.compat.v1
    with tf1.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        fed = [tf1.placeholder(s.dtype, s.shape, f"x{i}") for i, s in enumerate(specs)]
        held = [tf1.get_variable(f"v{i}", initializer=v, use_resource=False) for i, v in enumerate(variables)]
        outputs = _named(function(*fed, *held))
        session.run(tf1.global_variables_initializer())
        expected = session.run(outputs, dict(zip(fed, inputs, strict=True)))
        names = [y.op.name for y in outputs]
        frozen = tf1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
        return frozen.SerializeToString(deterministic=True), expected


def _function(
    function: Callable[..., Any], inputs: Sequence[Array], specs: Sequence[Any], variables: Sequence[Array]
) -> Graph:
    """In the manner of TensorFlow 2: a traced function with captured variables, inlined and frozen."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    held = [cast(Any, tf.Variable)(v) for v in variables]
    signature = [tf.TensorSpec(s.shape, s.dtype, f"x{i}") for i, s in enumerate(specs)]
    traced = tf.function(lambda *fed: _named(function(*fed, *held)), input_signature=signature, autograph=False)
    frozen = convert_variables_to_constants_v2(traced.get_concrete_function())
    expected = [y.numpy() for y in frozen(*map(tf.constant, inputs))]
    return frozen.graph.as_graph_def().SerializeToString(deterministic=True), expected


_MANNERS = {"TF1": _session, "TF2": _function}


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Fast tests see each case in one manner, chosen by its name, so that both are seen of nearly every operator."""
    for item in items:
        case = getattr(item, "callspec", None)
        manner = case.params.get("frozen") if case is not None else None
        if manner in _MANNERS:
            name = item.nodeid.replace(manner, "")
            if manner != list(_MANNERS)[crc32(name.encode()) % 2]:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(params=_MANNERS)
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Frozen]:
    """`frozen(function, *inputs, signature=None, variables=())`: the graph of `function(*inputs, *variables)` in a file.

    `signature` gives a TensorSpec for each input where sizes are to be unknown. A test that uses this runs once for each
    version of TensorFlow, one of which is marked slow.
    """
    freeze = _MANNERS[request.param]

    def build(
        function: Callable[..., Any],
        *inputs: Array,
        signature: Sequence[Any] | None = None,
        variables: Sequence[Array] = (),
    ) -> Frozen:
        arrays = [np.asarray(x) for x in inputs]
        specs = signature or [tf.TensorSpec(a.shape, a.dtype) for a in arrays]
        graph, outputs = freeze(function, arrays, specs, variables)
        path = tmp_path / "graph.pb"
        path.write_bytes(graph)
        fed = {f"x{i}": a for i, a in enumerate(arrays)}
        return Frozen(path, fed, {f"y{i}": np.asarray(a) for i, a in enumerate(outputs)})

    return build


@pytest.fixture
def agrees(frozen: Callable[..., Frozen]) -> Callable[..., ModuleOp]:
    """`agrees(function, *inputs, rtol=, atol=, **as_frozen)`: imports the graph, runs it, and compares with TensorFlow.

    Names, shapes and element types must be the same, whole numbers equal, others within the tolerances. Returns the module.
    """

    def check(
        function: Callable[..., Any], *inputs: Array, rtol: float = 1e-5, atol: float = 1e-6, **how: Any
    ) -> ModuleOp:
        graph = frozen(function, *inputs, **how)
        module = graph.read()
        assert input_names(main_function(module)) == list(graph.inputs)
        assert output_names(main_function(module)) == list(graph.outputs)
        for name, actual in run(module, graph.inputs).items():
            expected = graph.outputs[name]
            assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), name
            if expected.dtype.kind in "fV":
                np.testing.assert_allclose(
                    actual.astype(np.float64), expected.astype(np.float64), rtol, atol, err_msg=name
                )
            else:
                np.testing.assert_array_equal(actual, expected, name)
        return module

    return check


# Files


@pytest.fixture(scope="session")
def is_mapped() -> Callable[[Array], bool]:
    """Whether an array is a view of a mapped file."""

    def check(array: Array) -> bool:
        base: Any = array
        while base is not None and not isinstance(base, np.memmap):
            base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
        return base is not None

    return check
