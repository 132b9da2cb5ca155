"""The quantized and the float network, run layer by layer over the samples that layers are fitted to.

Layers are changed one after the other, each for the inputs that the changed layers before it produce.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .....dialects.nn import constant_of, weights_of
from .....engines import HERE, Runner
from .....engines.data_hash import digest_of
from .....engines.sharing import shares_of
from .....ir.array import Array
from .....ir.weights import return_freed_memory, set_aside
from .....rewriting import Remarks, erase_dead_constants
from .....runtime.metrics import Differences
from .....session import Session
from .....support.diagnostics import CompileError, Gain
from .....support.files import scratch
from ...calibrate.observing import in_batches
from .folds import Fold, Folds, Judged, measured_in_turns, measured_on
from .integer_layers import WEIGHT, IntegerLayer
from .prefixes import Operands, Solution, Twins, accumulated, network, points_of
from .shared_sums import SharedSums
from .sums import Energies, Means, Rows, Summed, Wish, merged_sums, rows_of

S = TypeVar("S", bound=Summed)

Rivals = Mapping[Operation, IntegerLayer]
"""Other forms of layers, by layer. A network of these is compared with the one whose layers change."""

_ROWS = 1 << 14
"""Approximate number of rows of a layer that are summed, but at least `_ROWS_PER_COLUMN` for each column of its weight."""
_ROWS_PER_COLUMN = 8
_ROWS_HELD = 1 << 11
"""Approximate number of rows of the held-back samples that are kept."""
_SHARES = 8
"""Folds of the samples whose sums are added in order, whoever computes them: their number decides how the sums round."""


class Networks:
    """The quantized and the float network; both stop before each layer."""

    def __init__(
        self,
        module: ModuleOp,
        layers: Sequence[IntegerLayer],
        fold: Fold,
        folder: Path,
        session: Session,
        runner: Runner = HERE,
        *,
        work: str,
        beside: bool,
        verdict: Judged | None = None,
        rivals: Rivals | None = None,
        stops: Sequence[Operation] = (),
    ):
        """`layers` in the order of the module. `work` names what is solved. `beside` is false if the float network is not needed:
        then the quantized one is used for both. `verdict` is what was found in turns, if that judges. A cluster of `runner` runs
        the networks over the samples that are not held back. `rivals` take `beside`. Both networks stop at `stops` as well.
        """
        self.judged: Judged = Judged(0 if fold.held is None else fold.held.count)
        """The findings on the samples that are held back, so far."""
        self._verdict = verdict
        self._numbers = {layer.compute: i for i, layer in enumerate(layers)}
        each = (in_batches(module, [], summed) for summed in fold.summed)
        self._shares = [share for summed in each for share in shares_of(summed, fewest=1, most=_SHARES)]
        self._fit = sum(share.runs for share in self._shares)
        self._held = None if fold.held is None else in_batches(module, [], fold.held)
        self._alone = self._held is None and verdict is None
        """Whether the samples that layers are fitted to judge them as well."""
        self._elsewhere: SharedSums | None = None
        self._changes: dict[int, Operands] = {}  # for workers that begin anew
        judging = self._shares if self._alone else [] if self._held is None else [self._held]
        here = judging if self._alone else [*self._shares, *judging]
        if runner.cluster is not None and not self._alone:
            here = judging
            digests = lambda: [digest_of(summed, session, runner.cluster) for summed in fold.summed]  # noqa: E731
            key = lambda: (work, *digests(), self._shares[0].batch_size)  # noqa: E731
            self._elsewhere = SharedSums(runner, module, self._shares, session, len(layers), key, beside=beside)
        self._runs = sum(samples.runs for samples in here)
        computes = list(self._numbers)
        self._twins = Twins(module, [*computes, *stops], here, folder, beside=beside)
        self._exact = self._twins.float or network(module, computes, judging, folder / "exact")
        self._before = network(module, computes, judging, folder / "before", points_of(module))
        for layer in layers:
            self._exact.operands[layer.compute][WEIGHT] = layer.float_weight
        self._rival = network(module, computes, here, folder / "rival", points_of(module)) if rivals else None
        self.rivals: Rivals = rivals or {}
        self.rival_means: Means | None = None
        """The means of the inputs of the layer that was solved last, in the network of rivals; None without rivals."""

    def change(self, layer: IntegerLayer, operands: Operands) -> None:
        """Makes the quantized network read these operands of the layer in place of the module's, from here on."""
        self._twins.quantized.operands[layer.compute].update(operands)
        if self._elsewhere is not None:
            self._changes[self._numbers[layer.compute]] = operands

    def solved(
        self,
        layer: IntegerLayer,
        weights: Array,
        make: Callable[[IntegerLayer], S],
        solve: Callable[[S, Rows, float | None], Solution],
        output: Callable[[Solution | None], tuple[Array, Array | float]],
    ) -> tuple[Solution, Gain]:
        """Solves a layer: `solve` gets the sums of the layer's inputs, which begin with those that `make` gives.
        Returns its solution, and the SQNR of the layer's output without it and with it, where it is judged. `weights`
        are the layer's matrices in the float network; `output` gives what `Rows.energies` takes, for a solution and for
        none. Layers must be requested in order. A checkpoint of the cluster's work keeps what is solved.

        `solve` also gets rows of samples that are not in the sums or, of a single run, of those that are. If turns judge, it gets
        no rows, but the middle one of the solutions' `choice` in these.

        Raises CompileError, located at the layer, for NaN and Inf.
        """
        choice = None if self._verdict is None else self._verdict.choice(layer.compute)
        solution, held = self._solved(layer, weights, make, lambda sums, rows: solve(sums, rows, choice))
        if self._verdict is None and "choice" in solution:
            self.judged.chosen[layer.compute] = [float(solution["choice"])]
        return solution, self.gain(layer, lambda: (held.energies(*output(None)), held.energies(*output(solution))))

    def gain(self, layer: IntegerLayer, judged: Callable[[], tuple[Energies, Energies]]) -> Gain:
        """The SQNR of an output without a solution and with it: of the one that `judged` gives, or what turns found."""
        if self._verdict is None:
            self.judged.layers[layer.compute] = judged()
        before, after = (self._verdict or self.judged).layers[layer.compute]
        return Gain(before.sqnr, after.sqnr)

    def read_by(self, stop: Operation) -> tuple[Iterator[tuple[Array, Array]], int]:
        """What an operation reads in both networks, run by run, and the number of runs that are fitted to; the others judge. If
        there are no others, all do. All runs have to be taken.
        """
        return self._twins.inputs(stop), self._fit

    def _solved(
        self,
        layer: IntegerLayer,
        weights: Array,
        make: Callable[[IntegerLayer], S],
        solve: Callable[[S, Rows], Solution],
    ) -> tuple[Solution, Rows]:
        inputs = self._twins.inputs(layer.compute)
        wish = Wish(make, max(_ROWS, _ROWS_PER_COLUMN * weights.shape[2]) / self._fit)
        if self._rival is not None:
            read = self._rival.inputs(layer.compute)
            few = min(self._fit, self._rival.batches)
            self.rival_means = Means.of_layer(layer)
            self.rival_means.read(((x, x) for x in islice(read, few)), layer, wish.rows, 0)
            deque(read, maxlen=0)
        if self._alone:
            kept = list(inputs)
            held = Rows.of(rows_of(kept, layer, wish.rows, 0), weights)
            return solve(merged_sums([wish.sums(kept, layer, 0)]), held), held
        wanted = _ROWS_HELD / max(1, self._before.batches)
        if self._elsewhere is not None:
            held = Rows.of(rows_of(inputs, layer, wanted, self._fit), weights)
            number = self._numbers[layer.compute]
            changed = self._changes.__getitem__
            return self._elsewhere.solved(number, wish, changed, lambda sums: solve(sums, held)), held
        firsts = accumulated(self._shares)
        sums = merged_sums(
            wish.sums(islice(inputs, share.runs), layer, first)
            for share, first in zip(self._shares, firsts, strict=True)
        )
        held = Rows.of(rows_of(inputs, layer, wanted, self._fit), weights)
        return_freed_memory()  # of the networks and the sums
        return solve(sums, held), held

    def reach(self, layer: IntegerLayer) -> None:
        """Run all networks to a layer; the values that they read for the layers before are not kept until the end."""
        twins = self._twins.quantized, self._twins.float
        for each in (*twins, self._exact, self._before, self._rival):
            if each is not None:
                each.reach(layer.compute)

    def oppose(self, layer: IntegerLayer, operands: Operands) -> None:
        """Makes the network of rivals, if there is one, read these operands of the layer, from here on."""
        if self._rival is not None:
            self._rival.operands[layer.compute].update(operands)

    @property
    def unchanged(self) -> Mapping[Operation, dict[int, Array]]:
        """The operands that the quantized network would read if no layer changed."""
        return self._before.operands

    def judged_to_the_end(self) -> Judged:
        """Judges the layers and the outputs on the samples that are held back. Comes after the last layer."""
        held = self._runs - self._before.batches
        first = held if self._rival is None else 0  # all runs judge rivals
        exact = self._exact.outputs(first if self._exact is self._twins.float else 0)
        old = chain(repeat(None, held - first), self._before.outputs())
        rival = repeat(None) if self._rival is None else self._rival.outputs()
        for reference, new, before, other in zip(exact, self._twins.quantized.outputs(first), old, rival, strict=False):
            for name, array in reference.items():
                if array.dtype.kind in "iub":
                    continue
                if before is not None:
                    was, now = self.judged.outputs.setdefault(name, (Differences(), Differences()))
                    was.add(array, before[name])
                    now.add(array, new[name])
                if other is not None:
                    errors = tuple(float(np.square(x[name] - array, dtype=np.float64).sum()) for x in (other, new))
                    self.judged.rivals.setdefault(name, []).append((errors[0], errors[1]))
        return self.judged

    @property
    def measured(self) -> str:
        """The data that errors are measured on, as the last words of a remark."""
        if self._verdict is not None:
            return measured_in_turns(self._verdict.samples)
        return measured_on(self.judged.samples)


