"""Warnings of causes that make every figure of a run doubtful: data in another scale than the model's, results that are
mostly noise.

The limits are far from what trained networks show on their own data. There, the input of the first batch norm is as large as its
statistics say within a third, and the first convolution of images gives results around 1; pixels of 0 to 255 in place of
normalized ones are 40 to 300 times as large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ..data import Samples
from ..dialects.nn import BatchNormOp, ConvolutionOp, constant_of
from ..ir.dtypes import is_float
from ..ir.functions import main_function, output_names
from ..rewriting import layer_of
from ..runtime.executor import Array, Executable
from ..runtime.metrics import Difference
from ..session import Session
from ..support.tables import numbered

LEAST_DB = 15.0
"""SQNR below which outputs are mostly noise."""
_FAR = 20.0
"""Factor by which the input of the first layers must be larger or smaller than expected."""
_LARGEST, _SMALLEST = 2550.0, 0.1
"""Limits for pixels: ten times beyond those of 0 to 255, and beyond those of 0 to 1."""
_SEEN, _MOST = 16, 1 << 23
"""Largest number of samples that are examined, and of their elements."""
_APART = 3.0
"""Factor by which the spread of the samples that measure must differ, or the number of deviations by which their mean must."""
_ENOUGH = 4, 1000
"""Fewest samples, and numbers, for a meaningful spread."""

_SPREAD, _OFF = 2.2, 0.6
"""Largest plausible ratio, in either direction, between the spread of the first batch norm's input and its statistics,
and largest plausible distance of the mean, in their deviations: medians over channels. A few samples of trained
networks' own data spread 0.7 to 1.1 times as wide and are off by less than 0.2; pixels of 0 to 1 for normalized ones
spread 0.2 times as wide, and pixels from which no mean was subtracted are off by 0.8.
"""

NO_COMMANDS: Mapping[str, str] = {}


def _advice(commands: Mapping[str, str]) -> str:
    line = commands.get("evaluate", "amct evaluate MODEL --data DATA --labels LABELS")
    return f"check how inputs are normalized (for images --preprocess, --scale, --mean, --std); what is right shows: {line}"


class _Enough(Exception):
    """Raised when all watched values were seen."""


def doubts_of_data(module: ModuleOp, samples: Samples, commands: Mapping[str, str] = NO_COMMANDS) -> Iterator[str]:
    """Yields what is odd about data for a float model, as it was read: one line each, with the next of the session's commands."""
    if samples.synthetic:
        return
    advice = _advice(commands)
    spread = _spread(samples)
    if spread and not any(array.any() for array in spread.values()):
        seen = f"{_few(samples)} of {samples.count} samples"
        yield f"{samples.source}: all values are 0, in {seen}: ranges of real data are wider"
        return
    for name, array in spread.items():
        largest = float(np.max(np.abs(array), initial=0.0))
        photos = array.ndim == 4 and 3 in (array.shape[1], array.shape[3])
        if photos and largest and not _SMALLEST <= largest <= _LARGEST:
            usual = "images usually are 0 to 1, -2.6 to 2.6, or 0 to 255"
            yield f"the largest value of input '{name}' is {largest:.4g}, and {usual}: {advice}"
            return
    norm = next((op for op in _operations(module) if isinstance(op, BatchNormOp)), None)
    first = next((op for op in _operations(module) if isinstance(op, ConvolutionOp)), None)
    values = [op.operands[0] if op is norm else op.results[0] for op in (norm, first) if op is not None]
    seen = _values(module, values, samples.head(max(_few(samples), min(samples.batch_size, samples.count))))
    if norm is not None and norm.input in seen and (differs := _against_statistics(norm, seen[norm.input])):
        yield f"the data {differs} the statistics of the first batch norm ('{layer_of(norm)}') say: {advice}"
    elif first is not None and first.results[0] in seen and _swamps_bias(first, seen[first.results[0]], samples):
        yield f"the data is pixels of 0 to 255, compared with which the bias of '{layer_of(first)}' vanishes: {advice}"


_HARDLY_ANY = 2
"""Most samples that ranges fit alone."""


def doubts_of_use(samples: Samples, calibrates: bool) -> Iterator[str]:
    """Yields what is odd about how data is used: hardly any samples calibrate, or data decides nothing, as no range is needed."""
    if not calibrates:
        yield f"{samples.source} does not calibrate anything: no range of activations is needed; it only measures the result"
    elif samples.count <= _HARDLY_ANY and not samples.synthetic:
        all_of_it = numbered(samples.count, "sample")
        yield f"{samples.source}: ranges fit {all_of_it} alone; a few hundred like those of production are enough"


def warn_of_data(module: ModuleOp, samples: Samples, session: Session) -> None:
    """Warn of oddities of data."""
    for doubt in doubts_of_data(module, samples, session.commands):
        session.warn(doubt)


def _operations(module: ModuleOp) -> Iterator[Operation]:
    return main_function(module).body.walk()


