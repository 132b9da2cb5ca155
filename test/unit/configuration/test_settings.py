"""Which settings hold for a layer: precedence, defaults, and what a layer cannot have."""

from dataclasses import replace
from typing import Any

import pytest

from amct_opt.configuration.checks import check_names
from amct_opt.configuration.layer_settings import LayerFacts, LayerSettings, settings_for
from amct_opt.configuration.settings import Activation, Ada, Arq, Calibration, Nuq, Settings, TensorQuantize
from amct_opt.support.diagnostics import CompileError

CONV = LayerFacts("conv1", "Conv", channel_wise=True, low_bits=True)
CONV3D = LayerFacts("conv3", "Conv", channel_wise=True, symmetric_only=True)
FC = LayerFacts("fc", "Gemm", weight_only=True)
POOL = LayerFacts("pool", "AveragePool", weighted=False)


def holds(layer: LayerFacts, **settings: Any) -> LayerSettings:
    return settings_for(Settings(**settings), layer)


def test_defaults() -> None:
    conv, fc, pool = (settings_for(Settings(), layer) for layer in (CONV, FC, POOL))
    assert conv == LayerSettings(None, "ifmr", 8, False, Arq(True, 8, False), None, False)
    assert fc.weight == Arq(False, 8, False)
    assert pool.weight is None
    assert conv.quantize


A, B, C = Activation("ifmr{search-step=0.02}"), Activation("hfmg"), Activation("ifmr{search-step=0.03}", 16)


@pytest.mark.parametrize(
    ("settings", "observer"),
    [
        ({}, "ifmr"),
        ({"common": Calibration(A)}, A.observer),
        ({"common": Calibration(A), "by_type": {"Conv": Calibration(B)}}, "hfmg"),
        ({"common": Calibration(A), "by_type": {"Gemm": Calibration(B)}}, A.observer),
        ({"by_type": {"Conv": Calibration(B)}, "by_layer": {"conv1": Calibration(C)}}, C.observer),
        ({"by_type": {"Conv": Calibration(B)}, "by_layer": {"fc": Calibration(C)}}, "hfmg"),
    ],
)
def test_the_nearest_holds(settings: dict[str, Any], observer: str) -> None:
    assert holds(CONV, **settings).observer == observer


def test_it_holds_as_a_whole() -> None:
    """A layer's own settings say nothing of the activation: the default holds, not that of all layers."""
    common = Calibration(C, Arq(bits=7), migration_strength=0.3)
    own = Calibration(weight=Arq(bits=6))
    conv = holds(CONV, common=common, by_layer={"conv1": own})
    assert (conv.observer, conv.bits, conv.migration_strength) == ("ifmr", 8, None)
    assert conv.weight == Arq(True, 6, False)
    assert holds(CONV, common=common).migration_strength == 0.3


def test_bits_of_a_single_weight() -> None:
    """They replace the bits alone: all else is as other settings have it, also where those could not hold for the layer."""
    common = Calibration(C, Arq(channel_wise=False, bits=4))
    conv = holds(CONV, common=common, weight_bits={"conv1": 6})
    assert (conv.observer, conv.weight) == (C.observer, Arq(False, 6, False))
    fc = holds(FC, common=common, weight_bits={"fc": 8})
    assert (fc.weight, fc.remarks) == (Arq(False, 8, False), ())
    assert holds(CONV, common=Calibration(weight=Nuq()), weight_bits={"conv1": 8}).weight == Arq(True, 8, False)
    with pytest.raises(CompileError, match="layer_weight_bits gives 'pool' 8 bits, but it has no weight"):
        holds(POOL, weight_bits={"pool": 8})


def test_packed_weights() -> None:
    """Where the target packs pairs of input channels, any layer that has pairs takes 4 bits; 6 and 7 only what takes them."""
    four, six = ({"common": Calibration(weight=Arq(bits=bits))} for bits in (4, 6))
    for layer, settings, bits in (
        (replace(FC, packs=True), four, 4),
        (replace(FC, packs=True), six, 8),
        (replace(CONV, packs=True), four, 4),
        (replace(CONV, packs=False), four, 8),
        (replace(CONV, packs=False), six, 6),
    ):
        held = holds(layer, **settings)
        assert isinstance(held.weight, Arq)
        assert held.weight.bits == bits
        assert len(held.remarks) == (bits == 8)
    assert "pairs of input channels" in holds(replace(CONV, packs=False), **four).remarks[0]


