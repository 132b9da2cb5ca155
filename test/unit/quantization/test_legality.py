"""AMCT's tables of non-uniform and weight-only quantization: each row as it is allowed, and each constraint as it refuses."""

from __future__ import annotations

import pytest

from compiler.configuration.settings import Arq, Calibration, Settings, settings_for
from compiler.diagnostics import CompileError
from compiler.transforms.quantization.layers import layer_at
from compiler.transforms.quantization.legality import non_uniform_broken, row_of, weight_only_refusal
from compiler.transforms.quantization.profiles import ASCEND
from compiler.transforms.quantization.sites import Site, sites
from compiler.transforms.quantization.tables import NON_UNIFORM, UNIFORM, WEIGHTS, Mark

CONV = "nn.conv %x, %w{} from <{}> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>"
CONV_3D = "nn.conv %v, %vw from <{}> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>"
MATMUL = "nn.matmul %m, %mw from <{}> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>"
COMPUTED = "nn.matmul %m, %mk from <{}> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>"
AVERAGE = "nn.average_pool %x kernel [2, 2] from <{}> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>"
MAX = "nn.max_pool %x kernel [2, 2] from <{}> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>"

MODULE = """
func.func @main(%x: tensor<1x2x4x4xf32>, %v: tensor<1x1x4x4x4xf32>, %m: tensor<2x4xf32>, %mk: tensor<4x3xf32>) {{
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %vw = nn.constant dense<1.0> : tensor<1x1x1x1x1xf32>
  %mw = nn.constant dense<1.0> : tensor<4x3xf32>
  %y = {}
  func.return
}}
"""


@pytest.fixture
def site(equivalence):
    """`site(form, origin, ...)`: the layer of a module of one."""

    def build(form: str, *fields: str) -> Site:
        (found,) = sites(equivalence.parse(MODULE.format(form.format(*fields))), ASCEND.rows)
        return found

    return build


def rules_of(site: Site):
    return ASCEND.rows[type(site.compute)].rules


# Non-uniform

ALLOWED = [
    (CONV, "", 'caffe, "Convolution", "c"'),
    (MATMUL, 'caffe, "InnerProduct", "c"'),
    (CONV, "", 'tensorflow, "Conv2D", "c"'),
    (MATMUL, 'tensorflow, "MatMul", "c"'),
    (CONV, "", 'onnx, "Conv", "c"'),
    (CONV, " dilations [2, 2]", 'onnx, "Conv", "c", {dilations = array<i64: 2, 2>}'),
    (MATMUL, 'onnx, "Gemm", "c"'),
]


@pytest.mark.parametrize("case", ALLOWED)
def test_non_uniform(site, case):
    layer = site(*case)
    assert non_uniform_broken(layer, rules_of(layer)) is None


def test_every_non_uniform_row_is_tried(site):
    assert {id(row_of(site(*case).compute, NON_UNIFORM)) for case in ALLOWED} == {id(row) for row in NON_UNIFORM}


REFUSED = [
    ("dilation-1", CONV, " dilations [2, 2]", 'caffe, "Convolution", "c", {dilation = array<i64: 2>}'),
    ("filter-rank-4", CONV_3D, 'caffe, "Convolution", "c"'),
    ("transpose-false", MATMUL, 'caffe, "InnerProduct", "c", {transpose = 1 : i64}'),
    ("axis-1", MATMUL, 'caffe, "InnerProduct", "c", {axis = 0 : i64}'),
    ("dilation-1", CONV, "", 'tensorflow, "Conv2D", "c", {dilations = array<i64: 1, 2, 2, 1>}'),
    ("dilation-1", CONV, " dilations [2, 2]", 'tensorflow, "Conv2D", "c"'),  # by SpaceToBatch and BatchToSpace
    ("transpose-false", MATMUL, 'tensorflow, "MatMul", "c", {transpose_a = 1 : i64}'),
    ("planar-filter", CONV_3D, 'onnx, "Conv", "c"'),
    ("transpose-a-false", MATMUL, 'onnx, "Gemm", "c", {transA = 1 : i64}'),
    ("weight-constant", COMPUTED, 'onnx, "Gemm", "c"'),
    ("not-in-table", MATMUL, 'onnx, "MatMul", "c"'),
    ("not-in-table", CONV_3D, 'tensorflow, "Conv3D", "c"'),
    ("not-in-table", AVERAGE, 'onnx, "AveragePool", "c"'),
    ("not-in-table", MATMUL, 'onnx, "Einsum", "c"'),
]


