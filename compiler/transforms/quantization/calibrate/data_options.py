"""Options of `--calibrate` and `--quantize` for the data that runs through the model, and for what runs it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ....backends import Name, Runner
from ....backends.cluster import Engine, Storing, secured
from ....configuration.ranges import at_least
from ....configuration.settings import Settings
from ....diagnostics import CompileError
from ....ir.functions import main_function
from ....pipelines.options import shapes
from ....runtime.data import (
    PRESETS,
    Form,
    Preprocess,
    Samples,
    data_files,
    image_size,
    input_types,
    load_samples,
    synthetic_samples,
)
from ....runtime.data.shards import OnError
from ....session import Session

_IMAGE_VALUES = ("scale", "mean", "std", "layout", "color")
"""Options that are fields of `Preprocess` as they are."""


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Options that name data and how much of it is used."""

    data: str | Samples | None = field(default=None, kw_only=False)
    """An .npz file, a folder of them, or a folder of .npy files, one array per input, samples on the first axis;
    `FILE.py:FUNCTION`, which gives batches; with `data-types` a folder of raw binaries per input, `images;ids`; with
    `preprocess`, `scale` or `mean` and `std` a folder of images, or of folders of them.
    """
    samples: int | None = None
    """The first so many samples, no more than there are; all when not given."""
    seed: int = 0
    """The seed of the synthetic inputs, which are used without data."""
    data_types: tuple[str, ...] = ()
    """Types of raw binaries, one per input: `float32,int64`. A file holds one run."""
    input_shape: str | None = None
    """Shapes of raw binaries, `images:1,3,224,224;ids:1,16`: the order of the folders, and sizes that the model leaves
    open.
    """
    preprocess: str | Preprocess | None = None
    """How images become inputs: imagenet, caffe, tf or yolo. The options below override it."""
    resize: str | None = None
    """Shorter side of images (256), or both sides (HEIGHTxWIDTH, without keeping proportions), reached bilinearly."""
    crop: str | None = None
    """Size of the centre of images that is used, 224 or HEIGHTxWIDTH; default: the model's."""
    pad: str | None = None
    """Size that images are fitted into on gray, 640, HEIGHTxWIDTH or `input` (the model's), in place of resize and crop."""
    scale: float | None = None
    """Value of white in images before mean and std: 255 (default) or 1."""
    mean: tuple[float, ...] = ()
    """Mean of images, after scale: one value, or one per channel. Inputs are `(pixel * scale / 255 - mean) / std`."""
    std: tuple[float, ...] = ()
    """Standard deviation of images, after scale: one value, or one per channel."""
    layout: Literal["NCHW", "NHWC"] | None = None
    """Layout of the image input; default: what its shape says."""
    color: Literal["rgb", "bgr", "gray"] | None = None
    """Channels of images; default: rgb, or gray for inputs of one channel."""
    on_error: OnError = "stop"
    """What to do with shards of a folder that cannot be read: `stop`, or `skip` them, with a warning that counts them."""
    batch_num: int | None = None
    """How many runs of the model to use; all when not given. `--quantize` takes its configuration's first."""

    def within(self, settings: Settings) -> Self:
        """These options, with the configuration's `batch_num` where they have none."""
        return self if self.batch_num is not None else replace(self, batch_num=settings.batch_num)

    def files(self) -> list[Path]:
        """The files and folders that are named."""
        return data_files(self.data) if isinstance(self.data, str) else []

    def form(self) -> Form:
        """The form of the data. Raises CompileError for what contradicts itself, and for half of it."""
        shapes_given = shapes(self.input_shape or "", ",", "input-shape")
        return Form(self.data_types, shapes_given, self.image_form(), self.on_error)

    def image_form(self) -> Preprocess | None:
        """The preset, with what other options override; None for data that is not images. Raises CompileError."""
        sizes = {name: image_size(text, name) for name in ("resize", "crop") if (text := getattr(self, name))}
        values = {name: value for name in _IMAGE_VALUES if (value := getattr(self, name)) not in (None, ())}
        given: dict[str, Any] = {**sizes, **values}
        if self.pad:
            given["pad"] = self.pad if self.pad == "input" else image_size(self.pad, "pad")
        if self.preprocess is None and not given:
            return None
        if self.preprocess is None and given.keys().isdisjoint(("scale", "mean", "std")):
            hint = f"preprocess={'|'.join(PRESETS)}, or scale, mean and std"
            raise CompileError(
                "how the pixels of images become inputs must be specified", hint=hint, option=next(iter(given))
            )
        cleared = {"resize": None, "crop": None} if self.pad else {"pad": None} if sizes else {}
        return replace(self._preset(), **{**cleared, **given})

    def _preset(self) -> Preprocess:
        if not isinstance(self.preprocess, str):
            return self.preprocess or Preprocess()
        if self.preprocess not in PRESETS:
            message = f"preprocess: '{self.preprocess}' is not one of {', '.join(PRESETS)}"
            raise CompileError(message, option="preprocess")
        return PRESETS[self.preprocess]

    def load(self, module: ModuleOp, session: Session) -> Samples:
        """The samples for a module's inputs. Raises CompileError, located in the data, for what does not fit them.

        Without data they are synthetic, and the session warns.
        """
        samples = self.available(module, session, self.batch_num)
        if self.batch_num is None or self.data is None:
            return samples
        found = runs_of(samples, self.batch_num)
        warn_of_unused(self.batch_num, samples.runs - found.runs, session)
        return found

    def available(self, module: ModuleOp, session: Session, runs: int | None = None) -> Samples:
        """The samples, as `load` gives them; from a function only its first `runs` batches."""
        function = main_function(module)
        if self.data is None:
            session.warn(
                "no calibration data: ranges come from synthetic inputs, and accuracy will suffer (give data=FILE.npz)"
            )
            return synthetic_samples(function, self.seed)
        if self.samples is not None:
            at_least("samples", self.samples, 1)
        if isinstance(self.data, Samples):
            samples = _fitting(self.data, function)
        else:
            samples = load_samples(self.data, function, self.form(), runs if self.samples is None else self.samples)
            warn_of_skipped(samples, session)
        return samples if self.samples is None else _first(samples, self.samples)


