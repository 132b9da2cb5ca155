"""Layers that have weights of few levels because ATC compresses them, or because they are the heaviest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.configuration.compressed import compressed_operators
from amct_opt.dialects import nn
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import layer_of
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError

from ...values import parsed

SIZES = {
    "first": (8, 4),
    "small": (4, 8),
    "heavy": (160, 4),
    "heavier": (96, 160),
    "last": (48, 96),
    "dilated": (200, 48),
}
"""Channels out and in of the 3x3 convolutions, one after the other."""


def network(rng: np.random.Generator) -> str:
    lines, types, value = list[str](), list[str](), "%x"
    for name, (out, channels) in SIZES.items():
        shape, image = f"tensor<{out}x{channels}x3x3xf32>", f"tensor<?x{out}x5x5xf32>"
        weight = rng.normal(size=(out, channels, 3, 3)).astype(np.float32)
        dilation = 2 if name == "dilated" else 1
        lines += [
            f'%{name}_w = nn.constant #nn.external<"{name}", {shape}, "0x{weight.tobytes().hex()}">',
            f"%{name} = nn.conv {value}, %{name}_w dilations [{dilation}, {dilation}] pads [{', '.join([str(dilation)] * 4)}]"
            f' from <tensorflow, "Conv2D", "{name}", {{dilations = array<i64: 1, {dilation}, {dilation}, 1>}}> :'
            f" (tensor<?x{channels}x5x5xf32>, {shape}) -> {image}",
        ]
        value = f"%{name}"
        types.append(image)
    body = "\n  ".join(lines)
    return (
        f'func.func @main(%x: tensor<?x4x5x5xf32> {{nn.name = "x"}}) -> ({types[-1]} {{nn.name = "y"}}) {{\n  {body}\n'
        f"  func.return {value} : {types[-1]}\n}}\n"
    )


NET = network(np.random.default_rng(11))


def attribute(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def operator(name: str, *made_of: str, compressed: bool | None = True) -> dict[str, Any]:
    """An operator as ATC lists it; one that is not compressed lacks the attribute, or has it false."""
    attributes = [attribute("_datadump_original_op_names", {"list": {"val_type": 1, "s": list(made_of)}})]
    if compressed is not None:
        attributes.append(attribute("_fe_weight_compress", {"b": compressed}))
    return {"name": name, "type": "Conv2D", "attr": [attribute("groups", {"i": 1}), *attributes], "input": ["x:0"]}


def listing(*operators: dict[str, Any]) -> str:
    constant = {"name": "constant", "type": "Const"}
    return json.dumps({"name": "net", "graph": [{"name": "merge1", "op": [constant, *operators]}, {"name": "empty"}]})


Quantize = Callable[[str], tuple[ModuleOp, Session]]


@pytest.fixture
def quantize(tmp_path: Path, rng: np.random.Generator) -> Quantize:
    """Quantize the net by a simplified configuration; `{}` in it is the test's folder."""

    def quantize(config: str) -> tuple[ModuleOp, Session]:
        (tmp_path / "simple.cfg").write_text(config.replace("{}", str(tmp_path)))
        np.savez(tmp_path / "x.npz", x=rng.normal(size=(2, 4, 5, 5)).astype(np.float32))
        module, session = parsed(NET)
        make_pass("quantize", f"config={tmp_path}/simple.cfg data={tmp_path}/x.npz").apply(session, module)
        return module, session

    return quantize


def levels(module: ModuleOp) -> dict[str, int]:
    """How many different integers each layer's weight has."""
    found: dict[str, int] = {}
    for op in module.walk():
        if isinstance(op, nn.ConvOp) and isinstance(back := op.weight.owner, nn.DequantizeOp):
            array = nn.array_of(back.input)
            assert array is not None
            found[layer_of(op)] = np.unique(array).size
    return found


def few(module: ModuleOp, most: int = 32) -> set[str]:
    return {name for name, count in levels(module).items() if count <= most}


MAPPED = 'nuq_config { mapping_file: "{}/net.json" nuq_quantize { num_steps: 16 } }'


