"""Layers without an equivalent: carried where the shapes of their results are known, never run, never quantized."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr

from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import module_text, parse_module
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.support.diagnostics import CompileError

DATA = 'input: "data" input_shape { dim: [1, 4, 6, 6] }\n'
ROI = """layer { name: "roi" type: "ROIPooling" bottom: "data" top: "roi"  # of Fast R-CNN
  roi_pooling_param { pooled_w: 3 pooled_h: 3 spatial_scale: 0.0625 }  include { phase: TEST } extra: [1, 2] }
"""


def opaque(module: ModuleOp) -> nn.OpaqueOp:
    (op,) = [op for op in main_function(module).body.block.ops if isinstance(op, nn.OpaqueOp)]
    return op


def text_of(op: nn.OpaqueOp) -> str:
    assert isinstance(op.attrs, DictionaryAttr)
    text = op.attrs.data["text"]
    assert isinstance(text, StringAttr)
    return text.data


def test_shape_from_the_user(caffe: Any) -> None:
    module = caffe.load_text(
        DATA + ROI + 'layer { name: "r" type: "ReLU" bottom: "roi" top: "r" }', shapes={"roi": (-1, 4, 3, 3)}
    )
    op = opaque(module)
    assert str(op.outputs[0].type) == "tensor<?x4x3x3xf32>"
    assert (op.framework.data, op.op_type.data) == ("caffe", "ROIPooling")
    assert text_of(op) == "roi_pooling_param { pooled_w: 3 pooled_h: 3 spatial_scale: 0.0625 }\nextra: [1, 2]"
    assert caffe.remarks("native") == ["roi: carried as opaque: nn has no equivalent of ROIPooling; it cannot be run"]
    assert module_text(parse_module(caffe.session, module_text(module))) == module_text(module)


def test_unknown_shape(caffe: Any) -> None:
    with pytest.raises(CompileError) as e:
        caffe.load_text(DATA + ROI)
    assert str(e.value) == (
        f"{caffe.folder}/net.prototxt:2:1: node 'roi': error: ROIPooling has no equivalent here, and the shape of its "
        "result 'roi' is not known\n  hint: --input-shape 'roi:...' gives the shape, or --outputs names blobs before it"
    )


def test_cut_off_before(caffe: Any) -> None:
    text = DATA + 'layer { name: "r" type: "ReLU" bottom: "data" top: "r" }' + ROI.replace('"data"', '"r"')
    module = caffe.load_text(text, outputs=("r",))
    assert not [op for op in main_function(module).body.block.ops if isinstance(op, nn.OpaqueOp)]


@pytest.mark.parametrize(
    "layer",
    [
        'layer { name: "x" type: "Odd" bottom: "data" top: "data" }',
        'layer { name: "x" type: "MVN" bottom: "data" top: "y" }',
        'layer { name: "x" type: "BatchNorm" bottom: "data" top: "y" batch_norm_param { use_global_stats: false } }',
        'layer { name: "x" type: "BatchNorm" bottom: "data" top: "y" phase: TRAIN }',
        'layer { name: "x" type: "Dropout" bottom: "data" top: "y" phase: TRAIN }',
    ],
)
def test_shape_of_the_input(caffe: Any, layer: str) -> None:
    """A layer works in place only on a result of the same shape; others have it by definition."""
    top = layer.split('"')[7]
    module = caffe.load_text(f'{DATA}{layer}layer {{ name: "r" type: "ReLU" bottom: "{top}" top: "r" }}')
    assert str(opaque(module).outputs[0].type) == "tensor<1x4x6x6xf32>"


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        ('type: "Pooling" pooling_param { pool: STOCHASTIC kernel_size: 2 }', "it picks elements at random"),
        ('type: "Pooling" top: "mask" pooling_param { kernel_size: 2 }', "its second top holds the indices"),
        ('type: "Upsample" bottom: "data"', "forks differ in what it means"),
        ('type: "Upsample" upsample_param { upsample_h: 5 }', "forks differ in what it means"),
        ('type: "Interp" bottom: "data"', "its size is that of another blob"),
        ('type: "ArgMax" argmax_param { top_k: 65 }', "it takes the 65 largest elements"),
        ('type: "ArgMax" argmax_param { axis: 0 }', "it searches an axis of unknown size"),
        ('type: "Convolution" convolution_param { axis: 2 num_output: 2 kernel_size: 1 }', "its channels are on axis 2"),
    ],
)  # fmt: skip
def test_forms_that_are_carried(caffe: Any, layer: str, reason: str) -> None:
    data = DATA.replace("[1, 4, 6, 6]", f"[{1 << 25}]") if "axis: 0" in layer else DATA
    text = f'{data}layer {{ name: "x" bottom: "data" top: "y" {layer} }}'
    with pytest.raises(CompileError, match="has no equivalent here, and the shape of its result"):
        caffe.load_text(text)
    shapes = {"y": (1, 4, 3, 3), "mask": (1, 4, 3, 3)}
    caffe.load_text(text, shapes={name: shape for name, shape in shapes.items() if f'"{name}"' in text})
    (remark,) = caffe.remarks("native")
    assert remark.startswith(f"x: carried as opaque: {reason}")


def test_blobs_are_carried(caffe: Any, new_net: Any) -> None:
    rng = np.random.default_rng(0)
    blobs = [rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=3).astype(np.float32)]
    net = new_net((1, 4, 6, 6))
    net.add("n", "Normalize", blobs=blobs)
    op = opaque(caffe.load(net))
    assert isinstance(op.attrs, DictionaryAttr)
    assert op.attrs.data["blobs"] == IntegerAttr(2, 64)
    for value, expected in zip(op.inputs[1:], blobs, strict=True):
        np.testing.assert_array_equal(nn.array_of(value), expected)


def test_is_not_run(caffe: Any) -> None:
    module = caffe.load_text(DATA + 'layer { name: "x" type: "MVN" bottom: "data" top: "y" }')
    with pytest.raises(CompileError, match=r"net.prototxt:2:1: node 'x': .* cannot be run: .*'caffe'"):
        run(module, {"data": np.zeros((1, 4, 6, 6), np.float32)})


def test_is_not_quantized(caffe: Any) -> None:
    module = caffe.load_text(DATA + 'layer { name: "x" type: "MVN" bottom: "data" top: "y" }')
    make_pass("insert-observers", "").apply(caffe.session, module)
    assert [op.name for op in main_function(module).body.block.ops] == ["nn.opaque", "func.return"]
