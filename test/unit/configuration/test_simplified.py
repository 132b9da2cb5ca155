"""Simplified configurations: every field, every error with its line, writing and reading back."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from amct_opt.configuration.settings import Activation, Ada, Arq, Calibration, Nuq, NuqConfig, Settings, TensorQuantize
from amct_opt.configuration.simplified import read_simplified
from amct_opt.configuration.simplified_text import simplified_text
from amct_opt.support.diagnostics import CompileError


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str, flavour: str | None = None) -> Settings:
        path = tmp_path / "simple.cfg"
        path.write_text(text, "utf-8")
        return read_simplified(path, flavour)

    return read


def common(text: str) -> str:
    return f"common_config {{ {text} }}"


FIELDS = {
    "nothing": ("", Settings()),
    "comment": ("# nothing\n", Settings()),
    "batch_num": ("batch_num : 2", Settings(batch_num=2)),
    "batch_num, default": ("batch_num: 1", Settings(batch_num=1)),
    "activation_offset": ("activation_offset: false", Settings(activation_offset=False)),
    "joint_quant": ("joint_quant: true", Settings(joint_quant=True)),
    "version": ("version: 1", Settings()),
    "enable_auto_nuq": ("enable_auto_nuq: true", Settings(enable_auto_nuq=True)),
    "skip_layers": ('skip_layers: "a"\nskip_layers : "b/c"', Settings(skip_layers=("a", "b/c"))),
    "skip_layers, a list": ('skip_layers: ["a", "ä"]', Settings(skip_layers=("a", "ä"))),
    "skip_layer_types": ('skip_layer_types: "Conv"', Settings(skip_layer_types=("Conv",))),
    "skip_approximation_layers": ('skip_approximation_layers: "s"', Settings(skip_approximation_layers=("s",))),
    "precision": ("fakequant_precision_mode: FORCE_FP16_QUANT", Settings(fakequant_precision_mode="FORCE_FP16_QUANT")),
    "do_fusion": ("do_fusion: false", Settings(do_fusion=False)),
    "skip_fusion_layers": ('skip_fusion_layers: "c"', Settings(skip_fusion_layers=("c",))),
    "nuq_config": ('nuq_config { mapping_file: "m.json" }', Settings(nuq_config=NuqConfig("m.json"))),
    "nuq_config, steps": (
        'nuq_config : { mapping_file: "m.json" nuq_quantize: { num_steps: 16 num_of_iteration: 0 } }',
        Settings(nuq_config=NuqConfig("m.json", Nuq(16, 0))),
    ),
    "tensor_quantize": (
        'tensor_quantize { layer_name: "p" input_index: 0 }\n'
        'tensor_quantize { layer_name: "p" input_index: 1 hfmg_quantize { num_of_bins: 1024 } }',
        Settings(
            tensor_quantize=(TensorQuantize("p", 0), TensorQuantize("p", 1, Activation("hfmg{num-of-bins=1024}")))
        ),
    ),
    "common_config": (common(""), Settings(common=Calibration())),
    "channel_wise": (
        common("arq_quantize { channel_wise: true }"),
        Settings(common=Calibration(weight=Arq(channel_wise=True))),
    ),
    "quant_bits": (common("arq_quantize { quant_bits: 6 }"), Settings(common=Calibration(weight=Arq(bits=6)))),
    "weight only": (
        common("weight_compress_only: true arq_quantize { asymmetric: true }"),
        Settings(common=Calibration(weight=Arq(asymmetric=True), weight_compress_only=True)),
    ),
    "ada": (
        common(
            "ada_quantize { num_iteration: 5 reg_param: 0.1 beta_range_start: 10 beta_range_end: 1.5 "
            "warm_start: 0.3 channel_wise: false }"
        ),
        Settings(common=Calibration(weight=Ada(5, 0.1, 10, 1.5, 0.3, False))),
    ),
    "nuq": (common("nuq_quantize { num_steps: 16 }"), Settings(common=Calibration(weight=Nuq(16)))),
    "ifmr": (
        common(
            "ifmr_quantize { search_range_start: 0.8 search_range_end: 1.2 search_step: 0.02 max_percentile: 0.9999 "
            "min_percentile: 0.999 asymmetric: false dst_type: INT16 }"
        ),
        Settings(
            common=Calibration(
                Activation(
                    "ifmr{search-range-start=0.8 search-range-end=1.2 search-step=0.02 max-percentile=0.9999 "
                    "min-percentile=0.999}",
                    bits=16,
                    asymmetric=False,
                )
            )
        ),
    ),
    "ifmr, defaults": (
        common("ifmr_quantize { search_range_start: 0.7 max_percentile: 0.999999 asymmetric: true dst_type: INT8 }"),
        Settings(common=Calibration(Activation("ifmr", asymmetric=True))),
    ),
    "a step as wide as the range, in decimals": (
        common("ifmr_quantize { search_range_start: 0.8 search_range_end: 0.9 search_step: 0.1 }"),
        Settings(common=Calibration(Activation("ifmr{search-range-start=0.8 search-range-end=0.9 search-step=0.1}"))),
    ),
    "hfmg": (
        common("hfmg_quantize { num_of_bins: 8192 asymmetric: true dst_type: INT16 }"),
        Settings(common=Calibration(Activation("hfmg{num-of-bins=8192}", 16, True))),
    ),
    "dmq": (common("dmq_balancer { }"), Settings(common=Calibration(migration_strength=0.5))),
    "dmq, strength": (
        common("dmq_balancer { migration_strength: 0.2 }"),
        Settings(common=Calibration(migration_strength=0.2)),
    ),
    "the last member of a oneof": (
        common("ifmr_quantize { search_step: 0.02 } hfmg_quantize { } ada_quantize { } arq_quantize { quant_bits: 7 }"),
        Settings(common=Calibration(Activation("hfmg"), Arq(bits=7))),
    ),
    "types and layers": (
        'override_layer_types : { layer_type : "Conv" calibration_config : { hfmg_quantize : { } } }\n'
        'override_layer_configs : { layer_name : "c1" calibration_config : { arq_quantize : { quant_bits : 7 } } }',
        Settings(by_type={"Conv": Calibration(Activation("hfmg"))}, by_layer={"c1": Calibration(weight=Arq(bits=7))}),
    ),
}


@pytest.mark.parametrize(("text", "expected"), FIELDS.values(), ids=FIELDS)
def test_fields(read, text: str, expected: Settings) -> None:
    assert read(text) == expected
    assert read(simplified_text(expected)) == expected


ERRORS = {
    "unknown field": ("batch_num: 1\nbatchnum: 1", 2, "has no field 'batchnum'\n  hint: did you mean 'batch_num'?"),
    "unknown field within": (
        "common_config {\n ifmr_quantize {\n  step: 1 } }",
        3,
        "has no field 'common_config.ifmr_quantize.step'",
    ),
    "wrong type": ('\nbatch_num: "two"', 2, "Couldn't parse integer"),
    "negative": ("batch_num: -1", 1, "-1"),
    "cut off": ("common_config {\n  dmq_balancer {\n", 2, "is not a simplified configuration: Expected \"}\""),
    "wrong bool": ("do_fusion: maybe", 1, 'Expected "true" or "false"'),
    "unknown enum value": ("fakequant_precision_mode: FAST", 1, "FAST"),
    "no protobuf text": ("{", 1, "is not a simplified configuration"),
    "not closed": ("common_config {\n", None, "is not a simplified configuration"),
    "twice": ("batch_num: 1\nbatch_num: 2", 2, "batch_num is given twice"),
    "twice within": ("common_config {\n arq_quantize { }\n arq_quantize { }\n}", 3, "arq_quantize is given twice"),
    "batch_num": ("batch_num: 0", 1, "batch_num must be at least 1, not 0"),
    "version": ("version: 2", 1, "version must be 1, not 2"),
    "skip_layers": ('skip_layers: "a"\nskip_layers: "a"', 1, "skip_layers names 'a' twice"),
    "skip_layer_types": ('skip_layer_types: ["a", "a"]', 1, "skip_layer_types names 'a' twice"),
    "skip_fusion_layers": ('skip_fusion_layers: ["a", "a"]', 1, "skip_fusion_layers names 'a' twice"),
    "layer twice": (
        'override_layer_configs { layer_name: "a" calibration_config { } }\n' * 2,
        2,
        "override_layer_configs names 'a' twice",
    ),
    "type twice": (
        'override_layer_types { layer_type: "a" calibration_config { } }\n' * 2,
        2,
        "override_layer_types names 'a' twice",
    ),
    "no layer": ("\noverride_layer_configs { calibration_config { } }", 2, "OverrideLayer has no layer_name"),
    "no type": ("\noverride_layer_types { calibration_config { } }", 2, "OverrideLayerType has no layer_type"),
    "no config": ('\noverride_layer_configs { layer_name: "a" }', 2, "OverrideLayer has no calibration_config"),
    "no mapping": ("nuq_config { }", 1, "NuqConfig has no mapping_file"),
    "no index": ('tensor_quantize { layer_name: "a" }', 1, "TensorQuantize has no input_index"),
    "no tensor layer": ("tensor_quantize { input_index: 0 }", 1, "TensorQuantize has no layer_name"),
    "tensor twice": (
        'tensor_quantize { layer_name: "a" input_index: 0 }' * 2,
        1,
        "tensor_quantize names 'a:0' twice",
    ),
    "quant_bits": (common("\narq_quantize { quant_bits: 5 }"), 2, "quant_bits must be one of 2, 3, 4, 6, 7, 8, not 5"),
    "quant_bits of groups": (common("\narq_quantize { quant_bits: 2 }"), 2, "quant_bits 2 needs group_size"),
    "weights of few levels alone": (
        common("\nweight_compress_only: true nuq_quantize { }"),
        1,
        "weight_compress_only takes arq_quantize, no other algorithm",
    ),
    "start": (common("\nifmr_quantize { search_range_start: 0 }"), 2, "search-range-start 0.0 and"),
    "order": (common("\nifmr_quantize { search_range_start: 1.3 }"), 2, "must be positive, finite and in order"),
    "step": (common("\nifmr_quantize { search_step: 0.7 }"), 2, "search-step must lie in (0, 0.6], not 0.7"),
    "no step": (common("ifmr_quantize { search_step: 0 }"), 1, "search-step must lie in"),
    "nan": (common("ifmr_quantize { search_step: nan }"), 1, "search-step must lie in"),
    "percentile": (common("\nifmr_quantize { max_percentile: 0.5 }"), 2, "max-percentile must lie in (0.5, 1], not 0.5"),
    "min_percentile": (common("ifmr_quantize { min_percentile: 1.5 }"), 1, "min-percentile must lie in (0.5, 1], not 1.5"),
    "bins": (common("\nhfmg_quantize { num_of_bins: 1000 }"), 2, "'1000' is not one of 1024, 2048, 4096, 8192"),
    "strength": (common("dmq_balancer { migration_strength: 0.9 }"), 1, "migration_strength must lie in [0.2, 0.8], not 0.9"),
    "num_steps": (common("nuq_quantize { num_steps: 8 }"), 1, "num_steps must be one of 16, 32, not 8"),
    "num_of_iteration": (common("nuq_quantize { num_of_iteration: 6 }"), 1, "num_of_iteration must be one of"),
    "reg_param": (common("ada_quantize { reg_param: 1 }"), 1, "reg_param must lie in (0, 1), not 1"),
    "warm_start": (common("ada_quantize { warm_start: 0 }"), 1, "warm_start must lie in (0, 1), not 0"),
    "beta": (common("ada_quantize { beta_range_start: 1 }"), 1, "beta_range_start must lie in (2, inf), not 1"),
    "beta end": (common("ada_quantize { beta_range_end: 0 }"), 1, "beta_range_end must lie in (0, inf), not 0"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(read, text: str, line: int | None, message: str) -> None:
    with pytest.raises(CompileError) as error:
        read(text)
    assert message in str(error.value)
    if line is not None:
        assert error.value.where.endswith(f"simple.cfg:{line}")


FOREIGN = {
    "joint_quant: false": "pytorch",
    "version: 1": "onnx",
    "enable_auto_nuq: false": "tensorflow",
    'nuq_config { mapping_file: "m" }': "graph",
    "fakequant_precision_mode: FORCE_FP16_QUANT": "caffe",
    'skip_approximation_layers: "a"': "onnx",
    'tensor_quantize { layer_name: "a" input_index: 0 }': "caffe",
    "common_config { ada_quantize { } }": "onnx",
    "common_config { weight_compress_only: false }": "pytorch",
    "common_config { arq_quantize { asymmetric: false } }": "tensorflow",
}


@pytest.mark.parametrize(("text", "flavour"), FOREIGN.items(), ids=FOREIGN)
def test_fields_of_other_flavours(read, text: str, flavour: str) -> None:
    read(text)
    with pytest.raises(CompileError, match=f"is not a field of the configuration for {flavour}"):
        read(text, flavour)


CANNOT_BE_WRITTEN = {
    "AMCT has no observer 'minmax'": Settings(common=Calibration(Activation("minmax"))),
    "AMCT's ifmr has no option 'exact'": Settings(common=Calibration(Activation("ifmr{exact=false}"))),
    "inputs of 4 bits": Settings(common=Calibration(Activation(bits=4))),
    "cannot list the only layers": Settings(enabled=frozenset({"a"})),
    "has no weight_offset": Settings(weight_offset=True),
    "has no group_size": Settings(common=Calibration(weight=Arq(group_size=32), weight_compress_only=True)),
    "has no search for scales": Settings(common=Calibration(weight=Arq(search=True))),
}


@pytest.mark.parametrize(("message", "settings"), CANNOT_BE_WRITTEN.items(), ids=CANNOT_BE_WRITTEN)
def test_what_cannot_be_written(message: str, settings: Settings) -> None:
    with pytest.raises(CompileError, match=message):
        simplified_text(settings)


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="No such file"):
        read_simplified(tmp_path / "none.cfg")


def test_deep(read) -> None:
    with pytest.raises(CompileError, match=r"nested too deep|has no field"):
        read("a {" * 100_000)


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
floats = st.floats(0.2, 0.8).map(lambda x: float(f"{x:.6g}"))


@given(names, names, floats, st.integers(1, 2**32 - 1))
def test_names_and_numbers_survive(tmp_path_factory, layer: str, kind: str, strength: float, batch_num: int) -> None:
    settings = Settings(
        batch_num=batch_num,
        skip_layers=(layer,),
        by_type={kind: Calibration(migration_strength=strength)},
        by_layer={layer: Calibration(Activation(f"ifmr{{search-step={strength / 2:.6g}}}"))},
    )
    path = tmp_path_factory.mktemp("names") / "simple.cfg"
    path.write_text(simplified_text(settings), "utf-8", newline="")
    assert read_simplified(path) == replace(settings, where=str(path))
