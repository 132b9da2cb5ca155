"""Small networks of many kinds, by each way in: what is imported, as it is and fused, computes what TensorFlow does.

Tolerance: the longest sums have some hundred products of numbers of about 1, rounded in another order, and the networks are up to
thirty layers deep: 5e-6 of the largest output. Half precision rounds to 11 bits, with one result of several layers: 2e-3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.frontends.tensorflow import from_function, from_keras
from amct_opt.ir.functions import input_names, main_function, output_names
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import run
from amct_opt.runtime.metrics import difference
from amct_opt.session.universe import new_session
from amct_opt.tools import amct

from ...exact import exact_file
from ...frameworks import keras, later, tf

layers = later("keras.layers")

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

Array = np.ndarray[Any, np.dtype[Any]]
Tensor = Any
"""Of Keras."""


# Networks


def normed(x: Tensor, filters: int) -> Tensor:
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def transformer() -> Any:
    """An encoder layer with a mask, its label read at the first position."""
    ids: Tensor = layers.Input((8,), dtype="int32", name="ids")
    mask = cast(Any, layers.Input((8,), dtype="bool", name="mask"))
    x = layers.LayerNormalization()(layers.Embedding(50, 16)(ids))
    x = x + layers.MultiHeadAttention(2, 8)(x, x, attention_mask=mask[:, None, :])
    x = layers.LayerNormalization()(x)
    x = x + layers.Dense(16)(layers.Dropout(0.1)(layers.Dense(32, activation="gelu")(x)))
    x = layers.LayerNormalization()(x)
    return keras.Model([ids, mask], [layers.Dense(3, name="tags")(x), layers.Dense(2, name="label")(x[:, 0])])


def unet() -> Any:
    """Of any height and width."""
    x = image = layers.Input((None, None, 3), name="image")
    skips: list[Tensor] = []
    for filters in (4, 8):
        skips.append(normed(x, filters))
        x = layers.MaxPooling2D()(skips[-1])
    x = normed(x, 16)
    for filters in (8, 4):
        x = layers.Conv2DTranspose(filters, 2, strides=2, padding="same")(x)
        x = normed(layers.Concatenate()([x, skips.pop()]), filters)
    return keras.Model(image, layers.Conv2D(2, 1, activation="softmax", name="mask")(x))


def segmentation() -> Any:
    """Parallel dilated depthwise convolutions next to pooling over the whole image, and resizing."""
    image = layers.Input((32, 32, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(image)
    x = layers.SeparableConv2D(8, 3, padding="same", dilation_rate=2)(x)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    branches = [layers.Conv2D(4, 1, activation="relu")(x)]
    for rate in (2, 3):
        y = layers.DepthwiseConv2D(3, padding="same", dilation_rate=rate, use_bias=False)(x)
        branches.append(layers.Conv2D(4, 1)(layers.ReLU()(layers.BatchNormalization()(y))))
    pooled = layers.Conv2D(4, 1, activation="relu")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    branches.append(layers.UpSampling2D(16, interpolation="bilinear")(pooled))
    x = layers.Conv2D(3, 1)(layers.Concatenate()(branches))
    return keras.Model(image, layers.Resizing(32, 32, name="logits")(x))


def audio() -> Any:
    x = wave = layers.Input((128, 1), name="wave")
    x = layers.Conv1D(8, 9, strides=2, padding="causal", activation="relu")(x)
    x = layers.Conv1D(8, 3, padding="causal", dilation_rate=4, activation="relu")(x)
    x = layers.DepthwiseConv1D(3, padding="same")(layers.BatchNormalization()(x))
    x = layers.SeparableConv1D(8, 3, padding="same", activation="selu")(x)
    x = layers.AveragePooling1D(2, padding="same")(layers.MaxPooling1D(2)(x))
    x = layers.Conv1DTranspose(4, 4, strides=2, padding="same", activation="elu")(x)
    x = layers.UpSampling1D(2)(layers.Cropping1D(1)(layers.ZeroPadding1D(1)(x)))
    return keras.Model(wave, layers.Dense(3, activation="softmax", name="class")(layers.GlobalMaxPooling1D()(x)))


def volume() -> Any:
    x = scan = layers.Input((8, 8, 8, 2), name="volume")
    x = layers.BatchNormalization()(layers.Conv3D(4, 3, padding="same", activation="relu")(x))
    x = layers.Conv3DTranspose(4, 2, strides=2)(layers.MaxPooling3D(2)(x))
    x = layers.UpSampling3D(2)(layers.AveragePooling3D(2)(x))
    return keras.Model(scan, layers.Dense(2, name="class")(layers.GlobalAveragePooling3D()(x)))


def activations() -> Any:
    """Separable convolution, group norm, squeeze and excite, and the less common activations."""
    image = layers.Input((16, 16, 3), name="image")
    x = layers.SeparableConv2D(8, 3, strides=2, padding="same", depth_multiplier=2)(image)
    x = layers.Activation("hard_silu")(layers.GroupNormalization(4)(x))
    squeezed = layers.Conv2D(2, 1, activation="relu")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Multiply()([x, layers.Conv2D(8, 1, activation="hard_sigmoid")(squeezed)])
    x = layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(8, 3, groups=2)(x))
    for name in ("leaky_relu", "swish", "mish", "softplus", "relu6"):
        x = layers.Conv2D(8, 1, activation=name)(x)
    return keras.Model(image, layers.Dense(4, name="scores")(layers.Flatten()(layers.UnitNormalization()(x))))


def mixed() -> Any:
    """Computed in half precision, from variables in single precision."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        image = layers.Input((16, 16, 3), name="image")
        x = layers.DepthwiseConv2D(3)(normed(image, 8))
        x = layers.Dense(8, activation="relu")(layers.GlobalAveragePooling2D()(layers.LayerNormalization()(x)))
        return keras.Model(image, layers.Dense(4, activation="softmax", dtype="float32", name="scores")(x))
    finally:
        keras.config.set_dtype_policy("float32")


