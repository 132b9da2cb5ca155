"""JSON configurations: AMCT's own form, every key, every error with its layer, writing and reading back."""

import json
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given, strategies as st

from amct_opt.configuration.json_config import json_text, read_json
from amct_opt.configuration.layer_settings import LayerFacts, settings_for
from amct_opt.configuration.observer_text import observer_text
from amct_opt.configuration.settings import Activation, Ada, Arq, Calibration, Nuq, NuqConfig, Settings, TensorQuantize
from amct_opt.support.diagnostics import CompileError

CONV = LayerFacts("conv1", "Conv", channel_wise=True, low_bits=True)
FC = LayerFacts("fc", "Gemm")
POOL = LayerFacts("avg", "AveragePool", weighted=False)

SAMPLE = """\
{
    "version":1,
    "batch_num":2,
    "activation_offset":true,
    "do_fusion":true,
    "skip_fusion_layers":[],
    "avg":{
        "quant_enable":true,
        "activation_quant_params":{
            "num_bits":8,
            "act_algo":"hfmg",
            "num_of_bins":4096,
            "asymmetric":true
        },
        "weight_quant_params":{
            "num_bits":8,
            "channel_wise":false,
            "wts_algo":"arq_quantize"
        }
    },
    "conv1":{
        "quant_enable":true,
        "dmq_balancer_param":0.5,
        "activation_quant_params":{
            "num_bits":8,
            "max_percentile":0.999999,
            "min_percentile":0.999999,
            "search_range":[
                0.7,
                1.3
            ],
            "search_step":0.01,
            "act_algo":"ifmr",
            "asymmetric":false
        },
        "weight_quant_params":{
            "num_bits":8,
            "channel_wise":true,
            "wts_algo":"arq_quantize"
        }
    },
    "fc":{
        "quant_enable":false,
        "activation_quant_params":{
            "num_bits":8,
            "max_percentile":0.999999,
            "min_percentile":0.999999,
            "search_range":[
                0.7,
                1.3
            ],
            "search_step":0.01,
            "act_algo":"ifmr",
            "asymmetric":true
        },
        "weight_quant_params":{
            "num_bits":8,
            "channel_wise":false,
            "wts_algo":"arq_quantize"
        }
    }
}
"""
"""In AMCT's form: order of keys, four blanks, no blank after colons; a layer without a weight has its settings, too."""


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str) -> Settings:
        path = tmp_path / "config.json"
        path.write_text(text, "utf-8")
        return read_json(path)

    return read


def test_the_sample_reads(read) -> None:
    settings = read(SAMPLE)
    assert settings.batch_num == 2
    assert settings.enabled == {"avg", "conv1"}
    conv = settings_for(settings, CONV)
    assert (conv.observer, conv.symmetric, conv.migration_strength) == ("ifmr", True, 0.5)
    assert conv.weight == Arq(True, 8, False)
    assert settings_for(settings, POOL).observer == "hfmg"
    assert settings_for(settings, FC).skipped == "quant-enable"
    assert settings_for(settings, LayerFacts("other", "Conv")).skipped == "quant-enable"


def test_the_sample_is_written_as_it_was(read) -> None:
    assert json_text(read(SAMPLE), [CONV, FC, POOL]) == SAMPLE.rstrip()


def test_each_framework_has_its_order(read) -> None:
    """As in files that AMCT wrote. The one for ONNX has settings that are off, and the algorithm of weights before
    `channel_wise`.
    """
    text = json_text(read(SAMPLE), [CONV, FC, POOL], "onnx")
    settings = [
        "version",
        "batch_num",
        "activation_offset",
        "joint_quant",
        "do_fusion",
        "skip_fusion_layers",
        "tensor_quantize",
    ]
    written = json.loads(text)
    assert list(written) == [*settings, "avg", "conv1", "fc"]
    assert (written["joint_quant"], written["tensor_quantize"]) == (False, [])
    assert list(written["conv1"]["weight_quant_params"]) == ["num_bits", "wts_algo", "channel_wise"]
    torch = json.loads(json_text(read(SAMPLE), [CONV, FC, POOL], "pytorch"))
    assert list(torch["avg"]["activation_quant_params"]) == ["num_bits", "act_algo", "asymmetric", "num_of_bins"]
    assert json_text(read(text), [CONV, FC, POOL]) == SAMPLE.rstrip()


