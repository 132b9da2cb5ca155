"""The hash of data: workers that read the data themselves compute the hashes of its blocks, this process all others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from ..data import Samples
from ..data.samples import BLOCK
from ..session import Session
from .cluster import Workers

_FEWEST = 4 * BLOCK
_MOST_SHARES = 1000


def digest_of(samples: Samples, session: Session, cluster: str | Workers | None) -> str:
    """`samples.digest()`, with the help of a cluster. Raises CompileError if data cannot be read."""
    if cluster is not None and not samples.hashes:
        _hash_on(cluster, samples, session)
    return samples.digest()


def _hash_on(cluster: str | Workers, samples: Samples, session: Session) -> None:
    """Fills the hashes, unless workers do not read the data themselves."""
    from .sharing import Bar, in_order, part_of, sends

    if sends(samples):
        return
    step = max(_FEWEST, -(-samples.count // (_MOST_SHARES * BLOCK)) * BLOCK)
    starts = range(0, samples.count, step)
    shares = [part_of(samples, samples.first + i, min(step, samples.count - i)) for i in starts]
    bar = Bar.of("hash the data", [share.count for share in shares])
    found: Iterable[list[list[bytes]]] = in_order(cluster, _hashes, None, shares, session, bar)
    samples.hashes.extend([*chain.from_iterable(chain.from_iterable(found))])


def _hashes(_: None, share: Samples) -> list[bytes]:
    """The hashes of the blocks of a share, computed on a worker."""
    return list(share.block_hashes())
