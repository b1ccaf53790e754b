"""Any sequence of grants, charges, revocations and reopenings, against a model of a few lines."""

import itertools
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from dpsql.accounting.convert import rho_of
from dpsql.accounting.events import PICO, Event, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.errors import BudgetExceeded, NoGrant, UsageError
from tests.accounting.people import about

users = st.sampled_from(["alice", "bob"])
datasets = st.sampled_from(["adult", "cps"])
gaussians = st.builds(Gaussian, st.integers(1, 3), st.fractions(Fraction(1, 50), 50))
laplaces = st.builds(
    lambda moved, scale: Laplace(moved, moved, scale),
    st.integers(1, 3),
    st.fractions(Fraction(1, 9), 99),
)


class Model:
    """A purse in plain words: what everybody lost, and what each group did on each snapshot."""

    def __init__(self) -> None:
        self.pure = True
        self.holds: tuple[str, int] | None = None  # ("rho" or "epsilon", how much)
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

    def pays(self, event: Event, snapshot: str = "", group: str = "") -> bool:
        before, pure = self.losses.copy(), self.pure
        where = (snapshot, group) if group else ("all", "all")
        self.losses["rho", *where] += max(1, event.rho)
        self.losses["epsilon", *where] += max(1, event.epsilon or 0)
        self.pure = self.pure and event.epsilon is not None
        kind, most = self.holds or ("rho", 0)
        if self.spent(kind) <= most and (kind == "rho" or self.pure):
            return True
        self.losses, self.pure = before, pure
        return False


class Memory(stateful.RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = self.opened()
        self.models: dict[tuple[str, str], Model] = {}
        self.written = 0

    def opened(self) -> Ledger:
        return Ledger.memory()

    @stateful.rule(
        user=users,
        dataset=datasets,
        epsilon=st.sampled_from([0.001, 0.1, 1.0, 3.0, 50.0]),
        delta=st.sampled_from([0.0, 0.0, 1e-9, 1e-6]),
    )
    def grant(self, user: str, dataset: str, epsilon: float, delta: float) -> None:
        model = self.models.setdefault((user, dataset), Model())
        try:
            self.ledger.grant(user, dataset=dataset, epsilon=epsilon, delta=delta)
        except UsageError:
            assert delta == 0 and not model.pure
        else:
            assert delta > 0 or model.pure
            held = ("rho", rho_of(epsilon, delta)) if delta else ("epsilon", int(epsilon * PICO))
            model.holds = held
            self.written += 1

    @stateful.rule(user=users, dataset=datasets)
    def revoke(self, user: str, dataset: str) -> None:
        model = self.models.get((user, dataset))
        try:
            self.ledger.revoke(user, dataset=dataset)
        except NoGrant:
            assert model is None or model.holds is None
        else:
            assert model is not None and model.holds is not None
            model.holds = None
            self.written += 1

    @stateful.rule(user=users, dataset=datasets, event=gaussians | laplaces)
    def charge(self, user: str, dataset: str, event: Event) -> None:
        model = self.models.get((user, dataset))
        try:
            receipt = self.ledger.charge(user, dataset, event, statement="SELECT 1")
        except NoGrant:
            assert model is None or model.holds is None
        except BudgetExceeded:
            assert model is not None and not model.pays(event)
        else:
            assert model is not None and model.pays(event)
            assert receipt.after.spent_rho - receipt.before.spent_rho == receipt.price.rho
            self.written += 1

    @stateful.rule(
        user=users,
        dataset=datasets,
        event=gaussians | laplaces,
        when=st.sampled_from(["march", "april"]),
        code=st.integers(0, 2),
    )
    def charge_some(self, user: str, dataset: str, event: Event, when: str, code: int) -> None:
        model = self.models.get((user, dataset))
        footprint = about(event, "sex", code)
        try:
            asked = self.ledger.rise(user, dataset, event, footprint=footprint, snapshot=when)
            receipt = self.ledger.charge(
                user, dataset, event, statement="SELECT 2", footprint=footprint, snapshot=when
            )
        except NoGrant:
            assert model is None or model.holds is None
        except BudgetExceeded:
            assert model is not None and not model.pays(event, when, str(code))
        else:
            assert model is not None and model.pays(event, when, str(code))
            assert receipt.rise == asked and receipt.charged.rho <= receipt.price.rho
            self.written += 1

    @stateful.rule()
    def reopen(self) -> None:
        pass

    @stateful.invariant()
    def balances_are_the_models(self) -> None:
        told = {(b.grant.user, b.grant.dataset): b for b in self.ledger.purses()}
        held = {name: model for name, model in self.models.items() if model.holds}
        assert told.keys() == held.keys()
        for name, model in held.items():
            assert told[name].spent_rho == model.rho
            assert told[name].spent_epsilon == (model.epsilon if model.pure else None)

    @stateful.invariant()
    def balances_are_the_sums_of_the_log(self) -> None:
        log = list(self.ledger.log())
        assert [entry.seq for entry in log] == list(range(1, self.written + 1))
        for (user, dataset), model in self.models.items():
            mine = [e for e in log if (e.user, e.dataset) == (user, dataset)]
            assert sum(e.charged.rho for e in mine) == model.rho
            assert all(e.after == f.before for e, f in itertools.pairwise(mine))

    def teardown(self) -> None:
        self.ledger.close()


class Sqlite(Memory):
    def opened(self) -> Ledger:
        self.folder = tempfile.TemporaryDirectory()
        return Ledger.open(Path(self.folder.name) / "a.ledger")

    @stateful.rule()
    def reopen(self) -> None:
        before = self.ledger.dump()
        self.ledger.close()
        self.ledger = Ledger.open(Path(self.folder.name) / "a.ledger", create=False)
        assert self.ledger.dump() == before

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()


calm = hypothesis.settings(derandomize=True, deadline=None, database=None)
TestMemory = Memory.TestCase
TestMemory.settings = hypothesis.settings(calm, max_examples=60, stateful_step_count=30)
TestSqlite = Sqlite.TestCase
TestSqlite.settings = hypothesis.settings(calm, max_examples=15, stateful_step_count=25)