def test_a_byte_order_mark_is_left_out(read) -> None:
    assert read("\ufeff" + SAMPLE) == read(SAMPLE)


def test_missing_keys_have_their_defaults(read) -> None:
    settings = read('{"conv1": {}, "fc": {"activation_quant_params": {"act_algo": "hfmg"}}}')
    assert settings.batch_num is None
    assert replace(settings_for(settings, CONV), remarks=()) == settings_for(Settings(), CONV)
    assert settings_for(settings, FC).observer == "hfmg"


def layer(text: str) -> str:
    return f'{{"conv1": {text}}}'


def activation(text: str) -> str:
    return layer(f'{{"activation_quant_params": {{{text}}}}}')


def weight(text: str) -> str:
    return layer(f'{{"weight_quant_params": {{{text}}}}}')


KEYS = {
    "ifmr": (
        '"num_bits": 16, "max_percentile": 0.9999, "min_percentile": 1, "search_range": [0.8, 1.2], "search_step": 0.02,'
        '"act_algo": "ifmr", "asymmetric": false',
        Activation(
            "ifmr{max-percentile=0.9999 min-percentile=1 search-range-start=0.8 search-range-end=1.2 search-step=0.02}",
            16,
            False,
        ),
    ),
    "hfmg": ('"act_algo": "hfmg", "num_of_bins": 1024', Activation("hfmg{num-of-bins=1024}")),
    "every digit": ('"search_step": 0.012345678901234567', Activation("ifmr{search-step=0.012345678901234567}")),
}


@pytest.mark.parametrize(("text", "expected"), KEYS.values(), ids=KEYS)
def test_activations(read, text: str, expected: Activation) -> None:
    assert read(activation(text)).by_layer["conv1"].activation == expected


WEIGHTS = {
    "arq": ('"num_bits": 7, "channel_wise": true, "wts_algo": "arq_quantize"', Arq(True, 7)),
    "ada": (
        '"wts_algo": "ada_quantize", "num_iteration": 10, "reg_param": 0.1, "beta_range": [20, 3], "warm_start": 0.5,'
        '"num_bits": 8, "channel_wise": true',
        Ada(10, 0.1, 20, 3, 0.5, True),
    ),
    "ada, defaults": ('"wts_algo": "ada_quantize"', Ada()),
    "nuq": ('"wts_algo": "nuq_quantize", "num_steps": 16, "num_of_iteration": 2', Nuq(16, 2)),
}


@pytest.mark.parametrize(("text", "expected"), WEIGHTS.values(), ids=WEIGHTS)
def test_weights(read, text: str, expected: Arq | Ada | Nuq) -> None:
    settings = read(weight(text))
    assert settings.by_layer["conv1"].weight == expected
    written = json_text(settings, [CONV])
    assert settings_for(read(written), CONV) == settings_for(settings, CONV)


PRODUCT = replace(FC, weight_only=True)
ALONE = """{
    "version":1,
    "activation_offset":true,
    "do_fusion":true,
    "skip_fusion_layers":[],
    "fc":{
        "quant_enable":true,
        "weight_compress_only":true,
        "weight_quant_params":{
            "num_bits":4,
            "channel_wise":true,
            "asymmetric":true,
            "group_size":32,
            "search":true,
            "wts_algo":"arq_quantize"
        }
    }
}
"""


@pytest.mark.parametrize("bits", [2, 4])
def test_weights_alone(read, bits: int) -> None:
    """The layer has no settings of its input; keys that AMCT's own files do not have say so."""
    settings = read(text := ALONE.replace('"num_bits":4', f'"num_bits":{bits}'))
    fc = settings_for(settings, PRODUCT)
    assert (fc.weight_compress_only, fc.weight) == (True, Arq(True, bits, True, 32, search=True))
    assert json_text(settings, [PRODUCT]) == text.rstrip()


