"""Prices: what is asked is what is charged at most, by an independent accountant."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent
from dp_accounting.rdp import RdpAccountant

from dpsql.accounting.convert import epsilon_of, rho_of
from dpsql.accounting.events import PICO, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.purse import Grant
from dpsql.curator.quote import GaussianNoise, LaplaceNoise
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms.intervals.law import stddev
from dpsql.mechanisms.intervals.noises import Alike, error
from dpsql.planner import Asked, Terms, candidates, choose, cost, pico
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, Leaf
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit

AGE = Column("age", Kind.INTEGER, minimum=0, maximum=99)
TOTAL = Grouping((), np.zeros(1, np.int64))
BY_AGE = Grouping(((Domain(("age",), (100,)), np.arange(100), 1),), np.arange(100))
COUNT = Weight((Term(ALWAYS),))


def dataset(neighbours=Neighbours.ADD_REMOVE, rows: int = 1) -> Dataset:
    unit = Unit("id", rows) if rows > 1 else Unit()
    return Dataset("d", (AGE,), neighbours, unit, Source(table="t"))


def workload(*weights: Weight, grouping: Grouping = TOTAL) -> Workload:
    return Workload(Domain(("age",), (100,)), (Block(ALWAYS, weights, (grouping,)),))


def counts(many: int) -> Workload:
    return workload(*[COUNT] * many)


TERMS = Terms.of(Grant.of("alice", "d", 1.0, 1e-6, "now"))
PURE = Terms.of(Grant.of("alice", "d", 1.0, 0.0, "now"))
HUGE = Terms.of(Grant.of("alice", "d", 1e6, 1e-6, "now"))


# -- what is asked -------------------------------------------------------------------------------


def plan(asked: Asked, terms: Terms = TERMS, of: Workload | None = None, over=None):
    return choose(of or counts(1), over or dataset(), asked, terms)


@pytest.mark.parametrize("epsilon", [1e-5, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 1000.0, 1e6])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
def test_a_price_in_epsilon_is_what_the_statement_alone_costs(epsilon, delta):
    """By Google's accountant, in Renyi orders of its own: at most what was asked."""
    terms = Terms(delta, HUGE.rho, HUGE.epsilon)
    for backend in ("gaussian", "laplace"):
        for many in (1, 40):
            try:
                found = plan(Asked(epsilon=epsilon, backend=backend), terms, counts(many))
            except UsageError:
                assert rho_of(epsilon, delta) < 1
                continue
            assert found.price.epsilon <= epsilon
            assert found.price.delta == delta
            assert found.price.epsilon >= epsilon * 0.9 or backend == "laplace"
            if backend == "gaussian":
                multiplier = math.sqrt(found.event.variance / found.event.sensitivity_squared)
                exact = independent(GaussianDpEvent(multiplier), delta)
            else:
                scale = float(found.event.scale)
                exact = min(many / scale, independent(LaplaceDpEvent(scale), delta, many))
            coarse = 1e-2 if epsilon in (1e-5, 1e6) else 1e-4  # their orders begin at 1.01
            assert exact <= epsilon * (1 + coarse)


def independent(event, delta: float, times: int = 1) -> float:
    """Epsilon of some equal events by dp-accounting, an upper bound by the orders it looks at."""
    accountant = RdpAccountant([1 + 10 ** (x / 200) for x in range(-1000, 1400)])
    accountant.compose(event, times)
    return float(accountant.get_epsilon(delta))