def preprocessing() -> Any:
    """What stands in front of a network, and what only training does."""
    x = image = layers.Input((20, 24, 3), name="image")
    x = layers.CenterCrop(12, 12)(layers.Resizing(16, 16)(x))
    x = layers.Rescaling(0.25, offset=-1)(x)
    x = layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 3.0])(x)
    x = layers.SpatialDropout2D(0.2)(layers.GaussianNoise(0.1)(x))
    x = layers.Cropping2D(1)(layers.Conv2D(4, 3, strides=2)(layers.ZeroPadding2D(1)(x)))
    return keras.Model(image, layers.Dense(3, name="scores")(layers.Flatten()(x)))


def several() -> Any:
    """Shared layers, inputs and outputs in dictionaries."""
    left, right = (layers.Input((8, 8, 3), name=name) for name in ("left", "right"))
    extra = layers.Input((4,), name="extra")
    conv, norm = layers.Conv2D(4, 3), layers.BatchNormalization()
    x, y = (layers.ReLU()(norm(conv(side))) for side in (left, right))
    joined = layers.Add()([layers.Subtract()([x, y]), layers.Maximum()([x, y]), layers.Average()([x, y])])
    score = layers.Dense(8, activation="tanh")(layers.Concatenate()([layers.Flatten()(joined), extra]))
    same = layers.Dot(1, normalize=True)([layers.Flatten()(x), layers.Flatten()(y)])
    outputs = {"score": layers.Dense(2, activation="sigmoid")(score), "same": same, "features": x}
    return keras.Model({"left": left, "right": right, "extra": extra}, outputs)


def text() -> Any:
    """Of any length, padding masked."""
    ids = layers.Input((None,), dtype="int64", name="ids")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(100, 8, mask_zero=True)(ids))
    return keras.Model(ids, layers.Dense(2, activation="softmax", name="class")(layers.Dense(8, activation="relu")(x)))


def recurrent() -> Any:
    x = sequence = layers.Input((3, 4), name="x")
    x = layers.LSTM(6, unroll=True, return_sequences=True)(x)
    x = layers.Bidirectional(layers.GRU(3, unroll=True))(x)
    return keras.Model(sequence, layers.Dense(2, name="out")(x))


def reshaped() -> Any:
    x = given = layers.Input((8, 6), name="x")
    x = layers.RepeatVector(2)(layers.Flatten()(layers.Reshape((4, 12))(layers.Permute((2, 1))(x))))
    x = layers.Softmax(axis=-1)(layers.TimeDistributed(layers.Dense(8))(x))
    x = layers.EinsumDense("abc,cd->abd", output_shape=(None, 4), bias_axes="d")(x)
    attended = [layers.Attention()([x, x]), layers.AdditiveAttention()([x, x])]
    x = keras.ops.max(keras.ops.stack(attended, axis=-1), axis=-1)
    return keras.Model(given, layers.Dense(2, name="out")(x))