@pytest.mark.parametrize(("text", "asymmetric"), [("true", True), ("false", False)])
def test_weight_offset_is_of_weights_alone(read, text: str, asymmetric: bool) -> None:
    settings = read(f'{{"weight_offset": {text}, "fc": {{"weight_compress_only": true}}, "conv1": {{}}}}')
    assert settings_for(settings, PRODUCT).weight == Arq(False, 8, asymmetric)
    conv = settings_for(settings, CONV)
    assert conv.weight == Arq(True, 8, False)
    assert len(conv.remarks) == asymmetric


def test_the_order_of_all_keys(read) -> None:
    settings = Settings(
        batch_num=2,
        joint_quant=True,
        weight_offset=True,
        do_fusion=False,
        fakequant_precision_mode="FORCE_FP16_QUANT",
        skip_fusion_layers=("conv1",),
        tensor_quantize=(TensorQuantize("p", 1, Activation(asymmetric=False)),),
        common=Calibration(weight=Ada(), migration_strength=0.3),
    )
    text = json_text(settings, [CONV])
    values = json.loads(text)
    assert list(values) == [
        *("version", "batch_num", "activation_offset", "joint_quant", "weight_offset", "do_fusion"),
        *("fakequant_precision_mode", "skip_fusion_layers", "tensor_quantize", "conv1"),
    ]
    assert list(values["conv1"]) == [
        "quant_enable",
        "dmq_balancer_param",
        "activation_quant_params",
        "weight_quant_params",
    ]
    assert list(values["conv1"]["weight_quant_params"]) == [
        "num_bits",
        "num_iteration",
        "reg_param",
        "warm_start",
        "beta_range",
        "channel_wise",
        "wts_algo",
    ]
    again = read(text)
    assert again.tensor_quantize == settings.tensor_quantize
    assert json_text(again, [CONV]) == text


