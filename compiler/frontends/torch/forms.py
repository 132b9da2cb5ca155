"""Forms of operators that torch's exporter to ONNX cannot write, or writes wrongly, as operators that it writes well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any

from .nodes import arguments_of, edited, operator_name, substitute

Form = Callable[..., Any]
"""Computes the results of an operator from its arguments, by their names in its schema."""


def with_exportable_forms(torch: Any, program: Any) -> Any:
    """A copy of the program, on the same weights, in which such operators are replaced; the program itself if it has none."""
    forms = {node.name: form for node in program.graph.nodes if (form := _form(torch, node)) is not None}
    if not forms:
        return program

    def edit(graph: Any, signature: Any) -> None:
        for node in [node for node in graph.nodes if node.name in forms]:
            values = _inlined(torch, graph, node, forms[node.name])
            substitute(graph, signature, node, _results(node, values))

    return edited(torch, program, edit)


def _results(node: Any, values: Any) -> dict[Any, Any]:
    """The value by the node, or the values by the nodes that take them out of its results."""
    if len(node.target._schema.returns) == 1:
        return {node: values}
    return {user: values[user.args[1]] for user in node.users if user.users}


def _only_first(node: Any) -> bool:
    """Whether nothing reads another result of a node than the first one."""
    return not any(user.args[1] and user.users for user in node.users)


def _form(torch: Any, node: Any) -> Form | None:
    choose = _FORMS.get(operator_name(node))
    return None if choose is None else choose(torch, node, arguments_of(node))


def _inlined(torch: Any, graph: Any, node: Any, form: Form) -> Any:
    """Makes nodes before a node that compute its results by a form: one, or a tuple of them."""
    inputs, given = node.all_input_nodes, arguments_of(node)
    fakes = [each.meta["val"] for each in inputs]

    def compute(*values: Any) -> Any:
        of = dict(zip(inputs, values, strict=True))
        return form(**{name: torch.fx.map_arg(value, of.__getitem__) for name, value in given.items()})

    make_fx = import_module("torch.fx.experimental.proxy_tensor").make_fx
    with next(value.fake_mode for value in fakes if hasattr(value, "fake_mode")):
        inner = make_fx(compute)(*fakes).graph
    known = set(graph.nodes)
    holders = [each for each in inner.nodes if each.op == "placeholder"]
    with graph.inserting_before(node):
        values = graph.graph_copy(inner, dict(zip(holders, inputs, strict=True)))
    for made in set(graph.nodes) - known:
        made.meta = {**node.meta, "val": made.meta.get("val")}
    return values


def _of_first(function: Callable[..., Any], *arguments: Any) -> Form:
    """The function of the operator's first argument, and of arguments that are known."""

    def form(**given: Any) -> Any:
        return function(next(iter(given.values())), *arguments)

    return form


def _fixed(sizes: Sequence[Any], what: str) -> Sequence[int]:
    """Sizes that are known before the model runs. Raises ValueError for others, which would be taken for those of the example."""
    if all(isinstance(size, int) for size in sizes):
        return sizes
    raise ValueError(f"{what} needs sizes that are fixed")


def _average_pool(torch: Any, node: Any, given: Mapping[str, Any]) -> Form | None:
    """Average pooling with `divisor_override`, which the exporter leaves out."""
    if given.get("divisor_override") is None:
        return None
    if given.get("ceil_mode"):
        _fixed(node.meta["val"].shape[2:], "divisor_override with ceil_mode")

    def form(
        self: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        *,
        divisor_override: int,
    ) -> Any:
        """Means of padded windows that are complete, times the quotient of divisors."""
        rank = 3 if self.dim() - len(kernel_size) > 2 else len(kernel_size)
        del count_include_pad  # the divisor is given
        kernel, steps, pads = (_each(v, rank) for v in (kernel_size, stride or kernel_size, padding))
        ends = [pads[i] + _beyond(self.shape[i - rank], kernel[i], steps[i], pads[i]) * ceil_mode for i in range(rank)]
        margins = [m for i in reversed(range(rank)) for m in (pads[i], ends[i])]
        padded = torch.nn.functional.pad(self, margins) if any(margins) else self
        pool = getattr(torch.nn.functional, f"avg_pool{rank}d")
        return pool(padded, kernel, steps) * (prod(kernel) / divisor_override)

    return form


def _each(sizes: Sequence[int], rank: int) -> list[int]:
    return [*sizes] * rank if len(sizes) == 1 else [*sizes]


