"""What is fitted to say what some releases say."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.accounting.events import Law
from dpsql.accounting.kept.mixes import Mix
from dpsql.accounting.kept.tabled import Tabled
from dpsql.mechanisms.reuse.alone import Alone, alone
from dpsql.mechanisms.reuse.fit import Model
from dpsql.mechanisms.reuse.kept import Kept
from dpsql.mechanisms.reuse.precision import variance_of
from dpsql.query.canon import Family


def model(kept: Kept, chosen: Sequence[int]) -> Model | Alone | None:
    """What some releases say together; None where that is too much to be fitted, or where one of
    several was chosen in rounds."""
    listed: list[tuple[Family, Law]] = []
    mixes = list[tuple[Mix | Tabled, int, Fraction]]()
    for seq in chosen:
        stored = kept.read(seq)
        assert stored is not None
        if stored.apart and not chosen[1:]:
            return alone(stored)
        if stored.picked is not None or stored.grids:
            return None
        variance = variance_of(stored.law)
        mixes += [(mix, len(listed) + mix.first, variance) for mix in stored.mixes]
        first = len(listed) + len(stored.families)
        for tables, own in zip(reversed(stored.kinds), reversed(stored.of_tables()), strict=True):
            first -= len(own)
            mixes.append((tables, first, variance))
        listed += [(family, stored.law) for family in stored.families]
    found = Model.of(listed, mixes)
    return found if found or mixes or chosen[1:] else Model.nested(listed)