ERRORS = {
    "no json": ('{\n"version": 1,\n}', "config.json:3:1: error: is not JSON"),
    "no object": ("[1]", "must be a JSON object"),
    "nan": (activation('"search_step": NaN'), "NaN is not a JSON number"),
    "twice": ('{"conv1": {}, "conv1": {}}', "key 'conv1' appears twice"),
    "twice within": (layer('{"quant_enable": true, "quant_enable": true}'), "key 'quant_enable' appears twice"),
    "version": ('{"version": 2, "a": {}}', "version must be 1, not 2"),
    "wrong type": ('{"version": "1"}', 'version must be an integer, not "1"'),
    "a bool is not an integer": ('{"batch_num": true}', "batch_num must be an integer, not true"),
    "an integer is not a bool": ('{"do_fusion": 1}', "do_fusion must be true or false, not 1"),
    "batch_num": ('{"batch_num": 0}', "batch_num must be at least 1, not 0"),
    "precision": ('{"fakequant_precision_mode": "FAST"}', "fakequant_precision_mode must be FORCE_FP16_QUANT, not FAST"),
    "no list": ('{"skip_fusion_layers": "a"}', "skip_fusion_layers must be a list"),
    "no names": ('{"skip_fusion_layers": [1]}', "skip_fusion_layers must be a text, not 1"),
    "names twice": ('{"skip_fusion_layers": ["a", "a"]}', "skip_fusion_layers names 'a' twice"),
    "layer of a wrong type": ('{"conv1": 1}', "layer 'conv1' must be an object, not 1"),
    "unknown key": (layer('{"quant": true}'), "layer 'conv1': unknown key 'quant'"),
    "unknown key within": (activation('"bins": 1'), "layer 'conv1': activation_quant_params: unknown key 'bins'"),
    "a key of another algorithm": (activation('"num_of_bins": 1024'), "unknown key 'num_of_bins'"),
    "a key of another weight algorithm": (weight('"num_iteration": 1'), "unknown key 'num_iteration'"),
    "algorithm": (activation('"act_algo": "kl"'), "layer 'conv1': activation_quant_params: act_algo 'kl' is not one of"),
    "weight algorithm": (weight('"wts_algo": "x"'), "layer 'conv1': weight_quant_params: wts_algo 'x' is not one of"),
    "percentile": (activation('"max_percentile": 0.1'), "layer 'conv1': activation_quant_params: max-percentile must lie in"),
    "range": (activation('"search_range": [1.3, 0.7]'), "must be positive, finite and in order"),
    "range of one": (activation('"search_range": [1.3]'), "search_range must be two numbers, not 1"),
    "range of a text": (activation('"search_range": ["a", 1]'), 'search_range must be a number, not "a"'),
    "endless": (activation('"search_range": [0.7, 1e999]'), "must be positive, finite and in order"),
    "steps": (activation('"search_range": [0.7, 9999]'), "gives more than 100000 steps"),
    "bins": (activation('"act_algo": "hfmg", "num_of_bins": 5'), "'5' is not one of 1024"),
    "num_bits": (activation('"num_bits": 7'), "bits of activations must be one of 4, 8, 16, not 7"),
    "weight bits": (weight('"num_bits": 5'), "layer 'conv1': weight_quant_params: quant_bits must be one of"),
    "bits of ada": (weight('"wts_algo": "ada_quantize", "num_bits": 4'), "num_bits must be 8 with ada_quantize, not 4"),
    "dmq": (layer('{"dmq_balancer_param": 0.1}'), "layer 'conv1': migration_strength must lie in [0.2, 0.8], not 0.1"),
    "nothing enabled": (layer('{"quant_enable": false}'), "no layer is enabled"),
    "nothing": ("{}", "no layer is enabled"),
    "tensor": ('{"tensor_quantize": [{"layer_name": "a"}]}', "tensor_quantize[0]: has no input_index"),
    "tensor key": ('{"tensor_quantize": [{"layer_name": "a", "input_index": 0, "b": 1}]}', "tensor_quantize[0]: unknown key 'b'"),
    "deep": ('{"a":' * 100_000, "nested too deep"),
    "many digits": ('{"version": ' + "1" * 5000 + "}", "cannot be read: Exceeds the limit"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(read, text: str, message: str) -> None:
    with pytest.raises(CompileError) as error:
        read(text)
    assert message in str(error.value)
    assert "config.json" in error.value.where


CANNOT_BE_WRITTEN = {
    "AMCT has no observer 'minmax'": (Settings(common=Calibration(Activation("minmax"))), CONV),
    "cannot contain nuq_config": (Settings(nuq_config=NuqConfig("m")), CONV),
    "layer 'version' has the name of a setting": (Settings(), LayerFacts("version", "Conv")),
    "layer 'weight_offset' has the name of a setting": (Settings(), LayerFacts("weight_offset", "Conv")),
}


@pytest.mark.parametrize(
    ("message", "settings", "layer"), [(m, *v) for m, v in CANNOT_BE_WRITTEN.items()], ids=CANNOT_BE_WRITTEN
)
def test_what_cannot_be_written(message: str, settings: Settings, layer: LayerFacts) -> None:
    with pytest.raises(CompileError, match=message):
        json_text(settings, [layer])


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.floats(0.2, 0.8), st.floats(1e-4, 0.5), st.booleans())
def test_names_and_numbers_survive(tmp_path_factory, name: str, strength: float, step: float, enabled: bool) -> None:
    hypothesis.assume(name not in ("version", "batch_num", "weight_offset"))
    layer, other = LayerFacts(name, "Conv", channel_wise=True), LayerFacts("other layer", "Conv")
    settings = Settings(
        skip_layers=() if enabled else (name,),
        common=Calibration(Activation(observer_text("ifmr", {"search_step": step})), migration_strength=strength),
    )
    path = tmp_path_factory.mktemp("json") / "config.json"
    path.write_text(json_text(settings, [layer, other]), "utf-8")
    again = settings_for(read_json(path), layer)
    assert again == replace(settings_for(settings, layer), skipped=None if enabled else "quant-enable")
