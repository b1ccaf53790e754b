"""The queries that a synopsis is made for: a script of SELECTs, read as one workload."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.curator.quote import moved
from dpsql.errors import UsageError
from dpsql.query.canon import families
from dpsql.query.linear import Block, Grouping, Workload
from dpsql.schema import Dataset
from dpsql.session.scripts.ready import Query, Ready, ready
from dpsql.session.scripts.script import Script

if TYPE_CHECKING:
    from dpsql.session.session import Session

MOST = 100_000  # queries of all statements
_EVERYONE = (Grouping((), np.zeros(1, np.int64)),)


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """The SELECTs of a script, and how many queries each has."""

    found: Ready
    dataset: Dataset
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def workload(self, session: Session) -> Workload:
        """All their queries, over the columns that they mention in the schema's order."""
        each = [query.compiled.workload for query in self.found.queries]
        mentioned = {name for own in each for name in own.domain.names}
        names = [column.name for column in self.dataset.columns if column.name in mentioned]
        domain = session._grid(self.dataset).domain(tuple(names))
        return Workload(domain, tuple(block for own in each for block in own.blocks))

    def about(self, dataset: str | None) -> Dataset:
        """Their dataset. Raises UsageError where another one is named."""
        if dataset is not None and dataset != self.dataset.name:
            raise UsageError(
                f"{self.found.script.name} is about {self.dataset.name}, not {dataset}"
            )
        return self.dataset

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """The sets of columns on which some query depends."""
        each = [query.compiled.workload for query in self.found.queries]
        listed = [family for own in each for block in families(own) for family in block]
        if None in listed:
            raise UsageError("a query depends on more cells of its columns than can be kept")
        sets = [tuple(family.classes) for family in listed if family is not None]
        return [names for names in dict.fromkeys(sets) if names]

    def columns(self, given: Sequence[str] | None) -> list[str]:
        """The columns given, or those that the queries depend on. Raises UsageError where the
        queries depend on others."""
        own = {name for names in self.sets for name in names}
        if given is None:
            return [column.name for column in self.dataset.columns if column.name in own]
        missing = [name for name in sorted(own) if name not in given]
        if missing:
            raise UsageError(
                f"{self.found.script.name} asks about {', '.join(missing)}, too: the columns need"
                " these, or give none"
            )
        return list(given)

    def place(self, at: int) -> str:
        """Where the statement of a query stands."""
        ends = itertools.accumulate(self.sizes)
        statement = next(i for i, end in enumerate(ends) if at < end)
        script = self.found.script
        return f"{script.name}:{script.line(self.found.queries[statement].step)}"


def queried(
    session: Session,
    queries: str | Path | Script,
    params: Mapping[str, Any] | None,
) -> Queries:
    """The queries of a script. Raises Refused or UsageError, with their place in it.

    They are counts of one dataset. Weights and settings of the script have no say, and a price in
    it is refused: that of a synopsis is said when it is made.
    """
    found = ready(session, queries, params, {})
    script = found.script
    for entry in found.entries:
        if not isinstance(entry, Query):
            step = entry.step
            raise script.refusal(
                "the queries of a synopsis are SELECTs that count rows",
                step.start,
                step.start + len(step.sql),
                "the script without this statement",
            )
    if found.dataset is None:
        raise UsageError(f"{script.name} has no SELECT of a dataset to make a synopsis for")
    sizes = []
    for query in found.queries:
        start = session.settings
        if any(
            getattr(query.settings, name) != getattr(start, name)
            for name in ("epsilon", "rho", "accuracy")
        ):
            with script.placed(query.step):
                raise UsageError("a price above this statement: that of a synopsis is its own")
        _require_counts(query, found.dataset, script)
        sizes.append(query.compiled.workload.size)
    if sum(sizes) > MOST:
        raise UsageError(f"{script.name} asks {sum(sizes):,} queries, and at most {MOST:,} can be")
    return Queries(found, found.dataset, tuple(sizes))


def _require_counts(query: Query, dataset: Dataset, script: Script) -> None:
    """Refuse a statement that adds up values: its queries move further than a count."""
    from dpsql.mechanisms.synopses.verifier import count_unit

    unit, workload, step = count_unit(dataset), query.compiled.workload, query.step
    for block in workload.blocks:
        for weight in block.weights:
            alone = Workload(workload.domain, (Block(block.where, (weight,), _EVERYONE),))
            if moved(alone, dataset).largest > unit:
                raise script.refusal(
                    "the queries of a synopsis are counts, and this statement adds up values",
                    step.start,
                    step.start + len(step.sql),
                    "COUNT(*), or a mean or share of conditions",
                )
