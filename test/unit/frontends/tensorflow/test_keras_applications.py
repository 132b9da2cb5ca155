"""The networks of keras.applications, read from frozen graphs and SavedModels, against TensorFlow: float, fused and quantized.

    AMCT_UPDATE=1 python -m pytest test/unit/frontends/tensorflow/test_keras_applications.py

writes the section on them in docs/conformance.md; without the variable, each test holds its row of the table against that page.

Weights are random, as `examples/tensorflow/applications.py` draws them.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import run
from amct_opt.runtime.metrics import difference
from amct_opt.session.universe import new_session
from amct_opt.tools import amct_opt

from ...frameworks import needs, tf
from ...scripts import script

pytestmark = needs("tensorflow", "tf_keras")

Array = np.ndarray[Any, np.dtype[Any]]


applications = script("examples/tensorflow/applications")


class Application(NamedTuple):
    """A class of `keras.applications` or `tf_keras.applications`."""

    package: str
    name: str

    @property
    def size(self) -> int:
        """Of the images, height and width."""
        return SIZES.get(self.name, 64)

    @property
    def saved(self) -> bool:
        """Whether it comes as a SavedModel: freezing takes several times the memory of the weights."""
        return self.name in SAVED

    def __str__(self) -> str:
        return f"{self.package}-{self.name}"


NAMES = (
    *("ConvNeXtTiny", "ConvNeXtSmall", "ConvNeXtBase", "ConvNeXtLarge", "DenseNet121", "DenseNet169", "DenseNet201"),
    *(f"EfficientNetB{i}" for i in range(8)),
    *(f"EfficientNetV2{i}" for i in ("B0", "B1", "B2", "B3", "S", "M", "L")),
    *("InceptionResNetV2", "InceptionV3", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small"),
    *("NASNetLarge", "NASNetMobile", "ResNet50", "ResNet101", "ResNet152", "ResNet50V2", "ResNet101V2", "ResNet152V2"),
    *("VGG16", "VGG19", "Xception"),
)
LEFT_OUT = {"ConvNeXtXLarge": "350 million parameters need more memory than a test may take"}
SAVED = (
    *("ConvNeXtSmall", "ConvNeXtBase", "ConvNeXtLarge", "EfficientNetB6", "EfficientNetB7", "EfficientNetV2M"),
    *("EfficientNetV2L", "InceptionResNetV2", "NASNetLarge", "ResNet101", "ResNet152", "ResNet101V2", "ResNet152V2"),
    *("VGG16", "VGG19"),
)
SIZES = {**dict.fromkeys(("InceptionV3", "InceptionResNetV2", "Xception"), 96), **dict.fromkeys(("VGG16", "VGG19"), 32)}
BOUND = 5e-5
"""On the largest difference to TensorFlow's outputs, as a part of the largest output. It is conditioning, not error: one rounding
of the images moves the outputs of the deepest of these networks by 2e-5, in TensorFlow as here.
"""
OFTEN = ("ResNet50", "MobileNetV2")
"""The networks that are also read from the other package, whose batch norms are one operator each, and quantized."""

FAMILIES = (
    *("ConvNeXtTiny", "DenseNet121", "EfficientNetB0", "EfficientNetV2B0", "EfficientNetV2S", "InceptionResNetV2"),
    *("InceptionV3", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small", "NASNetMobile", "ResNet50"),
    *("ResNet50V2", "VGG16", "Xception"),
)
"""One network of each kind. The others repeat its blocks more often or wider: they are read where the page is written."""

APPLICATIONS = [*(Application("keras", name) for name in NAMES), *(Application("tf_keras", name) for name in OFTEN)]


class Network(NamedTuple):
    """A model, images, and what TensorFlow makes of the first two."""

    path: Path
    images: Array
    outputs: Array
    parameters: int
    norms: int
    """How many batch norms Keras counts."""


def written(application: Application, folder: Path) -> Network:
    """The network with random weights, its batch size unknown."""
    seeded = applications.build(application.package, application.name, application.size)
    write = write_saved if application.saved else applications.write_frozen
    path = write(seeded.function, folder / application.name)
    outputs = seeded.function(tf.constant(seeded.images[:2])).numpy()
    norms = sum(type(layer).__name__ == "BatchNormalization" for layer in applications.layers_of(seeded.model))
    return Network(path, seeded.images, outputs, seeded.model.count_params(), norms)


def write_saved(function: Any, path: Path) -> Path:
    holder = tf.Module()
    holder.function, holder.variables_of = function, list(function.graph.variables)
    tf.saved_model.save(holder, str(path), signatures=function)
    return path


@pytest.fixture
def network(application: Application, tmp_path: Path) -> Iterator[Network]:
    made = written(application, tmp_path)
    gc.collect()
    yield made
    shutil.rmtree(tmp_path)  # hundreds of megabytes


TITLE = "Keras applications"


def versions() -> str:
    return f"TensorFlow {tf.version.VERSION}, keras {version('keras')}, tf_keras {version('tf_keras')}"


COLUMNS = (
    "package", "model", "from", "input", "parameters", "nodes", "on nn", "carried", "folded", "batch norms",
    "left", "quantized",
)  # fmt: skip


def head() -> list[str]:
    left_out = "; ".join(f"{name} ({reason})" for name, reason in LEFT_OUT.items())
    return [
        "The networks of `keras.applications` and `tf_keras.applications`, as written by",
        f"{versions()}. The table is made by",
        "",
        "    AMCT_UPDATE=1 python -m pytest test/unit/frontends/tensorflow/test_keras_applications.py",
        "",
        "and checked by the same test. Weights are random, batch norms have the statistics of the images, the activation at the",
        "top is left out, the batch size is unknown. Each network is read without TensorFlow, from a frozen graph or a",
        "SavedModel, and run as read and after `--canonicalize --fuse-all`: both outputs differ from TensorFlow's by",
        f"{BOUND:g} of the largest one at most (one rounding of the images moves those of the deepest networks by 2e-5).",
        "",
        "* **on nn**, **carried**, **folded**: what became of the nodes; the others only hand on their input.",
        "* **batch norms**, **left**: how many Keras counts, and how many are there at the end. Those that are left stand after",
        "  a sum, a pooling or a Concat of such, and in front of an activation. The one of EfficientNetV2B is not one of Keras'",
        "  count: the normalization of pixels, which pads after it.",
        "* **quantized**: the layers that `--quantize` gives integer inputs with profile `ascend`.",
        "",
        f"Not read: {left_out}.",
        "",
        "".join(f"| {c} " for c in COLUMNS) + "|",
        "|---" * len(COLUMNS) + "|",
    ]


def test_the_table_is_complete(conformance: Any) -> None:
    names = {tuple(f"{a.package} | {a.name}".split(" | ")) for a in APPLICATIONS}
    rows = {tuple(map(str.strip, r.split("|")[1:3])): r for r in conformance.rows(TITLE)}
    kept = [r for key, r in rows.items() if key in names]
    conformance.hold(TITLE, [*head(), *kept], versions())
    assert conformance.updating or set(rows) == names


@pytest.mark.slow
@pytest.mark.parametrize(
    "application", [a for a in APPLICATIONS if "AMCT_UPDATE" in os.environ or a.name in FAMILIES], ids=str
)
def test_network(application: Application, network: Network, conformance: Any) -> None:
    session = new_session()
    module = frontends.read(network.path, session)
    summary = next(r.reason for r in session.remarks if r.rule == "summary")
    assert_agrees(module, network)
    run_passes(module, [make_pass("canonicalize"), make_pass("fuse-all")], session)
    assert_agrees(module, network)
    left = count(module, nn.BatchNormOp)
    run_passes(module, [make_pass("insert-observers")], session)
    quantized = {r.layer for r in session.remarks if (r.pass_name, r.kind) == ("insert-observers", "applied")}
    nodes, mapped, carried, folded, *_ = re.findall(r"\d+(?= nodes| mapped| carried| folded)", summary)
    cells = (
        application.package,
        application.name,
        "SavedModel" if application.saved else "frozen graph",
        f"{application.size}x{application.size}",
        f"{network.parameters / 1e6:.1f} M",
        nodes,
        mapped,
        carried,
        folded,
        network.norms,
        left,
        len(quantized),
    )
    conformance.hold_row(TITLE, "".join(f"| {c} " for c in cells) + "|", versions())


def count(module: ModuleOp, kind: type[Operation]) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


def assert_agrees(module: ModuleOp, network: Network) -> None:
    (outputs,) = run(module, {"images": network.images[:2]}).values()
    peak = np.abs(network.outputs).max()
    assert np.abs(network.outputs[0] - network.outputs[1]).max() > 0.1 * peak, "the output depends on the input"
    assert np.abs(outputs - network.outputs).max() <= BOUND * peak


READ_ALONE = """
import sys
from pathlib import Path
from amct_opt import frontends
from amct_opt.session.universe import new_session
frontends.read(Path(sys.argv[1]), new_session())
assert not {"tensorflow", "keras", "tf_keras"} & set(sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("application", [a for a in APPLICATIONS if a.name in OFTEN], ids=str)
def test_quantized(application: Application, network: Network, tmp_path: Path) -> None:
    """Read without TensorFlow; all batch norms fold; int8 comes as near, here and in onnxruntime, as its own quantizer does."""
    alone = subprocess.run([sys.executable, "-c", READ_ALONE, str(network.path)], capture_output=True, text=True)
    assert alone.returncode == 0, alone.stderr

    data, remarks = tmp_path / "data.npz", tmp_path / "remarks.yaml"
    plain, quantized, integers = (tmp_path / name for name in ("float.onnx", "int8.onnx", "int8.mlir"))
    np.savez(data, images=network.images)
    calibrated = [str(network.path), "--fuse-all", f"--quantize=data={data}"]
    assert amct_opt.run([str(network.path), "--fuse-all", "-t", "onnx", "-o", str(plain)]) == 0
    assert amct_opt.run([*calibrated, "-t", "onnx", "-o", str(quantized), "--remarks-output", str(remarks)]) == 0
    assert amct_opt.run([*calibrated, "--lower-to-ascend", "-o", str(integers)]) == 0

    rows = list(yaml.safe_load_all(remarks.read_text()))
    missed = {r["op"] for r in rows if r["kind"] == "missed" and r["pass"] != "correct-bias"}
    assert missed <= {"nn.add", "nn.max_pool"}
    assert "BatchNormalization" not in {n.op_type for n in onnx.load(plain).graph.node}
    wanted = sqnr(quantized_by_onnxruntime(plain, network), network) - 3
    assert sqnr(quantized, network) > wanted
    (exact,) = run(frontends.read(integers, new_session()), {"images": network.images[:2]}).values()
    assert difference(network.outputs, exact).sqnr > wanted


def quantized_by_onnxruntime(path: Path, network: Network) -> Path:
    """With the same choices: int8, weights per channel, smallest and largest value."""
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(network.images)

        def get_next(self) -> Any:
            image = next(self.rest, None)
            return None if image is None else {"images": image[None]}

    out = path.with_name("reference.onnx")
    types: dict[str, Any] = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(path, out, Images(), calibrate_method=CalibrationMethod.MinMax, **types)
    return out


def sqnr(path: Path, network: Network) -> float:
    """Of a model in onnxruntime against TensorFlow, in dB."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (outputs,) = map(np.asarray, session.run(None, {"images": network.images[:2]}))
    return difference(network.outputs, outputs).sqnr
