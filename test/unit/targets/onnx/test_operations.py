"""Every operation, written to several opsets and run by onnxruntime, computes what the interpreter computes."""

from __future__ import annotations

from typing import Any

import pytest

from amct_opt.runtime.executor import run
from amct_opt.support.diagnostics import CompileError

from ..operations import CASES

FAST, SLOW = (13, 18, 21, 26), (14, 17, 19, 20, 22, 23, 24, 25)


@pytest.mark.slow
@pytest.mark.parametrize("opsets", [FAST, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["fast", "slow"])
@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str, opsets: tuple[int, ...], export: Any) -> None:
    case = CASES[name]
    module, feeds = case.module(), case.feeds
    expected = list(run(module, feeds).values())
    for opset in opsets:
        if opset < case.since:
            with pytest.raises(CompileError) as caught:
                export.write(module, opset=opset)
            assert f"onnx{{opset={case.since}}}" in caught.value.hint
            assert not any(export.folder.iterdir()), "a refused module left files"
            continue
        export.write(module, opset=opset)
        for actual, wanted in zip(export.run(feeds), expected, strict=True):
            case.check(actual, wanted, f"opset {opset}")
        export.path.unlink()
