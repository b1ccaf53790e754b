"""What is released is the noise that was paid for, and nothing but released integers.

Noise is taken from releases of a session, as the difference of what came out of the wall and what
went in, and judged by the event that the ledger wrote down. With Gaussian noise of variance v the
sum of z^2 / v has N degrees of freedom, with Laplace noise of scale b the sum of 2 |z| / b has 2 N;
that noise is discrete moves both by less than 4e-4 at the scales used here. Each test names its
chance of a false alarm; together they stay below 1e-6. Noise comes from the operating system.
"""

from __future__ import annotations

import itertools
import math
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from dpsql.accounting.events import Event, Gaussian, Laplace, from_dict
from dpsql.accounting.ledger import Ledger
from dpsql.curator import noise
from dpsql.curator.curator import Curator, Measurement
from dpsql.mechanisms.intervals.law import coverage
from dpsql.mechanisms.intervals.quantile import half_width
from dpsql.query.linear import Workload
from dpsql.session import Session
from tests.privacy.trial import NAME, USER, charges, purse, rows, run, table

RELEASES = 1_000
ALARM = 2e-8  # of one chi-square test
COUNTS = "SELECT hours // 13, COUNT(*) FROM people GROUP BY hours // 13"  # eight groups
SHARES = "SELECT hours // 13, AVG(rich) FROM people GROUP BY hours // 13"
SUMS = "SELECT hours // 13, SUM(age) FROM people GROUP BY hours // 13"
MIXED = "SELECT COUNT(*), AVG(hours), SUM(age), STDDEV(hours), COUNT(rich) FROM people"