def _fitting(samples: Samples, function: FuncOp) -> Samples:
    """Samples that were made for a function of these inputs."""
    if dict(samples.types) != input_types(function):
        raise CompileError("the samples are for other inputs than the model's", where=samples.source)
    return samples


def _first(samples: Samples, count: int) -> Samples:
    """The first samples. Raises CompileError if there are fewer."""
    if count > samples.count:
        raise CompileError(f"holds {samples.count} samples, samples asks for {count}", where=samples.source)
    return samples.head(count)


def runs_of(samples: Samples, count: int) -> Samples:
    """The samples of so many runs. Raises CompileError for none, and where there are fewer (AMCT)."""
    at_least("batch_num", count, 1)
    if count > samples.runs:
        raise CompileError(f"holds samples for {samples.runs} runs, batch_num asks for {count}", where=samples.source)
    return samples.head(min(count * samples.batch_size, samples.count))


def warn_of_skipped(samples: Samples, session: Session) -> None:
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


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """What shares the work."""

    cluster: str | Engine | None = None
    """A Dask cluster that shares the work, with the same result: `local:N` or `tcp://host:8786`."""
    cluster_tls: tuple[str, ...] = ()
    """PEM files for a cluster at `tls://host:8786`: the authority's certificate, the own certificate, its key."""
    cluster_store: str | None = None
    """A folder or an address (`s3://...`) that all workers see: weights are put there, and not sent to each worker."""
    checkpoint: str | None = None
    """A folder that keeps what a cluster has computed, so that the same work goes on where it was stopped."""

    def runner(self) -> Runner:
        """Raises CompileError for a bad name of a cluster, certificates that do not fit it, and other options without one."""
        for option, what in (("checkpoint", "a checkpoint"), ("cluster_store", "a store of weights")):
            if getattr(self, option) is not None and self.cluster is None:
                hint = "give --cluster too, or leave it out"
                raise CompileError(f"{what} is for work on a cluster", hint=hint, option=option)
        cluster = secured(self.cluster, self.cluster_tls) if self.cluster_tls else self.cluster
        if cluster is not None and self.cluster_store is not None:
            cluster = Storing(cluster, self.cluster_store)
        return Runner(cluster=cluster, checkpoint=None if self.checkpoint is None else Path(self.checkpoint))


@dataclass(frozen=True, kw_only=True)
class BackendOptions(ClusterOptions):
    """Options that affect speed only."""

    backend: Name = "auto"
    """`numpy`, `onnxruntime`, `torch`, or `auto`, which estimates which one finishes first; for a model from PyTorch that is
    calibrated as AMCT does it is torch.
    """
    threads: int | None = None
    """How many batches onnxruntime runs at a time; when not given as many as there are cores, at most 8."""

    def runner(self) -> Runner:
        """Raises CompileError for a backend that is not installed, threads that it does not have, or a bad cluster."""
        return replace(super().runner(), backend=self.backend, threads=self.threads)


AUTOMATIC = BackendOptions()