def test_sigma_agrees_with_a_solver_of_another_kind():
    """B15: 200 points; bisection on dp-accounting's epsilon gives the noise to within 1 %."""
    rng = np.random.default_rng(40)
    for _ in range(200):
        epsilon = float(np.exp(rng.uniform(math.log(0.05), math.log(20))))
        delta = float(10 ** rng.uniform(-10, -3))
        squared = int(rng.integers(1, 50))
        asked = Asked(epsilon=epsilon, backend="gaussian")
        found = plan(asked, Terms(delta, HUGE.rho, 1), counts(squared))
        sigma = math.sqrt(found.event.variance)
        rho = squared / (2 * sigma**2)
        # zCDP to (epsilon, delta), Bun and Steinke 2016: a weaker bound than ours, never below.
        assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) * (1 + 1e-9)
        # The exact Gaussian curve (Balle and Wang 2018) needs less noise than zCDP gives.
        assert gaussian_delta(epsilon, math.sqrt(squared) / sigma) <= delta
        assert gaussian_delta(epsilon, 1.35 * math.sqrt(squared) / sigma) > delta


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """delta of continuous Gaussian noise with sensitivity/sigma = ratio, Balle and Wang's (6)."""

    def phi(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    high = phi(ratio / 2 - epsilon / ratio)
    return high - math.exp(epsilon) * phi(-ratio / 2 - epsilon / ratio)


@pytest.mark.parametrize("rho", [1e-12, 1e-9, 1e-4, 0.5, 1000.0, 100_000.0])
@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_a_price_in_rho_is_charged_to_the_last_thousandth(rho, backend):
    found = plan(Asked(rho=rho, backend=backend), HUGE)
    assert found.event.rho <= pico(rho)
    assert found.event.rho >= pico(rho) * (1 - 1e-3) - 1
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="d", epsilon=1e6)
    assert ledger.charge("alice", "d", found.event, statement="q").price.rho == found.event.rho


@pytest.mark.parametrize("terms", [TERMS, HUGE, PURE], ids=["small", "huge", "pure"])
def test_without_a_price_a_statement_costs_a_hundredth_of_the_grant(terms):
    found = plan(Asked(), terms)
    whole, paid = (
        (terms.epsilon, found.event.epsilon) if terms.pure else (terms.rho, found.event.rho)
    )
    assert whole // 100 * (1 - 1e-3) - 1 <= paid <= whole // 100


def test_a_pure_grant_is_answered_with_laplace_noise():
    for asked in (Asked(), Asked(epsilon=0.3), Asked(rho=0.01), Asked(backend="laplace")):
        found = plan(asked, PURE)
        assert found.backend == "laplace" and isinstance(found.noise, LaplaceNoise)
        assert found.price.delta == 0 and found.price.epsilon == found.event.epsilon / PICO
    assert plan(Asked(epsilon=0.3), PURE).price.epsilon == pytest.approx(0.3)
    with pytest.raises(UsageError, match="delta above 0"):
        plan(Asked(backend="gaussian"), PURE)


def test_an_approximate_grant_is_answered_with_gaussian_noise_unless_laplace_is_named():
    assert isinstance(plan(Asked()).noise, GaussianNoise)
    assert plan(Asked()).backend == "gaussian"
    assert isinstance(plan(Asked(backend="laplace")).noise, LaplaceNoise)


def test_laplace_by_epsilon_is_pure_where_that_is_less_noise():
    one = plan(Asked(epsilon=1.0, backend="laplace"))
    assert one.event.epsilon <= PICO and float(one.event.scale) == pytest.approx(1.0)
    many = plan(Asked(epsilon=1.0, backend="laplace"), of=counts(400))
    assert many.event.scale < 400 and many.event.rho <= rho_of(1.0, 1e-6)


PRICES = [1e-9, 1e-6, 1e-3, 0.01, 0.1, 1.0, 10.0, 1000.0]


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
@pytest.mark.parametrize("unit", ["epsilon", "rho"])
@pytest.mark.parametrize("many", [1, 30])
def test_less_error_costs_more(backend, unit, many):
    """B32, T63: the relation of noise and price, for each backend and currency."""
    found = []
    for price in PRICES:
        try:
            found.append(plan(Asked(**{unit: price}, backend=backend), HUGE, counts(many)))
        except UsageError:
            assert unit == "epsilon" and price < 1e-4
    errors = [stddev(choice.event) for choice in found]
    paid = [choice.event.rho for choice in found]
    assert errors == sorted(errors, reverse=True) and len(set(paid)) == len(paid)
    assert paid == sorted(paid)


