"""Asking a synopsis: what its tables tell, what its distribution guesses, and what it then learns.

What follows from the tables has their interval, and the value of the distribution within it. What
does not is a guess; a gate, bought once, tells whether guesses are further off than a threshold.
While they are not they are answers, free, with the gate's interval. The first that is closes the
gate, and the whole table of its columns is bought: the question is answered by that, and the
distribution is fitted to it, too, from then on. (Hardt, Rothblum 2010; what is measured and fitted
is a marginal, not one query.)
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.synopses import HOLDOUT, Stale, Synopsis
from dpsql.accounting.purse import Balance
from dpsql.mechanisms.intervals.noises import Noise
from dpsql.mechanisms.intervals.uncertain import Floats
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.found import Answered, Found
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.guesses import queries, within
from dpsql.mechanisms.synopses.verifier import Verifier, measured
from dpsql.planner import Terms, pico
from dpsql.query.bind import Bound
from dpsql.query.compile import Compiled
from dpsql.query.parse import Ask
from dpsql.release import Cost, Release
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.build import Paid, build, require_level
from dpsql.session.charge import Charge, says
from dpsql.session.reuse.earlier import NOT_KEPT
from dpsql.session.settings import Settings
from dpsql.session.shown import Shown
from dpsql.session.synopses import held, passed
from dpsql.session.synopses.bypass import foreseen, record_of
from dpsql.session.synopses.owned import Opened
from dpsql.session.synopses.picked import (
    ENTANGLED,
    NOT_ACCURATE,
    check,
    exact,
    narrow,
    nothing,
    of_database,
    opened,
    outlook,
    pick,
    stricter,
)
from dpsql.session.synopses.taught import lesson, taught

if TYPE_CHECKING:
    from dpsql.session.session import Session

SYNOPSIS = "synopsis"
UNVERIFIED = (
    "not verified (strict = off): what the distribution of the synopsis says, which may be far off;"
    " no interval is known"
)


def asked(
    session: Session,
    ask: Ask,
    bound: Bound,
    compiled: Compiled,
    settings: Settings,
    balance: Balance,
) -> Release:
    """The answer of a synopsis, or, where it has none, one that is bought as `auto` would.

    Raises UsageError where no synopsis is about the columns, and as `Session.answer` does.
    """
    check(settings)
    require_level(compiled, measured(settings.confidence))
    session._curator(bound.dataset)  # so that the snapshot is that of what will be measured
    archive = session._archive(bound.dataset)
    synopsis = pick(session, bound.dataset, compiled.workload, archive.name[2])
    charge = Charge(session.ledger, balance)
    asking = _Asking(session, ask, compiled, settings, balance, archive, synopsis, charge)
    failure: BaseException
    try:
        said = asking.answer()
        return said if isinstance(said, Release) else asking.bought(said)
    except BaseException as error:
        failure = asking.failure(error)
    raise failure  # out here, so that it does not carry what it was made from


@dataclass(slots=True)
class _Asking:
    """One statement and the synopsis that it is asked of."""

    session: Session
    ask: Ask
    compiled: Compiled
    settings: Settings
    balance: Balance
    archive: Archive
    synopsis: Synopsis
    charge: Charge  # of the part that is being bought, which knows what parts before it paid
    price: int = 0  # in pico of rho, of what was bought for it
    charged: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def dataset(self) -> Dataset:
        return self.compiled.bound.dataset

    @property
    def text(self) -> str:
        return self.ask.text.sql.strip()

    def answer(self) -> Release | str:
        before = self._gates()
        said = outlook(
            self.session, self.compiled, self.settings, self.archive, self.synopsis, self.balance
        )
        if isinstance(said, str):
            return said
        if said.again is not None:
            assert said.noises is not None
            return self._near(said.again, said.noises)
        if said.reads:
            self._read()
        answer = self._of_database() or self._told()
        if answer is not None:
            return answer
        if said.noises is None:
            return self._unverified()
        with self.session._learned.asking.held():
            if said.told is None or self._gates() != before:  # another thread may have taught it
                return self._again()
            return self._guessed(said.told, said.noises)

    def _gates(self) -> tuple[Opened | None, int]:
        """What changes with every gate that opens or closes."""
        learned = self.session._learned
        return learned.gates.get(self._name), learned.bought

    def bought(self, said: str) -> Release:
        """What is bought as `auto` would, where the synopsis has nothing to say, as `said`."""
        settings = stricter(self.session, self.settings, self.synopsis, None)
        auto = dataclasses.replace(settings, backend="auto")
        bought = self.session._measure(
            self.ask, self.compiled.bound, self.compiled, auto, self.balance, self.charged
        )
        charged = bought.charged
        if self.charged and charged is not None:
            more = self.charged + pico(charged.rho) if charged.rho else self.charged
            charged = self.session._calls.paid = self.cost(more)
        free = charged is not None and not (charged.rho or charged.epsilon)
        other = "this follows from what else was released" if free else "this was bought"
        notes = (f"synopsis {self.synopsis.name}: {said}, so {other}", *self.notes, *bought.notes)
        return dataclasses.replace(
            bought, charged=charged, notes=notes, confidence=self.settings.confidence
        )

    def failure(self, error: BaseException) -> BaseException:
        """What to raise for an error of any part: it says what all of them charged."""
        if says(error):
            return error
        failure = self.charge.failure(error)
        self.session._calls.paid = self.charge.total
        return failure

    def _told(self) -> Release | str | None:
        """What follows from tables; in words why it is not good enough; None where nothing does."""
        found = self.archive.known(self.compiled.workload)  # `outlook` looked for what is new
        if found is None or found.worst == math.inf:
            return None
        settings = stricter(self.session, self.settings, self.synopsis, found.used)
        if not narrow(self.compiled, settings, self.archive, found.noises(self.compiled.workload)):
            return NOT_ACCURATE
        moves = self.synopsis.method != HOLDOUT  # whose guesses are of other rows
        return self._from_tables(found, self._guesses() if moves else None, settings)

    # -- what was measured ---------------------------------------------------------------------

    def _read(self) -> None:
        """Pay for what was measured for the synopsis, as far as this user has not."""
        read = held.read(
            self.session, self.dataset, self.archive, self.synopsis, self.text, self.balance,
            self.charged,
        )  # fmt: skip
        self._paid(read.price, read.charged, read.balance)
        self.notes += read.notes

    def _paid(self, price: int, charged: int, after: Balance) -> None:
        self.price, self.charged, self.balance = self.price + price, self.charged + charged, after
        self.charge = Charge(self.session.ledger, after, self.charged)
        if self.charged:
            self.session._calls.paid = self.cost(self.charged)

    def cost(self, rho: int) -> Cost:
        terms = Terms.of(self.balance.grant)
        return tell.price(dataclasses.replace(self.balance.spent, rho=rho, epsilon=None), terms)

    # -- the distribution ----------------------------------------------------------------------

    def _fit(self) -> Factored:
        return held.fit(self.session, self.dataset, self.archive, self.synopsis)

    def _guesses(self) -> list[Floats] | None:
        found = held.guesses(
            self.session, self.dataset, self.archive, self.synopsis, self.compiled.workload
        )
        if found is None:
            return None
        guesses, told = found
        kept = [note for note in self.notes if not note.startswith(held.EARLY)]
        self.notes = [*kept, *told]  # of the fit that is asked last
        return guesses

    # -- answers -------------------------------------------------------------------------------

    def _from_tables(
        self, found: Found, guesses: list[Floats] | None, settings: Settings
    ) -> Release:
        """What follows from the tables; the distribution's value where their interval has it.

        What else was released is said as it was when it was bought.
        """
        answered = found.answered()
        shown = None
        if guesses is not None and set(found.used) <= set(self.synopsis.charges):
            level = settings.confidence
            moved = [
                within(noisy, noise, guess, level)
                for noisy, noise, guess in zip(
                    answered.answers, answered.noises, guesses, strict=True
                )
            ]
            note = (
                f"values are those of the distribution fitted to synopsis {self.synopsis.name}, "
                "within the intervals of what was measured"
            )
            shown = Shown(tuple(moved), None, (note,))
        return self._built(answered, shown, settings)

    def _built(
        self, answered: Answered, shown: Shown | None = None, settings: Settings | None = None
    ) -> Release:
        free = self.price == 0
        zero = tell.nothing(Terms.of(self.balance.grant))
        price = zero if free else self.cost(self.price)
        charged = zero if free else self.cost(self.charged)
        left = tell.budget(self.balance)
        notes = tuple(self.notes) if not free else (*self.notes, "nothing was charged")
        paid = Paid(SYNOPSIS, price, charged, left, free, notes)
        grid = self.session._grid(self.dataset)
        built = build(self.compiled, grid, answered, settings or self.settings, paid, shown)
        asked = self.settings.confidence
        return built if settings is None else dataclasses.replace(built, confidence=asked)

    def _of_database(self) -> Release | None:
        """What a small database says of a question that it was chosen for."""
        if self.synopsis.method != "smalldb":
            return None
        stored = self.archive.stored(self.synopsis.charges[0])
        told = of_database(stored, self.compiled, self.settings, self.archive)
        if isinstance(told, str):
            return None
        self.notes.append(
            f"answers of the database of synopsis {self.synopsis.name}: the interval holds for all"
            " that it was chosen for, together"
        )
        return self._built(told)

    # -- guesses -------------------------------------------------------------------------------

    def _guessed(self, told: Verifier, noises: tuple[Noise, ...]) -> Release | str:
        """Guesses that the gate lets pass; else the table of the question is bought."""
        workload = self.compiled.workload
        guesses = self._guesses()
        if guesses is None:
            return ENTANGLED
        whole = passed.rounded(guesses)
        gates = self.session._learned.gates
        names = passed.names(self.archive, self.synopsis, workload)
        values = [value for block in whole for value in block.reshape(-1).tolist()]
        asked = list(zip(names, queries(workload), values, strict=True))
        open_ = gates.get(self._name)
        left = [each for each in asked if not passed.passed(self.session, each[0], each[2], open_)]
        if left and opened(self.session, self.synopsis, len(left)) is None:
            gates.pop(self._name, None)  # all of them pass one gate, or none has passed
            left = asked
        record = record_of(self.session, self.synopsis, workload)
        if left:
            why = foreseen(
                self.session, self.archive, self.synopsis, self.compiled, guesses, told, record
            )
            if why:
                return self._learn(why)
        for name, query, guess in left:
            known = self._gate(told)
            known.asked += 1
            if known.gate.exceeds(query, told.threshold, guess):
                del gates[self._name]
                return self._learn("the guess was far off")
            passed.note(self.session, name, guess, known)
            record.spare(guess, told.threshold)
        return self._near(whole, noises)

    def _near(self, whole: list[NDArray[np.int64]], noises: tuple[Noise, ...]) -> Release:
        """Guesses that passed a gate, with what it promises."""
        self.notes.append(
            f"guesses of synopsis {self.synopsis.name}, which a gate found to be near: the interval"
            " holds for all guesses that the gates of this session let pass, together"
        )
        return self._built(Answered(tuple(whole), noises, len(self.synopsis.charges)))

    def _unverified(self) -> Release | str:
        """Guesses as they are, without errors or intervals; no gate is asked."""
        guesses = self._guesses()
        if guesses is None:
            return ENTANGLED
        noises = exact(self.compiled.workload)
        self.notes.append(UNVERIFIED)
        whole = tuple(passed.rounded(guesses))
        built = self._built(Answered(whole, noises, len(self.synopsis.charges)))
        unknown = nothing(built.stderr)
        return dataclasses.replace(built, stderr=unknown, low=unknown, high=unknown)

    @property
    def _name(self) -> tuple[str, str]:
        return self.dataset.name, self.synopsis.name

    def _gate(self, told: Verifier) -> Opened:
        """The open gate of this synopsis; a new one is bought."""
        known = opened(self.session, self.synopsis, 1)
        if known is not None:
            return known
        text, charge = f"GATE OF SYNOPSIS {self.synopsis.name}", self.charge
        curator = self.session._curator(self.dataset)
        gate = curator.gate(told.event, text, charge.take, self.balance.grant, charge.token)
        self._paid(told.event.rho, gate.receipt.charged.rho, gate.receipt.after)
        self.notes.append("a new gate was bought for the guesses of this session")
        self.session._learned.bought += 1
        known = self.session._learned.gates[self._name] = Opened(gate, told)
        return known

    def _learn(self, why: str) -> Release | str:
        """Buy the whole table of the question's columns, and answer by that.

        Where the textbook's steps are taken, the question alone.
        """
        synopsis = self.synopsis
        given = lesson(self.session, self.compiled, synopsis)
        if isinstance(given, str):
            return given
        record = record_of(self.session, synopsis, self.compiled.workload)
        state = None if given.names is None else self._fit()
        try:
            bought = taught(
                self.session, self.compiled, synopsis, given, self.text, self.charge, self.balance
            )
        except Stale:  # another session taught it something: it may know the answer now
            return self._again()
        self._paid(bought.price, bought.charged, bought.balance)
        if not bought.keep(self.archive, record, state):
            self.notes.append(NOT_KEPT)
        self.synopsis = bought.synopsis
        if synopsis.method == HOLDOUT:
            note = "the training rows were far off: this is the answer of the private table"
        else:
            note = f"{why}: {given.what} was measured, and synopsis {synopsis.name} has learnt it"
        self.notes.append(note)
        told = self._told()
        assert told is not None  # what was measured tells it
        return told

    def _again(self) -> Release | str:
        """Ask the synopsis as it is now."""
        ledger, dataset = self.session.ledger, self.dataset
        self.synopsis = pick(self.session, dataset, self.compiled.workload, self.archive.name[2])
        self._paid(0, 0, ledger.balance(self.session.user, dataset.name))
        return self.answer()
