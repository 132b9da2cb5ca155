"""`amct auto-calibration`: the search, the files, what is refused."""

from __future__ import annotations

import json
from math import ceil, log2
from pathlib import Path

import numpy as np
import pytest

from amct_opt.flows.auto_calibration import LEAST_IN_FLOAT, fewest

from ..values import dense

NAME = LEAST_IN_FLOAT.name


@pytest.mark.parametrize("count", range(10))
def test_fewest(count: int) -> None:
    """Whatever number of layers is needed, it is found in a few steps, begun in the middle (AMCT); never all of them."""
    for needed in range(1, count + 3):
        asked: list[int] = []

        def accepts(number: int, needed: int = needed, asked: list[int] = asked) -> bool:
            asked.append(number)
            return number >= needed

        assert fewest(count, accepts) == (needed if needed < count else None)
        assert len(asked) <= ceil(log2(count + 1))
        assert count not in asked
        assert asked[:1] in ([], [(count - 1) // 2 + 1])


def net(rng: np.random.Generator) -> str:
    """Four products in a row. The second has one large weight next to small ones: with one scale it loses most of them."""
    weights = [rng.normal(size=(6, 6)).astype(np.float32) / 3 for _ in range(4)]
    weights[0][:, 0] /= 1e6  # what the large weight is multiplied with: without it nothing is lost
    weights[1] /= 50
    weights[1][0, 0] = 10
    lines = [f"%w{i} = nn.constant {dense(w)}" for i, w in enumerate(weights)]
    lines += [
        f'%{i + 1} = nn.matmul %{i or "x"}, %w{i} from <onnx, "Gemm", "fc{i + 1}"> : '
        "(tensor<?x6xf32>, tensor<6x6xf32>) -> tensor<?x6xf32>"
        for i in range(4)
    ]
    return (
        'func.func @main(%x: tensor<?x6xf32> {nn.name = "x"}) -> (tensor<?x6xf32> {nn.name = "y"}) {\n'
        + "\n".join(lines)
        + "\nfunc.return %4 : tensor<?x6xf32>\n}"
    )


EVALUATOR = """
import numpy as np

X = np.load({folder!r} + "/x.npy")

class Evaluator:
    reference = None

    def calibration(self, model):
        model.run({{"x": X}})

    def evaluate(self, model):
        y = model.run({{"x": X}})["y"]
        self.reference = y if self.reference is None else self.reference
        return float(np.mean((y - self.reference) ** 2) / np.mean(self.reference ** 2))

    def metric_eval(self, original, metric):
        return {condition}, metric - original
"""


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    x = rng.normal(size=(16, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "net.mlir").write_text(net(rng))
    return tmp_path


@pytest.fixture
def search(amct_tool, folder: Path):
    def run(condition: str, *options: object, text: str = EVALUATOR):
        (folder / "evaluator.py").write_text(text.format(folder=str(folder), condition=condition))
        given = (
            "--model",
            folder / "net.mlir",
            "--save_path",
            f"{folder}/out/P",
            "--evaluator",
            folder / "evaluator.py",
        )
        return amct_tool("auto-calibration", *given, *options)

    return run


def about(folder: Path, part: str) -> dict:
    return json.loads((folder / "out" / f"{NAME}_{part}.json").read_text())


def enabled(folder: Path) -> set[str]:
    config = about(folder, "final_config")
    return {name for name, value in config.items() if isinstance(value, dict) and value["quant_enable"]}


def test_the_worst_layer_stays_in_floats(search, folder: Path) -> None:
    result = search("metric < 0.01")
    assert (result.status, result.err) == (0, "")
    ranking = about(folder, "ranking_information")
    assert next(iter(ranking)) == "fc2"
    assert list(ranking.values()) == sorted(ranking.values())
    assert enabled(folder) == {"fc1", "fc3", "fc4"}
    record = about(folder, "record")
    assert record["original"] == 0
    assert [len(t["disabled"]) for t in record["trials"]] == [0, 2, 1]
    assert [t["ok"] for t in record["trials"]] == [False, True, True]
    written = {f.name for f in (folder / "out").iterdir()}
    files = {"P_fake_quant_model.onnx", "P_deploy_model.onnx", "P_record.txt", "P_quant.json"}
    assert written == files | {f"{NAME}_{part}.json" for part in ("final_config", "ranking_information", "record")}
    assert "fc2" not in (folder / "out" / "P_record.txt").read_text()


def test_layers_are_ranked_at_the_outputs(search, folder: Path) -> None:
    """The second layer loses most of its results, and those after it are calibrated on what is left: dB at the outputs."""
    result = search("metric < 0.01", "--sensitivity", "OutputSQNR")
    assert (result.status, result.err) == (0, "")
    assert "SQNR dB of the outputs" in result.out
    ranking = about(folder, "ranking_information")
    assert next(iter(ranking)) == "fc2"
    assert ranking["fc2"] < 10 < 20 < ranking["fc1"]
    assert list(ranking.values()) == sorted(ranking.values())


def test_metrics_of_any_type_are_recorded(search, folder: Path) -> None:
    text = EVALUATOR.replace("return float(np.mean(", "return np.full(2, np.mean(")
    assert search("(metric < 0.01).all()", text=text).status == 0
    assert about(folder, "record")["original"] == [0, 0]


def test_the_configuration_gives_the_same_model(search, amct_tool, folder: Path) -> None:
    assert search("metric < 0.01").status == 0
    given = ("--model", folder / "net.mlir", "--evaluator", folder / "evaluator.py", "--save_path", f"{folder}/again/P")
    assert (
        amct_tool("calibration", *given, "--calibration_config", folder / "out" / f"{NAME}_final_config.json").status
        == 0
    )
    for name in ("P_record.txt", "P_deploy_model.onnx"):
        assert (folder / "again" / name).read_bytes() == (folder / "out" / name).read_bytes()


def test_layers_are_ranked_where_everything_may_be_quantized(search, folder: Path) -> None:
    """As the real program does."""
    assert search("True").status == 0
    assert about(folder, "ranking_information").keys() == {"fc1", "fc2", "fc3", "fc4"}
    assert enabled(folder) == {"fc1", "fc2", "fc3", "fc4"}


def test_configured_layers_stay_out_of_the_search(search, folder: Path) -> None:
    (folder / "simple.cfg").write_text('skip_layers: "fc2" common_config { hfmg_quantize { } }')
    result = search("metric < 0.01", "--calibration_config", folder / "simple.cfg", "--strategy", "BinarySearch")
    assert result.status == 0
    assert enabled(folder) == {"fc1", "fc3", "fc4"}


@pytest.mark.parametrize(
    ("condition", "text", "message"),
    [
        ("metric == 0", EVALUATOR, "metric_eval refuses every quantization: nothing is written"),
        ("False", EVALUATOR, "metric_eval refuses the original model's own metric"),
        ("True", EVALUATOR.replace("def evaluate", "def rate"), "its evaluator has no method evaluate"),
        ("True", EVALUATOR.replace("def metric_eval", "def judge"), "its evaluator has no method metric_eval"),
        ("True", EVALUATOR.replace(", metric - original", ""), "must return a pair of a truth value and a loss"),
        ("1 / 0", EVALUATOR, "evaluator.py:18: error: ZeroDivisionError: division by zero"),
    ],
)
def test_refused(search, folder: Path, condition: str, text: str, message: str) -> None:
    result = search(condition, text=text)
    assert result.status == 1
    assert message in result.err
    assert not (folder / "out").exists()


def test_no_file_that_was_read_is_overwritten(amct_tool, folder: Path) -> None:
    (folder / f"{NAME}_record.json").write_text(EVALUATOR.format(folder=str(folder), condition="True"))
    given = (
        "--model",
        folder / "net.mlir",
        "--save_path",
        f"{folder}/P",
        "--evaluator",
        folder / f"{NAME}_record.json",
    )
    result = amct_tool("auto-calibration", *given)
    assert result.status == 1
    assert "would overwrite a file that was read" in result.err
