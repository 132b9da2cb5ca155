"""AMCT's functions for TensorFlow: `from amct_opt.amct import tensorflow as amct` for `import amct_tensorflow as amct`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ..api import PathLike, load
from ..formats.tensorflow.library import tensorflow
from ..ir.functions import input_names, main_function, output_names
from ..session import ImportOptions
from ..support.diagnostics import CompileError
from ..targets.tensorflow import TfFakequantTarget
from . import shared as steps
from .evaluators import Array, RawEvaluator
from .shared import AutoCalibrationEvaluatorBase, Inputs, set_logging_level

__all__ = [
    "AutoCalibrationEvaluatorBase",
    "ModelEvaluator",
    "accuracy_based_auto_calibration",
    "convert_model",
    "convert_qat_model",
    "create_quant_config",
    "quantize_model",
    "save_model",
    "set_logging_level",
]


@steps.as_in_amct
def create_quant_config(
    config_file: PathLike,
    graph: Any,
    skip_layers: Sequence[str] | None = None,
    batch_num: int = 1,
    activation_offset: bool = True,
    config_defination: PathLike | None = None,
) -> None:
    """Write the configuration of a frozen `tf.Graph`, AMCT's JSON, to `config_file`, which must end in `.json`.

    If `config_defination`, a simplified configuration, is given, the three settings before it are ignored with a warning.
    Raises CompileError, located, for a graph that cannot be read, bad settings, and layers that the graph does not have.
    """
    settings = skip_layers, batch_num, activation_offset, config_defination
    steps.create_config(load(graph, steps.session_for()), config_file, *settings, "tensorflow")


@steps.as_in_amct
def quantize_model(
    graph: Any, config_file: PathLike, record_file: PathLike, calib_outputs: Sequence[str] | None = None
) -> list[Any]:
    """Begin a calibration: change a frozen `tf.Graph` so that it calibrates when sessions that are made later run it.

    The first `batch_num` runs (of the configuration) calibrate; after the last one the record is written. The record of an
    earlier calibration is removed first. `calib_outputs` are names of nodes or tensors; layers that these do not need stay float,
    and are not in the record. Without it, they are the graph's outputs. Returns the variables that were added, to be
    initialized (AMCT's quant_add_ops): none. Raises CompileError, located, for a configuration that does not fit the graph, and
    for outputs that it does not have. A run raises a TensorFlow error with the CompileError's text.
    """
    loaded = load(graph, steps.session_for(outputs=calib_outputs or ()))
    names = input_names(main_function(loaded.module))
    calibration = steps.Calibration(loaded, "tensorflow", config_file, record_file)
    _insert(graph, names, calibration.see)
    return []


def _insert(graph: Any, inputs: Sequence[str], see: Callable[[Inputs], object]) -> None:
    """Put an operator after each input that passes the value to `see` and returns it unchanged."""
    tf = tensorflow("quantize_model", "graph")

    def seen(*arrays: Any) -> tuple[Any, ...]:
        see(dict(zip(inputs, arrays, strict=True)))
        return arrays

    tensors = [graph.get_tensor_by_name(f"{name}:0") for name in inputs]
    reads = [[(op, i) for op in t.consumers() for i, x in enumerate(op.inputs) if x is t] for t in tensors]
    with graph.as_default():
        shown: Any = tf.numpy_function(seen, tensors, [t.dtype for t in tensors], name="calibration")
    for tensor, copy, readers in zip(tensors, shown, reads, strict=True):
        copy.set_shape(tensor.shape)
        for op, index in readers:
            op._update_input(index, copy)


@steps.as_in_amct
def save_model(
    pb_model: PathLike, outputs: Sequence[str], record_file: PathLike, save_path: PathLike
) -> tuple[Path, ...]:
    """Quantize a frozen graph with the factors of the record, and write AMCT's files: `save_path` is a folder and their prefix.

    `outputs` are names of nodes or tensors. Returns the files. Raises CompileError, located, if calibration is not
    complete, and for a record that does not fit.
    """
    return steps.save(pb_model, record_file, save_path, steps.session_for(outputs=outputs))


@steps.as_in_amct
def convert_model(
    pb_model: PathLike, outputs: Sequence[str], record_file: PathLike, save_path: PathLike
) -> tuple[Path, ...]:
    """Quantize a frozen graph with the factors of a record, without calibration, and write AMCT's files. Returns the files.

    Layers that the record does not list stay float. Raises CompileError, located, for a record that does not fit.
    """
    return steps.convert(pb_model, record_file, save_path, steps.session_for(outputs=outputs))


@steps.as_in_amct
def convert_qat_model(
    pb_model: PathLike, outputs: Sequence[str], save_path: PathLike, record_file: PathLike | None = None
) -> tuple[Path, ...]:
    """Write AMCT's files for a graph that was trained with quantization, and its record. Returns them.

    Raises CompileError, located, for a graph without quantization.
    """
    return steps.convert_trained(pb_model, save_path, record_file, steps.session_for(outputs=outputs))


@steps.as_in_amct
def accuracy_based_auto_calibration(
    pb_model: PathLike,
    outputs: Sequence[str],
    record_file: PathLike,
    config_file: PathLike,
    save_dir: PathLike,
    evaluator: Any,
) -> tuple[Path, ...]:
    """Quantize a frozen graph with the fewest layers in float that the evaluator accepts, and write AMCT's files. Returns them.

    `evaluator` has `calibration(graph, outputs)`, `evaluate(graph, outputs) -> metric` and
    `metric_eval(original, metric) -> (ok, loss)`; each gets a `tf.Graph` of its own, and `outputs` as they are given here.
    `save_dir` is a folder and the prefix of the files. Raises CompileError, located, if the evaluator raises an error or
    accepts no quantization.
    """
    session = steps.session_for(outputs=outputs)
    frame = _Frame(Path(pb_model), outputs)
    return steps.auto_calibrate(pb_model, evaluator, frame, config_file, record_file, save_dir, session)


class ModelEvaluator(RawEvaluator):
    """Runs a graph on raw binaries. The arguments are options of `amct calibration`. It gets a graph and the names of outputs."""

    def run(self, model: Sequence[Any], batches: Iterator[dict[str, Array]]) -> None:
        graph, outputs = model
        tf = tensorflow("ModelEvaluator", "graph")
        with tf.compat.v1.Session(graph=graph) as session:
            for batch in batches:
                session.run([_tensor(name) for name in outputs], {_tensor(name): a for name, a in batch.items()})


def _tensor(name: str) -> str:
    """The name of a tensor; that of a node means its first output."""
    return name if ":" in name else f"{name}:0"


def frame_for(model: Path, imports: ImportOptions) -> steps.Frame:
    """The frame in which an evaluator of a command gets a model: a graph and the names of its outputs."""
    module = load(model, steps.session_for(outputs=imports.outputs)).module
    return _Frame(model, imports.outputs or output_names(main_function(module)))


class _Frame:
    def __init__(self, model: Path, outputs: Sequence[str]):
        self._model = model
        self._outputs = list(outputs)

    def watched(self, folder: Path, see: Callable[[Inputs], object]) -> tuple[Any, list[str]]:
        graph, outputs = self.original()
        module = load(self._model, steps.session_for(outputs=outputs)).module
        _insert(graph, input_names(main_function(module)), see)
        return graph, outputs

    def original(self) -> tuple[Any, list[str]]:
        return _graph(self._model), self._outputs

    def quantized(self, module: ModuleOp, folder: Path) -> tuple[Any, list[str]]:
        path = folder / "fake_quant.pb"
        TfFakequantTarget().write(module, path, steps.session_for())
        return _graph(path), self._outputs


def _graph(path: Path) -> Any:
    """A frozen graph as a `tf.Graph`. Raises CompileError if TensorFlow is not installed, and for a file that is not a graph."""
    tf = tensorflow("running a graph", str(path))
    definition = tf.compat.v1.GraphDef()
    try:
        definition.ParseFromString(path.read_bytes())
    except Exception as e:  # errors of protobuf or of the operating system
        raise CompileError(f"cannot be read: {e}", where=str(path)) from None
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(definition, name="")
    return graph


def __getattr__(name: str) -> Any:
    raise steps.missing(__name__, name)
