"""How answers of the zoo's networks are judged: what is right, of how much; and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Outputs = Sequence[Array]
"""The outputs for one sample, in the order of the model's outputs."""
Score = Callable[[Outputs, Any, Outputs, Mapping[str, Any]], tuple[int, int]]
"""Takes the outputs, the label, the float network's outputs and facts of the network; returns what is right, of how much."""


def text(outputs: Outputs, label: str, _: Outputs, facts: Mapping[str, Any]) -> tuple[int, int]:
    """The whole line, decoded greedily (CTC): repeated characters are one, and 0 is none."""
    best = outputs[0][0].argmax(-1)
    kept = best[(best != 0) & (best != np.concatenate([[0], best[:-1]]))]
    return int("".join(facts["characters"][i] for i in kept) == label), 1


def top1(outputs: Outputs, label: int, _: Outputs, __: Mapping[str, Any]) -> tuple[int, int]:
    return int(outputs[0].reshape(-1).argmax() == label), 1


def boxes(outputs: Outputs, label: Sequence[Sequence[int]], _: Outputs, __: Mapping[str, Any]) -> tuple[int, int]:
    """Lines that are found: of the box shrunk as the network was trained to (by area * 0.84 / perimeter) at least half is marked,
    and of what is marked within 4 pixels of the box at least half lies in it.
    """
    marked = outputs[0].reshape(outputs[0].shape[-2:]) > 0.3
    found = 0
    for left, top, right, bottom in label:
        by = int((right - left) * (bottom - top) * 0.84 / (2 * (right - left + bottom - top)))
        core = marked[top + by : max(bottom - by, top + by + 1), left + by : max(right - by, left + by + 1)]
        around = marked[max(0, top - 4) : bottom + 4, max(0, left - 4) : right + 4].sum()
        found += bool(core.mean() >= 0.5 and 2 * marked[top:bottom, left:right].sum() >= around)
    return found, len(label)


def notes(outputs: Outputs, label: Sequence[int], _: Outputs, __: Mapping[str, Any]) -> tuple[int, int]:
    """Keys that sound and are heard (for half of the clip above 0.3), of those that sound or are heard."""
    posterior = outputs[1]  # between onsets and contours
    heard = set(np.flatnonzero((posterior[0] > 0.3).mean(0) > 0.5).tolist())
    return len(heard & set(label)), len(heard | set(label))


def agreement(outputs: Outputs, _: None, floats: Outputs, __: Mapping[str, Any]) -> tuple[int, int]:
    """Decisions that are the float network's: the larger of several classes, or a probability above one half."""
    at = min(range(len(floats)), key=lambda i: (floats[i].shape[-1] not in (1, 2, 3, 10, 12), floats[i].shape[-1]))
    ours, theirs = (o[at].reshape(-1, o[at].shape[-1]) for o in (outputs, floats))
    same = (ours > 0.5) == (theirs > 0.5) if ours.shape[-1] == 1 else ours.argmax(-1) == theirs.argmax(-1)
    return int(same.sum()), same.size


def distance(outputs: Outputs, _: None, floats: Outputs, __: Mapping[str, Any]) -> tuple[int, int]:
    """Samples whose output lies within a hundredth of the float one's energy (20 dB)."""
    error, signal = (sum(float(np.square(a.astype(np.float64)).sum()) for a in arrays) for arrays in (
        [o - f for o, f in zip(outputs, floats, strict=True)], floats))  # fmt: skip
    return int(error <= signal / 100), 1


def rating(outputs: Outputs, _: None, floats: Outputs, __: Mapping[str, Any]) -> tuple[int, int]:
    """Ratings within 0.02 of the float network's: it rates from 1 to 5."""
    return int((np.abs(outputs[0] - floats[0]) <= 0.02).sum()), floats[0].size


SCORES: Mapping[str, Score] = {
    "text": text,
    "top1": top1,
    "boxes": boxes,
    "notes": notes,
    "agreement": agreement,
    "distance": distance,
    "rating": rating,
}
MEANINGS = {
    "text": "lines read right",
    "top1": "top-1",
    "boxes": "lines found",
    "notes": "notes heard",
    "agreement": "decisions as in float",
    "distance": "within 20 dB of float",
    "rating": "within 0.02 of float",
}


def wilson(right: int, count: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share, in percent (Wilson's score)."""
    z, share = 1.96, right / count
    middle = share + z * z / (2 * count)
    reach = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return tuple(100 * (middle + side * reach) / (1 + z * z / count) for side in (-1, 1))  # pyright: ignore[reportReturnType]
