"""Data that runs through a model: samples from files and programs, in batches that fit the model's inputs."""

from .arrays import load_arrays
from .evaluator import FloatModel, calibration_runs, load_evaluator
from .images import PRESETS, ImageRows, Preprocess, image_size
from .load import Form, data_files, load_samples
from .samples import Samples, input_types, takes_whole_inputs
from .stored import ArrayRows, Rows
from .stream import Spool, SpooledRows, from_batches
from .synthetic import synthetic_samples

__all__ = [
    "PRESETS",
    "ArrayRows",
    "FloatModel",
    "Form",
    "ImageRows",
    "Preprocess",
    "Rows",
    "Samples",
    "Spool",
    "SpooledRows",
    "calibration_runs",
    "data_files",
    "from_batches",
    "image_size",
    "input_types",
    "load_arrays",
    "load_evaluator",
    "load_samples",
    "synthetic_samples",
    "takes_whole_inputs",
]