def test_prices_grow_with_sensitivity_at_equal_noise():
    """T03, T43, B02: stacked counts, units, replace-one."""
    noise = plan(Asked(rho=0.01)).noise
    assert isinstance(noise, GaussianNoise)
    for many, over, times in [
        (1, dataset(), 1),
        (100, dataset(), 100),
        (1, dataset(rows=3), 9),
        (1, dataset(Neighbours.REPLACE_ONE), 1),
    ]:
        wider = plan(Asked(rho=0.01, backend="gaussian"), of=counts(many), over=over).noise
        assert wider.variance == pytest.approx(noise.variance * times, rel=1e-5)
    grouped = workload(COUNT, grouping=BY_AGE)
    assert plan(Asked(rho=0.01), of=grouped).noise == noise
    replaced = plan(Asked(rho=0.01), of=grouped, over=dataset(Neighbours.REPLACE_ONE)).noise
    assert replaced.variance == pytest.approx(2 * noise.variance, rel=1e-5)


def test_prices_that_no_ledger_can_hold_are_refused():
    """A31: what is not a price never reaches the noise."""
    for value in (1e-13, 0.0, -1.0):
        with pytest.raises(UsageError):
            plan(Asked(rho=value))
    with pytest.raises(UsageError):
        plan(Asked(epsilon=1e-9), Terms(1e-9, 1, 1))
    with pytest.raises(UsageError):
        plan(Asked(epsilon=1e8))


def test_pico_rounds_the_decimal_down():
    assert pico(0.1) == 10**11 and pico(1e-12) == 1 and pico(0.3) == 3 * 10**11
    assert pico(1.9999e-12) == 1


def test_the_price_that_is_shown_is_the_less_of_two_bounds():
    event = Laplace(1, 1, Fraction(1))
    assert cost(event, TERMS).epsilon == 1.0
    wide = Laplace(10_000, 1, Fraction(10_000))
    assert cost(wide, TERMS).epsilon == epsilon_of(wide.rho, 1e-6) < 1.0
    assert cost(event, PURE).epsilon == 1.0 and cost(event, PURE).delta == 0


def test_totals_of_equal_prices_follow_the_closed_form():
    """B04, T07, T63: k equal queries cost k rho in any order, as dp-accounting says."""
    event = plan(Asked(epsilon=0.1)).event
    other = plan(Asked(rho=1e-5)).event
    for k in (1, 2, 10, 100):
        for order in ([event] * k + [other], [other] + [event] * k):
            ledger = Ledger.memory()
            ledger.grant("alice", dataset="d", epsilon=50)
            for each in order:
                ledger.charge("alice", "d", each, statement="q")
            balance = ledger.balance("alice", "d")
            assert balance.spent_rho == k * event.rho + other.rho
    for k in (1, 10, 100, 10_000):
        ours = epsilon_of(k * event.rho, 1e-6)
        theirs = independent(GaussianDpEvent(math.sqrt(event.variance)), 1e-6, k)
        assert theirs * (1 - 1e-4) <= ours <= theirs * 1.02


def test_candidates_are_all_that_could_answer():
    one = workload(COUNT, grouping=BY_AGE)
    given = choose(one, dataset(), Asked(rho=0.01), TERMS)
    listed = candidates(one, dataset(), Asked(rho=0.01), TERMS, given)
    assert [found.backend for found in listed] == ["gaussian", "laplace"]
    assert listed[0].rmse < listed[1].rmse
    assert listed[0].price == given.price
    given = choose(counts(2), dataset(), Asked(rho=0.01), TERMS)
    listed = candidates(counts(2), dataset(), Asked(rho=0.01), TERMS, given)
    assert [found.backend for found in listed] == ["factorization", "gaussian", "laplace"]
    assert listed[0].rmse < listed[1].rmse < listed[2].rmse
    assert listed[0].price == given.price
    pure = choose(counts(2), dataset(), Asked(), PURE)
    found = candidates(counts(2), dataset(), Asked(), PURE, pure)
    assert [c.backend for c in found] == ["laplace"]


