"""`--fuse-all` on whole models: the outputs stay, and every batch norm is gone or a remark says why not.

Tolerance: that of test_float; a fold rounds each weight once more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.rewriting import layer_of
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session

TOLERANCE = 2e-4
"""Absolute, on logits with a standard deviation of 2."""

LEFT = {
    # after a concat of everything before, and used by the next dense block: nothing to fold into
    "densenet121": {"no-producer", "result-used-once"}
}
"""Why batch norms may stay, by model."""


@pytest.mark.slow
def test_every_batch_norm_is_gone_or_explained(model: Any) -> None:
    session = new_session()
    module = frontends.read(model.path, session)
    inputs = model.inputs(seed=3)
    (before,) = run(module, inputs).values()
    norms = [layer_of(op) for op in module.walk() if isinstance(op, nn.BatchNormOp)]
    run_passes(module, [make_pass("canonicalize"), make_pass("fuse-all")], session)

    left = {layer_of(op) for op in module.walk() if isinstance(op, nn.BatchNormOp)}
    reasons = {r.layer: r.rule for r in session.remarks if r.kind == "missed" and r.op == nn.BatchNormOp.name}
    applied = {r.layer for r in session.remarks if r.kind == "applied" and r.pass_name == "fuse-bn"}
    assert left <= set(reasons), "a batch norm that stays has a remark"
    assert set(norms) - left <= applied | left, "a batch norm that is gone has one, too"
    assert {reasons[name] for name in left} <= LEFT.get(model.name, set())
    (after,) = run(module, inputs).values()
    np.testing.assert_allclose(after, before, rtol=0, atol=TOLERANCE)
