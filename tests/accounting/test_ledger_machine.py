"""Any sequence of what owners and users do, and of reopenings, against a model of a few lines."""

from __future__ import annotations

import datetime
import itertools
import os
import shutil
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from dpsql.accounting.books.postgres_page import PostgresPage
from dpsql.accounting.books.sqlite_page import SqlitePage
from dpsql.accounting.convert import pure_rho, rho_of
from dpsql.accounting.events import PICO, Event, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.anchor import SLOT
from dpsql.accounting.seals.verify import verify
from dpsql.errors import BudgetExceeded, NoGrant, UsageError
from tests.accounting.people import about

NAMES = ["alice", "bob", "team"]
names = st.sampled_from(NAMES)
datasets = st.sampled_from(["adult", "adult", "cps"])
epsilons = st.sampled_from([0.001, 0.1, 1.0, 3.0, 50.0])
gaussians = st.builds(Gaussian, st.integers(1, 3), st.fractions(Fraction(1, 50), 50))
laplaces = st.builds(
    lambda moved, scale: Laplace(moved, moved, scale),
    st.integers(1, 3),
    st.fractions(Fraction(1, 9), 99),
)
NEVER = 10**9  # hours
START = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)


class Purse:
    """What somebody has spent, and may: what each group of people lost on each snapshot."""

    def __init__(self) -> None:
        self.pure = True
        self.holds: tuple[str, int] | None = None  # ("rho" or "epsilon", how much)
        self.end = NEVER
        self.groups: list[str] = []
        self.losses: Counter[tuple[str, str, str]] = Counter()  # by kind, snapshot and group

    def spent(self, kind: str) -> int:
        snapshots = {when for of, when, _ in self.losses if of == kind}
        return sum(
            max(lost for (of, at, _), lost in self.losses.items() if (of, at) == (kind, when))
            for when in snapshots
        )

    @property
    def rho(self) -> int:
        return self.spent("rho")

    @property
    def epsilon(self) -> int:
        return self.spent("epsilon")

    def pay(self, event: Event, when: str = "all", group: str = "all") -> None:
        self.losses["rho", when, group] += max(1, event.rho)
        self.losses["epsilon", when, group] += max(1, event.epsilon or 0)
        self.pure = self.pure and event.epsilon is not None

    def can(self, event: Event, when: str, group: str) -> bool:
        before, pure = self.losses.copy(), self.pure
        self.pay(event, when, group)
        kind, most = self.holds or ("rho", 0)
        fits = self.spent(kind) <= most and (kind == "rho" or self.pure)
        self.losses, self.pure = before, pure
        return fits


class Model:
    """The purses of a dataset; the one of everybody has an empty name."""

    def __init__(self) -> None:
        self.purses = {name: Purse() for name in [*NAMES, ""]}
        self.fixed = False

    def follow(self) -> None:
        """The cap is the largest grant; a pure one among others counts in rho."""
        held = [p.holds for name, p in self.purses.items() if name and p.holds]
        cap = self.purses[""]
        if self.fixed or not held:
            return
        if all(kind == "epsilon" for kind, _ in held) and cap.pure:
            cap.holds = max(held, key=lambda grant: grant[1])
        else:
            sizes = [most if kind == "rho" else pure_rho(most) for kind, most in held]
            cap.holds = ("rho", max(sizes))

    def payers(self, user: str) -> list[str]:
        """Whose purses pay for what a user asks; the user is first, who may have no grant."""
        found = [user]
        for name in found:
            found += [group for group in self.purses[name].groups if group not in found]
        return found