@pytest.mark.parametrize("case", REFUSED)
def test_non_uniform_refused(site, case):
    rule, *layer = case
    layer = site(*layer)
    broken = non_uniform_broken(layer, rules_of(layer))
    assert broken is not None
    assert broken[0].name == rule


# Weights

PRODUCTS = ['onnx, "Gemm", "c"', 'tensorflow, "MatMul", "c"', 'onnx, "MatMul", "c"', 'tensorflow, "BatchMatMulV2", "c"']
POOLS = ['onnx, "AveragePool", "c"', 'tensorflow, "AvgPool", "c"', 'caffe, "Pooling", "c"']


@pytest.mark.parametrize("origin", PRODUCTS)
@pytest.mark.parametrize("channel_wise", [False, True])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_weights_of_products_alone(site, origin, channel_wise, asymmetric):
    """Every scenario of MatMulV2 and BatchMatMulV2; a weight that is computed in none."""
    assert weight_only_refusal(site(MATMUL, origin), channel_wise, asymmetric) is None
    refusal = weight_only_refusal(site(COMPUTED, origin), channel_wise, asymmetric)
    assert refusal == "its weight is computed at run time"


@pytest.mark.parametrize(("origin", "ascend"), list(zip(POOLS, ("AvgPoolV2", "AvgPool", "Pooling"), strict=True)))
def test_pools_have_no_weights(site, origin, ascend):
    assert weight_only_refusal(site(AVERAGE, origin), False, False) == f"{ascend} has no weights"


@pytest.mark.parametrize(
    ("form", "ascend"),
    [
        ((CONV, "", 'onnx, "Conv", "c"'), "Conv2D"),
        ((MATMUL, 'caffe, "InnerProduct", "c"'), "FullyConnection"),
        ((MAX, 'onnx, "MaxPool", "c"'), "MaxPool"),
        ((MATMUL, 'onnx, "Einsum", "c"'), "nn.matmul"),
    ],
)
def test_weights_alone_of_layers_that_the_table_does_not_have(site, form, ascend):
    assert weight_only_refusal(site(*form), False, False) == f"AMCT quantizes no weights of {ascend} alone"


def settings_of(site: Site, settings: Settings):
    return settings_for(settings, layer_at(site, ASCEND.rows[type(site.compute)]))


@pytest.mark.parametrize("case", [*((MATMUL, origin) for origin in PRODUCTS), *((AVERAGE, origin) for origin in POOLS)])
def test_channel_wise_beside_a_quantized_input(site, case):
    """×: an error where a layer is named; for all layers the weight gets one scale."""
    layer = site(*case)
    row = row_of(layer.compute)
    assert row is not None
    assert all(WEIGHTS[name].with_input == (Mark.ERROR, Mark.ERROR) for name in row.ascend)
    wish = Calibration(weight=Arq(channel_wise=True))
    with pytest.raises(CompileError, match="takes no channel_wise"):
        settings_of(layer, Settings(by_layer={"c": wish}))
    given = settings_of(layer, Settings(common=wish))
    assert given.weight is None or given.weight.channel_wise is False
    assert given.weight is None or "channel_wise" in given.remarks[0]


def test_asymmetric_beside_a_quantized_input():
    with pytest.raises(CompileError, match="asymmetric weights need weight_compress_only"):
        Calibration(weight=Arq(asymmetric=True))


def test_scales_per_channel_are_for_what_the_table_does_not_exclude():
    """The profile gives no operation a scale per channel whose Ascend operator has × there."""
    for row in UNIFORM:
        excluded = any(name in WEIGHTS for name in row.ascend)
        for op in row.operations:
            assert not (excluded and op in ASCEND.rows and ASCEND.rows[op].per_channel), row.op_type
