"""Which sets of earlier releases are fitted together for a question.

What was bought beside other releases was shown as all of them say it; so a question is answered
from these again, that what follows from an answer agrees with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpsql.mechanisms.reuse.kept import Kept
from dpsql.mechanisms.reuse.linked import columns, fitted, is_few, rows, together
from dpsql.mechanisms.reuse.ordered import SMALL, ordered
from dpsql.query.linear import Workload

WORK = 1 << 19  # families of releases fitted together, times the combinations of their classes
FEW = 1 << 15  # the same for a query or two
SINGLES = 4  # releases that may answer alone
LAST = 2  # releases that were shown last


def choices(kept: Kept, workload: Workload) -> Iterator[tuple[int, ...]]:
    """Sets of linked releases to fit together, those first that say most; without residual tables.

    For a query or two, which are soon bought, the small ones together, and large ones alone.
    """
    order = ordered(kept, workload)
    if is_few(workload):
        yield together(kept, order.small, FEW, SMALL, past=True)
        yield from ((seq,) for seq in order.large[:SINGLES])
        return
    untabled = [seq for seq in order.every if not kept.tabled(seq)]
    chosen = together(kept, untabled, WORK, math.inf) or tuple(untabled[:1])
    while chosen:
        yield chosen
        chosen = chosen[: len(chosen) // 2]


def beside(kept: Kept, workload: Workload) -> list[tuple[int, ...]]:
    """Releases of residual tables by themselves; what they and the newest others of more than is
    asked were shown from when they were bought; and all that can be fitted with residual tables,
    unless a query or two are asked.
    """
    order, asked = ordered(kept, workload), columns(workload)
    tabled = order.tabled[:SINGLES]
    about = [seq for seq in order.every if kept.columns[seq] >= asked and not kept.tabled(seq)]
    more = sorted(seq for seq in about if rows(kept, seq) > workload.size)[-LAST:]
    found = [(seq,) for seq in tabled] + [kept.rests(seq) or (seq,) for seq in (*tabled, *more)]
    if tabled and not is_few(workload):
        some = together(kept, [seq for seq in order.every if fitted(kept, seq)], WORK, math.inf)
        found += [some] if set(some) & set(tabled) else []
    return list(dict.fromkeys(found))


def before(kept: Kept, seqs: Sequence[int], few: bool) -> list[tuple[int, ...]]:
    """From what the answers of some releases were made when they were bought."""
    found = [kept.rests(seq) or ((seq,) if not few or kept.mixed(seq) else ()) for seq in seqs]
    return [chosen for chosen in dict.fromkeys(found) if chosen]