class Wall:
    """What goes into the wall and what comes out of it, a release each."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.true: list[list[Any]] = []
        self.out: list[Measurement] = []
        matvec, measure = Workload.matvec, Curator.measure

        def into(workload: Workload, *args: Any) -> Any:
            self.true.append(matvec(workload, *args))
            return self.true[-1]

        def out(curator: Curator, *args: Any) -> Measurement:
            self.out.append(measure(curator, *args))
            return self.out[-1]

        patch.setattr(Workload, "matvec", into)
        patch.setattr(Curator, "measure", out)

    def noise(self) -> np.ndarray:
        """The noise of each release, a row each."""
        return np.array(
            [
                np.concatenate([(a - t).ravel() for a, t in zip(m.answers, true, strict=True)])
                for m, true in zip(self.out, self.true, strict=True)
            ]
        )


def released(session: Session, sql: str, times: int, backend: str) -> tuple[np.ndarray, Event]:
    """The noise of some releases, and the event that the ledger says paid for each of them."""
    with pytest.MonkeyPatch.context() as patch:
        wall = Wall(patch)
        before = len(charges(session.ledger))
        for _ in range(times):
            session.answer(sql, rho=1e-3, backend=backend)
        events = [event for _, _, _, _, event, *_ in charges(session.ledger)[before:]]
        assert len(events) == times and all(event == events[0] for event in events)
        return wall.noise(), from_dict(events[0])


def degrees(values: np.ndarray, paid: Event) -> tuple[float, int]:
    """The statistic of some noise, and its degrees of freedom."""
    match paid:
        case Gaussian(variance=variance):
            assert variance > 200
            return float((values.astype(float) ** 2).sum() / float(variance)), values.size
        case Laplace(scale=scale):
            assert scale > 15
            return float(2 * np.abs(values).sum() / float(scale)), 2 * values.size


def fits(values: np.ndarray, paid: Event) -> bool:
    """Whether noise is as wide as was paid for: two-sided, false alarm ALARM."""
    found, free = degrees(values, paid)
    return bool(chi2.ppf(ALARM / 2, free) <= found <= chi2.isf(ALARM / 2, free))


def shaped(values: np.ndarray, paid: Event) -> bool:
    """Whether the inner half and the outer twentieth hold what they should: 6 stddevs, 4e-9."""
    for share in (0.5, 0.95):
        h = half_width(paid, share)
        exact = coverage(paid, h)
        inside = int((np.abs(values) <= h).sum())
        if abs(inside - values.size * exact) > 6 * math.sqrt(values.size * exact * (1 - exact)):
            return False
    return True


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = table(tmp_path_factory.mktemp("release"), rows(24))
    with Session(path, user=USER, ledger=purse()) as found:
        yield found


CASES = list(itertools.product([COUNTS, SHARES, SUMS, MIXED], ["gaussian", "laplace"]))


@pytest.mark.parametrize(("sql", "backend"), CASES)
def test_noise_is_as_wide_as_was_paid_for(sql, backend, session):
    """T31: false alarm 2.4e-8 over all, 1e-9 a coordinate, 2e-9 a mean, 1e-10 a pair of them."""
    times = RELEASES if "GROUP" in sql else RELEASES // 2
    values, paid = released(session, sql, times, backend)
    assert isinstance(paid, Gaussian if backend == "gaussian" else Laplace)
    assert values.dtype == np.int64 and values.shape[0] == times
    assert fits(values, paid) and shaped(values, paid)
    for column in values.T:  # no coordinate goes bare, in no group
        found, free = degrees(column, paid)
        assert chi2.ppf(5e-10, free) <= found <= chi2.isf(5e-10, free)
    scaled = values / np.sqrt((values.astype(float) ** 2).mean(axis=0))
    assert np.abs(scaled.sum(axis=0)).max() <= 6 * math.sqrt(times)
    for lag in (0, 1, 2):  # nor does one share noise with another, or with the release before
        products = scaled[lag:].T @ scaled[: times - lag]
        if lag == 0:
            np.fill_diagonal(products, 0)
        assert np.abs(products).max() <= 6.5 * math.sqrt(times)


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_noise_a_tenth_off_is_seen(backend, factor, session, monkeypatch):
    """Power: 16,000 values put the statistic six stddevs beyond the bound; misses below 1e-9."""
    true = getattr(noise, backend)
    by = factor**2 if backend == "gaussian" else factor
    monkeypatch.setattr(noise, backend, lambda law, size: true(law * by, size))
    values, paid = released(session, SHARES, RELEASES, backend)
    assert values.size == 16 * RELEASES
    assert not fits(values, paid)


def test_another_law_of_the_same_spread_is_seen(session, monkeypatch):
    """Power: Laplace noise of the variance that Gaussian noise was paid for, and the reverse."""
    gaussian, laplace = noise.gaussian, noise.laplace

    def narrow(variance, size):
        return laplace(Fraction(math.sqrt(variance / 2)), size)

    def wide(scale, size):
        return gaussian(2 * scale**2, size)

    for name, wrong in (("gaussian", narrow), ("laplace", wide)):
        with monkeypatch.context() as patch:
            patch.setattr(noise, name, wrong)
            values, paid = released(session, SHARES, RELEASES // 4, name)
        assert not shaped(values, paid)


def test_a_bare_group_is_seen(session, monkeypatch):
    """Power: noise on all groups but the last, as where nobody is in it."""
    true = noise.gaussian

    def bare(variance, size):
        return true(variance, size) * (np.arange(size) < size - 1)

    monkeypatch.setattr(noise, "gaussian", bare)
    values, paid = released(session, COUNTS, 200, "gaussian")
    assert any(degrees(c, paid)[0] < chi2.ppf(5e-10, degrees(c, paid)[1]) for c in values.T)


# -- a function of the released integers alone ---------------------------------------------------


def test_released_counts_are_integers_and_ratios_are_made_of_integers(session):
    """A1, A2: every figure is worked out again from the integers that left the wall, exactly."""
    sql = "SELECT race, COUNT(*), AVG(rich), SUM(hours) FROM people GROUP BY race"
    with pytest.MonkeyPatch.context() as patch:
        wall = Wall(patch)
        given = {"backend": "gaussian"}
        shown = [session.answer(sql, rho=rho, **given) for rho in (1e-3, 1.0, 100.0, 1e3) * 50]
    ratios = 0
    for release, found in zip(shown, wall.out, strict=True):
        (block,) = found.answers
        assert block.dtype == np.int64
        for (_, count, share, total), line in zip(release.rows, block.tolist(), strict=True):
            counted, yes, no, summed = line
            assert all(type(value) is int for value in (count, total, *line))
            factors = {name: factor for name, factor in zip("cyns", FACTORS, strict=True)}
            assert count == nearest(counted, factors["c"])
            assert total == nearest(summed, factors["s"])
            if share is not None:
                ratios += 1
                exact = Fraction(yes, yes + no) if yes + no else Fraction(0)
                assert share == pytest.approx(float(min(max(exact, 0), 1)), rel=1e-15)
    assert ratios > 100


# a sum of up to 99 hours beside counts: all are measured in 1/16 of 99
FACTORS = (16 * 99, 16 * 99, 16 * 99, 16)


def nearest(value: int, factor: int) -> int:
    return math.floor(Fraction(value, factor) + Fraction(1, 2))


def test_a_share_alone_is_the_quotient_of_two_integers_to_the_last_bit(session):
    with pytest.MonkeyPatch.context() as patch:
        wall = Wall(patch)
        shown = [session.answer("SELECT AVG(rich) FROM people", rho=0.5) for _ in range(200)]
    known = 0
    for release, found in zip(shown, wall.out, strict=True):
        ((yes, no),) = found.answers[0].tolist()
        ((share,),) = release.rows
        if share is not None:
            known += 1
            assert share == min(max(yes / (yes + no), 0.0), 1.0)
    assert known > 100


def test_figures_have_no_bits_that_noise_did_not_touch(tmp_path):
    """A1 (Mironov): counts 0 and 1 give whole numbers, and the same set of them."""
    seen = []
    for count in (0, 1):
        path = table(tmp_path / str(count), rows(count))
        with Session(path, user=USER, ledger=purse()) as session:
            sql = "SELECT age, COUNT(*) FROM people GROUP BY age"
            values = [
                value
                for _ in range(300)
                for _, value in session.answer(sql, rho=0.5).rows
            ]  # fmt: skip
        assert all(type(value) is int for value in values)
        seen.append(set(values))
    assert {-2, -1, 0, 1, 2} <= seen[0] & seen[1]


# -- fresh noise -------------------------------------------------------------------------------

AGES = "SELECT age, COUNT(*) FROM people GROUP BY age"

PLUGIN = """
import json, os, random, sys
import numpy
random.seed(0)
numpy.random.seed(0)
from dpsql.session import Session
def answers(session):
    ask = lambda: session.answer(sys.argv[2], rho=1e-3, reuse=False).rows
    return [[n for _, n in ask()] for _ in range(3)]
