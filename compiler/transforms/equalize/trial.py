"""Whether equalization serves the whole module: quantized on some samples with it and without."""

from __future__ import annotations

from math import isnan

from xdsl.dialects.builtin import ModuleOp

from ...backends import Runner
from ...runtime.data import Samples
from ...runtime.executor import Executable
from ...runtime.metrics import Differences
from ...session import Session
from ..quantization.data_options import BackendOptions, DataOptions
from ..quantization.options import SettingsOptions
from ..quantization.profiles import profile_of
from ..quantization.quantize import quantize
from ..quantization.request import Request

SAMPLES = 32
"""So many samples decide, or one run of the model where it takes more."""
TOLERATED = 0.1
"""dB that an output may lose where others win."""
WORTH = 0.5
"""dB that outputs must win on average: less is as likely to be lost on other samples."""


def outputs_lost(before: ModuleOp, after: ModuleOp, samples: Samples, session: Session, runner: Runner) -> str | None:
    """The reason why a module is not to be changed so: its outputs win too little when it is quantized; None where they win.

    Both modules compute the same in float. Neither is changed.
    """
    few = samples.head(min(samples.count, max(1, SAMPLES // samples.batch_size) * samples.batch_size))
    old, new = (_sqnr(module, before, few, session, runner) for module in (before, after))
    gains = {name: new[name] - old[name] for name in old if not isnan(new[name] - old[name])}
    worst = min(gains, key=lambda name: gains[name], default=None)
    if worst is None or (gains[worst] >= -TOLERATED and sum(gains.values()) >= WORTH * len(gains)):
        return None
    return f"with it output {worst} of the quantized model has {new[worst]:.2f} dB, without it {old[worst]:.2f} dB"


def _sqnr(module: ModuleOp, original: ModuleOp, samples: Samples, session: Session, runner: Runner) -> dict[str, float]:
    """The SQNR of each output of reals of a module's quantized copy."""
    copy, silent = module.clone(), session.silent()
    request = Request(SettingsOptions().settings(), profile_of(session))
    quantize(
        copy, request, DataOptions(samples), BackendOptions(backend=runner.backend, threads=runner.threads), silent
    )
    exact, found = Executable(original), Executable(copy)
    differences = {name: Differences() for name in exact.outputs}
    for batch in samples.batches():
        outputs = found.run(batch)
        for name, array in exact.run(batch).items():
            if array.dtype.kind not in "iub":
                differences[name].add(array, outputs[name])
    return {name: each.sqnr for name, each in differences.items() if each.count}
