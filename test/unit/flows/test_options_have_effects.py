"""Every option of `amct quantize` changes files, or is warned of, or is an error: alone, and next to others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from xdsl.dialects.builtin import ModuleOp

from amct_opt.configuration.settings import Settings
from amct_opt.flows import measurement
from amct_opt.flows.options import ResultOptions
from amct_opt.flows.quantization import FileOptions, quantize_file
from amct_opt.pipelines.options import Option, composed, leaves
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.data import split
from amct_opt.transforms.quantization.options import (
    AllOptions,
    ClusterOptions,
    DataOptions,
    EngineOptions,
    ImageOptions,
    RecoveryOptions,
)
from amct_opt.transforms.quantization.request import wanted_of

Given = Mapping[str, Any]
"""The values of options by name."""

PROFILES = "qdq", "ascend"
NETWORKS = {
    "cnn": """
        cnn (float[N,3,8,8] x) => (float[N,4] y)
        <float[8,3,3,3] w1, float[8] b1, float[8,1,3,3] w2, float[8] b2, float[8,16,3,3] w3, float[8,4] w4, float[4] b4,
         float[4] scales = {1, 1, 2, 2}> {
            c1 = Conv<pads=[1,1,1,1]>(x, w1, b1)
            r1 = Relu(c1)
            p1 = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r1)
            c2 = Conv<pads=[1,1,1,1], group=8>(p1, w2, b2)
            a1 = Add(c2, p1)
            r2 = Relu(a1)
            p2 = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(r2)
            j = Concat<axis=1>(r2, p2)
            u = Resize<mode="nearest">(j, , scales)
            c3 = Conv(u, w3)
            g = GlobalAveragePool(c3)
            f = Flatten(g)
            y = Gemm(f, w4, b4)
        }""",
    "decoder": """
        decoder (float[1,2,32] x, float[1,4,3,8] past_key_0, float[1,4,3,8] past_value_0)
        => (float[1,2,20] y, float[1,4,5,8] present_key_0, float[1,4,5,8] present_value_0)
        <float[32,32] w0, float[32,32] wq, float[32,32] wk, float[32,32] wv, float[32,32] wo, float[32,20] wy, float[32] scale,
         float[20] by, float two = {2}, float epsilon = {1e-5}, int64[4] heads = {1, 2, 4, 8}, int64[3] flat = {1, 2, 32}> {
            c1 = MatMul(x, w0)
            square = Pow(c1, two)
            mean = ReduceMean<axes=[-1]>(square)
            sum = Add(mean, epsilon)
            root = Sqrt(sum)
            unit = Div(c1, root)
            n = Mul(unit, scale)
            q = MatMul(n, wq)
            k = MatMul(n, wk)
            v = MatMul(n, wv)
            qs = Reshape(q, heads)
            ks = Reshape(k, heads)
            vs = Reshape(v, heads)
            qh = Transpose<perm=[0,2,1,3]>(qs)
            kh = Transpose<perm=[0,2,1,3]>(ks)
            vh = Transpose<perm=[0,2,1,3]>(vs)
            present_key_0 = Concat<axis=2>(past_key_0, kh)
            present_value_0 = Concat<axis=2>(past_value_0, vh)
            keys = Transpose<perm=[0,1,3,2]>(present_key_0)
            scores = MatMul(qh, keys)
            shares = Softmax(scores)
            o = MatMul(shares, present_value_0)
            oh = Transpose<perm=[0,2,1,3]>(o)
            os = Reshape(oh, flat)
            c2 = MatMul(os, wo)
            a1 = Add(c1, c2)
            z = MatMul(a1, wy)
            y = Add(z, by)
        }""",
    "words": """
        words (int64[1,6] ids) => (float[6,1,5] y)
        <float[20,16] table, float[1,64,16] wx, float[1,64,16] wr, float[1,128] wb, float[16,16] w1, float[16,5] wy,
         int64[1] one = {1}> {
            g = Gather(table, ids)
            t = Transpose<perm=[1,0,2]>(g)
            h, last, state = LSTM<hidden_size=16>(t, wx, wr, wb)
            s = Squeeze(h, one)
            c1 = MatMul(s, w1)
            a1 = Tanh(c1)
            y = MatMul(a1, wy)
        }""",
    "pointwise": """
        pointwise (float[N,8] x) => (float[N,8] y) <float[8] b> {
            s = Sigmoid(x)
            c1 = Mul(s, x)
            a1 = Add(c1, b)
            y = Mul(a1, s)
        }""",
}
SAYS: Given = {
    "observer": "percentile",
    "layer_weight_bits": ("c1:4",),
    "layer_bits": ("c1:16",),
    "dmq": 0.5,
    "skip_layers": ("c1",),
    "skip_layer_types": ("MatMul",),
    "only_layers": ("c1",),
    "tensor_quantize": ("a1:0",),
    "activation_type": ("relu", "tanh"),
    "samples": 4,
    "batch_num": 2,
    "data_types": ("float32",),
    "preprocess": "imagenet",
    "resize": "9",
    "crop": "8",
    "pad": "8",
    "scale": 1.0,
    "mean": (1.0,),
    "std": (2.0,),
    "also": ("nn",),
    "opset": 24,
}
"""A value of each option whose values cannot be listed."""
APART = {
    "config": "what its settings do is what options do",
    "record": "it is checked against the model",
    "data": "all runs have it",
    "on_error": "it says what to do with files that cannot be read",
    "labels": "they change what is measured",
    "check": "it changes what is checked",
    "faster_than_float": "it depends on time",
    "weight_search": "the scales of small weights are the best ones already",
}
"""Options that are not tried, and why; those of speed are not, either."""

KNOWN = {**leaves(AllOptions), **leaves(ResultOptions)}
TRIED = [
    name
    for name, each in KNOWN.items()
    if each.flags and name not in APART and each.owner not in (EngineOptions, ClusterOptions)
]
ROWS, SIZE = 24, 4
"""Options that are given together: rows, and options in a row."""


def values_of(option: Option) -> list[Any]:
    """The values that an option is tried with."""
    listed = option.choices or ((True, False) if option.type is bool else (SAYS[option.field],))
    return [value for value in listed if value != option.default]


@dataclass(frozen=True)
class Run:
    files: Mapping[str, bytes]
    """Empty where it is an error."""
    said: str

    def names(self, option: str) -> bool:
        """Whether a message says what became of an option, or of all of them."""
        names = leaves(ImageOptions) if option in leaves(ImageOptions) else [option]
        spelled = "|".join(name.replace("_", "[-_]") for name in names)
        return re.search(rf"(?<![\w])(?<!\w-)({spelled})(?![\w-])", self.said) is not None


@dataclass(frozen=True)
class Network:
    """A network, quantized once with the same options."""

    model: Path
    profile: str
    capsys: pytest.CaptureFixture[str]
    runs: dict[str, Run] = field(default_factory=dict[str, Run])

    def run(self, given: Given) -> Run:
        given_values = {name: value for name, value in sorted(given.items()) if value != KNOWN[name].default}
        return self.runs.get(repr(given_values)) or self.runs.setdefault(
            repr(given_values), self._quantized(given_values)
        )

    def _quantized(self, given: Given) -> Run:
        session, folder = new_session(), self.model.parent / f"{self.model.stem}-{self.profile}-{len(self.runs)}"
        session.profile = self.profile
        results = {name: value for name, value in given.items() if name in leaves(ResultOptions)}
        others = {name: value for name, value in given.items() if name not in results}
        self.capsys.readouterr()
        try:
            asked = composed(AllOptions, {"data": str(self.model.with_suffix(".npz")), **others})
            wanted = wanted_of(asked.quantization)
            options = FileOptions(wanted, asked.calibration, asked.running, composed(ResultOptions, results), False)
            quantize_file(self.model, folder, options, session)
        except CompileError as e:
            return Run({}, f"{e} {e.option}")
        files = {each.name: each.read_bytes() for each in folder.iterdir()}
        del files["summary.json"], files["remarks.yaml"]
        return Run(files, self.capsys.readouterr().err)

    def is_silent(self, given: Given, name: str) -> bool:
        """Whether files are the same with each other value of an option, and no message says so."""
        run, option = self.run(given), KNOWN[name]
        switches = option.owner is RecoveryOptions or name in ("dynamic", "effort")
        asks_for_nothing = given[name] in ("none", "nearest") or (switches and not given[name])
        if asks_for_nothing or run.names(name) or "nothing is quantized" in run.said:
            return False
        others = (option.default, *option.choices, *((True, False) if option.type is bool else ()))
        return all(self.run({**given, name: other}).files == run.files for other in others)

    def silent(self, given: Given) -> list[str]:
        """What is silent among options; each of those that errors name is left out in turn."""
        given = dict(given)
        while not (run := self.run(given)).files:
            named = [name for name in given if run.names(name)]
            if not named:
                return [f"{given}: {run.said}"]
            del given[named[-1]]
        return [f"{name} of {given}" for name in given if self.is_silent(given, name)]


@pytest.fixture
def network(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Network:
    """A network and a profile, with random weights and 8 samples, in a folder of the test's own."""
    name, profile = request.param
    random = np.random.default_rng(0)
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {NETWORKS[name]}')
    for node in model.graph.node:
        node.name = node.output[0]
    for each in model.graph.value_info:
        shape = [size.dim_value for size in each.type.tensor_type.shape.dim]
        array = random.normal(size=shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]) or 1)
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), each.name))
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / f"{name}.onnx")
    samples = dict[str, Any]()
    for each in model.graph.input:
        shape = [8, *(size.dim_value for size in each.type.tensor_type.shape.dim[1:])]
        is_float = each.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        samples[each.name] = random.normal(size=shape).astype(np.float32) if is_float else random.integers(0, 20, shape)
    np.savez(tmp_path / f"{name}.npz", **samples)
    monkeypatch.setattr(measurement, "peer_of", lambda *_: None)
    return Network(tmp_path / f"{name}.onnx", profile, capsys)


