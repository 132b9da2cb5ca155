"""The samples that options of data name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ...configuration.settings import Settings
from ...data import PRESETS, Form, Preprocess, Samples, image_size, input_types, load_samples, synthetic_samples
from ...ir.functions import main_function
from ...pipelines.options import shapes, values_of
from ...session import Session
from ...support.diagnostics import CompileError
from .options import NO_DATA, DataOptions, ImageOptions

SMALLEST_SPLIT = 8
"""Least number of samples of which every tenth (at least one) is held back from calibration for measuring, unless a
number of runs is specified.
"""

_MEASURING_SEED = 1
"""The seed of the synthetic inputs to measure with; calibration uses 0."""

_SIZES = ("resize", "crop")
_VALUES = ("scale", "mean", "std", "layout", "color")
"""Options that are fields of `Preprocess` as they are."""


def within(options: DataOptions, settings: Settings) -> DataOptions:
    """The options, with the configuration's `batch_num` if they do not have one."""
    return options if options.batch_num is not None else replace(options, batch_num=settings.batch_num)


def form_of(options: DataOptions) -> Form:
    """The form of the data. Raises CompileError for what contradicts itself, and for half of it."""
    shapes_given = shapes(options.input_shape or "", ",", "input-shape")
    return Form(options.data_types, shapes_given, image_form(options.images), options.on_error)


def image_form(options: ImageOptions) -> Preprocess | None:
    """The preset, overridden by other options; None for data that is not images. Raises CompileError."""
    sizes = {name: image_size(text, name) for name in _SIZES if (text := getattr(options, name))}
    values = {name: value for name in _VALUES if (value := getattr(options, name)) not in (None, ())}
    given: dict[str, Any] = {**sizes, **values}
    if options.pad:
        given["pad"] = options.pad if options.pad == "input" else image_size(options.pad, "pad")
    if options.preprocess is None and not given:
        return None
    if options.preprocess is None and given.keys().isdisjoint(("scale", "mean", "std")):
        hint = f"preprocess={'|'.join(PRESETS)}, or scale, mean and std"
        message = "how the pixels of images become inputs must be specified"
        raise CompileError(message, hint=hint, option=next(iter(given)))
    cleared = {"resize": None, "crop": None} if options.pad else {"pad": None} if sizes else {}
    return replace(_preset(options.preprocess), **{**cleared, **given})


def _preset(preprocess: str | Preprocess | None) -> Preprocess:
    if not isinstance(preprocess, str):
        return preprocess or Preprocess()
    if preprocess not in PRESETS:
        message = f"preprocess: '{preprocess}' is not one of {', '.join(PRESETS)}"
        raise CompileError(message, option="preprocess")
    return PRESETS[preprocess]


def load(options: DataOptions, module: ModuleOp, session: Session) -> Samples:
    """The samples for a module's inputs. Raises CompileError, located in the data, if it does not fit them. Without
    data they are synthetic, and the session warns.

    Without data they are synthetic, and the session warns.
    """
    samples = available(options, module, session, options.batch_num)
    if options.batch_num is None or options.data is None:
        return samples
    found = runs_of(samples, options.batch_num)
    warn_of_unused(options.batch_num, samples.runs - found.runs, session)
    return found


def available(options: DataOptions, module: ModuleOp, session: Session, runs: int | None = None) -> Samples:
    """The samples, as `load` gives them; from a function only its first `runs` batches."""
    function = main_function(module)
    if options.data is None:
        session.warn(
            "no calibration data: ranges come from synthetic inputs, and accuracy will suffer; the option data takes samples"
        )
        return synthetic_samples(function, options.seed)
    if isinstance(options.data, Samples):
        samples = _fitting(options.data, function)
    else:
        wanted = runs if options.samples is None else options.samples
        samples = load_samples(options.data, function, form_of(options), wanted)
        _warn_of_skipped(samples, session)
    return samples if options.samples is None else samples.head(options.samples)


def _fitting(samples: Samples, function: FuncOp) -> Samples:
    """Samples that were made for a function of these inputs."""
    if dict(samples.types) != input_types(function):
        raise CompileError("the samples are for other inputs than the model's", where=samples.source)
    return samples


def runs_of(samples: Samples, count: int) -> Samples:
    """The samples of this many runs. Raises CompileError where there are fewer (AMCT)."""
    if count > samples.runs:
        raise CompileError(f"holds samples for {samples.runs} runs, not {count} (batch_num)", where=samples.source)
    return samples.head(min(count * samples.batch_size, samples.count))


def _warn_of_skipped(samples: Samples, session: Session) -> None:
    """Warn of the files that were left out."""
    if not samples.skipped:
        return
    first, *others = samples.skipped
    more = f", and {len(others)} more" if others else ""
    session.warn(f"{samples.source}: shards skipped: {1 + len(others)}: {first}{more}")


def warn_of_unused(count: int, unused: int, session: Session) -> None:
    """Warn how many runs `batch_num` leaves unused."""
    if unused > 0:
        session.warn(f"batch_num {count} leaves samples for {unused} more runs unused")


class Split(NamedTuple):
    """The samples of a network, for calibration and for measuring."""

    calibration: Samples | None
    """The samples for calibration; None for synthetic samples."""
    held: Samples
    """The samples that measure."""
    apart: bool
    """Whether the two sets are disjoint."""
    batch_num: int | None

    @property
    def calibrating(self) -> DataOptions:
        """The samples for calibration as a pass takes them."""
        return DataOptions(self.calibration, batch_num=self.batch_num)


def _refuse_without_data(options: DataOptions) -> None:
    """Raises CompileError for an option that says how data is read."""
    usual = values_of(NO_DATA)
    if given := [name for name, value in values_of(options).items() if value != usual[name] and name != "seed"]:
        option = given[0].replace("_", "-")
        raise CompileError(f"{option} is for data", hint="give --data too, or leave it out", option=option)


def split(data: DataOptions, settings: Settings, module: ModuleOp, session: Session) -> Split:
    """Split the samples; with `batch_num` that many runs calibrate, and a tenth of their number after them measures."""
    if data.data is None:
        _refuse_without_data(data)
    data = within(data, settings)
    batch_num = data.batch_num
    if data.data is None:
        return Split(None, synthetic_samples(main_function(module), _MEASURING_SEED), True, batch_num)
    if batch_num is not None:
        beside = max(1, batch_num // 10)
        samples = available(data, module, session, batch_num + beside)
        calibration, used = runs_of(samples, batch_num), runs_of(samples, min(batch_num + beside, samples.runs))
        warn_of_unused(batch_num, samples.runs - used.runs, session)
        held = used.count - calibration.count
        return Split(calibration, used.tail(held) if held else calibration, bool(held), batch_num)
    samples = available(data, module, session)
    batch = samples.batch_size
    held = -(-max(1, samples.count // 10) // batch) * batch
    if samples.count < SMALLEST_SPLIT or samples.count - held < batch:
        return Split(samples, samples, False, None)
    return Split(samples.head(samples.count - held), samples.tail(held), True, None)