def told():
    with Session(sys.argv[1], user="alice") as session:
        return answers(session)
found = told()
for _ in range(4):
    read, write = os.pipe()
    if os.fork() == 0:
        numpy.random.seed(0)
        with os.fdopen(write, "w") as out:
            json.dump(told(), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as came:
        found += json.load(came)
    os.wait()
print(json.dumps(found))
"""


def test_forks_and_seeds_of_others_give_different_answers(tmp_path, monkeypatch):
    """A29: 30 answers of 74 groups from ten processes with all seeds at 0. Equal once in 2^300."""
    path = table(tmp_path, rows(24))
    with Ledger.open(tmp_path / "people.ledger") as ledger:
        ledger.grant(USER, dataset=NAME, epsilon=100)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    found = [tuple(answer) for _ in range(2) for answer in run(PLUGIN, path, AGES)[0]]
    assert len(found) == len(set(found)) == 30
    with Ledger.open(tmp_path / "people.ledger") as ledger:
        assert ledger.balance(USER, NAME).spent_rho == sum(c[5].rho for c in charges(ledger))
        assert len(charges(ledger)) == 30


def test_threads_and_repetitions_give_different_answers(session):
    """A29, A30: 8 threads, 20 answers each."""
    found: list[tuple[Any, ...]] = []

    def ask() -> None:
        found.extend(session.answer(AGES, rho=1e-3).rows for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(set(found)) == 160


def test_large_counts_do_not_wrap_and_print_alike(tmp_path, monkeypatch):
    """A4: whether 64 bits suffice is not seen: the same integers in either width print the same."""
    path = table(tmp_path, rows(24))
    shown = []
    for width in (np.int64, object):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                Workload, "matvec",
                lambda workload, *args, width=width: [
                    np.full((b.groups, len(b.weights)), 2**40 + 7, width) for b in workload.blocks
                ],
            )  # fmt: skip
            for name in ("gaussian", "laplace"):
                patch.setattr(noise, name, lambda law, size: np.arange(size) * 1_000_003)
            with Session(path, user=USER, ledger=purse()) as session:
                shown.append([
                    session.answer(sql, rho=1e-3, backend=backend, clamp=clamp).to_dict()
                    for sql, backend in CASES for clamp in (False, True)
                ])  # fmt: skip
    assert shown[0] == shown[1]
