"""The quantized network and the float network next to it, run layer by layer over the samples that layers are fitted to.

Layers are changed one after the other, each for the inputs that the changed layers before it produce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import isnan
from pathlib import Path
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .....backends import HERE, Runner
from .....backends.data_hash import digest_of
from .....backends.sharing import shares_of
from .....data import Samples
from .....diagnostics import CompileError
from .....dialects.nn import weights_of
from .....files import scratch
from .....ir.array import Array
from .....ir.weights import return_freed_memory, set_aside
from .....rewriting import Remarks
from .....runtime.metrics import Differences
from .....session import Session
from ...calibrate.observing import in_batches
from .integer_layers import WEIGHT, IntegerLayer
from .shared_sums import SharedSums
from .sums import Rows, Summed, Wish, merged_sums, rows_of
from .twins import Operands, Solution, Twins, accumulated, network, points_of

S = TypeVar("S", bound=Summed)

HELD_BACK = 8
"""One run in this many is held back; of fewer, but more than one, the last."""
_ROWS = 1 << 14
"""About how many rows of a layer are summed, but at least `_ROWS_PER_COLUMN` for each column of its weight."""
_ROWS_PER_COLUMN = 8
_ROWS_HELD = 1 << 11
"""About how many rows of the held-back samples are kept."""
_SHARES = 8
"""Parts of the samples whose sums are added in order, whoever computes them: their number decides how the sums round."""


class Networks:
    """The quantized network and the float network next to it; both stop before each layer."""

    def __init__(
        self,
        module: ModuleOp,
        layers: Sequence[IntegerLayer],
        samples: Samples,
        folder: Path,
        session: Session,
        runner: Runner = HERE,
        *,
        work: str,
        beside: bool,
        one_in: int = HELD_BACK,
    ):
        """`layers` in the order of the module. `work` names what is solved; one run in `one_in` is held back. `beside` is false
        if the float network is not needed: then the quantized one is used for both. A cluster of `runner` runs the networks over
        the samples that are not held back.
        """
        fit, held = split(samples, one_in)
        self.held_back: int = 0 if held is None else held.count
        """The number of samples that are held back from the sums."""
        self._numbers = {layer.compute: i for i, layer in enumerate(layers)}
        self._shares = shares_of(in_batches(module, [], fit), fewest=1, most=_SHARES)
        self._fit = sum(share.runs for share in self._shares)
        self._held = None if held is None else in_batches(module, [], held)
        self._elsewhere: SharedSums | None = None
        self._changes: dict[int, Operands] = {}  # for workers that begin anew
        here = [*self._shares, *([] if self._held is None else [self._held])]
        if runner.cluster is not None and self._held is not None:
            here = here[-1:]
            key = lambda: (work, digest_of(fit, session, runner.cluster), self._shares[0].batch_size)  # noqa: E731
            self._elsewhere = SharedSums(runner, module, self._shares, session, len(layers), key, beside=beside)
        self._runs = sum(part.runs for part in here)
        computes = list(self._numbers)
        self._twins = Twins(module, computes, here, folder, beside=beside)
        self._exact = self._twins.float or network(module, computes, here[-1:], folder / "exact")
        self._before = network(module, computes, here[-1:], folder / "before", points_of(module))
        for layer in layers:
            self._exact.operands[layer.compute][WEIGHT] = layer.float_weight

    def change(self, layer: IntegerLayer, operands: Operands) -> None:
        """From here on the quantized network reads these operands of the layer in place of the module's."""
        self._twins.quantized.operands[layer.compute].update(operands)
        if self._elsewhere is not None:
            self._changes[self._numbers[layer.compute]] = operands

    def solved(
        self,
        layer: IntegerLayer,
        weights: Array,
        make: Callable[[IntegerLayer], S],
        solve: Callable[[S, Rows], Solution],
    ) -> tuple[Solution, Rows]:
        """What `solve` makes of the sums of the inputs of a layer, beginning with those that `make` gives, and of rows of samples
        that are not in the sums or, of a single run, of those that are. `weights` are the layer's matrices in the float network.
        Layers must be requested in order. A checkpoint of the cluster's work keeps what is solved.

        Also returns these rows. Raises CompileError, located at the layer, for NaN and Inf.
        """
        inputs = self._twins.inputs(layer.compute)
        wish = Wish(make, max(_ROWS, _ROWS_PER_COLUMN * weights.shape[2]) / self._fit)
        for _ in self._before.inputs(layer.compute):  # what it reads of the layers before is not kept until the end
            pass
        if self._held is None:
            kept = list(inputs)
            held = Rows.of(rows_of(kept, layer, wish.rows, 0), weights)
            return solve(merged_sums([wish.sums(kept, layer, 0)]), held), held
        wanted = _ROWS_HELD / self._held.runs
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

    @property
    def unchanged(self) -> Mapping[Operation, dict[int, Array]]:
        """The operands that the quantized network would read if no layer changed."""
        return self._before.operands

    def lost(self) -> str | None:
        """The reason why the layers are not to change: on average the outputs of the quantized network come no closer to those of
        the float network, on the same samples as `summed` returns; None if they do. Comes after the last layer.
        """
        held = self._runs - self._before.batches
        before, after = dict[str, Differences](), dict[str, Differences]()
        each = (self._exact.outputs(held if self._exact is self._twins.float else 0), self._before.outputs())
        for exact, old, new in zip(*each, self._twins.quantized.outputs(held), strict=True):
            for name, array in exact.items():
                if array.dtype.kind not in "iub":
                    before.setdefault(name, Differences()).add(array, old[name])
                    after.setdefault(name, Differences()).add(array, new[name])
        gains = {name: after[name].sqnr - old.sqnr for name, old in before.items()}
        gains = {name: gain for name, gain in gains.items() if not isnan(gain)}
        if not gains or sum(gains.values()) >= 0:
            return None
        worst = min(gains, key=lambda name: gains[name])
        sqnr = f"{after[worst].sqnr:.2f} dB, without it {before[worst].sqnr:.2f} dB"
        return f"with it output {worst} of the quantized model has {sqnr}{self.measured}"

    @property
    def measured(self) -> str:
        """The data that errors are measured on, as the last words of a remark."""
        return measured_on(self.held_back)