def _values(module: ModuleOp, values: Iterable[SSAValue], samples: Samples) -> dict[SSAValue, Array]:
    """Values of a few samples, joined along the first axis. The rest of the model does not run."""
    wanted = list(values)
    if not wanted:
        return {}
    executable, found = Executable(module, wanted), {value: list[Array]() for value in wanted}
    for inputs in samples.batches():
        left = set(wanted)

        def see(value: SSAValue, array: Array, left: set[SSAValue] = left) -> None:
            found[value].append(array.astype(np.float32))
            left.discard(value)
            if not left:
                raise _Enough

        try:
            executable.run(inputs, see)
        except _Enough:
            continue
    return {value: np.concatenate(parts) for value, parts in found.items() if parts and _joins(parts)}


def _joins(parts: list[Array]) -> bool:
    return len({part.shape[1:] for part in parts}) == 1 and parts[0].ndim > 0


def _against_statistics(norm: BatchNormOp, array: Array) -> str:
    """The difference between the input of a batch norm and its mean and variance, in words; empty if that is plausible."""
    mean, variance = (constant_of(each) for each in (norm.mean, norm.variance))
    if mean is None or variance is None:
        return ""
    axis = norm.channel_axis(array.ndim)
    channels = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis]).astype(np.float64)
    deviation = np.sqrt(variance.array.astype(np.float64) + norm.epsilon.value.data)
    with np.errstate(all="ignore"):
        far = float(np.median(np.sqrt(((channels - mean.array) ** 2).mean(0)) / deviation))
        spread = float(np.median(channels.std(0) / deviation))
        off = float(np.median(np.abs(channels.mean(0) - mean.array) / deviation))
    if far > _FAR:
        return f"is {far:.3g} times as large as"
    if len(array) < _ENOUGH[0] or not spread:
        return ""
    if not 1 / _SPREAD <= spread <= _SPREAD:
        return f"spreads {spread:.2g} times as wide as"
    return f"lies {off:.2g} deviations away from the mean that" if off > _OFF else ""


def _swamps_bias(conv: ConvolutionOp, array: Array, samples: Samples) -> bool:
    """Whether the results of a first convolution on unnormalized pixels are so large that its bias does not matter."""
    biases = [each for operand in conv.operands[2:] if (each := constant_of(operand)) is not None]
    inputs = [array for array in _spread(samples).values() if array.size]
    if not biases or not inputs or min(a.min() for a in inputs) < 0 or max(a.max() for a in inputs) < _FAR:
        return False
    size, bias = (float(np.sqrt(np.mean(np.square(a, dtype=np.float64)))) for a in (array, biases[0].array))
    return bias > 0 and size > _FAR and size > _FAR * bias


def doubts_of_split(calibration: Samples, held: Samples) -> Iterator[str]:
    """Yields the differences between the samples that measure and those that calibrate: one line for an input."""
    if calibration.synthetic or held.count < _ENOUGH[0]:
        return
    measured = _spread(held)
    for name, array in _spread(calibration).items():
        other = measured.get(name)
        if other is None or min(array.size, other.size) < _ENOUGH[1]:
            continue
        spread, beside = float(array.std()), float(other.std())
        if not spread:
            continue
        apart = abs(float(other.mean()) - float(array.mean())) / spread
        if apart > _APART or not 1 / _APART <= beside / spread <= _APART:
            yield (
                f"the samples that measure differ from those that calibrate: values of input '{name}' spread by {beside:.3g} "
                f"instead of {spread:.3g} around {other.mean():.3g} instead of {array.mean():.3g}; shuffle the data of --data"
            )


def _few(samples: Samples) -> int:
    """The number of samples to look at."""
    largest = max(math.prod(abs(n) for n in rows.shape[1:]) for rows in samples.rows.values())
    return max(1, min(_SEEN, samples.count, _MOST // max(largest, 1)))


def _spread(samples: Samples) -> dict[str, Array]:
    """A few samples of each input of floats that has any (a cache may be empty), evenly from all."""
    indices = sorted({int(i) for i in np.linspace(0, samples.count - 1, _few(samples))})
    found: dict[str, Array] = {}
    for name, type_ in samples.types.items():
        if is_float(type_.element_type) and type_.get_shape() and -1 not in samples.rows[name].shape:
            found[name] = np.concatenate([samples.take(name, i, 1) for i in indices]).astype(np.float32)
    return {name: array for name, array in found.items() if array.size}


def doubts_of_result(
    module: ModuleOp, stages: Mapping[str, Mapping[str, Difference]], commands: Mapping[str, str] = NO_COMMANDS
) -> Iterator[str]:
    """Yields one line for all float outputs that are mostly noise in one of the stages."""
    low = [
        (difference.sqnr, name, stage)
        for stage, differences in stages.items()
        for name, difference in differences.items()
        if difference.sqnr < LEAST_DB and name in _float_outputs(module)
    ]
    if low:
        sqnr, name, stage = min(low)
        yield (
            f"output '{name}' ({stage}) has an SQNR of {sqnr:.2f} dB: it is mostly noise; list the layers that cost most: "
            f"{commands.get('sensitivity', 'amct sensitivity MODEL --data DATA')}"
        )


def _float_outputs(module: ModuleOp) -> set[str]:
    function = main_function(module)
    results = zip(output_names(function), function.function_type.outputs.data, strict=True)
    return {name for name, type_ in results if is_float(getattr(type_, "element_type", type_))}
