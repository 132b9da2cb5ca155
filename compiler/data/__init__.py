"""Data that runs through a model: samples from files and programs, in batches that fit the model's inputs."""

from .arrays import load_arrays as load_arrays
from .evaluator import FloatModel as FloatModel, calibration_runs as calibration_runs, load_evaluator as load_evaluator
from .images import PRESETS as PRESETS, ImageRows as ImageRows, Preprocess as Preprocess, image_size as image_size
from .load import Form as Form, data_files as data_files, load_samples as load_samples
from .samples import Samples as Samples, input_types as input_types, takes_whole_inputs as takes_whole_inputs
from .stored import ArrayRows as ArrayRows, Rows as Rows
from .stream import Spool as Spool, SpooledRows as SpooledRows, from_batches as from_batches
from .synthetic import synthetic_samples as synthetic_samples
