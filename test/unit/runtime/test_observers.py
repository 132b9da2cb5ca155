import numpy as np
import pytest

from compiler.runtime.observers import OBSERVERS


def test_minmax_is_the_same_in_parts() -> None:
    data = np.random.default_rng(0).standard_normal((10, 7)).astype(np.float32)
    whole, left, right = (OBSERVERS["minmax"]() for _ in range(3))
    whole.update(data)
    for row in data[:4]:
        left.update(row)
    right.update(data[4:])
    left.merge(right)
    assert left.finish() == whole.finish() == (data.min(), data.max())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="NaN or Inf"):
        OBSERVERS["minmax"]().update(np.array([0.0, bad]))


def test_nothing_seen() -> None:
    observer = OBSERVERS["minmax"]()
    observer.update(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="no values"):
        observer.finish()