def test_layers_that_atc_compresses(quantize: Quantize, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By any of the names that an operator was made of; not those without the attribute, or with it false."""
    operators = [
        operator("firstbn", "bn", "first"),
        operator("heavy", "heavy", compressed=None),
        operator("heavier", "heavier", compressed=False),
        operator("last", "last", "relu"),
    ]
    (tmp_path / "net.json").write_text(listing(*operators))
    module, _ = quantize(MAPPED)
    assert few(module, 16) == {"first", "last"}
    assert levels(module)["first"] == 16
    assert "compressed" not in capsys.readouterr().err


def test_operators_of_no_layer(quantize: Quantize, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.json").write_text(listing(operator("a", "nowhere"), operator("heavy", "heavy"), operator("b")))
    module, _ = quantize(MAPPED)
    assert few(module) == {"heavy"}
    assert "net.json: compressed operators of no layer whose weight is quantized: a, b" in capsys.readouterr().err


def test_a_listing_without_compression(quantize: Quantize, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.json").write_text(listing(operator("heavy", "heavy", compressed=False)))
    module, _ = quantize(MAPPED)
    assert few(module) == set()
    assert "lists no operator with compressed weights: nuq_config changes nothing" in capsys.readouterr().err


def test_what_the_table_refuses_and_what_a_layer_says_itself(quantize: Quantize, tmp_path: Path) -> None:
    operators = [operator(name, name) for name in ("first", "dilated", "last")]
    (tmp_path / "net.json").write_text(listing(*operators))
    own = 'override_layer_configs { layer_name: "last" calibration_config { arq_quantize { quant_bits: 8 } } }'
    module, session = quantize(f"{MAPPED} {own}")
    assert few(module) == {"first"}
    missed = [(r.layer, r.rule) for r in session.remarks if r.kind == "missed"]
    assert missed == [("dilated", "dilation-1")]


def test_the_heaviest(quantize: Quantize) -> None:
    """Of the numbers that may have few levels `heavier` holds 74%; `last` makes it 97%."""
    sizes = {name: 9 * out * channels for name, (out, channels) in SIZES.items() if name != "dilated"}
    total, held, expected = sum(sizes.values()), 0, set[str]()
    for name in sorted(sizes, key=lambda each: -sizes[each]):
        if held < 0.8 * total:
            expected.add(name)
            held += sizes[name]
    assert expected == {"heavier", "last"}
    module, session = quantize("enable_auto_nuq: true")
    assert few(module) == expected
    assert not [r for r in session.remarks if r.kind == "missed"]


def test_light_layers_are_none_of_the_heaviest(quantize: Quantize) -> None:
    """Without the others, `small` and `first` would hold all there is."""
    others = (f'skip_layers: "{name}"' for name in ("heavy", "heavier", "last", "dilated"))
    module, _ = quantize(f"enable_auto_nuq: true {' '.join(others)}")
    assert few(module) == set()


def test_both_choices(quantize: Quantize, tmp_path: Path) -> None:
    """A layer that both choose has the levels that the configuration says."""
    (tmp_path / "net.json").write_text(listing(operator("heavier", "heavier"), operator("small", "small")))
    module, _ = quantize(f"enable_auto_nuq: true {MAPPED}")
    found = levels(module)
    assert (found["heavier"], found["small"], found["last"]) == (16, 16, 32)


MALFORMED = {
    "no JSON": ("graph", "is not JSON: Expecting value"),
    "a list": ("[]", "must be a JSON object"),
    "no graph": ("{}", "has no graph"),
    "graph": ('{"graph": 1}', "graph must be a list"),
    "op": ('{"graph": [{"op": {}}]}', "op must be a list"),
    "an operator": ('{"graph": [{"op": [1]}]}', "op must be an object"),
    "attr": ('{"graph": [{"op": [{"name": "a", "attr": 1}]}]}', "operator 'a': attr must be a list"),
    "flag": (
        listing({"name": "a", "attr": [attribute("_fe_weight_compress", {"b": 1})]}),
        "b must be true or false, not 1",
    ),
    "value": (listing({"name": "a", "attr": [attribute("_fe_weight_compress", 1)]}), "must be an object, not 1"),
    "names": (
        listing(
            {
                "name": "a",
                "attr": [
                    attribute("_fe_weight_compress", {"b": True}),
                    attribute("_datadump_original_op_names", {"list": {"s": [1]}}),
                ],
            }
        ),
        "s must be a text, not 1",
    ),
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_listings(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(text)
    with pytest.raises(CompileError) as error:
        compressed_operators(path)
    assert message in str(error.value)
    assert "net.json" in error.value.where


def test_a_listing_that_is_not_there(quantize: Quantize) -> None:
    with pytest.raises(CompileError, match="cannot be read: No such file"):
        quantize('nuq_config { mapping_file: "{}/none.json" }')