def test_a_strategy_is_chosen_only_where_it_errs_less():
    """Disjoint groups are best measured as they are; of equal queries one has to be."""
    asked = Asked(rho=0.01)
    assert plan(asked, of=workload(COUNT, grouping=BY_AGE)).plan is None
    many = plan(asked, of=counts(16))
    assert many.backend == "factorization" and many.event.rho <= pico(0.01)
    error = math.sqrt(many.plan.spreads(many.event)[0].worst())
    one = math.sqrt(plan(asked).event.variance)
    assert error == pytest.approx(one, rel=1e-3)  # sixteen times one count is one count
    assert plan(Asked(rho=0.01, backend="gaussian"), of=counts(16)).plan is None
    alone = plan(Asked(rho=0.01, backend="factorization"), of=counts(1))
    assert alone.backend == "gaussian"  # there is nothing to plan


def test_the_objective_decides_what_a_plan_makes_least():
    """Of running counts: their total squared error, or the largest of them."""
    domain = Domain(("age",), (100,))
    tables = [np.where(np.arange(100) < n, TRUE, FALSE) for n in range(10, 101, 10)]
    upto = [Weight((Term(Leaf(domain, table.astype(np.uint8))),)) for table in tables]

    def errors(objective: str) -> tuple[float, float]:
        asked = Asked(rho=0.01, objective=objective)
        found = plan(asked, of=workload(*upto))
        first = candidates(workload(*upto), dataset(), asked, TERMS, found)[0]
        assert first.backend == found.backend == "factorization" and 1.0 <= first.ratio < 1.02
        return first.rmse, math.sqrt(found.plan.spreads(found.event)[0].worst())

    (total, widest), (other, evened) = errors("total"), errors("largest")
    assert total < other < 1.02 * total and evened < 0.97 * widest
    assert evened == pytest.approx(other, rel=0.02)  # all are alike


def test_errors_are_in_units_of_the_largest_weight():
    ages = Weight((Term(ALWAYS, Table(Domain(("age",), (100,)), np.arange(100))),))
    event = Gaussian(1, Fraction(99**2))
    assert error(counts(3), (Alike(event),)) == pytest.approx(99.0)
    assert error(workload(ages), (Alike(event),)) == pytest.approx(1.0)
    both = Workload(
        Domain(("age",), (100,)),
        (Block(ALWAYS, (ages,), (BY_AGE,)), Block(ALWAYS, (COUNT,), (TOTAL,))),
    )
    assert error(both, (Alike(event),) * 2) == pytest.approx(math.sqrt((100 * 1 + 99**2) / 101))


def test_a_plan_is_never_lent_to_a_workload_over_other_columns():
    """The same questions, told by tables with a column that does not matter: of another size."""

    def asked(size: int) -> Workload:
        domain = Domain(("age", "foo"), (100, size))
        codes = domain.grid()

        def above(least: int) -> Weight:
            table = np.where(codes["age"] >= least, TRUE, FALSE).astype(np.uint8)
            return Weight((Term(Leaf(domain, table)),))

        return Workload(domain, (Block(ALWAYS, (COUNT, above(30), above(60)), (TOTAL,)),))

    for size in (2, 7):
        found = plan(Asked(rho=0.01, backend="factorization"), of=(workload_ := asked(size)))
        assert found.plan is not None and found.plan.workload is workload_
        for part in found.plan.strategy.parts:
            assert part.workload.domain.size("foo") == size
            last = {"age": np.array([99]), "foo": np.array([size - 1])}
            assert part.matvec(last, np.array([1])).tolist() == [part.matrix.sum(axis=1).tolist()]


def test_a_backend_that_plans_nothing_is_not_taken_for_laplace():
    for asked in (Asked(rho=0.01, backend="synopsis"), Asked(backend="synopsis", accuracy=9.0)):
        with pytest.raises(ValueError, match="synopsis is not planned here"):
            choose(counts(1), dataset(), asked, TERMS)
