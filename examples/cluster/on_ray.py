"""Shares the work among the workers of Ray: any object with the method `shared_out` can be the `client`.

python examples/cluster/on_ray.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ray  # pyright: ignore

import amct_opt

DIGITS = Path(__file__).parents[1] / "digits"


def _computed(work: Callable[[Any, Any], Any], common: Any, share: Any) -> Any:
    return work(common, share)


engine: Any = ray


class OnRay:
    """The workers of the Ray that this process is connected to. Ray repeats the tasks of workers that die."""

    def shared_out(
        self, work: Callable[[Any, Any], Any], common: Any, shares: Sequence[Any], /
    ) -> Iterator[tuple[int, Any]]:
        sent, remote = engine.put(common), engine.remote(_computed)
        waiting = {remote.remote(work, sent, share): number for number, share in enumerate(shares)}
        while waiting:
            (done,), _ = engine.wait(list(waiting))
            yield waiting.pop(done), engine.get(done)


def main() -> None:
    engine.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
    labels = str(DIGITS / "heldout_labels.npy")
    scores = amct_opt.evaluate(DIGITS / "digits.onnx", DIGITS / "heldout.npz", labels, client=OnRay())
    top1 = scores.models[0].top1
    assert top1 is not None
    print(f"top-1 {top1.percent:.2f} % of {scores.samples} samples")
    engine.shutdown()


if __name__ == "__main__":
    main()
