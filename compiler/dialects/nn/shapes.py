"""Arithmetic on shapes with unknown sizes. A dimension is an int, `DYNAMIC` if unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from ...ir.numbers import f32

DYNAMIC = DYNAMIC_INDEX
LARGEST = 1 << 60
"""A number of elements larger than in any file: numpy cannot make their shape, even if another size of it is 0."""

Shape = tuple[int, ...]


def tensor_of(value: SSAValue) -> Tensor:
    """The tensor type of a value. Raises VerifyException for other types."""
    type_ = value.type
    if not isinstance(type_, TensorType):
        raise VerifyException(f"expected a ranked tensor, got {type_}")
    return cast(Tensor, type_)


def shape_of(value: SSAValue) -> Shape:
    """The sizes of a value, DYNAMIC if unknown. Raises VerifyException unless it is a ranked tensor."""
    return tensor_of(value).get_shape()


def element_of(value: SSAValue) -> Attribute:
    """The element type of a value. Raises VerifyException unless it is a ranked tensor."""
    return tensor_of(value).element_type


def tensor(element: Attribute, shape: Iterable[int]) -> Tensor:
    """The type of tensors of these elements and sizes. Raises VerifyException like `check_sizes`."""
    sizes = tuple(shape)
    check_sizes(sizes)
    return TensorType(element, sizes)


def check_sizes(shape: Sequence[int]) -> None:
    """Raises VerifyException for negative sizes, which no text can contain, and for more than LARGEST elements."""
    if any(d < 0 and d != DYNAMIC for d in shape):
        raise VerifyException(f"shape {text(shape)} has the negative size {min(shape)}")
    if prod(max(d, 1) for d in shape) > LARGEST:
        raise VerifyException(f"shape {text(shape)} is larger than any array")


def size_left(size: int, what: str) -> int:
    """A size that was computed from known ones. Raises VerifyException if it is negative: -1 would be read as DYNAMIC."""
    if size < 0:
        raise VerifyException(f"{what}: a size of {size} is left")
    return size


def known(dim: int) -> bool:
    """Whether a size is known at compile time."""
    return dim != DYNAMIC


def static(shape: Sequence[int]) -> bool:
    """Whether all sizes are known."""
    return all(map(known, shape))


def compatible(a: Tensor, b: Tensor) -> bool:
    """Whether element type and rank are equal, and no two known sizes differ."""
    if a.element_type != b.element_type or a.get_num_dims() != b.get_num_dims():
        return False
    return all(x == y or DYNAMIC in (x, y) for x, y in zip(a.get_shape(), b.get_shape(), strict=True))


def merge_dim(a: int, b: int, what: str = "sizes") -> int:
    """Merges two sizes that must be equal into the known one. Raises VerifyException if both are known and differ."""
    if a == DYNAMIC or a == b:
        return b
    if b == DYNAMIC:
        return a
    raise VerifyException(f"{what} differ: {a} and {b}")


def merge_shape(a: Sequence[int], b: Sequence[int], what: str = "shapes") -> Shape:
    """The known sizes of two shapes that must be equal. Raises VerifyException when they differ."""
    if len(a) != len(b):
        raise VerifyException(f"{what} differ in rank: {text(a)} and {text(b)}")
    return tuple(merge_dim(x, y, what) for x, y in zip(a, b, strict=True))


def text(shape: Sequence[int]) -> str:
    """A shape as printed in messages: `[1, 3, ?]`."""
    return "[" + ", ".join(str(d) if known(d) else "?" for d in shape) + "]"


def same_element(*values: SSAValue | None) -> Attribute:
    """The one element type of all values (absent ones are skipped). Raises VerifyException when they differ."""
    elements = list(dict.fromkeys(element_of(v) for v in values if v is not None))
    if len(elements) != 1:
        raise VerifyException(f"element types differ: {', '.join(map(str, elements))}")
    return elements[0]


def broadcast(*shapes: Sequence[int]) -> Shape:
    """Broadcasts as numpy does; an unknown size against 1 stays unknown, against a known size above 1 becomes that size."""
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(_broadcast_dim(dims, shapes) for dims in zip(*padded, strict=True))


def _broadcast_dim(dims: tuple[int, ...], shapes: Sequence[Sequence[int]]) -> int:
    sizes = {d for d in dims if known(d) and d != 1}
    if len(sizes) > 1:
        raise VerifyException(f"shapes do not broadcast: {', '.join(map(text, shapes))}")
    if sizes:
        return sizes.pop()
    return DYNAMIC if DYNAMIC in dims else 1


def size(shape: Sequence[int]) -> int:
    """The number of elements, DYNAMIC if a dimension is unknown (0 wins over unknown)."""
    if 0 in shape:
        return 0
    return prod(shape) if static(shape) else DYNAMIC


def scaled_size(size: int, scale: float) -> int:
    """A size times a scale, in float32 and rounded down as in ONNX; a size beyond float32 is larger than LARGEST."""
    return int(min(f32(size * scale), 2.0 * LARGEST)) if known(size) else DYNAMIC


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """A non-negative axis. Raises VerifyException when out of range."""
    if not -rank <= axis < rank:
        raise VerifyException(f"{what} {axis} is out of range for rank {rank}")
    return axis % rank if rank else 0


def axes_of(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Non-negative axes. Raises VerifyException for one out of range or named twice."""
    result = tuple(axis_of(a, rank) for a in axes)
    if len(set(result)) != len(result):
        raise VerifyException(f"axes {list(result)} are not distinct")
    return result


def require_rank(value: SSAValue, rank: int, what: str) -> None:
    """Raises VerifyException if a value has another rank."""
    if (actual := len(shape_of(value))) != rank:
        raise VerifyException(f"{what} must be of rank {rank}, not {actual}")


def window_size(size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, ceil: bool = False) -> int:
    """Output size of a sliding window: `(size + begin + end - dilation*(kernel-1) - 1) // stride + 1`.

    With `ceil`, rounds up, but drops a window that would start in the end padding (ONNX pooling, PyTorch).
    Raises VerifyException when the window is larger than the padded input.
    """
    if not known(size):
        return DYNAMIC
    room = size + begin + end - dilation * (kernel - 1) - 1
    if room < 0:
        raise VerifyException(f"window of {dilation * (kernel - 1) + 1} exceeds the padded size {size + begin + end}")
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + begin else count


def same_size(size: int, stride: int) -> int:
    """Output size under SAME padding: `ceil(size / stride)`."""
    return -(-size // stride) if known(size) else DYNAMIC


def same_pads(size: int, kernel: int, stride: int, dilation: int, upper: bool) -> tuple[int, int]:
    """(begin, end) of SAME padding for a known size, or for all sizes if the stride is 1; the odd element goes to the end when
    `upper` (TensorFlow, ONNX).
    """
    size = size if known(size) else 1
    total = max((same_size(size, stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)
