"""The paths of PyTorch modules, as both of its exporters write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from amct_opt import frontends, fuse_modules
from amct_opt.frontends.onnx.module_paths import module_paths
from amct_opt.ir.layer_names import LayerNames
from amct_opt.session.universe import new_session

SCOPES, RULES = "pkg.torch.onnx.name_scopes", "pkg.onnxscript.rewriter.rule_name"


def node(name: str, *inputs: str, op_type: str = "Conv", **metadata: str) -> NodeProto:
    made = helper.make_node(op_type, ["x", *inputs], ["y"], name=name)
    for key, value in metadata.items():
        made.metadata_props.add(key={"scopes": SCOPES, "rules": RULES}.get(key, key), value=value)
    return made


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        (node("node_conv2d", scopes="['', 'features', 'features.0', 'conv2d']"), ("features.0",)),
        (node("node_add", op_type="Add", scopes="['', 'add']"), ()),
        (node("node_conv2d", scopes="['', 'block', 'block.conv@1', 'conv2d_1']"), ("block.conv",)),
        (node("n", namespace=": net.Net/fc: torch.nn.Linear/linear: aten.linear.default"), ("fc",)),
        (
            node("n", "f.0.weight", "b", scopes="['', 'f', 'f.1', 'bn']", rules="FuseBatchNormIntoConv, RemoveBias"),
            ("f.0", "f.1"),
        ),
        (node("/features/features.0/Conv", "features.0.weight"), ()),
        (node("/features/features.0/Conv", "onnx::Conv_24", "onnx::Conv_25"), ("features.0", "")),
        (node("/block/conv_1/Conv", "block.conv.weight"), ("block.conv",)),
        (node("/block/conv_1/Conv", "block.conv_1.weight"), ()),
        (node("n", scopes="['', 'a', "), ()),
        (node("n", scopes="{1: 2}", namespace="a"), ()),
        (node("Conv_3", "onnx::Conv_24"), ()),
    ],
)
def test_paths_of_a_node(source: NodeProto, paths: tuple[str, ...]) -> None:
    assert module_paths(source) == paths


@pytest.mark.parametrize("exporter", ["dynamo", "dynamo, optimized", "TorchScript"])
def test_a_chain_by_module_on_files_of_both_exporters(
    build: Callable[..., ModelProto], save: Callable[[ModelProto], Path], exporter: str
) -> None:
    """The first layers of a MobileNet; the optimizer of `dynamo=True` has folded the batch norm, whose metadata the layer has."""
    names = {
        "dynamo": ("node_conv2d", "node__native_batch_norm_legit_no_training__0", "n4"),
        "dynamo, optimized": ("node_Conv_18", "", "n4"),
        "TorchScript": tuple(
            f"/features/features.0/features.0.{i}/{kind}"
            for i, kind in enumerate(("Conv", "BatchNormalization", "Relu"))
        ),
    }[exporter]
    has_norm, is_dynamo = bool(names[1]), exporter != "TorchScript"
    conv = helper.make_node("Conv", ["x", "features.0.0.weight"], ["c"], name=names[0])
    norm = helper.make_node("BatchNormalization", ["c", *"sbmv"], ["n"], name=names[1])
    relu = helper.make_node("Relu", ["n" if has_norm else "c"], ["y"], name=names[2])
    if is_dynamo:
        for i, each in enumerate((conv, norm, relu)):
            module = 1 if each is conv and not has_norm else i
            each.metadata_props.add(key=SCOPES, value=f"['', 'features', 'features.0', 'features.0.{module}', 'op']")
    if not has_norm:
        conv.metadata_props.add(key=RULES, value="FuseBatchNormIntoConv")
    weights = {"features.0.0.weight": np.ones((2, 3, 1, 1), np.float32)}
    if has_norm:
        weights |= {name: np.ones(2, np.float32) for name in "sbmv"}
    nodes = [conv, norm, relu] if has_norm else [conv, relu]
    path = save(build(nodes, [("x", [1, 3, 4, 4])], ["y"], weights))
    session = new_session()
    module = frontends.read(path, session)
    fuse_modules(module, [["features.0.0", "features.0.1", "features.0.2"]], session)
    names_after = LayerNames.of(module)
    assert [op.name for op in names_after.find("features.0.0")] == ["nn.conv"]
    assert "nn.fused" in [op.name for op in module.walk()]
    assert "nn.batch_norm" not in [op.name for op in module.walk()]
