"""Which layers make the net of inference, its inputs and outputs, names and places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.ir.functions import input_names, main_function, output_names
from amct_opt.runtime.executor import run
from amct_opt.support.diagnostics import CompileError, describe

DATA = 'input: "data" input_shape { dim: 1 dim: 3 dim: 4 dim: 4 }\n'
RELU = 'layer { name: "r" type: "ReLU" bottom: "data" top: "r" }\n'


def ports(module: ModuleOp) -> tuple[list[str], list[str]]:
    function = main_function(module)
    return input_names(function), output_names(function)


def ops(module: ModuleOp) -> list[nn.NNOp]:
    return [op for op in main_function(module).body.block.ops if isinstance(op, nn.NNOp)]


def layers(module: ModuleOp) -> list[str]:
    return [op.origin.layer.data for op in ops(module) if isinstance(op.origin, nn.OriginAttr)]


@pytest.mark.parametrize(
    "declared",
    [
        'layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }',
        DATA,
        'input: "data" input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 4',
        "input: 'da' 'ta' # a comment\ninput_dim: [1, 3, 4, 4];",
    ],
)
def test_inputs(caffe: Any, declared: str) -> None:
    module = caffe.load_text(declared + "\n" + RELU)
    assert ports(module) == (["data"], ["r"])
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(module, {"data": x})["r"], np.maximum(x, 0))


def test_several_inputs(caffe: Any) -> None:
    text = (
        'input: "a" input: "b" input_dim: [1, 2, 3, 4, 1, 2, 3, 4]\n'
        'layer { name: "in" type: "Input" top: "c" top: "d" input_param { shape { dim: [1, 2, 3, 4] } } }\n'
        'layer { name: "e" type: "Eltwise" bottom: ["a", "b", "c"] top: "e" }'
    )
    assert ports(caffe.load_text(text)) == (["a", "b", "c", "d"], ["e"])


def test_shapes_of_the_command_line(caffe: Any) -> None:
    module = caffe.load_text(DATA + RELU, shapes={"data": (-1, 3, 8, 8)})
    assert str(main_function(module).body.block.args[0].type) == "tensor<?x3x8x8xf32>"
    module = caffe.load_text(DATA + RELU, shapes={"": (2, 3)})
    assert str(main_function(module).body.block.args[0].type) == "tensor<2x3xf32>"


def test_unknown_batch(caffe: Any, new_net: Any) -> None:
    """Nothing but the batch may be unknown for most layers; the net runs with any."""
    rng = np.random.default_rng(2)
    net = new_net((1, 3, 6, 6))
    w = rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    net.add("c", "Convolution", blobs=[w], convolution_param={"num_output": 4, "kernel_size": [3], "bias_term": False})
    net.add("p", "Pooling", "c", pooling_param={"pool": "AVE", "kernel_size": 2, "stride": 2})
    net.add("f", "Flatten", "p", flatten_param={"axis": 1, "end_axis": 2})
    net.add("r", "Reshape", "f", reshape_param={"shape": {"dim": [0, -1]}})
    fc = rng.normal(size=(5, 16)).astype(np.float32)
    net.add("i", "InnerProduct", "r", blobs=[fc], inner_product_param={"num_output": 5, "bias_term": False})
    x = rng.normal(size=(3, 3, 6, 6)).astype(np.float32)
    many = caffe.run(net, {"data": x}, shapes={"data": (-1, 3, 6, 6)})["i"]
    each = [caffe.run(net, {"data": x[i : i + 1]})["i"] for i in range(3)]
    np.testing.assert_allclose(many, np.concatenate(each), rtol=1e-5, atol=1e-5)


def test_in_place(caffe: Any, new_net: Any, assert_close: Any) -> None:
    """A blob is what was last written under its name; a layer that reads it before gets what it was then."""
    rng = np.random.default_rng(1)
    net = new_net((1, 4, 5, 5))
    net.add("bn", "BatchNorm", blobs=[rng.normal(size=4), rng.random(4) + 0.5, np.ones(1)])
    net.add("before", "TanH", "bn")
    net.add("sc", "Scale", "bn", "bn", blobs=[rng.normal(size=4)])
    net.add("act", "ReLU", "bn", "bn")
    net.add("sum", "Eltwise", ["bn", "before"])
    x = rng.normal(size=(1, 4, 5, 5)).astype(np.float32)
    module = caffe.load(net)
    assert layers(module) == ["bn", "before", "sc", "act", "sum"]
    assert_close(run(module, {"data": x})["sum"], caffe.opencv(net, {"data": x})[0])
    assert ports(caffe.load(net, outputs=("bn",)))[1] == ["bn"]
    assert layers(caffe.load(net, outputs=("bn",))) == ["bn", "sc", "act"]
    assert layers(caffe.load(net, outputs=("sc",))) == ["bn", "sc"]


def test_names_places_and_metadata(caffe: Any, new_net: Any) -> None:
    net = new_net((1, 3, 4, 4), name="small")
    net.add("a/b", "ReLU", relu_param={"negative_slope": 0.5})
    net.add("twice", "TanH", "a/b", "t1")
    net.add("twice", "Sigmoid", "t1", "t2")
    module = caffe.load(net)
    assert layers(module) == ["a/b", "TanH_2", "Sigmoid_3"]
    first = ops(module)[0]
    line = net.text.splitlines().index('  name: "a/b"')
    assert describe(first.location) == f"{caffe.folder}/net.prototxt:{line}:1: node 'a/b'"
    assert '<caffe, "ReLU", "a/b", {negative_slope = 5.000000e-01 : f32}>' in str(first.origin)
    assert str(module.attributes["nn.metadata"]) == '{framework = "caffe", source = "net.prototxt", name = "small"}'


def test_origin(caffe: Any, new_net: Any) -> None:
    """What rules read is kept by name, what the operation says itself is not, nor what is the default."""
    rng = np.random.default_rng(0)
    net = new_net((1, 4, 6, 6))
    params = {"num_output": 4, "kernel_size": [3], "group": 2, "pad": [1], "dilation": [2], "axis": 1}
    net.add("c", "Convolution", blobs=[rng.normal(size=(4, 2, 3, 3)), np.ones(4)], convolution_param=params)
    net.add("p", "Pooling", "c", pooling_param={"pool": "AVE", "global_pooling": True, "engine": "CAFFE"})
    net.add(
        "i",
        "InnerProduct",
        "p",
        blobs=[rng.normal(size=(4, 3)), np.ones(3)],
        inner_product_param={"num_output": 3, "transpose": True, "axis": 1, "weight_filler": {"type": "xavier"}},
    )
    net.add("e", "Eltwise", ["i", "i"], eltwise_param={"operation": "SUM", "coeff": [1.0, 0.5]})
    kept = {op.origin.layer.data: str(op.origin.attributes) for op in ops(caffe.load(net)) if op.origin is not None}
    assert kept == {
        "c": "{dilation = array<i64: 2>, group = 2 : i64}",
        "p": '{global_pooling = 1 : i64, pool = "AVE"}',
        "i": "{transpose = 1 : i64}",
        "e": "{coeff = #nn.reals<[1.0, 0.5]>}",
    }


# Phases


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ("", True),
        ("include { phase: TEST }", True),
        ("include { phase: TRAIN }", False),
        ("include { phase: TRAIN } include { phase: TEST }", True),
        ("exclude { phase: TRAIN }", True),
        ("exclude { phase: TEST }", False),
        ("include { min_level: 1 }", False),
        ("include { min_level: 0 max_level: 0 }", True),
        ("exclude { max_level: -1 }", True),
        ('include { stage: "deploy" }', False),
        ('include { not_stage: "deploy" }', True),
        ('exclude { phase: TEST not_stage: "val" }', False),
    ],
)
def test_rules(caffe: Any, rules: str, kept: bool) -> None:
    text = DATA + RELU + f'layer {{ name: "x" type: "TanH" bottom: "r" top: "r" {rules} }}'
    assert layers(caffe.load_text(text)) == (["r", "x"] if kept else ["r"])
    assert caffe.remarks("training-only") == ([] if kept else ["x: left out: its rules exclude it from the phase TEST"])


def test_state_of_the_file(caffe: Any) -> None:
    state = 'state { phase: TRAIN level: 2 stage: "deploy" }\n'
    rule = 'include { phase: TEST min_level: 2 stage: "deploy" }'
    text = state + DATA + RELU + f'layer {{ name: "x" type: "TanH" bottom: "r" top: "r" {rule} }}'
    assert layers(caffe.load_text(text)) == ["r", "x"]


TRAINING = """
name: "train_val"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN } data_param { source: "a" } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST } transform_param { crop_size: 4 } }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 2 }
        blobs { shape { dim: 2 dim: 3 } data: [1, 2, 3, 4, 5, 6] } blobs { shape { dim: 2 } data: 1 data: -1 } }
