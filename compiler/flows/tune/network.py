"""A network that is quantized with one choice of options after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ...configuration.layer_settings import weight_bits
from ...configuration.settings import Arq
from ...data import Samples
from ...pipelines.options import composed, values_of
from ...rewriting import layer_of
from ...runtime.metrics import Measure
from ...support.files import scratch
from ...targets.onnx import OnnxTarget
from ...transforms.quantization.calibrate.observing import in_batches
from ...transforms.quantization.decide.sites import Site, sites
from ...transforms.quantization.options import QuantizeOptions
from ...transforms.quantization.profiles import profile_of
from ...transforms.quantization.recover.layer_effects import exchanged, layer_values, rounded
from ...transforms.quantization.recover.outputs import few
from ...transforms.quantization.recover.sensitivity import by_itself, inputs_of, quantized_layers
from ...transforms.quantization.request import Request, request_of
from ...transforms.quantization.running import runner_of
from .. import latency
from ..float_regions import regions
from ..latency import Inputs
from ..network import Network
from ..widening import WIDE, can_widen, own_values
from .budget import Costs, Work, before_passive, bits_read, computes_on_integers, costs_of
from .trials import WIDTHS, Changes, name_of
from .widths import FLOAT, LOW, WHOLE, Choice, Program, Width, changes_of


@dataclass
class TrialNetwork:
    """A fused network that trials quantize, with what measures its layers."""

    networks: Sequence[Network]
    """The network with each split of its samples. The first one also ranks layers, and makes the file."""
    options: QuantizeOptions
    measuring: Samples
    rank_by: Callable[[], Measure]
    work: Work
    timed: Inputs | None = None
    """The inputs of one run of the model, if the budget is one of time."""
    kept: dict[str, Sequence[ModuleOp]] = field(default_factory=dict[str, Sequence[ModuleOp]])
    """The modules of the best trial, by its changes; no other modules are kept."""

    @property
    def network(self) -> Network:
        """The network with the first split of its samples."""
        return self.networks[0]

    def quantized(self, changes: Changes) -> Sequence[ModuleOp]:
        """A quantized copy of the network for each split."""
        kept, request = self.kept.get(name_of(changes)), self.request(changes)
        return kept or [each.quiet.quantized(request).module for each in self.networks]

    def request(self, changes: Changes) -> Request:
        """The request that the options make with the changes of a trial."""
        return request_of(merged(self.options, changes), self.network.session)

    def costs(self, module: ModuleOp) -> Costs:
        """The costs of a quantized copy. Raises CompileError if onnxruntime cannot time it for a budget of time."""
        costs = costs_of(module, self.work, self.network.session)
        if self.timed is None:
            return costs
        with scratch() as folder:
            (found,) = latency.side_by_side({self._file(module, folder): self.timed}).models.values()
        return replace(costs, ms=found.median * 1e3)

    def _file(self, module: ModuleOp, folder: Path) -> Path:
        OnnxTarget().write(module, folder / "network.onnx", self.network.session.silent())
        return folder / "network.onnx"

    def _times(self, module: ModuleOp, names: Sequence[str]) -> Mapping[str, float]:
        """The milliseconds of each layer's region in onnxruntime, by layer name; empty without a budget of time."""
        if self.timed is None:
            return {}
        with scratch() as folder:
            return {name: 1e3 * each for name, each in regions(self._file(module, folder), names, self.timed).items()}

    def program(self, recipe: Changes, *, low_bits: bool) -> Program:
        """The cost of each layer at each width; with `low_bits` also at fewer bits than the options have."""
        evened, session = self.network.quiet.asking(self.request(recipe)).evened(), self.network.session
        whole, given = (
            evened.inlined().module,
            self._in_form(evened, recipe),
        )  # as all other forms, without recovery by default
        rest = self.costs(self.quantized(recipe)[0])
        samples = in_batches(whole, [], few(self.measuring))
        layers = quantized_layers(given, session)
        found: dict[str, list[Choice]] = {name: [] for name in layers}
        times = self._times(whole, layers)
        for name, site in self._sites(whole, layers).items():
            found[name].append(Choice(name, FLOAT, FLOAT, 0.0, self._costs_of(site, times)))
        first, *narrow, wide = self._forms(layers, low_bits)
        values = {} if evened.request.profile.points == "layers" else wide
        networks = [given]
        for form in filter(None, (first, *narrow, {} if values else wide)):
            module = given if form is first else self._in_form(evened, {**recipe, **changes_of(form, first)})
            names = [name for name in quantized_layers(module, session) if name in form]
            alone = module
            if values:  # what layers read belongs to those that make it
                widened = {name: form.get(name, own) for name, own in first.items()}
                widened |= {name: widened[name]._replace(inputs=WIDE) for name in values}
                alone = self._in_form(evened, {**recipe, **changes_of(widened, first)})
                networks.append(alone)
            runner = runner_of(self.network.running)
            noise = exchanged(whole, alone, names, whole, samples, session, "rank layers", self.rank_by, runner)
            times = self._times(module, layers)
            for name, site in self._sites(module, names).items():
                found[name].append(Choice(name, *form[name], noise[name].noise, self._costs_of(site, times)))
        if values:
            places = own_values(evened.module, evened.request, session)
            places = {name: places[name] for name in values if name in places}
            before, after = (
                rounded(whole, each, places, samples, session, "rank values", self.rank_by) for each in networks[:2]
            )
            read = self._numbers_read(whole, places)
            for name in places:
                found[name] = _with_values(found[name], values[name], before[name], after[name], read[name])
        for choices in found.values():
            rest -= choices[1].costs
        return Program(tuple(map(tuple, found.values())), rest)

    def _forms(self, layers: Sequence[str], low_bits: bool) -> list[dict[str, Width]]:
        """Widths of layers: those that the options give, then others that a layer can have and the options leave open."""
        request = self.request({}).within(self.network.module, self.network.session)
        given = dict.fromkeys(layers, Width(None, WHOLE))
        weights: dict[str, tuple[int, Sequence[int]]] = {}
        for each in request.layers.able:
            layer, held = each.layer, request.layers.held[each.site.compute]
            if layer.name not in given:
                continue
            inputs = FLOAT if held.weight_compress_only else held.bits
            given[layer.name] = Width(None if held.weight is None else held.weight.bits, inputs)
            if request.record is not None:
                continue
            if layer.name not in request.settings.weight_bits and isinstance(held.weight, Arq):
                weights[layer.name] = held.weight.bits, weight_bits(layer, held.weight_compress_only)
        other = [
            {
                name: given[name]._replace(bits=bits)
                for name, (own, possible) in weights.items()
                if bits in possible and (own < bits or (low_bits and bits < own))
            }
            for bits in (LOW, WHOLE)
        ]
        wide = {
            name: Width(max(weights[name][1]) if name in weights else given[name].bits, WIDE)
            for name in can_widen(request)
            if name in given
        }
        return [given, *other, wide]

    def _numbers_read(self, whole: ModuleOp, places: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """The number of elements that all readers of a layer's own values read for one sample, by layer name."""
        readers: dict[SSAValue, int] = {}
        for site in sites(whole, profile_of(self.network.session).rows):
            for value in {before_passive(each) for each in inputs_of(site)}:
                readers[value] = readers.get(value, 0) + self.work.inputs.get(layer_of(site.compute), 0)
        values = layer_values(whole)
        return {name: sum(readers.get(values[i], 0) for i in own) for name, own in places.items()}

    def _in_form(self, evened: Network, changes: Changes) -> ModuleOp:
        """A quantized copy of the network whose channels are evened out already: those of all forms alike."""
        return evened.quantized(self.request(changes).equalized.layer_by_layer).inlined().module

    def _sites(self, module: ModuleOp, names: Sequence[str]) -> dict[str, Site]:
        found = {layer_of(site.compute): site for site in sites(module, profile_of(self.network.session).rows)}
        return {name: found[name] for name in names if name in found}

    def _costs_of(self, site: Site, times: Mapping[str, float]) -> Costs:
        integer, name = computes_on_integers(site), layer_of(site.compute)
        stored = OnnxTarget().stored_bytes(by_itself(site), self.network.session.silent())
        macs = 0 if integer else self.work.macs.get(name, 0)
        return Costs(stored, macs, int(integer), bits_read(site, self.work), times.get(name, 0.0))


def _with_values(
    choices: Sequence[Choice], wide: Width, before: Sequence[Measure], after: Sequence[Measure], read: int
) -> list[Choice]:
    """The choices of a layer of a profile that quantizes values: with the noise of rounding its own values, and with wide ones.

    `before` and `after` measure each of its values as given and wide, `read` is the count of numbers that layers read of them.
    """
    floating, *others = choices
    base = next(each for each in others if each.bits == wide.bits)
    costs = replace(base.costs, read=base.costs.read + (WIDE - base.inputs) * read)
    rounding = [replace(each, noise=each.noise + sum(one.noise for one in before)) for each in others]
    return [
        floating,
        *rounding,
        replace(base, inputs=WIDE, noise=base.noise + sum(one.noise for one in after), costs=costs),
    ]


def merged(options: QuantizeOptions, changes: Changes) -> QuantizeOptions:
    """The options with the changes of a trial; widths of layers are added to those that are given."""
    given = values_of(options)
    widths = {name: (*given[name], *changes.get(name, ())) for name in WIDTHS}
    return composed(QuantizeOptions, {**given, **changes, **widths})
