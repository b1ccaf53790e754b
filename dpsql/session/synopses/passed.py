"""Guesses that passed a gate of this session: said again as they were, free.

What a gate let pass is near whatever is learnt since, so it is an answer as any other, to be told
again in whatever words it is asked for. What one gate promises holds for all its guesses at once;
what two gates promise does not hold together as often, so of a statement of several all are to have
passed the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.synopses import Synopsis
from dpsql.mechanisms.intervals.uncertain import Floats
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.synopses.guesses import meaning, queries
from dpsql.mechanisms.synopses.verifier import Verifier
from dpsql.query.linear import Workload

if TYPE_CHECKING:
    from dpsql.session.session import Session
    from dpsql.session.synopses.owned import Opened

_KEPT = 1 << 16  # guesses that are remembered

Whole: TypeAlias = NDArray[np.int64]


def rounded(guesses: Sequence[Floats]) -> list[Whole]:
    """Guesses as gates are asked about them, and as they are shown."""
    return [np.rint(guess).astype(np.int64) for guess in guesses]


def names(archive: Archive, synopsis: Synopsis, workload: Workload) -> list[object]:
    """What tells the queries of a workload from others, in the order of its answers."""
    of = archive.name, synopsis.name
    return [(of, *meaning(query)) for query in queries(workload)]


def note(session: Session, name: object, guess: int, gate: Opened) -> None:
    """Remember a guess that passed."""
    verified = session._learned.verified
    if len(verified) >= _KEPT:
        verified.clear()
    verified[name] = guess, gate


def passed(session: Session, name: object, guess: int, gate: Opened | None) -> bool:
    """Whether this gate has let this guess pass."""
    return gate is not None and session._learned.verified.get(name) == (guess, gate)


def again(
    session: Session, archive: Archive, synopsis: Synopsis, workload: Workload
) -> tuple[list[Whole], Verifier] | None:
    """What was said of a workload when it passed, and the gate that let it; None for others.

    Gates can be asked about it (`picked.refused`).
    """
    verified = session._learned.verified
    if not verified:
        return None
    found = [verified.get(name) for name in names(archive, synopsis, workload)]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found) or len({id(gate) for _, gate in known}) > 1:
        return None
    blocks, start = [], 0
    for block in workload.blocks:
        shape = block.groups, len(block.weights)
        size = shape[0] * shape[1]
        some = known[start : start + size]
        blocks.append(np.array([guess for guess, _ in some], np.int64).reshape(shape))
        start += size
    return blocks, known[0][1].told
