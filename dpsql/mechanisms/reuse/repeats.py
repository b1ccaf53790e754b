"""The very same queries as were measured before, and what those measurements say again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction

from dpsql.mechanisms.intervals.law import nominal
from dpsql.mechanisms.reuse.found import Found, Repeated, better
from dpsql.mechanisms.reuse.kept import Kept, is_whole
from dpsql.mechanisms.reuse.precision import variance_of
from dpsql.query.canon import families
from dpsql.query.linear import Workload


def named(workload: Workload) -> str | None:
    """A name of the queries of a workload, in whatever words, order and scale they came.

    None for queries of too many cells.
    """
    keys = {None if f is None else f.key for block in families(workload) for f in block}
    if None in keys:
        return None
    return hashlib.sha256(" ".join(sorted(filter(None, keys))).encode()).hexdigest()


def measured(kept: Kept, workload: Workload) -> list[int]:
    """The charges that measured every query of a workload, the newest first."""
    listed = [family for block in families(workload) for family in block]
    seqs: set[int] | None = None
    for family in listed:
        found = () if family is None else kept.measured(family)
        seqs = set(found) if seqs is None else seqs & set(found)
        if not seqs:
            return []
    return sorted(seqs or (), reverse=True)


def repeat(kept: Kept, workload: Workload, seqs: Sequence[int]) -> Found | None:
    """Of these releases, which measured it, the best one."""
    best: Found | None = None
    for seq in seqs:
        best = better(best, repeated(kept, workload, seq))
    return best


def lone(kept: Kept, workload: Workload, seq: int) -> Found | None:
    """What charge `seq` says again of a lone query; None where others measured it as well."""
    seqs = measured(kept, workload) if workload.size == 1 else []
    return repeat(kept, workload, seqs) if seqs == [seq] else None


def repeated(kept: Kept, workload: Workload, seq: int) -> Found | None:
    """What a release measured of a workload, where that was on the workload's scale.

    None for what its tables say, and for another scale without a strategy.
    """
    stored = kept.read(seq)
    assert stored is not None
    if stored.apart:
        return None
    if stored.mixes:
        from dpsql.mechanisms.strategies.mixed import again

        return again(workload, seq, stored)
    known = {(f.key, f.factor): at for at, f in enumerate(stored.families)}
    asked = [[(f.key, f.factor) for f in b if f is not None] for b in families(workload)]
    if not all(name in known for block in asked for name in block):
        return None
    places = [[known[name] for name in block] for block in asked]
    answered = Repeated(workload, stored, places)
    return Found(nominal(stored.law), (seq,), answered, law=stored.law)


def whole(kept: Kept, workload: Workload) -> dict[int, Fraction]:
    """The charges that measured a whole table and nothing else, and the noise's variances."""
    listed = {seq: kept.read(seq) for seq in measured(kept, workload)}
    return {
        seq: variance_of(stored.law)
        for seq, stored in listed.items()
        if stored is not None and is_whole(stored)
    }
