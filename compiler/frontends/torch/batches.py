"""Batches of a DataLoader: the inputs of a module, and the labels after them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

import ml_dtypes
import numpy as np

from ...runtime.executor import Array
from ...support.diagnostics import CompileError, first_line

_LABELS = ("labels", "label", "targets", "target", "y")


@dataclass(frozen=True)
class Arguments:
    """The arguments that a module takes: a batch has more than those, and in several forms."""

    names: Sequence[str]
    required: int
    """The number of arguments without a default; a batch that is a tuple begins with them."""

    @staticmethod
    def of(module: Any) -> Arguments:
        """The arguments of a module's `forward`, or the inputs of an exported program."""
        if not hasattr(module, "forward"):
            names = [str(name) for name in module.graph_signature.user_inputs]
            return Arguments(names, len(names))
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [p for p in inspect.signature(module.forward).parameters.values() if p.kind in kinds]
        required = sum(p.default is inspect.Parameter.empty for p in parameters)
        return Arguments([p.name for p in parameters], required)

    def inputs(self, batch: Any) -> dict[str, Any]:
        """The inputs in a batch, by name: a tensor, a sequence that begins with them, or a dictionary that contains them.

        Raises CompileError for a batch without them.
        """
        return self._split(batch)[0]

    def labels(self, batch: Any) -> Any:
        """Gets the labels of a batch: they follow the inputs in a sequence, or are next to them in a dictionary. Raises
        CompileError if there are none.
        """
        found = self._split(batch)[1]
        if found is None:
            hint = "batches are (inputs, labels), or dictionaries with 'labels'"
            raise CompileError("the batch has no labels", where="loader", hint=hint)
        return found

    def _split(self, batch: Any) -> tuple[dict[str, Any], Any]:
        if isinstance(batch, Mapping):
            given = cast("Mapping[str, Any]", batch)
            inputs = {name: given[name] for name in self.names if name in given}
            label = next((given[name] for name in _LABELS if name in given and name not in inputs), None)
        elif isinstance(batch, list | tuple):
            items = cast("Sequence[Any]", batch)
            if items and isinstance(items[0], Mapping):
                return self.inputs(items[0]), items[1] if len(items) > 1 else None
            count = max(self.required, 1)
            inputs = dict(zip(self.names, items[:count], strict=False))
            label = items[count] if len(items) > count else None
        else:
            inputs, label = dict.fromkeys(self.names[:1], batch), None
        if missing := [name for name in self.names[: self.required] if name not in inputs]:
            hint = f"the arguments are {', '.join(self.names)}"
            raise CompileError(f"the batch has no '{missing[0]}'", where="loader", hint=hint)
        return inputs, label


def array(value: Any) -> Array:
    """A tensor of any device, or anything that numpy takes, as an array."""
    if not hasattr(value, "detach"):
        return np.asarray(value)
    tensor = value.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # numpy has it from ml_dtypes, which torch does not know
        return tensor.float().numpy().astype(ml_dtypes.bfloat16)
    return tensor.numpy()


def batches_of(loader: Any) -> Iterator[Any]:
    """The batches of a loader. Raises CompileError for what gives none, and for what fails in the user's code, with the batch."""
    if not isinstance(loader, Iterable):
        hint = "amct_opt.quantize(model, loader)"
        raise CompileError(f"a {type(loader).__name__} gives no batches", where="loader", hint=hint)
    batches = iter(cast("Iterable[Any]", loader))
    for index in count():
        try:
            batch = next(batches)
        except StopIteration:
            return
        except CompileError:
            raise
        except Exception as e:  # datasets may raise anything
            message = f"cannot be read: {type(e).__name__}: {first_line(e)}"
            raise CompileError(message, where=f"loader, batch {index}") from e
        yield batch
