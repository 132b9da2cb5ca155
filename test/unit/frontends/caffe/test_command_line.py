"""`amct-opt net.prototxt --weights net.caffemodel`: what is printed and written, and what a user sees of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt.ir.text import module_text, parse_module
from amct_opt.session.universe import new_session
from amct_opt.tools import amct_opt


@pytest.fixture
def files(caffe: Any, new_net: Any) -> tuple[Path, Path]:
    net = new_net((1, 2))
    net.add("fc", "InnerProduct", blobs=[np.eye(2), np.ones(2)], inner_product_param={"num_output": 2})
    net.add("act", "ReLU", "fc", "fc")
    net.add("loss", "SoftmaxWithLoss", ["fc", "fc"])
    return caffe.save(net.text, net.binary)


def run(*arguments: object) -> int:
    return amct_opt.run([str(a) for a in arguments])


def test_prints_the_module(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files[0], "--weights", files[1], "--remarks=all") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1:-2] == [
        '  func.func @main(%data: tensor<1x2xf32> {nn.name = "data"}) -> (tensor<1x2xf32> {nn.name = "fc"}) {',
        "    %fc.weight = nn.constant dense<[[1.000000e+00, 0.000000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>",
        "    %fc.bias = nn.constant dense<1.000000e+00> : tensor<2xf32>",
        '    %fc = nn.matmul %data, %fc.weight, %fc.bias transpose_b from <caffe, "InnerProduct", "fc"> : '
        "(tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>",
        '    %act = nn.relu %fc from <caffe, "ReLU", "act"> : tensor<1x2xf32>',
        "    func.return %act : tensor<1x2xf32>",
    ]
    where = f"{files[0]}: remark: [import analysis"
    assert err.splitlines() == [
        f'{where} training-only] "loss": left out: SoftmaxWithLoss is for training and tests only',
        f'{where} summary] "main": 3 nodes: 2 mapped to nn, 0 carried as opaque, 0 folded, 1 removed, 0 unused',
    ]
    assert module_text(parse_module(new_session(), out)) == out


def test_places_are_lines(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files[0], "--weights", files[1], "--print-debuginfo") == 0
    line = files[0].read_text().splitlines().index('  name: "act"')
    assert f'loc("act"("{files[0]}":{line}:1))' in capsys.readouterr().out


def test_input_is_not_overwritten(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before = files[1].read_bytes()
    assert run(files[0], "--weights", files[1], "-o", files[1]) == 1
    assert files[1].read_bytes() == before


@pytest.mark.parametrize(
    ("name", "where", "message", "hint"),
    [
        ("net.prototxt", ":13:1: node 'fc'", "InnerProduct has no weights", "--weights net.caffemodel gives them"),
        (
            "net.caffemodel",
            "",
            "holds weights; the net that it holds is that of training",
            "name the prototxt, and this file as --weights net.caffemodel",
        ),
        ("no.prototxt", "", "cannot be read: No such file or directory", ""),
    ],
)
def test_mistakes(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], name: str, where: str, message: str, hint: str
) -> None:
    path = files[0].with_name(name)
    assert run(path) == 1
    hint_line = f"  hint: {hint}\n" if hint else ""
    assert capsys.readouterr().err == f"{path}{where}: error: {message}\n{hint_line}"


def test_options(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files[0], "--weights", files[1], "--input-shape", "data:?,2", "--outputs", "act") == 0
    out = capsys.readouterr().out
    assert 'tensor<?x2xf32> {nn.name = "data"}) -> (tensor<?x2xf32> {nn.name = "act"})' in out