def images() -> Any:
    @keras.saving.register_keras_serializable("test_networks")
    class ImageOperations(layers.Layer):
        def call(self, x: Tensor) -> Tensor:
            x = tf.where(x > 0.5, x, tf.clip_by_value(x, -1.0, 0.25))
            x = tf.image.resize(x, [10, 12], method="nearest") + tf.image.resize(x, [10, 12], method="bicubic")
            x = tf.image.flip_left_right(tf.image.central_crop(x, 0.5))
            x = tf.image.per_image_standardization(x)
            x = tf.image.rot90(tf.image.pad_to_bounding_box(x, 1, 1, 8, 9))
            return tf.math.l2_normalize(x, -1) + tf.reduce_logsumexp(x, [1, 2], keepdims=True)

    image = layers.Input((8, 8, 3), name="image")
    return keras.Model(image, ImageOperations(name="result")(layers.Conv2D(3, 3, padding="same")(image)))


_BUILDERS: Sequence[Callable[[], Any]] = (
    *(transformer, unet, segmentation, audio, volume, activations, mixed, preprocessing, several, text),
    *(recurrent, reshaped, images),
)
NETWORKS: Mapping[str, Callable[[], Any]] = {f.__name__: f for f in _BUILDERS}
HALF = {"mixed": 2e-3}


# What TensorFlow computes


@dataclass(frozen=True)
class Network:
    name: str
    model: Any
    inputs: dict[str, Array]
    """Of 20 samples, by name."""
    outputs: list[Array]
    bound: float
    """On differences, as a part of the largest output."""


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    keras.utils.clear_session()
    model = NETWORKS[request.param]()
    rng = np.random.default_rng(0)
    for weight in model.weights:
        kind, shape = weight.path.split("/")[-1], tuple(weight.shape)
        if kind in ("gamma", "moving_variance"):
            weight.assign(rng.uniform(0.5, 1.5, shape))
        elif not np.issubdtype(weight.dtype, np.integer):
            weight.assign(rng.normal(size=shape) * (np.sqrt(2 / np.prod(shape[:-1])) if "kernel" in kind else 0.3))
    inputs = {t.name: array(rng, (20, *(d or 16 for d in t.shape[1:])), np.dtype(t.dtype)) for t in model.inputs}
    return Network(request.param, model, inputs, outputs_of(model, inputs), HALF.get(request.param, 5e-6))