def measured_on(count: int) -> str:
    """The last words of a remark with errors that are measured on this many samples held back, if there are any."""
    return f" (on {count} sample{'' if count == 1 else 's'} held back)" if count else ""


def split(samples: Samples, one_in: int = HELD_BACK) -> tuple[Samples, Samples | None]:
    """The samples to sum, and those to hold back."""
    back = max(samples.runs // one_in, int(samples.runs > 1)) * samples.batch_size
    return (samples.head(samples.count - back), samples.tail(back)) if back else (samples, None)


Step = Callable[[IntegerLayer, Networks], IntegerLayer]
"""Maps a layer, with the networks before it, to the changed layer."""


def layer_by_layer(
    module: ModuleOp,
    layers: Sequence[IntegerLayer],
    step: Step,
    samples: Samples,
    remarks: Remarks,
    runner: Runner = HERE,
    *,
    work: str,
    beside: bool,
    one_in: int = HELD_BACK,
) -> None:
    """Take a step for each layer, in the order of the module; undo all, with remarks, if the outputs of the network lose by them.
    `work` names what the steps do; `beside` is false if they do not use the float network. The cluster of `runner` computes what
    they sum.

    Raises CompileError, located in the data, and at a layer for NaN and Inf.
    """
    undo: list[tuple[IntegerLayer, Callable[[], None]]] = []
    with scratch() as folder:
        networks = Networks(
            module, layers, samples, folder, remarks.session, runner, work=work, beside=beside, one_in=one_in
        )
        for i, layer in enumerate(layers):
            networks.unchanged[layer.compute].update(layer.operands())
            back, given = _back(layer), tuple(layer.site.owner.operands)
            networks.change(layer, step(layer, networks).operands())
            _set_aside(module, folder / f"{i}.safetensors")
            if tuple(layer.site.owner.operands) != given:
                undo.append((layer, back))
            return_freed_memory()
            remarks.session.progress("layers", i + 1, len(layers))
        lost = networks.lost() if undo else None
    if lost is not None:
        for layer, back in reversed(undo):
            back()
            remarks.forget(layer.compute)
            remarks.missed(layer.compute, "outputs", lost)


def _set_aside(module: ModuleOp, file: Path) -> None:
    """Keep large weights that changed in a file: nothing reads them until all layers are done."""
    try:
        set_aside(weights_of(module), file)
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
