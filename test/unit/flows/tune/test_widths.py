"""The integer program, against all assignments one by one."""

from __future__ import annotations

import sys
from itertools import product
from math import inf

import numpy as np
import pytest

from amct_opt.diagnostics import CompileError
from amct_opt.flows.tune.budget import UNLIMITED, Budget, Costs
from amct_opt.flows.tune.widths import FLOAT, LOW, WHOLE, Choice, Program


def program(seed: int) -> Program:
    """Six layers, some without weights of 4 bits; the costs are those of weights of random sizes."""
    rng = np.random.default_rng(seed)
    layers: list[tuple[Choice, ...]] = []
    for i in range(6):
        size, macs, noise = (int(n) for n in rng.integers(10, 1000, 3))
        choices = [
            Choice(f"l{i}", FLOAT, 0.0, Costs(4 * size, macs, 0)),
            Choice(f"l{i}", WHOLE, noise / 1000, Costs(size, 0, 1)),
            Choice(f"l{i}", LOW, noise * rng.uniform(1, 300) / 1000, Costs(size // 2, 0, 1)),
        ]
        layers.append(tuple(choices if rng.random() < 0.7 else choices[:2]))
    return Program(tuple(layers), Costs(50, 7, 1))


@pytest.mark.parametrize("seed", range(12))
def test_no_other_assignment_is_better(seed: int) -> None:
    given = program(seed)
    whole = given.costs([layer[1] for layer in given.layers])
    budget = (
        Budget(bytes=int(whole.bytes * (0.7 + 0.1 * (seed % 5)))),
        Budget(macs=1500, bytes=whole.bytes * 2),
        Budget(int8_layers=4),
    )[seed % 3]
    for floats in (0, 2, 6):
        kept = [
            chosen
            for chosen in product(*given.layers)
            if budget.holds(given.costs(chosen)) and sum(c.bits == FLOAT for c in chosen) <= floats
        ]
        if not kept:
            with pytest.raises(CompileError, match="no widths keep the budget"):
                given.choose(budget, floats)
            continue
        found = given.choose(budget, floats)
        assert tuple(found) in kept
        assert sum(c.noise for c in found) == pytest.approx(min(sum(c.noise for c in chosen) for chosen in kept))


def test_without_a_budget_the_costliest_stay_in_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """scipy is not needed."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    given = program(0)
    worst = sorted(given.layers, key=lambda layer: -layer[1].noise)[:2]
    found = given.choose(UNLIMITED, 2)
    assert {c.layer for c in found if c.bits == FLOAT} == {layer[0].layer for layer in worst}
    assert {c.bits for c in found} == {FLOAT, WHOLE}
    assert given.most_in_float(UNLIMITED) == 5
    with pytest.raises(CompileError, match=r"a budget requires scipy\n  hint: pip install 'amct-opt\[tune\]'"):
        given.choose(Budget(bytes=1000), 2)


def test_measured_costs_correct_the_rest() -> None:
    given = program(1)
    chosen = [layer[1] for layer in given.layers]
    measured = given.costs(chosen) + Costs(30, 2, -1)
    assert given.corrected(chosen, measured).costs(chosen) == measured


def test_noise_that_is_not_a_number_is_avoided() -> None:
    layer = Choice("a", FLOAT, 0.0, Costs(40, 9, 0)), Choice("a", WHOLE, inf, Costs(10, 0, 1))
    other = Choice("b", FLOAT, 0.0, Costs(40, 9, 0)), Choice("b", WHOLE, 1.0, Costs(10, 0, 1))
    found = Program((layer, other), Costs(0, 0, 0)).choose(Budget(bytes=50), 1)
    assert [c.bits for c in found] == [FLOAT, WHOLE]