CASES = [(name, profile) for profile in PROFILES for name in NETWORKS]
EACH = pytest.mark.parametrize("network", CASES, indirect=True, ids="-".join)


@pytest.mark.slow
@EACH
def test_alone(network: Network) -> None:
    """Every other option with one of its values: each with one of the two profiles, and another value for each network."""
    turn = CASES.index((network.model.stem, network.profile))
    some = TRIED[(turn + PROFILES.index(network.profile)) % 2 :: 2]
    given = [{name: values[turn % len(values)]} for name in some if (values := values_of(KNOWN[name]))]
    assert [each for one in given for each in network.silent(one)] == []


def rows() -> Iterator[dict[str, Any]]:
    """Rows of options with random values. Each row prefers pairs of options that no earlier row has."""
    random, left = np.random.default_rng(0), {frozenset(pair) for pair in combinations(TRIED, 2)}
    while True:
        row = [str(name) for name in random.choice(sorted(min(left or [frozenset(TRIED)], key=sorted)), 1)]
        while len(row) < SIZE:
            others = [str(name) for name in random.permutation([name for name in TRIED if name not in row])]
            row.append(max(others, key=lambda other: sum(frozenset((other, each)) in left for each in row)))
        left -= {frozenset(pair) for pair in combinations(row, 2)}
        yield {name: values[random.integers(len(values))] for name in row if (values := values_of(KNOWN[name]))}