def test_two_bits_are_for_groups() -> None:
    """One layer may have other bits than all, in the groups of all; without groups it is an error that says what to give."""
    product = LayerFacts("fc", "MatMul", channel_wise=True, weight_only=True)
    common = Calibration(weight=Arq(bits=2, group_size=32), weight_compress_only=True)
    assert holds(product, common=common).weight == Arq(True, 2, False, 32)
    assert holds(product, common=common, weight_bits={"fc": 8}).weight == Arq(True, 8, False, 32)
    eight = replace(common, weight=Arq(group_size=32))
    assert holds(product, common=eight, weight_bits={"fc": 2}).weight == Arq(True, 2, False, 32)
    assert Arq(bits=2, group_size=32).by_channel == Arq()
    assert Arq(bits=3, group_size=32).by_channel == Arq(bits=3)
    with pytest.raises(CompileError, match="quant_bits 2 needs group_size"):
        Arq(bits=2)
    with pytest.raises(
        CompileError, match="layer_weight_bits gives 'fc' 2 bits, but quant_bits 2 needs group_size"
    ) as found:
        holds(product, common=replace(common, weight=Arq()), weight_bits={"fc": 2}, where="a.json")
    assert (found.value.where, found.value.hint) == ("a.json", "give weight-only=true group-size=32")
    next_to_inputs = holds(CONV, common=replace(common, weight_compress_only=False))
    assert next_to_inputs.weight == Arq(True, 8, False)
    assert next_to_inputs.remarks == (
        "cannot have a scale for each group: only weights that are quantized by themselves have groups",
    )


def test_bits_of_a_single_input() -> None:
    """They replace the bits alone, also those of a layer's own settings; a layer that cannot have 16 refuses them."""
    own = Calibration(C, Arq(bits=6), migration_strength=0.3)
    conv = holds(CONV, by_layer={"conv1": own}, bits={"conv1": 16})
    assert (conv.observer, conv.bits, conv.weight, conv.migration_strength) == (
        C.observer,
        16,
        Arq(True, 6, False),
        0.3,
    )
    assert holds(FC, common=Calibration(Activation("ifmr", 16)), bits={"fc": 8}).bits == 8
    narrow = replace(CONV, narrow="it is of this test")
    assert holds(narrow, common=Calibration(Activation("ifmr", 16))).bits == 8
    with pytest.raises(CompileError, match="layer_bits gives 'conv1' 16 bits: it cannot have an input of 16 bits"):
        holds(narrow, bits={"conv1": 16})
    alone = Calibration(weight_compress_only=True)
    with pytest.raises(CompileError, match="layer_bits gives 'fc' 16 bits, but its input stays float: only its weight"):
        holds(replace(FC, weight_only=True), common=alone, bits={"fc": 16})


def said(asymmetric: bool | None, observer: str = "ifmr") -> Calibration:
    return Calibration(Activation(observer, asymmetric=asymmetric))


@pytest.mark.parametrize(
    ("settings", "symmetric"),
    [
        ({"activation_offset": True}, False),
        ({"activation_offset": False}, True),
        ({"activation_offset": False, "common": said(True)}, False),
        ({"common": said(False)}, True),
        ({"common": said(False), "by_type": {"Conv": said(True)}}, False),
        ({"common": said(False), "by_type": {"Conv": said(None)}}, True),
        ({"common": said(False), "by_type": {"Conv": said(None, "hfmg")}}, False),
        ({"common": said(False, "hfmg"), "by_layer": {"conv1": said(None, "hfmg")}}, True),
        ({"common": said(False, "hfmg"), "by_layer": {"conv1": said(None)}}, False),
        ({"by_type": {"Conv": said(False)}, "by_layer": {"conv1": said(True)}}, False),
        ({"by_type": {"Conv": said(False)}, "by_layer": {"conv1": said(None)}}, True),
        ({"by_type": {"Conv": said(False)}, "by_layer": {"conv1": said(None, "hfmg")}}, True),
        ({"common": said(False), "by_type": {"Conv": said(True)}, "by_layer": {"conv1": said(None)}}, False),
    ],
)
def test_asymmetry_is_looked_up_by_itself(settings: dict[str, Any], symmetric: bool) -> None:
    """Layer, type, all layers if their algorithm is the same, `activation_offset`."""
    assert holds(CONV, **settings).symmetric is symmetric


def test_asymmetry_of_weights_is_looked_up_by_itself() -> None:
    only: dict[str, Any] = {"weight_compress_only": True}
    common = Calibration(weight=Arq(asymmetric=True), **only)
    settings = {"common": common, "by_layer": {"fc": Calibration(weight=Arq(channel_wise=True), **only)}}
    assert holds(FC, **settings).weight == Arq(True, 8, True)
    assert holds(FC, common=common, by_layer={"fc": Calibration()}).weight == Arq(False, 8, False)


@pytest.mark.parametrize("weight", [Ada(channel_wise=True), Nuq(channel_wise=True)])
def test_other_algorithms_of_weights(weight: Ada | Nuq) -> None:
    assert holds(CONV, common=Calibration(weight=type(weight)())).weight == weight


