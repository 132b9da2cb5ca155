"""Small models run several samples at a time where that changes nothing; what the samples are counted by, and what forbids it."""

from __future__ import annotations

import numpy as np
import pytest

from amct_opt.data import Samples
from amct_opt.data.given import samples_from
from amct_opt.engines import Work
from amct_opt.engines.estimate import numbers
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.calibrate import points_to_calibrate
from amct_opt.transforms.quantization.calibrate.observing import LARGEST, MOST, in_batches, observations

from ...values import parsed

COUNT = MOST + 5
DATA = np.random.default_rng(1).integers(-8, 8, (COUNT, 4, 6)).astype(np.float32)


def net(body: str, sizes: str = "4x6", result: str = "?x4x6", observer: str = "minmax") -> str:
    return f"""
func.func @main(%x: tensor<?x{sizes}xf32> {{nn.name = "x"}}) -> (tensor<{result}xf32> {{nn.name = "y"}}) {{
  %o = nn.observe %x as "a:0" by "{observer}" : tensor<?x{sizes}xf32>
  {body}
  func.return %y : tensor<{result}xf32>
}}
"""


def at_a_time(text: str, sizes: tuple[int, ...] = (4, 6)) -> int:
    module, session = parsed(text)
    samples = samples_from(np.zeros((2, *sizes), np.float32), module)
    return in_batches(module, observations(points_to_calibrate(module), session), samples).at_a_time


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("%y = nn.relu %o : tensor<?x4x6xf32>", "?x4x6"),
        ("%y = nn.softmax %o : tensor<?x4x6xf32>", "?x4x6"),
        ("%y = nn.transpose %o perm [0, 2, 1] : (tensor<?x4x6xf32>) -> tensor<?x6x4xf32>", "?x6x4"),
        ("%y = nn.flatten %o : (tensor<?x4x6xf32>) -> tensor<?x24xf32>", "?x24"),
        ("%y = nn.reduce_mean %o axes [1] : (tensor<?x4x6xf32>) -> tensor<?x6xf32>", "?x6"),
        (
            "%w = nn.constant dense<0.5> : tensor<2x4x3xf32>\n"
            "%y = nn.conv %o, %w : (tensor<?x4x6xf32>, tensor<2x4x3xf32>) -> tensor<?x2x4xf32>",
            "?x2x4",
        ),
    ],
)
def test_each_sample_by_itself(body: str, result: str) -> None:
    assert at_a_time(net(body, result=result)) == MOST


def test_samples_without_numbers() -> None:
    assert at_a_time(net("%y = nn.relu %o : tensor<?x0xf32>", "0", "?x0"), (0,)) == MOST


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("%y = nn.softmax %o axis 0 : tensor<?x4x6xf32>", "?x4x6"),
        ("%y = nn.transpose %o perm [1, 0, 2] : (tensor<?x4x6xf32>) -> tensor<4x?x6xf32>", "4x?x6"),
        ("%y = nn.reduce_mean %o axes [0] : (tensor<?x4x6xf32>) -> tensor<4x6xf32>", "4x6"),
        ("%y = nn.concat %o, %o axis 0 : (tensor<?x4x6xf32>, tensor<?x4x6xf32>) -> tensor<?x4x6xf32>", "?x4x6"),
        (
            "%w = nn.relu %o : tensor<?x4x6xf32>\n"
            "%y = nn.conv_transpose %o, %w : (tensor<?x4x6xf32>, tensor<?x4x6xf32>) -> tensor<?x4x11xf32>",
            "?x4x11",
        ),
        (
            "%s = nn.reduce_mean %o axes [1, 2] : (tensor<?x4x6xf32>) -> tensor<?xf32>\n"
            "%y = nn.add %o, %s : (tensor<?x4x6xf32>, tensor<?xf32>) -> tensor<?x4x6xf32>",
            "?x4x6",
        ),
        (
            "%s = nn.constant dense<[1, 24]> : tensor<2xi64>\n"
            "%y = nn.reshape %o, %s : (tensor<?x4x6xf32>, tensor<2xi64>) -> tensor<1x24xf32>",
            "1x24",
        ),
    ],
)
def test_samples_that_would_meet_run_alone(body: str, result: str) -> None:
    assert at_a_time(net(body, result=result)) == 1


def test_observers_that_look_at_runs_see_one_sample_each() -> None:
    assert at_a_time(net("%y = nn.relu %o : tensor<?x4x6xf32>", observer="moving-average")) == 1


@pytest.mark.parametrize(("size", "expected"), [(LARGEST, 1), (LARGEST // 2, 2), (2 * LARGEST, 1)])
def test_large_values_are_not_held_many_times(size: int, expected: int) -> None:
    body = f"%y = nn.relu %o : tensor<?x1x{size}xf32>"
    assert at_a_time(net(body, f"1x{size}", f"?x1x{size}"), (1, size)) == expected


def test_the_last_run_has_what_is_left() -> None:
    module = parse_module(new_session(), net("%y = nn.relu %o : tensor<?x4x6xf32>"))
    samples = samples_from(DATA, module)
    runs = [batch["x"] for batch in in_batches(module, [], samples).batches()]
    assert [len(run) for run in runs] == [MOST, 5]
    np.testing.assert_array_equal(np.concatenate(runs), DATA)


@pytest.mark.parametrize("observer", ["minmax", "ifmr", "kl", "percentile", "mse"])
@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_the_parameters_are_those_of_one_sample_at_a_time(
    observer: str, backend: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Integers, so that no sum rounds."""
    if backend == "onnxruntime":
        pytest.importorskip("onnxruntime")
    body = "%r = nn.reduce_sum %o axes [1] : (tensor<?x4x6xf32>) -> tensor<?x6xf32>\n"
    body += f"""%y = nn.observe %r as "b:0" by "{observer}" : tensor<?x6xf32>"""
    texts = net(body, result="?x6", observer=observer)
    path = tmp_path_factory.mktemp("data") / "x.npz"
    np.savez(path, x=DATA)
    found: list[list[object]] = []
    for text in (texts, texts.replace("tensor<?x", "tensor<1x")):
        module, session = parsed(text)
        points = points_to_calibrate(module)
        run_passes(module, [make_pass("calibrate", f"data={path} engine={backend}")], session)
        found.append([(p.range, p.qparams) for p in points])
    assert found[0] == found[1]


def test_as_much_is_to_be_computed_together() -> None:
    """So that the same backend is taken."""
    module = parse_module(new_session(), net("%y = nn.relu %o : tensor<?x4x6xf32>"))
    alone = samples_from(DATA[:MOST], module)

    def work(samples: Samples) -> int:
        return numbers(Work(module, {}, samples, lambda value, array: None, lambda: None, new_session()))

    assert work(in_batches(module, [], alone)) == work(alone) == 2 * MOST * 4 * 6