class Memory(stateful.RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.hour = self.seen = 0
        clock = mock.patch("dpsql.accounting.ledger._now", lambda: self.time(self.hour))
        clock.start()
        self.undo = [clock.stop]
        self.models: dict[str, Model] = {"adult": Model(), "cps": Model()}
        self.written = 0
        self.ledger = self.opened()

    @staticmethod
    def time(hour: int) -> str:
        moment = START + datetime.timedelta(hours=hour)
        return moment.isoformat(timespec="milliseconds")

    def opened(self) -> Ledger:
        return Ledger.memory()

    def wrote(self, entries: int = 1) -> None:
        self.written += entries
        self.seen = max(self.seen, self.hour)

    @property
    def latest(self) -> int:
        return max(self.seen, self.hour)

    @stateful.rule(hours=st.integers(-30, 30))
    def tick(self, hours: int) -> None:
        self.hour = max(0, self.hour + hours)

    @stateful.rule(
        user=names,
        dataset=datasets,
        epsilon=epsilons,
        delta=st.sampled_from([0.0, 0.0, 1e-9, 1e-6]),
        days=st.none() | st.integers(0, 3),
        cap=st.none() | st.none() | epsilons,
    )
    def grant(
        self, user: str, dataset: str, epsilon: float, delta: float, days: int | None,
        cap: float | None,
    ) -> None:  # fmt: skip
        model = self.models[dataset]
        purse, everybody = model.purses[user], model.purses[""]
        until = None if days is None else (START + datetime.timedelta(days=days)).date()
        end = NEVER if days is None else 24 * days + 24
        allowed = end > self.latest and (delta > 0 or purse.pure)
        allowed = allowed and (cap is None or delta > 0 or everybody.pure)
        terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "until": until, "cap": cap}
        if not allowed:
            with pytest.raises(UsageError):
                self.ledger.grant(user, dataset=dataset, **terms)
            return
        self.ledger.grant(user, dataset=dataset, **terms)
        purse.holds, purse.end = self.held(epsilon, delta), end
        if cap is not None:
            everybody.holds, model.fixed = self.held(cap, delta), True
        model.follow()
        self.wrote(1 if cap is None else 2)

    @staticmethod
    def held(epsilon: float, delta: float) -> tuple[str, int]:
        return ("rho", rho_of(epsilon, delta)) if delta else ("epsilon", int(epsilon * PICO))

    @stateful.rule(dataset=datasets)
    def uncap(self, dataset: str) -> None:
        self.ledger.uncap(dataset)
        self.models[dataset].fixed = False
        self.models[dataset].follow()
        self.wrote()

    @stateful.rule(user=names, group=names, dataset=datasets)
    def join(self, user: str, group: str, dataset: str) -> None:
        groups = self.models[dataset].purses[user].groups
        if user == group or group in groups:
            with pytest.raises(UsageError):
                self.ledger.join(user, group, dataset=dataset)
        else:
            self.ledger.join(user, group, dataset=dataset)
            groups.append(group)
            self.wrote()

    @stateful.rule(user=names, group=names, dataset=datasets)
    def leave(self, user: str, group: str, dataset: str) -> None:
        groups = self.models[dataset].purses[user].groups
        if group in groups:
            self.ledger.leave(user, group, dataset=dataset)
            groups.remove(group)
            self.wrote()
        else:
            with pytest.raises(UsageError):
                self.ledger.leave(user, group, dataset=dataset)

    @stateful.rule(user=names, dataset=datasets)
    def revoke(self, user: str, dataset: str) -> None:
        purse = self.models[dataset].purses[user]
        if purse.holds or purse.groups:
            self.ledger.revoke(user, dataset=dataset)
            purse.holds, purse.groups = None, []
            self.models[dataset].follow()
            self.wrote()
        else:
            with pytest.raises(NoGrant):
                self.ledger.revoke(user, dataset=dataset)

    @stateful.rule(
        user=names,
        dataset=datasets,
        event=gaussians | laplaces,
        when=st.sampled_from(["all", "march", "april"]),
        code=st.integers(0, 2),
    )
    def charge(self, user: str, dataset: str, event: Event, when: str, code: int) -> None:
        model = self.models[dataset]
        payers = model.payers(user)
        paying = [model.purses[name] for name in payers]
        terms: dict[str, Any] = {}
        where = ("all", "all") if when == "all" else (when, str(code))
        if when != "all":
            terms = {"footprint": about(event, "sex", code), "snapshot": when}
        error: type[Exception] | None = None
        own, groups = paying[0], paying[1:]
        paying = [purse for purse in paying if purse.holds]
        if not paying or not all(purse.holds for purse in groups):
            error = NoGrant
        elif any(purse.end <= self.latest for purse in paying):
            error = NoGrant
            first = next(purse for purse in paying if purse.end <= self.latest)
            if first.end > self.seen:  # the log tells of it, once
                self.wrote()
        elif not all(purse.can(event, *where) for purse in (*paying, model.purses[""])):
            error = BudgetExceeded
        if error is not None:
            with pytest.raises(error):
                self.ledger.charge(user, dataset, event, statement="SELECT 1", **terms)
            return
        asked = self.ledger.rise(user, dataset, event, **terms)
        receipt = self.ledger.charge(user, dataset, event, statement="SELECT 1", **terms)
        assert receipt.rise == asked and receipt.charged.rho <= receipt.price.rho
        for purse in (own, *groups, model.purses[""]):
            purse.pay(event, *where)
        self.wrote()

    @stateful.rule()
    def reopen(self) -> None:
        pass

    @stateful.invariant()
    def balances_are_the_models(self) -> None:
        told = {
            (b.grant.dataset, b.grant.user): b for b in (*self.ledger.purses(), *self.ledger.caps())
        }
        held = {
            (dataset, name): purse
            for dataset, model in self.models.items()
            for name, purse in model.purses.items()
            if purse.holds
        }
        assert told.keys() == held.keys()
        for name, purse in held.items():
            kind, most = purse.holds or ("", 0)
            found = told[name]
            assert (found.spent_rho, found.ended) == (purse.rho, purse.end <= self.latest)
            assert found.spent_epsilon == (purse.epsilon if purse.pure else None)
            assert most == (found.grant.rho if kind == "rho" else found.grant.epsilon_pico)

    @stateful.invariant()
    def sums_are_those_of_the_log(self) -> None:
        log = list(self.ledger.log())
        assert [entry.seq for entry in log] == list(range(1, self.written + 1))
        for dataset, model in self.models.items():
            paid = [p for entry in log if entry.dataset == dataset for p in entry.payments]
            for name, purse in model.purses.items():
                mine = [payment for payment in paid if payment.purse == name]
                assert sum(p.after.rho - p.before.rho for p in mine) == purse.rho
                assert all(p.after == q.before for p, q in itertools.pairwise(mine))

    def teardown(self) -> None:
        self.ledger.close()
        for undo in self.undo:
            undo()


