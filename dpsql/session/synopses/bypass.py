"""Whether asking a gate about a guess is waste, as the model's own predictive error says.

Every table that a synopsis learns tells how far its guesses of that table were off: with guesses g
and noisy counts y of variance v, sum((y - g)^2 - v) / sum(g^2) estimates their squared relative
error, r^2. A guess that adds up cells g_c of another table is then predicted to be off by
r sqrt(sum g_c^2), cells erring independently, where r is the median over the tables that this
session saw learnt. All of that was released, or follows from it: nothing here reads the data, and
nothing has a price.

Where that is far beyond the threshold, the gate would close, and be paid, for nothing but to say
so: the table is bought straight. Tables that are learnt are those of which a gate said that a
guess was far off, so that r may be too large for others; therefore two tables are wanted, and
guesses that passed although the same was predicted of them speak against it, one by one. A guess
about columns that no table links, which the model takes to be independent, is one kind, and any
other is another: what is known of one kind says nothing of the other.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.synopses import Synopsis
from dpsql.domain import Domain
from dpsql.mechanisms.intervals.uncertain import Floats
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.linked import columns
from dpsql.mechanisms.synopses.expectation import answers
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import Entangled
from dpsql.mechanisms.synopses.marginal import marginal
from dpsql.mechanisms.synopses.purchase import CELLS
from dpsql.mechanisms.synopses.verifier import Verifier
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload
from dpsql.release import figure
from dpsql.session.synopses import held

if TYPE_CHECKING:
    from dpsql.session.session import Session

FAR = 3.0  # thresholds that a guess is off, before its table is bought straight
LEAST = 2  # tables that were learnt
_KEPT = 1024


@dataclass(slots=True)
class Record:
    """How the guesses of a synopsis did in a session.

    `ratios` are the relative errors of tables that were learnt, `passed` the guesses that passed,
    in thresholds, the last of them.
    """

    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    passed: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _median: float = 0.0  # of the ratios
    _against: int = 0  # of what passed, for each question looks at it

    def learn(
        self, guesses: Sequence[Floats], noisy: Sequence[NDArray[Any]], variance: float
    ) -> None:
        """Note a table whose guesses and noisy counts these are."""
        pairs = [(np.asarray(y, np.float64), g) for y, g in zip(noisy, guesses, strict=True)]
        off = sum(float(((y - g) ** 2).sum()) - variance * g.size for y, g in pairs)
        size = sum(float((g**2).sum()) for _, g in pairs)
        if size > 0.0:
            self.ratios.append(math.sqrt(max(off, 0.0) / size))
            self._median = median(self.ratios)
            self._against = sum(map(self._speaks, self.passed))

    def spare(self, guess: int, threshold: int) -> None:
        """Note a guess that passed."""
        if guess > threshold:
            if len(self.passed) == _KEPT:
                self._against -= self._speaks(self.passed[0])
            self.passed.append(guess / threshold)
            self._against += self._speaks(self.passed[-1])

    def _speaks(self, passed: float) -> bool:
        """Whether a guess that passed speaks against the ratios."""
        return self._median * passed > FAR

    @property
    def ratio(self) -> float:
        """What a guess is off by, relative to itself; 0 where too little speaks for it."""
        enough = len(self.ratios) >= LEAST and self._against < len(self.ratios)
        return self._median if enough else 0.0

    def off(
        self,
        workload: Workload,
        guesses: Sequence[Floats],
        state: Callable[[], Factored],
        threshold: int,
    ) -> float:
        """What some guess of a workload is predicted to be off, in rows, if far; else 0."""
        ratio, far = self.ratio, FAR * threshold
        if not ratio * max((float(g.max(initial=0.0)) for g in guesses), default=0.0) > far:
            return 0.0
        names = tuple(sorted(columns(workload)))
        domain = workload.domain.project(names)
        if not names or domain.cells > CELLS:
            return 0.0
        try:
            (table,) = answers(state(), marginal(domain).workload)
        except Entangled:
            return 0.0
        squares = np.rint(table.reshape(-1) ** 2).astype(np.int64)
        spread = workload.matvec(_codes(workload.domain, domain), squares)
        most = max((float(block.max(initial=0)) for block in spread), default=0.0)
        found = ratio * math.sqrt(most)
        return found if found > far else 0.0


def record_of(session: Session, synopsis: Synopsis, workload: Workload) -> Record:
    """What a session saw of guesses of this kind."""
    asked = columns(workload)
    apart = all(len(group & asked) < 2 for group in synopsis.linked)  # and taken as independent
    kind = synopsis.dataset, synopsis.name, apart
    known = session._learned.records
    return known.get(kind) or known.setdefault(kind, Record())


def foreseen(
    session: Session,
    archive: Archive,
    synopsis: Synopsis,
    compiled: Compiled,
    guesses: Sequence[Floats],
    told: Verifier,
    found: Record,
) -> str:
    """In words why no gate is to be asked about the guesses of a statement; else nothing.

    What was `found` is of such guesses. What is measured for the synopsis is held by its user.
    """
    state = functools.partial(held.fit, session, compiled.bound.dataset, archive, synopsis)
    off = found.off(compiled.workload, guesses, state, told.threshold)
    if not off:
        return ""
    return (
        f"such guesses of synopsis {synopsis.name} have been off by {found.ratio:.0%} of"
        f" themselves, which makes {figure(off)} rows here, far beyond the {told.threshold:,} that"
        " a gate would be asked about, so none was"
    )


def _codes(whole: Domain, domain: Domain) -> dict[str, NDArray[np.int64]]:
    """The codes of each cell of a table, also of columns that make no difference."""
    listed = np.unravel_index(np.arange(domain.cells), domain.sizes)
    found = {name: np.zeros(domain.cells, np.int64) for name in whole.names}
    return found | {n: c.astype(np.int64) for n, c in zip(domain.names, listed, strict=True)}
