"""AMCT's auto_nuq: weights of few levels where an evaluator allows them, as a script for Caffe has it and as a command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import amct_opt
from amct_opt.amct import caffe, shared
from amct_opt.configuration.record import read_record
from amct_opt.dialects.nn import ConvOp
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct as amct_command
from amct_opt.transforms.constant_folding import FoldConstantsPass

from ..values import layer_of, normal, numbers_of

X = normal(4, 8, 6, 6)
CHANNELS = {"light": (8, 8), "heavy": (8, 20), "middle": (20, 6), "dilated": (6, 40)}
"""Inputs and outputs of four convolutions in a row. The last is the heaviest; AMCT's table of NUQ refuses it for Caffe."""


def network(rng: np.random.Generator) -> str:
    lines = []
    for i, (name, (inputs, outputs)) in enumerate(CHANNELS.items()):
        kernel = rng.normal(size=(outputs, inputs, 3, 3)).astype(np.float32) / 5
        window = "pads [2, 2, 2, 2] dilations [2, 2]" if name == "dilated" else "pads [1, 1, 1, 1]"
        weight, result = f"tensor<{outputs}x{inputs}x3x3xf32>", f"tensor<?x{outputs}x6x6xf32>"
        lines += [
            f'%w{i} = nn.constant dense<"0x{kernel.tobytes().hex()}"> : {weight}',
            f'%{i + 1} = nn.conv %{i or "x"}, %w{i} {window} from <onnx, "Conv", "{name}"> : '
            f"(tensor<?x{inputs}x6x6xf32>, {weight}) -> {result}",
        ]
    ends = 'func.func @main(%x: tensor<?x8x6x6xf32> {nn.name = "x"}) -> (tensor<?x40x6x6xf32> {nn.name = "y"}) {'
    return "\n".join([ends, *lines, "func.return %4 : tensor<?x40x6x6xf32>", "}"])


NET = network(np.random.default_rng(3))


@pytest.fixture
def net(tmp_path: Path) -> tuple[Path, Path]:
    module, session = amct_opt.parse(NET)
    model, weights = amct_opt.save(module, tmp_path / "net.prototxt", session, "caffe")
    return model, weights


def few_levels(model: str, weights: str) -> set[str]:
    """The layers of a net whose weights are at most 16 numbers, for every output channel."""
    module, session = amct_opt.load(model, shared.session_for(weights))
    amct_opt.run_pipeline(module, [FoldConstantsPass()], session)
    kernels = {layer_of(op): numbers_of(op.weight) for op in module.walk() if isinstance(op, ConvOp)}
    return {name for name, k in kernels.items() if all(np.unique(channel).size <= 16 for channel in k)}


class Evaluator(caffe.AutoNuqEvaluatorBase):
    """Accepts up to this many layers of few levels."""

    def __init__(self, allowed: int):
        super().__init__(self)
        self.allowed = allowed
        self.evaluate_batch_num = 1
        self.runs: list[int] = []

    def eval_model(self, model_file: str, weights_file: str, batch_num: int) -> int:
        self.runs.append(batch_num)
        net = caffe.Net(model_file, weights_file, caffe.TEST)
        for batch in np.split(X, 4)[:batch_num]:
            net.forward(x=batch)
        return len(few_levels(model_file, weights_file))

    def is_satisfied(self, original_metric: int, new_metric: int) -> bool:
        return new_metric - original_metric <= self.allowed


@pytest.mark.parametrize(
    ("allowed", "found", "trials"),
    [(3, {"heavy", "middle", "light"}, [0, 3]), (1, {"heavy"}, [0, 3, 1, 2]), (0, set(), [0, 3, 1])],
)
def test_the_heaviest_layers(
    allowed: int, found: set[str], trials: list[int], net: tuple[Path, Path], tmp_path: Path
) -> None:
    """The script of AMCT's sample, on three candidates."""
    config, record = tmp_path / "config.json", tmp_path / "record.txt"
    simple = tmp_path / "quant.cfg"
    simple.write_text("batch_num: 2 common_config { nuq_quantize { num_steps: 16 } }")
    caffe.create_quant_config(config, *net, [], 2, True, simple)
    evaluator = Evaluator(allowed)
    written = caffe.auto_nuq(*net, evaluator, config, record, tmp_path / "out" / "P")
    assert evaluator.runs == [2, *[1] * (len(trials) + 1)]
    assert {name for name, layer in read_record(record).layers.items() if layer.cluster} == found
    assert few_levels(str(written[0]), str(written[1])) == found
    about = {
        part: tmp_path / "out" / f"auto_nuq_{part}.json" for part in ("final_config", "ranking_information", "record")
    }
    assert set(about.values()) <= set(written)
    texts = {part: json.loads(path.read_text()) for part, path in about.items()}
    assert list(texts["ranking_information"]) == ["heavy", "middle", "light"]
    assert [len(t["few_levels"]) for t in texts["record"]["trials"]] == trials
    chosen = {n for n in CHANNELS if texts["final_config"][n]["weight_quant_params"]["wts_algo"] == "nuq_quantize"}
    assert chosen == found


def test_a_net_that_is_refused_with_all_levels(net: tuple[Path, Path], tmp_path: Path) -> None:
    config, record = tmp_path / "config.json", tmp_path / "record.txt"
    caffe.create_quant_config(config, *net)
    with pytest.raises(CompileError, match="metric_eval refuses the original model's own metric"):
        caffe.auto_nuq(*net, Evaluator(-1), config, record, tmp_path / "P")
    with pytest.raises(CompileError, match=r"test_auto_nuq\.py: error: the evaluator has no method eval_model"):
        caffe.auto_nuq(*net, type("Nothing", (), {"__module__": __name__})(), config, record, tmp_path / "P")
    assert not record.exists()


SCRIPT = """
import numpy as np

class Evaluator:
    def calibration(self, model):
        model.run({{"x": np.load({data!r})}})

    def evaluate(self, model):
        return model.run({{"x": np.load({data!r})}})["y"]

    def metric_eval(self, original, metric):
        loss = float(np.square(original - metric).mean() / np.square(original).mean())
        return loss < {limit}, loss
"""


@pytest.mark.parametrize(("limit", "rows"), [(1.0, ["0", "4"]), (1e-9, None)])
def test_the_command(limit: float, rows: list[str] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a configuration every layer that may have few levels is a candidate, of any framework."""
    (tmp_path / "net.mlir").write_text(NET)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "judge.py").write_text(SCRIPT.format(data=str(tmp_path / "x.npy"), limit=limit))
    given = ("--model", tmp_path / "net.mlir", "--evaluator", tmp_path / "judge.py", "--save_path", f"{tmp_path}/out/P")
    status = amct_command.run(["auto-calibration", *map(str, given), "--auto_nuq"])
    out, err = capsys.readouterr()
    if rows is None:
        assert (status, out) == (1, "")
        assert "judge.py: error: metric_eval refuses the uniformly quantized model" in err
        assert not (tmp_path / "out").exists()
        return
    assert status == 0, err
    assert [line.split()[0] for line in out.splitlines() if " yes " in f"{line} "] == rows
    clusters = [layer.cluster for layer in read_record(tmp_path / "out" / "P_record.txt").layers.values()]
    assert [len(each) for each in clusters] == [32] * 4