class Sqlite(Memory):
    def opened(self) -> Ledger:
        folder = tempfile.TemporaryDirectory()
        self.undo.append(folder.cleanup)
        self.place = str(Path(folder.name) / "a.ledger")
        return Ledger.open(self.place)

    @stateful.rule()
    def reopen(self) -> None:
        before = self.ledger.dump()
        self.ledger.close()
        assert verify(self.place).problems == ()
        self.ledger = Ledger.open(self.place, create=False)
        assert self.ledger.dump() == before

    @stateful.rule(torn=st.booleans())
    def crash(self, torn: bool) -> None:
        """Go on from the files as they are in the midst of a change, with or without the newest
        slot of the anchor; what was answered is there, what was not committed is not."""
        before, places = self.ledger.dump(), [self.place]

        def cut(*_: object) -> None:
            places.append(self.left_behind(torn))
            raise KeyboardInterrupt

        with mock.patch.object(self.page, "append", cut), pytest.raises(KeyboardInterrupt):
            self.ledger.cap("adult", epsilon=7)
        self.undo.insert(0, self.ledger.close)  # whose process is gone
        self.place = places[-1]
        self.ledger = Ledger.open(self.place, create=False)
        assert self.ledger.dump() == before
        assert verify(self.place).problems == ()

    page: Any = SqlitePage

    def left_behind(self, torn: bool) -> str:
        """A copy of the files, as a crash would leave them now."""
        folder = tempfile.TemporaryDirectory()
        self.undo.append(folder.cleanup)
        for file in Path(self.place).parent.iterdir():
            if not file.name.endswith("-shm"):
                shutil.copy(file, folder.name)
        place = str(Path(folder.name) / "a.ledger")
        if torn:
            self.tear(Path(f"{place}.anchor"))
        return place

    @staticmethod
    def tear(anchor: Path) -> None:
        """Blank the newer slot, unless there is but one."""
        content = anchor.read_bytes()
        slots = [content[:SLOT], content[SLOT:]]
        marks = [int(slot.split()[3]) if slot.strip() else -1 for slot in slots]
        if min(marks) >= 0:
            slots[marks.index(max(marks))] = b" " * SLOT
            anchor.write_bytes(b"".join(slots))


class Postgres(Sqlite):
    server: Any = None
    page = PostgresPage

    def left_behind(self, torn: bool) -> str:
        """The same server, and the anchor of this machine."""
        if torn:
            (anchor,) = Path(os.environ["XDG_STATE_HOME"]).glob("dpsql/*.anchor")
            self.tear(anchor)
        return self.place

    def opened(self) -> Ledger:
        folder = tempfile.TemporaryDirectory()
        environment = mock.patch.dict(os.environ, {"XDG_STATE_HOME": folder.name})
        environment.start()
        self.undo += [environment.stop, folder.cleanup]
        self.place = self.server.fresh()
        return Ledger.open(self.place)


calm = hypothesis.settings(derandomize=True, deadline=None, database=None)
TestMemory = Memory.TestCase
TestMemory.settings = hypothesis.settings(calm, max_examples=100, stateful_step_count=40)
TestSqlite = Sqlite.TestCase
TestSqlite.settings = hypothesis.settings(calm, max_examples=15, stateful_step_count=30)


@pytest.mark.usefixtures("address")
class TestPostgres(Postgres.TestCase):
    settings = hypothesis.settings(
        calm, max_examples=8, stateful_step_count=30, phases=(hypothesis.Phase.generate,)
    )

    @pytest.fixture(autouse=True)
    def served(self, postgres: Any) -> None:
        Postgres.server = postgres
