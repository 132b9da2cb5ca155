"""Whether equalization serves the whole module: quantized on some samples with it and without."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

from xdsl.dialects.builtin import ModuleOp

from ....backends import Runner
from ....runtime.data import Samples
from ....runtime.executor import Executable
from ....runtime.metrics import Differences
from ....session import Session
from ..recovery_options import NO_RECOVERY
from ..request import Request
from ..steps import quantize_channels

SAMPLES = 32
"""So many samples decide, or one run of the model where it takes more."""
TOLERATED = 0.1
"""dB that an output may lose where others win."""
WORTH = 0.5
"""dB that outputs must win on average: less is as likely to be lost on other samples."""


def outputs_lost(
    before: ModuleOp, after: ModuleOp, request: Request, samples: Samples, session: Session, runner: Runner
) -> str | None:
    """The reason why a module is not to be changed so: its outputs win too little when it is quantized as requested, without
    recovery; None where they win.

    Both modules compute the same in float. Neither is changed.
    """
    few = samples.head(min(samples.count, max(1, SAMPLES // samples.batch_size) * samples.batch_size))
    old, new = (_sqnr(module, before, request, few, session, runner) for module in (before, after))
    gains = {name: new[name] - old[name] for name in old if not isnan(new[name] - old[name])}
    worst = min(gains, key=lambda name: gains[name], default=None)
    if worst is None or (gains[worst] >= -TOLERATED and sum(gains.values()) >= WORTH * len(gains)):
        return None
    return f"with it output {worst} of the quantized model has {new[worst]:.2f} dB, without it {old[worst]:.2f} dB"


def _sqnr(
    module: ModuleOp, original: ModuleOp, request: Request, samples: Samples, session: Session, runner: Runner
) -> dict[str, float]:
    """The SQNR of each output of reals of a module's quantized copy."""
    copy = module.clone()
    quantize_channels(copy, replace(request, recovery=NO_RECOVERY), lambda: samples, session.silent(), runner)
    exact, found = Executable(original), Executable(copy)
    differences = {name: Differences() for name in exact.outputs}
    for batch in samples.batches():
        outputs = found.run(batch)
        for name, array in exact.run(batch).items():
            if array.dtype.kind not in "iub":
                differences[name].add(array, outputs[name])
    return {name: each.sqnr for name, each in differences.items() if each.count}
