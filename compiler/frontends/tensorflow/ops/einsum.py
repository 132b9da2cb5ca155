"""Einsum: sums and transposes of one operand; for two operands a product, of matrices if something is summed over."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod
from string import ascii_letters

from ....dialects import nn
from ....dialects.nn.shapes import Shape, known, shape_of
from ..node import Binding, Constant, Converted, Node, Unmapped, converter


@dataclass(frozen=True)
class _Term:
    """A value with a label for each axis: a letter, or a number for an axis of an ellipsis."""

    value: Binding
    labels: tuple[str, ...]

    @property
    def shape(self) -> Shape:
        return self.value.array.shape if isinstance(self.value, Constant) else shape_of(self.value)

    def size(self, label: str) -> int:
        return self.shape[self.labels.index(label)]


@converter("Einsum")
def einsum(node: Node) -> Converted:
    terms, result = _parsed(node)
    if len(terms) > 2:
        raise Unmapped(f"it has {len(terms)} operands")
    if len(terms) == 1:
        return _ordered(node, _summed(node, terms[0], result), result).value
    left, right = terms
    left, right = _summed(node, left, (*result, *right.labels)), _summed(node, right, (*result, *left.labels))
    if {*left.labels, *right.labels} == set(result):
        return node.emit(nn.MulOp, *(node.sink.value(_aligned(node, t, result).value) for t in (left, right))).result
    if isinstance(left.value, Constant):  # constants go to the right, like weights
        left, right = right, left
    return _ordered(node, _product(node, left, right, result), result).value


def _parsed(node: Node) -> tuple[list[_Term], tuple[str, ...]]:
    """The operands and the labels of the result. Raises CompileError for an equation that does not fit the operands."""
    equation = node.text("equation", "").replace(" ", "")
    sources, arrow, target = equation.partition("->")
    texts = sources.split(",")
    if not arrow or len(texts) != len(node.inputs):
        raise node.error(f"has {len(node.inputs)} inputs and the equation '{equation}'")
    labels = [_labels(node, text, len(node.shape(i))) for i, text in enumerate(texts)]
    everything = {label for each in labels for label in each}
    numbered = sum(label.isdecimal() for label in everything)
    letters = target.replace("...", "")
    result = _labels(node, target, len(letters) + (numbered if letters != target else 0))
    if len(set(result)) < len(result) or not everything.issuperset(result):
        raise node.error(f"has the equation '{equation}', whose result does not follow from its inputs")
    if any(len(set(each)) < len(each) for each in labels):
        raise Unmapped("it takes a diagonal")
    if any(label.isdecimal() for label in everything.difference(result)):
        raise Unmapped("it sums over what an ellipsis stands for")
    return [_Term(node.binding(i), each) for i, each in enumerate(labels)], result


def _labels(node: Node, text: str, rank: int) -> tuple[str, ...]:
    """The label of each axis. Axes of an ellipsis are numbered from its end, so that they match as they broadcast."""
    before, dots, after = text.partition("...")
    count = rank - len(before) - len(after)
    if not set(before + after) <= set(ascii_letters) or count < 0 or (count and not dots):
        raise node.error(f"has '{text}' in its equation for rank {rank}")
    return (*before, *(str(i) for i in reversed(range(count))), *after)


def _summed(node: Node, term: _Term, kept: Container[str]) -> _Term:
    """Sums over the axes that are needed nowhere else."""
    gone = [i for i, label in enumerate(term.labels) if label not in kept]
    if not gone:
        return term
    value = node.emit(nn.ReduceSumOp, node.sink.value(term.value), axes=gone, keepdims=False).result
    return _Term(value, tuple(label for label in term.labels if label in kept))


def _ordered(node: Node, term: _Term, labels: Sequence[str]) -> _Term:
    """Transposes the axes into this order."""
    perm = [term.labels.index(label) for label in labels]
    if perm == sorted(perm):
        return term
    if isinstance(term.value, Constant):
        return _Term(term.value.transposed(perm), tuple(labels))
    return _Term(node.emit(nn.TransposeOp, term.value, perm=perm).result, tuple(labels))


def _reshaped(node: Node, value: Binding, sizes: Sequence[int]) -> Binding:
    """Reshapes; 0 copies the value's size at this place, -1 is inferred."""
    if isinstance(value, Constant):
        return value.reshaped(sizes)
    if list(sizes).count(-1) > 1:
        raise Unmapped("it joins or splits several axes of unknown size")
    return node.emit(nn.ReshapeOp, value, to=list(sizes)).result


def _aligned(node: Node, term: _Term, labels: Sequence[str]) -> _Term:
    """Adds axes of size 1 for missing labels."""
    return _grouped(node, term, [[label] if label in term.labels else [] for label in labels])


def _grouped(node: Node, term: _Term, groups: Sequence[Sequence[str]]) -> _Term:
    """Merges each group of labels into one axis, named by its first label; an empty group is an axis of size 1."""
    flat = [label for group in groups for label in group]
    ordered = _ordered(node, term, flat)
    if all(len(group) == 1 for group in groups):
        return ordered
    sizes = [_joined(ordered, i, group) for i, group in enumerate(groups)]
    return _Term(_reshaped(node, ordered.value, sizes), tuple(group[0] if group else "" for group in groups))


def _joined(term: _Term, place: int, group: Sequence[str]) -> int:
    """The size of merged axes at a place of the result, in the form for `_reshaped`."""
    sizes = [term.size(label) for label in group]
    if all(map(known, sizes)):
        return prod(sizes)
    return 0 if len(group) == 1 and term.labels.index(group[0]) == place else -1


def _product(node: Node, left: _Term, right: _Term, result: Sequence[str]) -> _Term:
    """`[batch, rows, summed]` by `[batch, summed, columns]`.

    All rows but the last are a batch to which the right operand broadcasts; columns become one axis, and so do summed axes.
    """
    batch = [label for label in result if label in left.labels and label in right.labels]
    rows = [label for label in result if label not in right.labels]
    columns = [label for label in result if label not in left.labels]
    summed = [label for label in left.labels if label not in result]
    outer = [[label] for label in rows[:-1]]
    lead = [[label] for label in batch]
    lhs, turned_a = _matrix(node, left, [*lead, *outer], rows[-1:], summed)
    rhs, turned_b = _matrix(node, right, [*lead, *([] for _ in outer)] if batch else [], summed, columns)
    operands = (node.sink.value(term.value) for term in (lhs, rhs))
    product = node.emit(nn.MatMulOp, *operands, transpose_a=turned_a, transpose_b=turned_b).result
    labels = (*batch, *rows, *columns)
    if len(rows) > 0 and len(columns) == 1:
        return _Term(product, labels)
    kept = [d if known(d) else 0 for d in shape_of(product)[: len(batch) + len(rows)]]
    split = [d if known(d) else -1 for d in map(right.size, columns)]
    return _Term(_reshaped(node, product, [*kept, *split]), labels)


def _matrix(
    node: Node, term: _Term, lead: Sequence[Sequence[str]], first: Sequence[str], second: Sequence[str]
) -> tuple[_Term, bool]:
    """`[lead, first, second]`, or `[lead, second, first]` and true if the axes are already in that order."""
    turned = [label for group in (*lead, second, first) for label in group] == list(term.labels)
    straight = [label for group in (*lead, first, second) for label in group] == list(term.labels)
    if turned and not straight and not isinstance(term.value, Constant):
        return _grouped(node, term, [*lead, second, first]), True
    return _grouped(node, term, [*lead, first, second]), False
