"""Releases of many tables, and what follows from the tables of one alone."""

from __future__ import annotations

from typing import TypeAlias

from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.reuse.coarser import Coarser
from dpsql.mechanisms.reuse.several import Several
from dpsql.mechanisms.strategies.grids import Grids

Alone: TypeAlias = Coarser | Several | Grids


def alone(stored: Stored) -> Alone:
    """What the tables of a release say."""
    if stored.grids:
        return Grids(stored)
    return Coarser(stored) if stored.picked is None else Several(stored)