Step = Callable[[IntegerLayer, Networks, Remarks], IntegerLayer]
"""Maps a layer, with the networks before it, to the changed layer."""


_Undo = tuple[IntegerLayer, Callable[[], None]]
"""A layer that changed, and the function that gives it back its operands and attributes."""


class Outcome(NamedTuple):
    """The outcome of all steps."""

    judged: Judged
    undo: Sequence[_Undo]

    def undone(self) -> None:
        """Give all layers back their state before the steps."""
        for _, back in reversed(self.undo):
            back()


def layer_by_layer(
    module: ModuleOp,
    layers: Sequence[IntegerLayer],
    step: Step,
    folds: Folds,
    remarks: Remarks,
    runner: Runner = HERE,
    *,
    work: str,
    beside: bool,
    rivals: Rivals | None = None,
    stops: Sequence[Operation] = (),
) -> Outcome:
    """Take a step for each layer, in the order of the module; undo all, with remarks, if the outputs of the network lose by them.
    Where turns judge, all steps are taken and undone in each of them before. `work` names what the steps do; `beside` is false if
    they do not use the float network. The cluster of `runner` computes what they sum. Steps may change what the network of rivals
    reads (`Networks.oppose`). Networks stop at `stops` as well, for `Networks.read_by`.

    Raises CompileError, located in the data, and at a layer for NaN and Inf.
    """
    session, verdict = remarks.session, Judged() if folds.turns else None

    def taken(
        number: int, fold: Fold, folder: Path, remarks: Remarks, verdict: Judged | None
    ) -> tuple[Networks, list[_Undo]]:
        """The networks after all steps of a turn, and the functions that undo the steps."""
        others = rivals if verdict is None else None
        networks = Networks(
            module,
            layers,
            fold,
            folder,
            session,
            runner,
            work=work,
            beside=beside,
            verdict=verdict,
            rivals=others,
            stops=stops,
        )
        undo: list[_Undo] = []
        _set_aside([module], folder / "weights.safetensors")
        for i, layer in enumerate(layers):
            networks.unchanged[layer.compute].update(layer.operands())
            back, given = _back(layer), tuple(layer.site.owner.operands)
            if others:
                networks.oppose(layer, others.get(layer.compute, layer).operands())
            networks.change(layer, step(layer, networks, remarks).operands())
            if tuple(layer.site.owner.operands) != given:
                undo.append((layer, back))
                _set_aside(filter(None, map(constant_of, layer.site.owner.operands)), folder / f"{i}.safetensors")
            networks.reach(layer)
            return_freed_memory()
            session.progress("layers", number * len(layers) + i + 1, (1 + len(folds.turns)) * len(layers))
        return networks, undo

    for number, fold in enumerate(folds.turns):
        with scratch() as folder:
            networks, undo = taken(number, fold, folder, Remarks(session, remarks.pass_name), None)
            assert verdict is not None, "there are turns"
            verdict.merge(networks.judged_to_the_end())
        for _, back in reversed(undo):
            back()
        erase_dead_constants(module)
    with scratch() as folder:
        networks, undo = taken(len(folds.turns), folds.whole, folder, remarks, verdict)
        judged = verdict
        if judged is None:
            judged = networks.judged_to_the_end() if undo or rivals else Judged()
    outcome = Outcome(judged, undo)
    if undo and (lost := judged.lost(networks.measured)) is not None:
        outcome.undone()
        for layer, _ in undo:
            notes = [each for each in remarks.of(layer.compute) if each.kind == "analysis"]
            remarks.forget(layer.compute)
            remarks.missed(layer.compute, "outputs", lost)
            for each in notes:
                remarks.note(layer.compute, each.rule, each.reason)
    return outcome


def _set_aside(operations: Iterable[Operation], file: Path) -> None:
    """Keep large weights of operations in a file: nothing reads them until all layers are done."""
    try:
        set_aside(chain.from_iterable(map(weights_of, operations)), file)
    except OSError as e:
        raise CompileError(f"temporary files cannot be written: {e.strerror}", where=str(file.parent)) from None


def _back(layer: IntegerLayer) -> Callable[[], None]:
    """Gives the layer back the operands and attributes that it has now."""
    compute, owner = layer.site.compute, layer.site.owner
    attributes, operands = dict(compute.attributes), tuple(owner.operands)

    def back() -> None:
        compute.attributes.clear()
        compute.attributes.update(attributes)
        owner.operands = operands

    return back
