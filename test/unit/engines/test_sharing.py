"""What a cluster computes is equal to the bit to what one process computes, in any order and though work is done twice."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.data import Samples, load_samples
from amct_opt.data.given import samples_from
from amct_opt.engines import Runner, sharing
from amct_opt.engines.cluster import Failed, workers_of
from amct_opt.engines.data_hash import digest_of
from amct_opt.flows.evaluation import Labels
from amct_opt.flows.sensitivity import sensitivity_of
from amct_opt.flows.shared_ranks import shared_ranks
from amct_opt.flows.tune.trials import TuneTrial
from amct_opt.ir.functions import main_function
from amct_opt.pipelines.passes import make_pass, parse_pipeline
from amct_opt.transforms.quantization.options import ClusterOptions, DataOptions, EngineOptions, QuantizeOptions
from amct_opt.transforms.quantization.recover.round_weights import round_weights, shared_sums

from ..values import normal

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", str(DIGITS / "calib.npz")
HELD, LABELS = str(DIGITS / "heldout.npz"), str(DIGITS / "heldout_labels.npy")


class Elsewhere:
    """Sends everything as bytes, and computes the last share first and each share twice."""

    def shared_out(self, work: Callable[..., Any], common: Any, shares: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
        for number in reversed(range(len(shares))):
            sent = pickle.dumps((work, common, shares[number]))
            found: list[Any] = []
            for _ in range(2):
                function, *arguments = pickle.loads(sent)
                found.append(pickle.loads(pickle.dumps(function(*arguments))))
            yield number, found[-1]


def test_a_worker_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter(["amct-opt 2"])
    monkeypatch.setattr(sharing, "tool_version", lambda: next(versions, "amct-opt 1"))
    with pytest.raises(amct_opt.CompileError, match="a worker has amct-opt 1, not amct-opt 2") as e:
        amct_opt.evaluate(MODEL, HELD, LABELS, client=Elsewhere())
    assert e.value.hint == "install amct-opt 2 on all machines"


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_evaluation(engine: Any) -> None:
    found, shared = (
        amct_opt.evaluate(MODEL, HELD, LABELS, engine=engine, client=client) for client in (None, Elsewhere())
    )
    one, other = found.models[0], shared.models[0]
    assert one.ranking is not None
    assert other.ranking is not None
    np.testing.assert_array_equal(one.ranking.ranks, other.ranking.ranks)
    assert (one.top1, one.top5, one.engine) == (other.top1, other.top5, other.engine)


def test_what_is_wrong_with_labels() -> None:
    """The first wrong label is named by its number among all; samples with different numbers of labels are refused."""
    module, session = amct_opt.load(MODEL)
    samples = load_samples(HELD, main_function(module))
    wrong = np.load(LABELS)
    wrong[[90, 300]] = 10
    with pytest.raises(amct_opt.CompileError, match="sample 90 has label 10, but output 'logits' has 10 classes"):
        shared_ranks(Elsewhere(), "numpy", MODEL, module, samples, Labels(wrong), session)
    with pytest.raises(amct_opt.CompileError, match="396 labels for 397 samples: a cluster shares"):
        shared_ranks(Elsewhere(), "numpy", MODEL, module, samples, Labels(wrong[1:]), session)


def test_a_function_judges_in_one_process() -> None:
    def rate(model: Any) -> float:
        return 0.0

    with pytest.raises(amct_opt.CompileError, match="'rate' measures all samples at once") as e:
        amct_opt.evaluate(MODEL, HELD, metric=rate, client=Elsewhere())
    assert e.value.hint == "leave out --cluster, or judge by --labels"


@pytest.mark.parametrize("measure", ["sqnr", "kl"])
def test_sensitivity(measure: str) -> None:
    found, shared = (
        sensitivity_of(
            MODEL, QuantizeOptions(), DataOptions(DATA), amct_opt.new_session(), running=running, measure=measure
        )
        for running in (EngineOptions(), EngineOptions(sharing=ClusterOptions(cluster=Elsewhere())))
    )
    assert found == shared


class Forgetful:
    """Forgets every fifteenth time what it keeps of the shares, as workers that are replaced do."""

    def __init__(self) -> None:
        self.computed = list[str]()

    def shared_out(self, work: Any, common: Any, shares: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
        for number, share in enumerate(shares):
            self.computed.append(work.args[0].__name__)
            if len(self.computed) % 15 == 0:
                shared_sums._KEPT = shared_sums._Kept()
            if len(self.computed) % 10 == 0:
                yield number, Failed()
                continue
            yield number, work(common, share)


NET = """
func.func @main(%x: tensor<1x8xf32> {nn.name = "x"}) -> tensor<1x8xf32> {
  %w = nn.constant dense<WEIGHTS> : tensor<8x8xf32>
  %b = nn.constant dense<0.1> : tensor<8xf32>
  %a = nn.matmul %x, %w, %b from <onnx, "Gemm", "a"> : (tensor<1x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<1x8xf32>
  %r = nn.relu %a from <onnx, "Relu", "r"> : tensor<1x8xf32>
  %c = nn.matmul %r, %w, %b from <onnx, "Gemm", "c"> : (tensor<1x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<1x8xf32>
  %s = nn.relu %c from <onnx, "Relu", "s"> : tensor<1x8xf32>
  %y = nn.matmul %s, %w, %b from <onnx, "Gemm", "y"> : (tensor<1x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<1x8xf32>
  func.return %y : tensor<1x8xf32>
}
"""
NET = NET.replace("WEIGHTS", str(normal(8, 8).tolist()))
SPREAD = np.geomspace(0.01, 100, 8).astype(np.float32)
X = normal(100, 8, seed=2)


@pytest.mark.slow
def test_quantization(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights and biases come from the sums of eight shares."""
    monkeypatch.setattr(shared_sums, "_KEPT", shared_sums._Kept())
    texts: list[str] = []
    forgetful = Forgetful()
    for client in (None, Elsewhere(), forgetful):
        module, session = amct_opt.parse(NET)
        amct_opt.quantize(module, session, data=X[:60], round_weights="mismatch", correct_bias=True, client=client)
        texts.append(amct_opt.to_text(module))
    assert texts[0] == texts[1] == texts[2]
    assert "rounded" in texts[0]
    begun, on = (forgetful.computed.count(name) for name in ("_begun", "_went_on"))
    assert begun > 2 * 8  # once in each of the two passes, and again where a share is forgotten
    assert on > 0


class Counting(Elsewhere):
    """Counts the shares by what they are of."""

    def __init__(self) -> None:
        self.computed: Counter[str] = Counter()

    def shared_out(self, work: Any, common: Any, shares: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
        self.computed[work.args[0].__name__] += len(shares)
        return super().shared_out(work, common, shares)


def channels_changed(passes: str, data: Any, client: Any) -> tuple[str, list[str]]:
    """The network after these passes, and their remarks."""
    module, session = amct_opt.parse(NET)
    given = [
        replace(each, data=samples_from(data, module), cluster=client) if hasattr(each, "data") else each
        for each in parse_pipeline(passes, session.passes)
    ]
    amct_opt.run_pipeline(module, given, session)
    return amct_opt.to_text(module), [f"{each.pass_name}: {each.reason}" for each in session.remarks]


def test_channels_and_ranges() -> None:
    """What is found of channels and of rows for the ranges comes from shares of 16 runs."""
    passes = "equalize,insert-observers{dmq=0.7},balance-channels,calibrate,fit-ranges"
    counting = Counting()
    here, there = (channels_changed(passes, X * SPREAD, client) for client in (None, counting))
    assert here == there
    assert {"equalize", "balance-channels", "fit-ranges"} <= {each.partition(":")[0] for each in here[1]}
    assert counting.computed["_states"] >= 7 + 7 + 6


@pytest.mark.parametrize(
    "passes", ["equalize", "insert-observers{dmq=0.5},balance-channels", "insert-observers,calibrate,fit-ranges"]
)
def test_an_overflow_is_named_as_by_one_process(passes: str) -> None:
    x = X.copy()
    x[50] *= np.float32(1e38)
    errors: list[str] = []
    for client in (None, Elsewhere()):
        with pytest.raises(amct_opt.CompileError, match="NaN or Inf") as e:
            channels_changed(passes, x, client)
        errors.append(str(e.value))
    assert errors[0] == errors[1]


class Small:
    """Workers whose memory is enough for this many samples or layers."""

    def __init__(self, most: int):
        self.most = most

    def shared_out(self, work: Any, common: Any, shares: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
        for number, share in enumerate(shares):
            given = getattr(share, "samples", share)
            if isinstance(given, Samples) and given.count == self.most + 1:
                yield number, Failed()  # a worker that died
            elif (given.count if isinstance(given, Samples) else len(given)) > self.most:
                yield number, work.func(_without_memory, *work.args[1:], common, share)
            else:
                yield number, pickle.loads(pickle.dumps(work(common, share)))


def _without_memory(common: Any, share: Any) -> None:
    raise MemoryError


def quantized(client: Any) -> tuple[str, list[str], list[str]]:
    """A calibrated network, what was warned of, and the progress."""
    module, session = amct_opt.parse(NET)
    shown = list[str]()
    session.on_progress = lambda phase, done, total: shown.append(f"{phase} {done}/{total}")
    amct_opt.quantize(module, session, data=X, client=client)
    return amct_opt.to_text(module), list(session.warnings), shown


def test_workers_with_little_memory() -> None:
    """Shares of 16 samples are computed in parts of 8 and 4; the bar counts the shares that failed."""
    here, there = quantized(None), quantized(Small(7))
    assert "calibrate: 1 share failed 0/100" in there[2]
    assert "calibrate: 6 shares failed 100/100" in there[2]
    assert here[0] == there[0]
    assert here[1] == []
    assert there[1] == ["calibrate: 6 of 7 shares computed in smaller parts, because workers ran out of memory or died"]
    with pytest.raises(amct_opt.CompileError, match="run out of memory, or die") as e:
        quantized(Small(0))
    assert e.value.where.endswith("sample 0")
    assert "start fewer workers" in e.value.hint


def test_the_hash_of_data(tmp_path: Path, rng: np.random.Generator) -> None:
    """Workers hash what they read themselves; 300 samples are blocks of 64, in shares of 256. It is read once."""
    x = rng.normal(size=(300, 8)).astype(np.float32)
    for i, part in enumerate(np.array_split(x, 3)):
        np.savez(tmp_path / f"{i}.npz", x=part)
    module, session = amct_opt.parse(NET)
    shards = [load_samples(tmp_path, main_function(module)) for _ in range(3)]
    counting = Counting()
    found = {
        digest_of(each, session, client) for each, client in zip(shards, (None, Elsewhere(), counting), strict=True)
    }
    in_memory = samples_from(x, module)
    assert found == {digest_of(in_memory, session, counting)}
    assert counting.computed["_hashes"] == 2
    assert digest_of(shards[2], session, counting) in found
    assert counting.computed["_hashes"] == 2
    assert in_memory.tail(44).digest() != samples_from(x[:44], module).digest()
    x[299, 7] += 1
    assert samples_from(x, module).digest() not in found


def test_little_memory_for_judging() -> None:
    module, session = amct_opt.load(MODEL)
    samples = load_samples(HELD, main_function(module))
    labels = Labels(np.load(LABELS))
    found = (shared_ranks(each, "numpy", MODEL, module, samples, labels, session) for each in (Small(5), Elsewhere()))
    one, other = (each.ranks for each in found)
    np.testing.assert_array_equal(one, other)


def test_sums_name_the_sample_that_is_not_finite() -> None:
    """The error is that of one process."""
    errors: list[str] = []
    for client in (None, Elsewhere()):
        module, session = amct_opt.parse(NET)
        calibrate = make_pass("calibrate", f"data={DATA}")
        amct_opt.run_pipeline(
            module, [make_pass("insert-observers", ""), replace(calibrate, data=samples_from(X, module))], session
        )
        x = X.copy()
        x[30:32] = np.nan
        samples = samples_from(x, module)
        with pytest.raises(amct_opt.CompileError, match="holds NaN or Inf in sample 30") as e:
            round_weights(module, "mismatch", lambda samples=samples: samples, session, Runner("numpy", cluster=client))
        errors.append(str(e.value))
    assert errors[0] == errors[1]


@pytest.mark.slow
def test_search(tmp_path: Path) -> None:
    trials: list[list[TuneTrial]] = []
    for name, client in (("here", None), ("there", Elsewhere())):
        found = amct_opt.tune(MODEL, tmp_path / name, DATA, labels=LABELS, drop=0.0, test=HELD, client=client)
        trials.append([replace(trial, seconds=0) for trial in found.trials])
    assert trials[0] == trials[1]


def test_what_is_not_a_client() -> None:
    with pytest.raises(amct_opt.CompileError, match="int is not a client of a cluster") as e:
        workers_of(3)
    assert "concurrent.futures.Executor" in e.value.hint