def array(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "b":
        return (rng.random(shape) < 0.7) | (np.arange(shape[-1]) == 0)
    return (rng.integers(1, 50, shape) if dtype.kind in "iu" else rng.normal(size=shape)).astype(dtype)


def outputs_of(model: Any, inputs: Mapping[str, Array]) -> list[Array]:
    fed = tf.nest.pack_sequence_as(model._inputs_struct, [tf.constant(inputs[t.name]) for t in model.inputs])
    return [np.asarray(y) for y in tf.nest.flatten(model(fed, training=False))]


# Ways in


def frozen(model: Any) -> Any:
    specs = [tf.TensorSpec((None, *t.shape[1:]), t.dtype, t.name) for t in model.inputs]

    def infer(*inputs: Tensor) -> Any:
        return tf.nest.flatten(model(tf.nest.pack_sequence_as(model._inputs_struct, inputs), training=False))

    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    traced = tf.function(infer, input_signature=specs, autograph=False)
    return convert_variables_to_constants_v2(traced.get_concrete_function())


def frozen_file(model: Any, folder: Path) -> Path:
    (folder / "frozen.pb").write_bytes(frozen(model).graph.as_graph_def().SerializeToString())
    return folder / "frozen.pb"


def optimized_file(model: Any, folder: Path) -> Path:
    """Frozen, and rewritten by TensorFlow's own passes."""
    from tensorflow.python.grappler import tf_optimizer

    function = frozen(model)
    graph = tf.compat.v1.train.export_meta_graph(graph_def=function.graph.as_graph_def(), graph=function.graph)
    graph.collection_def["train_op"].node_list.value.extend(t.op.name for t in function.outputs)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    passes = ["constfold", "layout", "arithmetic", "shape", "dependency"]
    config.graph_options.rewrite_options.optimizers.extend(passes)
    (folder / "optimized.pb").write_bytes(tf_optimizer.OptimizeGraph(config, graph).SerializeToString())
    return folder / "optimized.pb"


def saved(model: Any, folder: Path) -> Path:
    tf.saved_model.save(model, str(folder / "saved"))
    return folder / "saved"


def exported(model: Any, folder: Path) -> Path:
    model.export(str(folder / "exported"), verbose=False)
    return folder / "exported"


def keras_file(model: Any, folder: Path) -> Path:
    model.save(folder / "model.keras")
    return folder / "model.keras"


WAYS = (exported, frozen_file, saved, keras_file, optimized_file)


@pytest.mark.slow
def test_files(network: Network, tmp_path: Path) -> None:
    """Each network by one of the ways in turn, which differ in the file alone."""
    way = WAYS[list(NETWORKS).index(network.name) % len(WAYS)]
    check(frontends.read(way(network.model, tmp_path), new_session()), network)


@pytest.mark.slow
def test_what_passes_of_tensorflow_make_of_it(network: Network, tmp_path: Path) -> None:
    check(frontends.read(optimized_file(network.model, tmp_path), new_session()), network)


@pytest.mark.slow
def test_models(network: Network) -> None:
    module = from_keras(network.model, new_session())
    assert set(input_names(main_function(module))) == set(network.inputs)
    if isinstance(network.model.output, dict):
        assert output_names(main_function(module)) == sorted(network.model.output)
    check(module, network)


def check(module: ModuleOp, network: Network) -> None:
    """For batches of one and of five samples, as imported and fused; nothing is carried."""
    assert not [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    assert_agrees(module, network)
    run_passes(module, [make_pass("canonicalize"), make_pass("fuse-all")], new_session())
    assert_agrees(module, network)


def assert_agrees(module: ModuleOp, network: Network) -> None:
    names = input_names(main_function(module))
    known = (
        network.inputs if set(names) == set(network.inputs) else dict(zip(names, network.inputs.values(), strict=True))
    )
    for batch in (1, 5):
        actual = list(run(module, {name: known[name][:batch] for name in names}).values())
        for expected in (y[:batch] for y in network.outputs):
            # the optimizer puts outputs in an order of its own
            (same,) = (y for y in actual if (y.shape, y.dtype) == (expected.shape, expected.dtype))
            assert np.abs(same - expected).max() <= network.bound * np.abs(expected).max()


@pytest.mark.slow
def test_quantized(network: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole path, data under the names of Keras: int8 is near TensorFlow's outputs in onnxruntime and in integers."""
    np.savez(tmp_path / "calib.npz", **dict[str, Any](network.inputs))
    path, out = exported(network.model, tmp_path), tmp_path / "out"
    data = str(tmp_path / "calib.npz")
    assert amct.run(["quantize", str(path), "--data", data, "--also=ascend", "--profile=ascend", "-o", str(out)]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "saturate, on this processor" not in line] == []
    assert json.loads((out / "summary.json").read_text())

    runtime = onnxruntime.InferenceSession(exact_file(out / "exported_qdq.onnx"), providers=["CPUExecutionProvider"])
    integers = frontends.read(out / "exported_ascend.mlir", new_session())
    for actual in (
        [np.asarray(y) for y in runtime.run(None, network.inputs)],
        list(run(integers, network.inputs).values()),
    ):
        for expected in network.outputs:
            (same,) = (y for y in actual if y.shape == expected.shape)
            assert difference(expected, same).sqnr > 25


# What cannot be read as it is


def test_a_model_that_is_a_class() -> None:
    """It has no inputs until it is told which."""

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.fc = layers.Conv2D(4, 3), layers.BatchNormalization(), layers.Dense(3)

        def call(self, x: Tensor, training: bool = False) -> Tensor:
            return self.fc(tf.reduce_mean(tf.nn.relu(self.norm(self.conv(x), training=training)), [1, 2]))

    model, x = Own(), np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)
    expected = np.asarray(model(x))
    module = from_function(model, new_session(), tf.TensorSpec([None, 8, 8, 3], tf.float32))
    (actual,) = run(module, dict.fromkeys(input_names(main_function(module)), x)).values()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=5e-6 * np.abs(expected).max())
