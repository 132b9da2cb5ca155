"""AMCT's tables of non-uniform and weight-only quantization: each row as it is allowed, and each constraint as it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import pytest

from amct_opt.configuration.layer_settings import settings_for
from amct_opt.configuration.settings import Arq, Calibration, Settings
from amct_opt.dialects.nn import ConvOp
from amct_opt.dialects.nn.shapes import shape_of
from amct_opt.lowering.ascend import profiles as ascend_profiles
from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.pipelines.passes import run_passes
from amct_opt.rewriting import condition
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools.amct_opt import run as amct_opt_tool
from amct_opt.transforms.quantization import profiles as former_profiles
from amct_opt.transforms.quantization.decide.conditions import (
    DecideConvolution,
    DecideLayer,
    DecidePassive,
    DecideWeighted,
    conditions_named,
    rule,
)
from amct_opt.transforms.quantization.decide.layers import layer_at
from amct_opt.transforms.quantization.decide.legality import (
    DecideWeights,
    first_broken,
    non_uniform_broken,
    row_of,
    weight_only_broken,
)
from amct_opt.transforms.quantization.decide.rows import Layer
from amct_opt.transforms.quantization.decide.sites import Site, sites
from amct_opt.transforms.quantization.place.insert_observers import InsertObserversPass
from amct_opt.transforms.quantization.profiles import QDQ, Profile, Row
from amct_opt.transforms.quantization.tables import NON_UNIFORM, PYTORCH, UNIFORM, WEIGHTS, Mark

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


def alone(site: Site, profile=ASCEND):
    return weight_only_broken(site, profile.rows[type(site.compute)])


@pytest.mark.parametrize("origin", PRODUCTS)
def test_weights_of_products_alone(site, origin):
    """Both scenarios of MatMulV2 and BatchMatMulV2 have √; a weight that is computed has neither."""
    layer = site(MATMUL, origin)
    row = row_of(layer.compute)
    assert row is not None
    assert WEIGHTS[row.ascend[0]].weight_only == (Mark.YES, Mark.ONLY)
    assert alone(layer) is None
    assert alone(site(COMPUTED, origin)) == (DecideWeighted.weight_constant, "its weight is computed at run time")
    for channel_wise, asymmetric in itertools.product((False, True), repeat=2):
        wish = Calibration(weight=Arq(channel_wise, 8, asymmetric), weight_compress_only=True)
        for settings in (Settings(by_layer={"c": wish}), Settings(common=wish)):
            given = settings_of(layer, settings)
            assert (given.weight, given.weight_compress_only, given.remarks) == (wish.weight, True, ())


WITHOUT_MODE = [
    *((AVERAGE, origin) for origin in POOLS),
    (CONV, "", 'onnx, "Conv", "c"'),
    (MATMUL, 'caffe, "InnerProduct", "c"'),
    (MATMUL, 'onnx, "Einsum", "c"'),
]


@pytest.mark.parametrize("form", WITHOUT_MODE)
def test_layers_whose_weights_are_not_quantized_alone(site, form):
    """An error where the layer or its type is named; asked of all layers it stays float."""
    layer = site(*form)
    kind = layer.compute.origin.op_type.data
    assert alone(layer) == (DecideWeights.weight_only, f"AMCT does not quantize the weights of {kind} layers alone")
    wish = Calibration(weight_compress_only=True)
    for settings in (Settings(by_layer={"c": wish}), Settings(by_type={kind: wish})):
        with pytest.raises(CompileError, match="has no weight that can be quantized by itself"):
            settings_of(layer, settings)
    assert settings_of(layer, Settings(common=wish)).skipped == "weight-compress-only"


def test_profile_qdq_asks_no_table(site):
    assert alone(site(MATMUL, 'caffe, "InnerProduct", "c"'), QDQ) is None
    assert alone(site(CONV, "", 'onnx, "Conv", "c"'), QDQ) is not None


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
    with pytest.raises(CompileError, match="does not support channel_wise"):
        settings_of(layer, Settings(by_layer={"c": wish}))
    given = settings_of(layer, Settings(common=wish))
    assert given.weight is None or given.weight.channel_wise is False
    assert given.weight is None or "channel_wise" in given.remarks[0]


@pytest.mark.parametrize("case", [*((MATMUL, origin) for origin in PRODUCTS), *((AVERAGE, origin) for origin in POOLS)])
def test_asymmetric_beside_a_quantized_input(site, case):
    """×: an error where a layer or its type is named; for all layers the weight has no zero point."""
    layer = site(*case)
    wish = Calibration(weight=Arq(asymmetric=True))
    for settings in (Settings(by_layer={"c": wish}), Settings(by_type={layer.compute.origin.op_type.data: wish})):
        with pytest.raises(CompileError, match="cannot have an asymmetric weight"):
            settings_of(layer, settings)
    for settings in (Settings(common=wish), Settings(weight_offset=True)):
        given = settings_of(layer, settings)
        assert given.weight in (None, Arq(False, 8, False))
        assert given.weight is None or "cannot have an asymmetric weight" in given.remarks[0]


def test_scales_per_channel_are_for_what_the_table_does_not_exclude():
    """The profile gives no operation a scale per channel whose Ascend operator has × there."""
    for row in UNIFORM:
        excluded = any(name in WEIGHTS for name in row.ascend)
        for op in row.operations:
            assert not (excluded and op in ASCEND.rows and ASCEND.rows[op].per_channel), row.op_type


def test_a_row_names_conditions_of_its_own_pattern() -> None:
    with pytest.raises(TypeError, match="pattern quantize-convolution has no condition transpose-false"):
        conditions_named((ConvOp,), ["weight-constant", "transpose-false"])
    with pytest.raises(TypeError, match=r"nn\.conv: pattern quantize-convolution has no condition pads-with-zero"):
        Profile("device", {ConvOp: Row(1, 2, rules=(DecidePassive.pads_with_zero,))})


MODULES = [
    ("", CONV, "", 'onnx, "Conv", "c", {module = "Conv2d"}'),
    ("called-once", CONV, "", 'onnx, "Conv", "c@2", {module = "Conv2d"}'),
    ("not-a-module", CONV, "", 'onnx, "Conv", "c"'),
    ("not-a-module", CONV, "", 'onnx, "Conv", "c", {module = "LazyConv2d"}'),
    (
        "weight-unshared",
        f"{CONV}\n  %z = {CONV}",
        "",
        'onnx, "Conv", "c", {module = "Conv2d"}',
        "",
        'onnx, "Conv", "d"',
    ),
]


@pytest.mark.parametrize("case", MODULES)
def test_conditions_of_modules(equivalence, case):
    rule, form, *fields = case
    layer = sites(equivalence.parse(MODULE.format(form.format(*fields))), ASCEND.rows)[0]
    broken = first_broken(layer, (), PYTORCH)
    assert ("" if broken is None else broken[0].name) == rule


PROFILES = (ASCEND, ascend_profiles.ASCEND_A2, ascend_profiles.ASCEND_PYTORCH, QDQ, former_profiles.PPQ)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_patterns_are_listed(profile: Profile) -> None:
    """What a list of patterns prints: a name and a statement of each, its roots, and its conditions with their statements."""
    patterns = InsertObserversPass.patterns_for(profile)
    assert len({pattern.name for pattern in patterns}) == len(patterns)
    for pattern in patterns:
        assert pattern.__doc__
        assert pattern.roots
        assert all(each.name and each.statement for each, _ in pattern.listed(profile))


def test_a_profile_lists_what_it_asks(capsys: pytest.CaptureFixture[str]) -> None:
    """The conditions of its rows and its table, with the layers that they are for; those of others are not there."""
    listed: dict[str, list[str]] = {}
    for profile in ("ascend", "qdq"):
        assert amct_opt_tool(["--list-patterns", "insert-observers", "--profile", profile]) == 0
        listed[profile] = [line.strip() for line in capsys.readouterr().out.splitlines()]
    only = "filter-rank-4 (caffe Convolution, caffe Deconvolution, onnx ConvTranspose): the filter is of rank 4 (AMCT)"
    assert only in listed["ascend"]
    assert not [line for line in listed["qdq"] if "filter-rank-4" in line or "not-in-table" in line]
    assert "quantize-average (nn.average_pool, nn.global_average_pool, nn.reduce_mean)" in listed["qdq"]


class DecideSmall(DecideConvolution):
    """A convolution with a small window."""

    name = "small-convolution"

    @condition
    def small_window(self, m: Layer) -> str | None:
        """the window has more than one element"""
        return "its window has one element" if shape_of(m.compute.operands[1])[-1] == 1 else None

    def asked(self, m: Layer):
        return (DecideSmall.small_window, *super().asked(m))


def test_a_pattern_of_a_plugin_decides(equivalence) -> None:
    """It is tried before the compiler's."""
    session = new_session()
    session.register_pattern("insert-observers", cast(Any, DecideSmall))
    module = equivalence.parse(MODULE.format(CONV.format("", 'onnx, "Conv", "c"')))
    run_passes(module, [InsertObserversPass()], session)
    (remark,) = [r for r in session.remarks if r.layer == "c"]
    assert (remark.kind, remark.rule, remark.reason) == ("missed", "small-window", "its window has one element")


@pytest.mark.parametrize("name", ["ASCEND", "ASCEND_A2", "ASCEND_PYTORCH", "like_amct"])
def test_the_former_place_of_profiles_warns(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{name} is in amct_opt.lowering.ascend.profiles now"):
        former = getattr(former_profiles, name)
    assert former is getattr(ascend_profiles, name)


def test_the_former_table_of_profiles_warns() -> None:
    with pytest.warns(DeprecationWarning, match="sessions have `profiles`"):
        former = cast(Mapping[str, Profile], former_profiles.PROFILES)
    assert former["ascend"] is ASCEND


def test_a_row_names_its_judge() -> None:
    with pytest.raises(TypeError, match=r"nn\.conv: condition integer-operator has no judge"):
        Profile("own", {ConvOp: Row(1, rules=(DecideLayer.integer_operator,))})


def test_the_former_place_of_conditions_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"import rule, and DecideWeighted .*, from decide\.conditions"):
        former = import_module("amct_opt.transforms.quantization.decide.rules.layer_rules")
    assert (former.weight_constant, former.rule) == (DecideWeighted.weight_constant, rule)