@pytest.mark.slow
@EACH
def test_together(network: Network) -> None:
    turn = CASES.index((network.model.stem, network.profile))
    given = list(islice(rows(), turn, ROWS, len(CASES)))
    assert [each for row in given for each in network.silent(row)] == []


ONE: Given = {"only_layers": ("c1",)}
ALONE: Given = {"weight_only": True, **ONE}


@pytest.mark.parametrize("network", [("words", "qdq")], indirect=True)
def test_messages(network: Network) -> None:
    """Each says why, and nothing is printed of what was not asked for."""
    assert network.run({}).said == ""
    for given, message in (
        ({"fit_ranges": True, **ALONE}, "--fit-ranges: no range is changed; no activation has a range"),
        (
            {"equalize": True, **ONE},
            "--equalize: no channels are evened out; 'c1' because 'nn.tanh' a1 reads its result",
        ),
        ({"correct_bias": True}, "--correct-bias: no bias is corrected; 'c1' because it has no bias"),
        ({"round_weights": "adaround", "weight_format": "hif8", **ALONE}, "'c1' because its weight is in hif8"),
        (
            {"matmul_nbits": True},
            "matmul-nbits has nothing to do: 'c1' is not written as MatMulNBits: its weight has no",
        ),
        ({"joint_quant": True}, "joint-quant changes nothing: without it, each layer is quantized in the same way"),
        ({"weight_asymmetric": True}, "weight-asymmetric changes nothing: without it, each layer"),
    ):
        assert message in network.run(given).said


def test_data_that_is_not_given_is_an_error() -> None:
    with pytest.raises(CompileError, match="samples is for data"):
        split(DataOptions(samples=4), Settings(), ModuleOp([]), new_session())
