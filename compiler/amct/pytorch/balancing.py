"""DMQ in AMCT's two steps: a run of the model from `quantize_preprocess` gives factors, then the model is quantized with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ...api import Loaded
from ...configuration.record import LayerRecord, Record, record_text
from ...configuration.settings import Settings
from ...data import Spool
from ...dialects.nn import WeightedOp, plan_of, set_plan
from ...flows.calibration import calibration_options
from ...flows.network import simplify_and_fuse
from ...ir.functions import main_function
from ...lowering.ascend.profiles import like_amct
from ...rewriting import layer_of
from ...runtime.executor import Array
from ...session import Session
from ...support.files import made, replacing
from ...transforms.quantization.decide.planning import check_factors
from ...transforms.quantization.decide.sites import Site, sites
from ...transforms.quantization.options import AUTOMATIC
from ...transforms.quantization.place.insert_observers import insert_observers
from ...transforms.quantization.profiles import profile_of
from ...transforms.quantization.recover.balance_channels import balance_channels, factors_of
from ...transforms.quantization.request import request_of
from ...transforms.quantization.running import runner_of


def balances(settings: Settings) -> bool:
    """Whether a JSON configuration has layers that are to be balanced."""
    enabled = settings.enabled or ()
    return any(each.migration_strength is not None for name, each in settings.by_layer.items() if name in enabled)


class Preprocessing:
    """Finds the factors of a model's layers in a run, and writes them to a record."""

    def __init__(self, loaded: Loaded, config_file: Path, record_file: Path):
        """Remove an earlier record. Raises CompileError for a configuration that does not fit."""
        self._module, self._session = _planned(loaded, config_file)
        self._record = record_file
        record_file.unlink(missing_ok=True)

    def see(self, inputs: Mapping[str, Array]) -> None:
        """Find the factors in a run; a later run replaces them. Raises CompileError for inputs that do not fit."""
        with closing(Spool(main_function(self._module), "quantize_preprocess")) as spool:
            spool.add(inputs)
            samples = spool.samples()
        module = self._module.clone()
        runner = runner_of(AUTOMATIC, profile_of(self._session))
        balance_channels(module, lambda: samples, self._session.silent(), runner)
        factors = {layer_of(site.compute): factors_of(site) for site in _sites(module)}
        layers = {name: LayerRecord(tensor_balance_factor=each) for name, each in factors.items() if each}
        with made(self._record.parent), replacing(self._record) as stream:
            stream.write(record_text(Record(layers), "pytorch").encode())


def balanced(loaded: Loaded, config_file: Path, record: Record) -> Loaded:
    """A fused module whose layers are planned to be balanced by the factors of a record.

    Raises CompileError, located in the record, for a layer without factors, or with another number of them.
    """
    module, session = _planned(loaded, config_file)
    for site in _sites(module):
        plan = plan_of(site.compute)
        if plan is None or plan.balance is None:
            continue
        name = layer_of(site.compute)
        if name not in record.layers or not record.layers[name].tensor_balance_factor:
            hint = "run the module that quantize_preprocess returns, with the same configuration"
            raise record.error(name, "there is no tensor_balance_factor", hint)
        check_factors(site, record)
        set_plan(site.compute, replace(plan, balance=record.layers[name].tensor_balance_factor))
    return Loaded(module, session)


def _planned(loaded: Loaded, config_file: Path) -> tuple[ModuleOp, Session]:
    module, session = loaded
    like_amct(module, session)
    request = request_of(calibration_options(str(config_file)), session)
    simplify_and_fuse(request, module, session)
    insert_observers(module, request, session)
    return module, session


def _sites(module: ModuleOp) -> Sequence[Site]:
    return sites(module, (WeightedOp,))
