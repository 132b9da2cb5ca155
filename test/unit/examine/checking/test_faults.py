"""Injected faults are named, and the models that show them become small."""

from __future__ import annotations

from pathlib import Path

import pytest

from .faults import Fault, faults, network, operations, reduced

FAULTS = faults()


def test_there_are_fifty() -> None:
    assert len(FAULTS) == 50
    assert len({fault.kind for fault in FAULTS}) == 50
    assert {fault.kind.partition(" ")[0] for fault in FAULTS} >= {"kernel", "fold", "scale", "layout", "axis"}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_the_step_and_the_layer_are_named(fault: Fault, tmp_path: Path) -> None:
    assert fault.named in fault.error(network(8), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS[::7], ids=lambda fault: fault.kind)
def test_at_most_ten_operations_are_left(fault: Fault, tmp_path: Path) -> None:
    small = reduced(fault, network(8), tmp_path, 60)
    assert 0 < operations(small) <= 10
    assert fault.error(small, tmp_path)