def _beyond(size: int, kernel: int, step: int, pad: int) -> int:
    """The elements of the last window, if sizes are rounded up, after the padding; windows that begin there are left out."""
    steps = -(-(size + 2 * pad - kernel) // step)
    steps -= steps * step >= size + pad
    return max(0, steps * step + kernel - size - 2 * pad)


def _adaptive_pool(torch: Any, node: Any, given: Mapping[str, Any]) -> Form | None:
    """Pools with equal windows if the sizes divide, otherwise axis by axis with windows of several sizes, without indices."""
    sizes, mean = [*given["output_size"]], "avg" in operator_name(node)
    rank = len(sizes)
    space = [*given["self"].meta["val"].shape[-rank:]]
    if not all(isinstance(size, int) for size in space):
        return None
    if all(n % size == 0 for n, size in zip(space, sizes, strict=True)):
        windows = [n // size for n, size in zip(space, sizes, strict=True)]
        pool = getattr(torch.nn.functional, f"avg_pool{rank}d" if mean else f"max_pool{rank}d_with_indices")
        return _of_first(pool, windows)
    if not mean and not _only_first(node):
        return None

    def form(self: Any, output_size: Sequence[int]) -> Any:
        for axis, (n, size) in enumerate(zip(space, output_size, strict=True), -rank):
            bounds = [(i * n // size, -(-(i + 1) * n // size)) for i in range(size)]
            windows = [self.narrow(axis, start, end - start) for start, end in bounds]
            self = torch.cat([(each.mean if mean else each.amax)(axis, keepdim=True) for each in windows], axis)
        return self if mean else (self,)

    return form


def _upsample(torch: Any, node: Any, given: Mapping[str, Any]) -> Form | None:
    """Upsample with aligned corners and factors, by sizes: ONNX aligns the corners of a size before it is rounded,
    torch those after.
    """
    factors = given.get("scale_factors")
    if not given.get("align_corners") or factors is None or all(float(factor).is_integer() for factor in factors):
        return None
    sizes = _fixed(node.meta["val"].shape[2:], "align_corners with a factor")
    return _of_first(node.target, [*sizes], True, None)


def _cross_entropy(_: Any, node: Any, given: Mapping[str, Any]) -> Form | None:
    """Cross entropy with smoothed labels, which the exporter leaves out, as the operators that torch defines it by."""
    return node.target if given.get("label_smoothing") else None


def _rrelu(torch: Any, _: Any, given: Mapping[str, Any]) -> Form | None:
    """RReLU in evaluation: its slope is the mean of the bounds."""
    if given.get("training", False):
        return None
    slope = (given.get("lower", 1 / 8) + given.get("upper", 1 / 3)) / 2
    return _of_first(torch.nn.functional.leaky_relu, slope)


_SUM, _MEAN, _MAX = 0, 1, 2
"""Modes of embedding bags, by their numbers in the operator."""


def _embedding_bag(torch: Any, node: Any, given: Mapping[str, Any]) -> Form | None:
    """Reduces each bag by a mask of its words: the exporter writes a loop over a sequence of tensors."""
    if not _only_first(node):
        return None
    _fixed(given["offsets"].meta["val"].shape, "EmbeddingBag")

    def form(
        weight: Any,
        indices: Any,
        offsets: Any,
        scale_grad_by_freq: bool = False,
        mode: int = _SUM,
        sparse: bool = False,
        per_sample_weights: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Any:
        del scale_grad_by_freq, sparse  # of gradients
        each = indices * 0 + 1
        place = each.cumsum(0) - 1
        if include_last_offset:
            starts, ends = offsets[:-1], offsets[1:]
        else:
            starts, ends = offsets, torch.cat([offsets[1:], each.sum().reshape(1)])
        inside = (place >= starts[:, None]) & (place < ends[:, None])
        if padding_idx is not None:
            inside = inside & (indices != padding_idx % weight.shape[0])
        words = torch.nn.functional.embedding(indices, weight)
        if per_sample_weights is not None:
            words = words * per_sample_weights[:, None]
        if mode == _MAX:
            least = torch.where(inside[:, :, None], words, float("-inf")).amax(1)
            return (torch.where(inside.any(1)[:, None], least, 0.0),)
        share = inside.to(weight.dtype)
        if mode == _MEAN:
            share = share / share.sum(1, keepdim=True).clamp(min=1)
        return (share @ words,)

    return form


def _multilabel_margin_loss(torch: Any, _: Any, given: Mapping[str, Any]) -> Form | None:
    """The labels of a sample end at the first negative one, which the exporter overlooks."""
    if given["self"].meta["val"].dim() != 2:
        return None
    _fixed(given["self"].meta["val"].shape[1:], "MultiLabelMarginLoss")

    def form(self: Any, target: Any, reduction: int = _REDUCED_TO_MEAN) -> Any:
        given = (target < 0).cumsum(1) == 0
        labels = torch.where(given, target, 0)
        named = ((labels[:, :, None] == torch.arange(self.shape[1])) & given[:, :, None]).any(1)
        margins = (1 - self.gather(1, labels)[:, :, None] + self[:, None]).clamp(min=0)
        losses = torch.where(given[:, :, None] & ~named[:, None], margins, 0.0).sum((1, 2)) / self.shape[1]
        return (losses, losses.mean(), losses.sum())[reduction]

    return form


_REDUCED_TO_MEAN = 1


def _lstm(torch: Any, _: Any, given: Mapping[str, Any]) -> Form | None:
    """LSTM with projections, which ONNX's LSTM does not have, step by step as torch decomposes it."""
    weights, biases, layers = given["params"], given["has_biases"], given["num_layers"]
    if len(weights) == (4 if biases else 2) * layers * (2 if given["bidirectional"] else 1):
        return None
    operator = torch.ops.aten.lstm.input
    steps = import_module("torch._decomp").get_decompositions([operator])[operator]

    def form(**named: Any) -> Any:
        return tuple(steps(*(named[a.name] for a in operator._schema.arguments)))

    return form


_FORMS: Mapping[str, Callable[[Any, Any, Mapping[str, Any]], Form | None]] = {
    "avg_pool2d": _average_pool,
    "avg_pool3d": _average_pool,
    **dict.fromkeys([f"adaptive_max_pool{rank}d" for rank in (1, 2, 3)], _adaptive_pool),
    "adaptive_avg_pool3d": _adaptive_pool,
    "embedding_bag": _embedding_bag,
    "cross_entropy_loss": _cross_entropy,
    "lstm": _lstm,
    "multilabel_margin_loss": _multilabel_margin_loss,
    "rrelu": _rrelu,
    **dict.fromkeys(
        ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"), _upsample
    ),
}
"""Functions by operator: each gives the form for a call, None for calls that the exporter writes well."""
