"""The type of arrays of any element type and shape. A module of its own, because it imports numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
