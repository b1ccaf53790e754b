"""Which sets of earlier releases are fitted together for a question.

What was bought beside other releases was shown as all of them say it; so a question is answered
from these again, that what follows from an answer agrees with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpsql.mechanisms.kept import Kept
from dpsql.mechanisms.linked import columns, fitted, is_few, rank, rows, together
from dpsql.query.canon import families
from dpsql.query.linear import Workload

WORK = 1 << 19  # families of releases fitted together, times the combinations of their classes
FEW, SMALL = 1 << 15, 64  # the same for a query or two; of their rows or combinations the fewer
SINGLES = 4  # releases that may answer alone
LAST = 2  # releases that were shown last


def choices(kept: Kept, workload: Workload) -> Iterator[tuple[int, ...]]:
    """Sets of linked releases to fit together, those first that say most; without residual tables.

    For a query or two, which are soon bought, the small ones together, and large ones alone.
    """
    order = [seq for seq in ordered(kept, workload) if not kept.tabled(seq)]
    if is_few(workload):
        large = [seq for seq in order if rows(kept, seq) > SMALL]
        small = [seq for seq in order if seq not in large]
        yield together(kept, small, FEW, SMALL, past=True)
        yield from ((seq,) for seq in large[:SINGLES])
        return
    chosen = together(kept, order, WORK, math.inf) or tuple(order[:1])
    while chosen:
        yield chosen
        chosen = chosen[: len(chosen) // 2]


def beside(kept: Kept, workload: Workload) -> list[tuple[int, ...]]:
    """Releases of residual tables by themselves; what they and the newest others of more than is
    asked were shown from when they were bought; and all that can be fitted with residual tables,
    unless a query or two are asked.
    """
    order, asked = ordered(kept, workload), columns(workload)
    tabled = [seq for seq in order if kept.tabled(seq)][:SINGLES]
    about = [seq for seq in order if kept.columns[seq] >= asked and not kept.tabled(seq)]
    more = sorted(seq for seq in about if rows(kept, seq) > workload.size)[-LAST:]
    found = [(seq,) for seq in tabled] + [kept.rests(seq) or (seq,) for seq in (*tabled, *more)]
    if tabled and not is_few(workload):
        some = together(kept, [seq for seq in order if fitted(kept, seq)], WORK, math.inf)
        found += [some] if set(some) & set(tabled) else []
    return list(dict.fromkeys(found))


def before(kept: Kept, seqs: Sequence[int], few: bool) -> list[tuple[int, ...]]:
    """From what the answers of some releases were made when they were bought."""
    found = [kept.rests(seq) or ((seq,) if not few or kept.mixed(seq) else ()) for seq in seqs]
    return [chosen for chosen in dict.fromkeys(found) if chosen]


def ordered(kept: Kept, workload: Workload) -> list[int]:
    """The releases that are linked with a question, those first that say most.

    All are with one that asks for a total among others, which depends on no column.
    """
    asked = columns(workload)
    total = any(f is not None and not f.classes for block in families(workload) for f in block)
    linked = kept.linked(frozenset() if total else asked)
    return sorted(linked, key=lambda seq: rank(kept, seq, asked))
