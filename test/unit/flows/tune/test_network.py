"""What layers cost at each width, where the network is changed before it is quantized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import amct_opt
from amct_opt.data import load_samples
from amct_opt.flows.network import Network
from amct_opt.flows.tune.budget import work_of
from amct_opt.flows.tune.network import TrialNetwork
from amct_opt.flows.tune.widths import Width
from amct_opt.ir.functions import main_function
from amct_opt.pipelines.options import composed
from amct_opt.runtime.metrics import Parts
from amct_opt.transforms.quantization.data import Split
from amct_opt.transforms.quantization.options import AUTOMATIC, QuantizeOptions
from amct_opt.transforms.quantization.request import request_of

DIGITS = Path(__file__).parents[4] / "examples" / "digits"


def uneven(path: Path) -> Path:
    """The digits with channels of very different sizes between two layers; the network computes the same."""
    model = onnx.load(DIGITS / "digits.onnx")
    factors = 2.0 ** np.random.default_rng(0).integers(-5, 6, 32)
    arrays = {each.name: each for each in model.graph.initializer}
    nodes = {node.name: node for node in model.graph.node}
    scale, shift, weight = *nodes["bn1"].input[1:3], nodes["conv2"].input[1]
    for name, by in ((scale, factors), (shift, factors), (weight, 1 / factors[:, None, None])):
        array = numpy_helper.to_array(arrays[name])
        arrays[name].CopyFrom(numpy_helper.from_array((array * by).astype(np.float32), name))
    onnx.save(model, path)
    return path


def test_all_widths_are_those_of_one_equalized_network(tmp_path: Path) -> None:
    """Channels are evened out for the widths that the options give; a layer at another width is put into that network. With
    other factors its input would have other sizes.
    """
    module, session = amct_opt.load(uneven(tmp_path / "uneven.onnx"))
    amct_opt.run_pipeline(module, ["fuse"], session)
    given = load_samples(str(DIGITS / "calib.npz"), main_function(module))
    samples, options = given.head(32), composed(QuantizeOptions, {"weight_bits": 3})
    request, split = request_of(options, session), Split(given, samples, False, None)
    network = Network.of(tmp_path / "uneven.onnx", module, request, split, AUTOMATIC, session)
    trials = TrialNetwork([network], options, samples, Parts, work_of(module, samples, session))
    program = trials.program({"equalize": True, "correct_bias": False}, low_bits=False)
    noise = {(c.layer, c.width): c.noise for layer in program.layers for c in layer}
    narrow, low, whole, wide = Width(3, 8), Width(4, 8), Width(8, 8), Width(8, 16)
    for layer in ("depthwise1", "conv4"):
        assert noise[layer, wide] < noise[layer, whole] < noise[layer, low] / 4
        assert noise[layer, low] < noise[layer, narrow]
