"""The integer program, against all assignments one by one."""

from __future__ import annotations

import sys
from itertools import product
from math import inf

import numpy as np
import pytest

from amct_opt.flows.tune.budget import UNLIMITED, Budget, Costs
from amct_opt.flows.tune.widths import FLOAT, LOW, WHOLE, Choice, Program, Width, changes_of, layer_widths
from amct_opt.flows.widening import WIDE
from amct_opt.support.diagnostics import CompileError


def program(seed: int) -> Program:
    """Six layers, some without other widths; the costs are those of weights and inputs of random sizes."""
    rng = np.random.default_rng(seed)
    layers: list[tuple[Choice, ...]] = []
    for i in range(6):
        size, macs, noise, inputs = (int(n) for n in rng.integers(10, 1000, 4))

        def choice(
            bits: int, wide: int, noise: float, *, of: tuple[str, int, int, int] = (f"l{i}", size, macs, inputs)
        ) -> Choice:
            name, size, macs, inputs = of
            stored = size * (bits or 32) // 8
            costs = Costs(
                stored, 0 if bits else macs, int(bits > 0), 8 * stored + (wide or 32) * inputs, rng.uniform(1, 3)
            )
            return Choice(name, bits, wide, noise / 1000, costs)

        choices = [
            choice(FLOAT, FLOAT, 0.0),
            choice(WHOLE, WHOLE, noise),
            choice(LOW, WHOLE, noise * rng.uniform(1, 300)),
            choice(WHOLE, WIDE, noise * rng.uniform(0, 0.5)),
        ]
        layers.append(tuple(choices if rng.random() < 0.7 else choices[:2]))
    return Program(tuple(layers), Costs(50, 7, 1, 0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_other_assignment_is_better(seed: int) -> None:
    given = program(seed)
    whole = given.costs(given.given)
    budget = (
        Budget(bytes=int(whole.bytes * (0.7 + 0.1 * (seed % 5)))),
        Budget(macs=1500, bytes=whole.bytes * 2),
        Budget(int8_layers=4),
        UNLIMITED,
        Budget(ms=0.95 * whole.ms),
    )[seed % 5]
    for floats, read in ((0, None), (2, int(1.1 * whole.read)), (6, int(0.8 * whole.read)), (6, 2 * whole.read)):
        kept = [
            chosen
            for chosen in product(*given.layers)
            if budget.holds(given.costs(chosen))
            and (read is None or given.costs(chosen).read <= read)
            and sum(c.bits == FLOAT for c in chosen) <= floats
        ]
        if not kept:
            with pytest.raises(CompileError, match="no widths keep the budget"):
                given.choose(budget, floats, read)
            continue
        found = given.choose(budget, floats, read)
        assert tuple(found) in kept
        assert sum(c.noise for c in found) == pytest.approx(min(sum(c.noise for c in chosen) for chosen in kept))


def test_without_a_budget_the_costliest_stay_in_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have their widest form, and scipy is not needed: only to read fewer bits."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    given = program(0)
    widest = [min(layer[1:], key=lambda choice: choice.noise) for layer in given.layers]
    worst = sorted(widest, key=lambda choice: -choice.noise)[:2]
    found = given.choose(UNLIMITED, 2)
    assert {c.layer for c in found if c.bits == FLOAT} == {choice.layer for choice in worst}
    assert {c for c in found if c.bits != FLOAT} == {*widest} - {*worst}
    assert given.most_in_float(UNLIMITED) == 5
    for budget, read in ((Budget(bytes=1000), None), (UNLIMITED, 1000)):
        with pytest.raises(CompileError, match=r"widths requires scipy\n  hint: pip install 'amct-opt\[tune\]'"):
            given.choose(budget, 2, read)


def test_a_budget_of_time_forces_layers_into_float() -> None:
    """As few as keep it; no other budget does."""
    given = program(2)
    in_float = {chosen: sum(c.bits == FLOAT for c in chosen) for chosen in product(*given.layers)}
    fastest = min(given.costs(chosen).ms for chosen in in_float)
    budget = Budget(ms=1.02 * fastest)
    least = min(count for chosen, count in in_float.items() if budget.holds(given.costs(chosen)))
    assert given.fewest_floats(budget) == least > 0
    assert given.fewest_floats(Budget(bytes=1)) == 0
    with pytest.raises(CompileError, match=f"no widths keep the budget of {0.9 * fastest:.4g} ms: the least is about"):
        given.fewest_floats(Budget(ms=0.9 * fastest))


def test_narrow_widths_read_no_more_bits_than_given() -> None:
    given = program(3)
    narrow = given.narrow
    assert narrow != given
    assert narrow.given == given.given
    assert [layer[0] for layer in narrow.layers] == [layer[0] for layer in given.layers]
    assert {c.inputs for layer in narrow.layers for c in layer} == {FLOAT, WHOLE}
    assert narrow.narrow == narrow


def test_options_that_give_widths() -> None:
    """Only what differs from the options is named, and a layer without a weight has no bits of one."""
    given = {"a": Width(3, 8), "b:0": Width(8, 8), "pool": Width(None, 8), "c": Width(3, 0), "d": Width(8, 8)}
    chosen = {
        "a": Width(8, 16),
        "b:0": Width(4, 8),
        "pool": Width(None, 16),
        "c": Width(8, 0),
        "d": Width(FLOAT, FLOAT),
    }
    changes = changes_of(chosen, given)
    assert changes == {
        "skip_layers": ("d",),
        "layer_weight_bits": ("a:8", "b:0:4", "c:8"),
        "layer_bits": ("a:16", "pool:16"),
    }
    assert changes_of(given, given) == {}
    nothing = Costs(0, 0, 0, 0)
    layers = tuple(
        tuple(Choice(name, *width, noise, nothing) for width, noise in ((Width(0, 0), 0), (own, 3), (chosen[name], 1)))
        for name, own in given.items()
    )
    widths = layer_widths(Program(layers, nothing), changes)
    assert {each.layer: Width(each.bits, each.inputs) for each in widths} == chosen
    assert {each.layer: each.cells for each in widths} == {
        "a": ("a", "8", "16", "20 %", "6.67 %"),
        "b:0": ("b:0", "4", "8", "20 %", "6.67 %"),
        "pool": ("pool", "-", "16", "20 %", "6.67 %"),
        "c": ("c", "8", "float", "20 %", "6.67 %"),
        "d": ("d", "float", "float", "20 %", "0 %"),
    }


def test_measured_costs_correct_the_rest() -> None:
    given = program(1)
    chosen = [layer[1] for layer in given.layers]
    measured = given.costs(chosen) + Costs(30, 2, -1, 9)
    assert given.corrected(chosen, measured).costs(chosen) == measured


def test_noise_that_is_not_a_number_is_avoided() -> None:
    in_float, whole = Costs(40, 9, 0, 320), Costs(10, 0, 1, 80)
    layer = Choice("a", FLOAT, FLOAT, 0.0, in_float), Choice("a", WHOLE, WHOLE, inf, whole)
    other = Choice("b", FLOAT, FLOAT, 0.0, in_float), Choice("b", WHOLE, WHOLE, 1.0, whole)
    found = Program((layer, other), Costs(0, 0, 0, 0)).choose(Budget(bytes=50), 1)
    assert [c.bits for c in found] == [FLOAT, WHOLE]