layer { name: "drop" type: "Dropout" bottom: "fc" top: "fc" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" loss_weight: 1 }
layer { name: "top1" type: "Accuracy" bottom: "fc" bottom: "label" top: "top1" include { phase: TEST } }
"""


def test_training_net(caffe: Any) -> None:
    """The loss and the accuracy are left out, so that what they judge is the output, and labels are not an input."""
    module = caffe.load_text(TRAINING, shapes={"data": (1, 3)})
    assert ports(module) == (["data"], ["fc"])
    np.testing.assert_array_equal(run(module, {"data": np.array([[1, 1, 2]], np.float32)})["fc"], [[10, 20]])
    assert caffe.remarks("training-only") == [
        "data: left out: its rules exclude it from the phase TEST",
        "loss: left out: SoftmaxWithLoss is for training and tests only",
        "top1: left out: Accuracy is for training and tests only",
    ]


def test_data_layer_needs_a_shape(caffe: Any) -> None:
    with pytest.raises(CompileError) as e:
        caffe.load_text(TRAINING)
    assert str(e.value) == (
        f"{caffe.folder}/net.prototxt:4:1: node 'data': error: the shape of input 'data' is not known\n"
        "  hint: --input-shape 'data:1,3,224,224' gives one"
    )


def test_declared_label_is_no_input(caffe: Any) -> None:
    text = (
        'input: "data" input: "label" input: "info" input_shape { dim: [1, 2] } input_shape { dim: 1 } '
        'input_shape { dim: 1 }\n layer { name: "s" type: "Softmax" bottom: "data" top: "s" }\n'
        'layer { name: "loss" type: "EuclideanLoss" bottom: "s" bottom: "label" top: "loss" }'
    )
    assert ports(caffe.load_text(text)) == (["data", "info"], ["s"])


def test_silence_takes_what_is_no_output(caffe: Any) -> None:
    text = DATA + (
        'layer { name: "s" type: "Slice" bottom: "data" top: ["a", "b", "c"] }\n'
        'layer { name: "q" type: "Silence" bottom: "b" }\n'
    )
    assert ports(caffe.load_text(text)) == (["data"], ["a", "c"])


# Chosen inputs and outputs


def chain(*names: str) -> str:
    rows = zip(("data", *names), names, strict=False)
    return DATA + "".join(
        f'layer {{ name: "l_{top}" type: "TanH" bottom: "{bottom}" top: "{top}" }}\n' for bottom, top in rows
    )


def test_outputs(caffe: Any) -> None:
    module = caffe.load_text(chain("a", "b", "c"), outputs=("b", "l_a"))
    assert ports(module) == (["data"], ["b", "l_a"])
    assert layers(module) == ["l_a", "l_b"]
    assert ports(caffe.load_text(chain("a", "b"), outputs=("data",)))[1] == ["data"]


def test_inputs_in_the_middle(caffe: Any) -> None:
    module = caffe.load_text(chain("a", "b", "c"), inputs=("b",), shapes={"b": (5, -1)})
    assert ports(module) == (["b"], ["c"])
    assert layers(module) == ["l_c"]
    assert str(main_function(module).body.block.args[0].type) == "tensor<5x?xf32>"


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"outputs": ("no",)}, "no blob or layer is called 'no', which is to be an output", "blobs are data, a, b"),
        ({"inputs": ("no",)}, "no blob is called 'no', which is to be an input", "blobs are data, a, b"),
        ({"outputs": ("a", "a")}, "output 'a' is named twice", ""),
        ({"inputs": ("a", "a"), "shapes": {"a": (1,)}}, "input 'a' is named twice", ""),
        ({"shapes": {"no": (1,)}}, "the model has no input no", "the inputs are data"),
        ({"signature": "s"}, "--signature has no meaning for a model of this kind", ""),
    ],
)
def test_wrong_options(caffe: Any, options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(CompileError) as e:
        caffe.load_text(chain("a", "b"), **options)
    assert (e.value.message, e.value.hint) == (message, hint)
    assert e.value.where == f"{caffe.folder}/net.prototxt"


def test_shape_that_follows(caffe: Any) -> None:
    with pytest.raises(CompileError, match=r"net.prototxt:2:1: node 'l_a': .* makes 'a', whose shape follows"):
        caffe.load_text(chain("a", "b"), shapes={"a": (1, 3)})


def test_needed_input_that_is_not_chosen(caffe: Any) -> None:
    text = 'input: "a" input: "b" input_dim: [1, 2, 3, 4, 1, 2, 3, 4]\n' + (
        'layer { name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "e" }'
    )
    with pytest.raises(CompileError, match=r"net.prototxt:1:12: node 'b'.* is not among the inputs"):
        caffe.load_text(text, inputs=("a",))


# The old format


def test_old_format(caffe: Any, new_net: Any, assert_close: Any) -> None:
    """`layers` with an enum as type, parameters and blobs with four numbers instead of a shape."""
    rng = np.random.default_rng(0)
    w, b, fc = rng.normal(size=(6, 3, 3, 3)), rng.normal(size=6), rng.normal(size=(5, 216))
    net = new_net()
    net.proto.input.append("data")
    net.proto.input_dim.extend([1, 3, 8, 8])
    conv = net.proto.layers.add(name="c", type=4, bottom=["data"], top=["c"], blobs_lr=[1, 2], param=["w", "b"])
    conv.convolution_param.num_output = 6
    conv.convolution_param.kernel_size.append(3)
    for numbers, dims in ((w, w.shape), (b, (1, 1, 1, 6))):
        conv.blobs.add(**dict(zip(("num", "channels", "height", "width"), dims, strict=True)), data=numbers.ravel())
    net.proto.layers.add(name="r", type=18, bottom=["c"], top=["c"])
    inner = net.proto.layers.add(name="fc", type=14, bottom=["c"], top=["fc"])
    inner.inner_product_param.num_output = 5
    inner.inner_product_param.bias_term = False
    inner.blobs.add(num=1, channels=1, height=5, width=216, data=fc.ravel())
    x = rng.normal(size=(1, 3, 8, 8)).astype(np.float32)
    module = caffe.load(net)
    assert [op.origin.op_type.data for op in ops(module) if op.origin] == [
        "Convolution",
        "ReLU",
        "InnerProduct",
        "InnerProduct",
    ]
    assert_close(run(module, {"data": x})["fc"], caffe.opencv(net, {"data": x}, ["fc"])[0])
    assert not caffe.remarks("unknown-field")


def test_unknown_fields_are_told(caffe: Any) -> None:
    text = "net_field: 3\n" + DATA + RELU.replace("}", 'odd: 1 relu_param { leak: 0.5 more { a: "{" } } }')
    assert layers(caffe.load_text(text)) == ["r"]
    assert caffe.remarks("unknown-field") == [
        "net_field: the net's field 'net_field' is not known, and is ignored",
        "r: field 'layer.odd' in line 3 is ignored",
        "r: field 'layer.relu_param.leak' in line 3 is ignored",
        "r: field 'layer.relu_param.more' in line 3 is ignored",
    ]
