"""An error in a pattern comes out as it is: xDSL would print the module into it, a gigabyte of weights as hex."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from amct_opt.dialects import nn
from amct_opt.rewriting import rewrite
from amct_opt.support.diagnostics import CompileError


class Fails(RewritePattern):
    def __init__(self, error: Exception):
        self.error = error

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        raise self.error


@pytest.mark.parametrize("error", [CompileError("odd", where="net.mlir:1:1"), KeyError("lost")])
def test_errors_of_patterns(error: Exception) -> None:
    module = ModuleOp([nn.ConstantOp.of(np.zeros(100), "w")])
    with pytest.raises(type(error)) as e:
        rewrite(module, Fails(error), erase_dead=False)
    assert e.value is error
    assert not getattr(error, "__notes__", [])
    assert any(frame.name == "match_and_rewrite" for frame in e.traceback)
