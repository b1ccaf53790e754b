"""The synopses of a session: making, listing, dropping them, and rows drawn from them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from dpsql.accounting.kept.synopses import TABLES, Synopsis
from dpsql.errors import NoGrant, UsageError
from dpsql.query.renewed import Renewed
from dpsql.release import SYNOPSES, Release
from dpsql.schema import Dataset
from dpsql.session.asked import named

if TYPE_CHECKING:
    from dpsql.accounting.events import GateNoise
    from dpsql.curator.gate import Gate
    from dpsql.mechanisms.synopses.growth import Growth
    from dpsql.mechanisms.synopses.training import Training
    from dpsql.mechanisms.synopses.verifier import Verifier
    from dpsql.session.scripts.script import Script
    from dpsql.session.session import Session
    from dpsql.session.synopses.bypass import Record


@dataclass(slots=True)
class Opened:
    """A gate, what it promises, and how many guesses it was asked about."""

    gate: Gate
    told: Verifier
    asked: int = 0


@dataclass(slots=True)
class Learned:
    """What a session keeps: distributions, the gates that are open, and guesses that passed.

    `records` say how guesses did. `bought` counts its gates, which share what their guesses may
    miss. One thread at a time asks gates, for each of them closes when a guess is far off.
    """

    fits: dict[object, Growth] = field(default_factory=dict)
    trained: dict[object, Training] = field(default_factory=dict)
    gates: dict[tuple[str, str], Opened] = field(default_factory=dict)
    records: dict[tuple[str, str, bool], Record] = field(default_factory=dict)
    verified: dict[object, tuple[int, Opened]] = field(default_factory=dict)  # `session.passed`
    bought: int = 0
    asking: Renewed = field(default_factory=Renewed)


P = ParamSpec("P")
T = TypeVar("T")


def _paying(
    work: Callable[Concatenate[Synopses, P], T],
) -> Callable[Concatenate[Synopses, P], T]:
    """A method during which something may be charged, and stopped."""

    @functools.wraps(work)
    def within(self: Synopses, /, *args: P.args, **named: P.kwargs) -> T:
        with self._within():
            return work(self, *args, **named)

    return within


class Synopses:
    """What the owner, or an analyst who pays for it, does with synopses."""

    def __init__(
        self,
        session: Session,
        within: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._session, self._within = session, within

    @_paying
    def create(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        *,
        dataset: str | None = None,
        sets: Sequence[Sequence[str]] | None = None,
        ways: int | None = None,
        queries: str | Path | Script | None = None,
        params: Mapping[str, Any] | None = None,
        method: str = "auto",
        epsilon: float | None = None,
        rho: float | None = None,
        delta: float | None = None,
        updates: int | None = None,
        accuracy: float | str | None = None,
        beta: float | None = None,
        threshold: int | None = None,
        step: str = TABLES,
        gate: GateNoise = "exponential",
        size: int | None = None,
        training: str | None = None,
        users: Sequence[str] | None = None,
        explain: bool = False,
    ) -> Release:
        """Buy a synopsis of some columns from one's own purse; with `explain` only say its price.

        All single columns are measured, with the tables of `sets`, or else those of the columns of
        each of `queries`, or else of up to `ways` columns together (2). `columns` are
        those of the queries, or that the schema lists under the name, unless they are given.
        `queries` is a script of SELECTs that count rows, as SQL or the path of a file; `params`
        fill its `$name`. `epsilon` or `rho` is the price, a tenth of the grant unless it is said;
        `delta`, where it is, must be the grant's.

        method      marginals (auto): all of the price is for tables, at once
                    pmw: 30 % of it are (15 % for single columns), and the rest is for what it gets
                    wrong, paid by who asks them, when they do
                    mwem: 15 % of it are for single columns, and the rest is spent in rounds: each
                    finds one of the queries on which the synopsis errs most, and measures the
                    table of its columns; all is paid at once
                    smalldb: of all databases of `size` rows over the columns, which are few, one
                    is chosen that errs little on the queries; it answers these, and no others
                    holdout: guesses are what the dataset `training`, which is public, says; those
                    that are far off are answered by this one, which is private
        updates     how many such questions (10), or rounds (15)
        accuracy    instead: how far off guesses of pmw may be that pass, in rows, or as '2%' of the
                    number of rows, as it was released to this user
        beta        with what probability one of a session may be further off (0.01)
        threshold   instead: of how many rows a gate is asked whether a guess is so far off
        step        how a question teaches pmw: by the whole table of its columns (tables), or, as
                    in the textbook, by a step towards its own answer: exponential, polynomial, or a
                    projection, on all that was measured before as well
        gate        noise of the gates of pmw: exponential, or laplace
        size        the rows of that database (8, or as many as can be looked at)
        training    the dataset of a holdout, whose schema says public = true
        users       who may ask it; everybody with a grant unless it is given

        The release has a row for each table: its columns, its cells, and the standard error of a
        cell, in rows. Raises Refused, UsageError, NoGrant, BudgetExceeded or SourceError.
        """
        from dpsql.planner import Asked
        from dpsql.session.synopses import holdout, rounds, synopsis
        from dpsql.session.synopses.buying import create, predicted
        from dpsql.session.synopses.learning import Learning
        from dpsql.session.synopses.queried import queried

        session = self._session
        session._begin()
        _require_lists(columns=columns, users=users, sets=sets)
        if sets is not None and ways is not None:
            raise UsageError(
                "tables are named one by one (sets), or are those of up to so many columns (ways):"
                " give one of the two"
            )
        if epsilon is not None and rho is not None:
            raise UsageError("epsilon and rho each say what a synopsis costs: give one of them")
        asked = Asked(epsilon, rho, share=synopsis.SHARE)
        off = 1.0 if isinstance(accuracy, str) else accuracy  # a share of rows that are told
        learning = Learning(method, updates, off, step, gate, size, beta, threshold)
        learning.check(queries is not None, sets is not None or ways is not None)
        if queries is None:
            if params is not None:
                raise UsageError("params are values for the queries: give queries, too")
            declared = named(session.datasets, dataset)
        else:
            listed = queried(session, queries, params)
            declared = listed.about(dataset)
            columns, sets = listed.columns(columns), listed.sets
        self._require_granted(declared.name, users or (), delta)
        if isinstance(accuracy, str):
            rows = synopsis.in_rows(session, declared, accuracy)
            learning = dataclasses.replace(learning, accuracy=rows)
        if (training is None) is (method == "holdout"):
            raise UsageError("method holdout, and no other, has a training dataset: give both")
        if training is not None:
            held = holdout.designed(
                session, name, declared, columns, training, users, learning, asked
            )
            return (predicted if explain else create)(session, held)
        if learning.chosen:
            names = synopsis.columns_of(name, declared, columns, None)
            found = rounds.designed(session, name, names, listed, users, learning, asked)
            return (predicted if explain else create)(session, found)
        design = synopsis.designed(
            session, name, declared, columns, sets, ways, users, learning, asked
        )
        return (predicted if explain else create)(session, design)

    def _require_granted(self, dataset: str, users: Sequence[str], delta: float | None) -> None:
        """Raises UsageError for who may not ask at all, and for a delta that is not the grant's."""
        ledger = self._session.ledger
        for user in users:
            try:
                ledger.balance(user, dataset)
            except NoGrant:
                raise UsageError(
                    f"{user} has no grant for {dataset}, and can ask nothing: its owner gives one"
                    " (dpsql budget grant)"
                ) from None
        if delta is not None:
            granted = ledger.balance(self._session.user, dataset).grant.delta
            if delta != granted:
                raise UsageError(
                    f"delta is the grant's, {granted:g}, and not {delta!r}: leave it out, or ask"
                    " the owner for another grant"
                )

    def listed(self, dataset: str | None = None) -> list[Synopsis]:
        """The synopses of a dataset that this user may ask, whatever their snapshot."""
        name = named(self._session.datasets, dataset).name
        found = self._session.ledger.synopses.listed(name)
        return [synopsis for synopsis in found if synopsis.may_ask(self._session.user)]

    def shown(self, dataset: str | None = None) -> Release:
        """The synopses that this user may ask, as a table: of a dataset, or of all private ones."""
        from dpsql.accounting.events import PICO
        from dpsql.session import tell
        from dpsql.session.synopses.described import in_epsilon, lost, whom

        rows = list[tuple[Any, ...]]()
        for declared in self._declared(dataset):
            mine = self.listed(declared.name)
            now = self._session._snapshot(declared) if mine else ""
            rows += [
                (
                    declared.name, s.name, ", ".join(s.columns), len(s.sets) + s.rounds, s.method,
                    s.updates, in_epsilon(self._session, declared, s.rho) if s.updates else None,
                    s.rho / PICO if s.updates else None, s.user, s.at, whom(s),
                    s.snapshot == now and not lost(self._session, declared, s),
                )
                for s in mine
            ]  # fmt: skip
        types = ("VARCHAR", "VARCHAR", "VARCHAR", "BIGINT", "VARCHAR", "BIGINT", "DOUBLE",
                 "DOUBLE", "VARCHAR", "VARCHAR", "VARCHAR", "BOOLEAN")  # fmt: skip
        stale = any(not row[-1] for row in rows)
        why = "the data changed since, or what was measured is lost"
        notes = (f"{why}: what is not current answers nothing",) if stale else ()
        if not rows:
            on = "" if dataset is None else f" of {dataset}"
            notes = (
                f"there is no synopsis{on} that {self._session.user} may ask: dpsql synopsis create"
                " makes one",
            )
        return tell.table(SYNOPSES, types, rows, notes)

    def described(self, *names: str, dataset: str | None = None) -> Release:
        """Some synopses in full, free: what each holds, on which terms, and what reading it takes.

        The release has a row for each item. Raises UsageError for one that is not there, or is not
        for this user.
        """
        from dpsql.session import tell
        from dpsql.session.synopses.described import described

        if not names:
            raise UsageError("which synopsis? name one; shown() lists them")
        rows = list[tuple[Any, ...]]()
        declared = self._declared(dataset)
        mine = {each.name: self.listed(each.name) for each in declared}
        for name in names:
            found = [(d, s) for d in declared for s in mine[d.name] if s.name == name]
            if not found:
                known = ", ".join(dict.fromkeys(s.name for listed in mine.values() for s in listed))
                raise UsageError(
                    f"there is no synopsis {name!r} that {self._session.user} may ask"
                    + (f"; there are: {known}" if known else "; dpsql synopsis create makes one")
                )
            for each, synopsis in found:
                rows += [(name, *item) for item in described(self._session, each, synopsis)]
        return tell.table(("name", "item", "value"), ("VARCHAR",) * 3, rows)

    def _declared(self, dataset: str | None) -> list[Dataset]:
        """The dataset of a name, or all private ones."""
        datasets = self._session.datasets
        if dataset is not None:
            return [named(datasets, dataset)]
        return [each for each in datasets.values() if not each.public]

    @_paying
    def export(
        self, name: str, rows: int | None = None, *, dataset: str | None = None, dealt: bool = True
    ) -> Release:
        """Rows drawn from a synopsis, as many as the table is taken to have unless it is said.

        They cost nothing beyond reading the synopsis once, and any SQL on them is free. `dealt`
        rows share the distribution out evenly; otherwise each is drawn by itself. Notes of the
        release say how near their tables are to what was measured. Raises UsageError, BudgetError.
        """
        from dpsql.session.synopses.exported import exported

        session = self._session
        session._begin()
        declared = named(session.datasets, dataset)
        synopsis = session.ledger.synopses.get(declared.name, name)
        if not synopsis.may_ask(session.user):
            raise UsageError(f"synopsis {name} is not for {session.user}")
        return exported(session, declared, synopsis, rows, dealt)

    def drop(self, name: str, dataset: str | None = None) -> None:
        """Forget a synopsis that this user bought; what was paid stays paid, and releases kept.

        Raises UsageError where there is none, or where somebody else bought it.
        """
        ledger, user = self._session.ledger, self._session.user
        where = named(self._session.datasets, dataset).name
        buyer = ledger.synopses.get(where, name).user
        if buyer != user:
            raise UsageError(f"synopsis {name} was bought by {buyer}, who alone can drop it")
        ledger.synopses.drop(where, name)


def _require_lists(**given: Sequence[Any] | None) -> None:
    """Raises UsageError for a text in the place of a list, whose letters would be the names."""
    for what, listed in given.items():
        inner = listed if what == "sets" and not isinstance(listed, str) else None
        if any(isinstance(names, str) for names in (listed, *(inner or ()))):
            form = "[['sex', 'race']]" if what == "sets" else "['sex', 'race']"
            form = "['bob']" if what == "users" else form
            raise UsageError(f"{what} is a list such as {form}, not {listed!r}")