IMPOSSIBLE = {
    "channel_wise": (FC, Calibration(weight=Arq(channel_wise=True)), "does not support channel_wise"),
    "channel_wise of a pool": (POOL, Calibration(weight=Arq(channel_wise=True)), "does not support channel_wise"),
    "bits": (FC, Calibration(weight=Arq(bits=6)), "cannot have a weight of 6 bits"),
    "asymmetric": (CONV3D, said(True), "cannot have an asymmetric input"),
    "weight only": (POOL, Calibration(weight_compress_only=True), "has no weight that can be quantized by itself"),
}


OF_THE_TYPE = ("channel_wise", "channel_wise of a pool", "weight only")


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_a_layer_cannot_have(case: str) -> None:
    """Asked of the layer it is an error, also of a type that never has it; else the default holds, and a remark says so."""
    layer, wish, reason = IMPOSSIBLE[case]
    errors: list[dict[str, Any]] = [{"by_layer": {layer.name: wish}}]
    remarked: list[dict[str, Any]] = [{"common": wish}]
    (errors if case in OF_THE_TYPE else remarked).append({"by_type": {layer.type: wish}})
    for settings in errors:
        with pytest.raises(CompileError, match=f"'{layer.name}' .{layer.type}. {reason}"):
            holds(layer, **settings)
    for settings in remarked:
        result = holds(layer, **settings)
        assert result.symmetric == (layer is CONV3D)
        if layer.weighted:
            assert reason in result.remarks[0]
            assert result.weight == Arq(layer.channel_wise, 8, False)


def test_three_dimensional_convolutions_are_symmetric() -> None:
    result = holds(CONV3D)
    assert result.symmetric
    assert not result.remarks


@pytest.mark.parametrize(
    ("settings", "skipped"),
    [
        ({"skip_layers": ("conv1",)}, "skip-layers"),
        ({"skip_layer_types": ("Conv",)}, "skip-layer-types"),
        ({"enabled": frozenset({"fc"})}, "quant-enable"),
        ({"enabled": frozenset({"conv1"})}, None),
    ],
)
def test_skipped(settings: dict[str, Any], skipped: str | None) -> None:
    assert holds(CONV, **settings).skipped == skipped
    assert holds(FC, skip_layers=("conv1",)).quantize


LAYERS = (CONV, FC, POOL)
UNKNOWN = {
    "skip_layers": (
        {"skip_layers": ("conv9",)},
        "skip_layers names 'conv9', which is not a layer or module of the model",
    ),
    "by_layer": ({"by_layer": {"conv9": Calibration()}}, "override_layer_configs names 'conv9', which is not a layer"),
    "not quantizable": ({"by_layer": {"relu": Calibration()}}, "names 'relu', which cannot be quantized: it is a relu"),
    "not to be enabled": (
        {"by_layer": {"relu": Calibration()}, "enabled": frozenset({"relu"})},
        "quant_enable names 'relu', which cannot be quantized: it is a relu",
    ),
    "skip_layer_types": ({"skip_layer_types": ("Relu",)}, "skip_layer_types names 'Relu', which is not a type"),
    "by_type": ({"by_type": {"Relu": Calibration()}}, "override_layer_types names 'Relu', which is not a type"),
    "skip_fusion_layers": ({"skip_fusion_layers": ("conv9",)}, "skip_fusion_layers names 'conv9'"),
    "tensor_quantize": ({"tensor_quantize": (TensorQuantize("p", 0),)}, "tensor_quantize names 'p'"),
}
OTHERS = {"relu": "it is a relu"}


@pytest.mark.parametrize(("settings", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_names(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message) as error:
        check_names(Settings(**settings, where="simple.cfg"), LAYERS, OTHERS, ["ConvTranspose"])
    assert error.value.where == "simple.cfg"


def test_known_names() -> None:
    """Types need no layer in the model; what skips a layer may name any."""
    settings = Settings(
        skip_layers=("fc", "relu"),
        skip_layer_types=("ConvTranspose",),
        skip_fusion_layers=("relu",),
        tensor_quantize=(TensorQuantize("relu", 0),),
        by_layer={"conv1": Calibration(), "relu": Calibration()},
        by_type={"Gemm": Calibration()},
        enabled=frozenset({"pool"}),
    )
    check_names(settings, LAYERS, OTHERS, ["ConvTranspose"])


def test_one_text_is_not_several_names() -> None:
    with pytest.raises(CompileError, match=r"skip_layers is the text 'fc', not several names\n  hint: write \('fc',\)"):
        Settings(skip_layers="fc")  # pyright: ignore[reportArgumentType]
