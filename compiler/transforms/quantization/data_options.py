"""What `--calibrate` and `--quantize` are told about the data that runs through the model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from xdsl.dialects.builtin import ModuleOp

from ...configuration.ranges import at_least
from ...configuration.settings import Settings
from ...diagnostics import CompileError
from ...functions import main_function
from ...runtime.data import Samples, load_samples, synthetic_samples
from ...session import Session


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Options that name data and how much of it is used."""

    data: str | None = field(default=None, kw_only=False)
    """An .npz file or a folder of .npy files, one array per input, samples on the first axis."""
    samples: int | None = None
    """How many samples to use; all when not given."""
    seed: int = 0
    """For the synthetic inputs that stand in where there is no data."""
    batch_num: int | None = None
    """How many runs of the model to use; all when not given. `--quantize` takes its configuration's first."""

    def within(self, settings: Settings) -> Self:
        """These options, with the configuration's `batch_num` where they have none."""
        return self if self.batch_num is not None else replace(self, batch_num=settings.batch_num)

    def load(self, module: ModuleOp, session: Session) -> Samples:
        """The samples for a module's inputs. Raises CompileError, located in the data, for what does not fit them.

        Without data they are synthetic, and the session warns.
        """
        function = main_function(module)
        if self.data is None:
            session.warn(
                "no calibration data: ranges come from synthetic inputs, accuracy will suffer (give data=FILE.npz)"
            )
            return synthetic_samples(function, self.seed)
        samples = load_samples(Path(self.data), function)
        if self.samples is not None:
            samples = samples.head(min(self.samples, samples.count))
        return samples if self.batch_num is None else _runs(samples, self.batch_num, session)


def _runs(samples: Samples, count: int, session: Session) -> Samples:
    """The samples of so many runs. Raises CompileError for none, and where there are fewer (AMCT)."""
    at_least("batch_num", count, 1)
    if count > samples.runs:
        raise CompileError(f"holds samples for {samples.runs} runs, batch_num asks for {count}", where=samples.source)
    if count < samples.runs:
        session.warn(f"batch_num {count} leaves samples for {samples.runs - count} more runs unused")
    return samples.head(min(count * samples.batch_size, samples.count))
