"""Charge, look, noise, in that order; and nothing but noisy integers comes out."""

from __future__ import annotations

import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.curator import curator as module
from dpsql.curator.cells import Cells
from dpsql.curator.curator import Curator
from dpsql.curator.quote import GaussianNoise, LaplaceNoise, moved, quote
from dpsql.curator.sealed import Sealed
from dpsql.domain import Domain
from dpsql.errors import BudgetExceeded, InternalError, LedgerError, NoGrant, SourceError
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, Leaf
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit

SECRET = 987_654_321
NO_NOISE = GaussianNoise(Fraction(1, 1000))  # not 0 once in exp(500)
COLUMNS = (
    Column("a", Kind.INTEGER, minimum=0, maximum=1),
    Column("b", Kind.INTEGER, minimum=0, maximum=2),
)
TABLE = {(0, 0): SECRET, (1, 0): 5, (1, 2): 7}


def dataset(neighbours=Neighbours.ADD_REMOVE, unit=None) -> Dataset:
    return Dataset("d", COLUMNS, neighbours, unit or Unit(), Source(table="t"))


class Spy:
    """An engine over TABLE, and a ledger's calls, that note what happens when."""

    def __init__(self, declared: Dataset | None = None, fault: BaseException | None = None) -> None:
        self.dataset = declared or dataset()
        self.happened: list[object] = []
        self.fault, self.stamp = fault, "first"

    def counts(self, columns):
        self.happened.append(("counts", columns))
        if self.fault is not None:
            seen = SECRET  # a local that a traceback would show
            assert seen
            raise self.fault
        at = [("a", "b").index(name) for name in columns]
        cells: dict[tuple[int, ...], int] = {}
        for cell, count in TABLE.items():
            key = tuple(cell[i] for i in at)
            cells[key] = cells.get(key, 0) + count
        codes = np.array(list(cells), np.int64).reshape(len(cells), len(columns))
        listed = {name: np.ascontiguousarray(codes[:, i]) for i, name in enumerate(columns)}
        return Sealed(Cells(listed, np.array(list(cells.values()), np.int64)))

    def ready(self):
        pass

    def snapshot(self):
        return self.stamp

    def interrupt(self):
        raise AssertionError

    def close(self):
        raise AssertionError

    def watch(self, ledger: Ledger, monkeypatch) -> None:
        charge = ledger.charge

        def noted(*args, **named):
            self.happened.append("charge")
            return charge(*args, **named)

        monkeypatch.setattr(ledger, "charge", noted)


def granted(epsilon: float = 1e6, delta: float = 1e-6) -> Ledger:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="d", epsilon=epsilon, delta=delta)
    return ledger


def workload(*names: str, where=ALWAYS) -> Workload:
    """COUNT(*) by the named columns."""
    sizes = {"a": 2, "b": 3}
    keys = tuple(
        (Domain((n,), (sizes[n],)), np.arange(sizes[n]), 3**i) for i, n in enumerate(names)
    )
    ids = sorted({sum(c * s for c, (_, _, s) in zip(cell, keys, strict=True))
                  for cell in np.ndindex(*(sizes[n] for n in names))})  # fmt: skip
    grouping = Grouping(keys, np.array(ids, np.int64))
    weights = (Weight((Term(ALWAYS),)),)
    domain = Domain(tuple(names), tuple(sizes[n] for n in names))
    return Workload(domain, (Block(where, weights, (grouping,)),))


def test_nothing_is_read_before_it_is_paid(monkeypatch):
    spy, ledger = Spy(), granted()
    spy.watch(ledger, monkeypatch)
    found = Curator(spy, ledger, "alice").measure(workload("a"), NO_NOISE, "SELECT")
    assert spy.happened == ["charge", ("counts", ("a",))]
    assert [block.ravel().tolist() for block in found.answers] == [[SECRET, 12]]
    assert found.receipt.price.rho == found.event.rho


@pytest.mark.parametrize("refusal", [NoGrant, BudgetExceeded, LedgerError])
def test_what_is_not_paid_is_not_read(refusal, monkeypatch):
    spy, ledger = Spy(), granted(epsilon=0.01)
    if refusal is NoGrant:
        ledger.revoke("alice", dataset="d")
    if refusal is LedgerError:

        def broken(*args, **named):
            raise LedgerError("the disk is full")

        monkeypatch.setattr(ledger, "charge", broken)
    before = ledger.dump()
    with pytest.raises(refusal):
        Curator(spy, ledger, "alice").measure(workload("a"), NO_NOISE, "SELECT")
    assert spy.happened == []
    assert ledger.dump() == before


def chain(error: BaseException) -> str:
    """All that an error shows: itself, causes, notes, and the locals of its traceback's frames."""
    shown, seen = [], error
    while seen is not None:
        shown += [repr(seen), str(seen), repr(seen.args), repr(getattr(seen, "__notes__", []))]
        frame = seen.__traceback__
        while frame is not None:
            if "tests" not in frame.tb_frame.f_code.co_filename:
                shown.append(repr(frame.tb_frame.f_locals))
            else:
                shown.append(frame.tb_frame.f_code.co_name)
            frame = frame.tb_next
        seen = seen.__cause__ or seen.__context__
    return "\n".join(shown)


FAULTS = [
    ValueError(f"Could not convert '{SECRET}' to INT32"),
    RuntimeError(SECRET),
    MemoryError(str(SECRET)),
    KeyError(SECRET),
    OverflowError(f"{SECRET} is too large"),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_failing_engine_says_nothing_and_the_charge_stands(fault):
    """A36: a constant message, no cause, no frame of the engine or of the counts."""
    spy, ledger = Spy(fault=fault), granted()
    curator = Curator(spy, ledger, "alice")
    expected = KeyboardInterrupt if isinstance(fault, KeyboardInterrupt) else InternalError
    with pytest.raises(expected) as caught:
        curator.measure(workload("a"), NO_NOISE, "SELECT")
    shown = chain(caught.value)
    assert str(SECRET) not in shown
    assert "counts" not in shown.split("\n")
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert ledger.balance("alice", "d").spent_rho == quote(workload("a"), spy.dataset, NO_NOISE).rho


def test_a_fault_after_the_counts_are_open_shows_no_count(monkeypatch):
    def broken(variance, size):
        raise FloatingPointError(SECRET)

    monkeypatch.setattr(module.samplers, "gaussian", broken)
    with pytest.raises(InternalError) as caught:
        Curator(Spy(), granted(), "alice").measure(workload("a"), NO_NOISE, "SELECT")
    assert str(SECRET) not in chain(caught.value)
    assert caught.value.__context__ is None


def test_a_source_error_in_our_own_words_is_told():
    fault = SourceError("adult.duckdb changed after it was opened: open it again")
    with pytest.raises(SourceError, match="open it again") as caught:
        Curator(Spy(fault=fault), granted(), "alice").measure(workload("a"), NO_NOISE, "SELECT")
    assert caught.value is not fault and caught.value.__context__ is None


def test_a_source_that_is_gone_costs_nothing(monkeypatch):
    spy, ledger = Spy(), granted()

    def gone():
        raise SourceError("there is no database")

    monkeypatch.setattr(spy, "ready", gone)
    before = ledger.dump()
    with pytest.raises(SourceError):
        Curator(spy, ledger, "alice").measure(workload("a"), NO_NOISE, "SELECT")
    assert ledger.dump() == before and spy.happened == []


def test_the_event_that_is_charged_is_that_of_the_noise():
    for noise in (GaussianNoise(Fraction(70, 3)), LaplaceNoise(Fraction(9, 2))):
        for declared in (dataset(), dataset(Neighbours.REPLACE_ONE), dataset(unit=Unit("id", 3))):
            ledger = granted()
            found = Curator(Spy(declared), ledger, "alice").measure(workload("a"), noise, "q")
            [*_, entry] = ledger.log()
            assert entry.event == found.event.to_dict() and entry.statement == "q"
            match found.event, noise:
                case Gaussian(variance=variance), GaussianNoise():
                    assert variance == noise.variance
                case Laplace(scale=scale), LaplaceNoise():
                    assert scale == noise.scale
                case _:
                    raise AssertionError("an event of another kind of noise")


def test_neighbours_and_units_set_the_price():
    """T43, A34: replace-one doubles the price of a histogram; r rows a unit cost r^2."""
    noise = GaussianNoise(Fraction(100))
    by_rows = quote(workload("a"), dataset(), noise).rho
    assert quote(workload("a"), dataset(Neighbours.REPLACE_ONE), noise).rho == 2 * by_rows
    assert quote(workload("a"), dataset(unit=Unit("id", 5)), noise).rho == 25 * by_rows
    assert quote(workload(), dataset(Neighbours.REPLACE_ONE), noise).rho == by_rows


def test_sensitivity_is_computed_once_a_workload_and_relation():
    one = workload("a")
    first = moved(one, dataset())
    assert moved(one, dataset()) is first
    assert moved(one, dataset(Neighbours.REPLACE_ONE)) != first
    assert moved(one, dataset()) == first


def test_noise_is_never_used_twice():
    """A30: neither for two releases, nor for two answers of one, nor for equal statements."""
    curator = Curator(Spy(), granted(), "alice")
    noise, one = GaussianNoise(Fraction(10**20)), workload("a", "b")
    released = [curator.measure(one, noise, "q").answers[0].ravel() for _ in range(50)]
    drawn = np.concatenate(released)
    assert len(set(drawn.tolist())) == drawn.size  # a pair of 300 meets once in 1e5 at 1e10
    assert all(answers.dtype == np.int64 for answers in released)


def test_empty_groups_have_noise_of_their_own():
    """A12: not one noise shared by all empty keys."""
    curator = Curator(Spy(), granted(), "alice")
    noise = GaussianNoise(Fraction(10**20))
    empty = np.array([0, 0, 1, 1, 1, 0], bool)  # a + 3 b of the cells that TABLE lacks
    found = curator.measure(workload("a", "b"), noise, "q").answers[0].ravel()
    assert len(set(found[empty].tolist())) == empty.sum()


def test_counts_are_read_once_and_summed_down():
    spy = Spy()
    curator = Curator(spy, granted(), "alice")
    for names in (("a", "b"), ("a",), ("b",), (), ("a", "b")):
        found = curator.measure(workload(*names), NO_NOISE, "q")
        assert found.answers[0].sum() == sum(TABLE.values())
    assert [columns for _, columns in spy.happened] == [("a", "b")]


def test_another_snapshot_is_read_anew():
    spy = Spy()
    curator = Curator(spy, granted(), "alice")
    curator.measure(workload("a"), NO_NOISE, "q")
    spy.stamp = "second"
    curator.measure(workload("a"), NO_NOISE, "q")
    assert len(spy.happened) == 2


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_CACHE_BYTES", 40)
    spy = Spy()
    curator = Curator(spy, granted(), "alice")
    for names in (("a",), ("b",), ("a",), ("b",)):
        curator.measure(workload(*names), NO_NOISE, "q")
    assert len(spy.happened) == 4
    assert len(curator._counts) == 1


def test_threads_may_share_a_curator():
    spy, ledger = Spy(), granted()
    curator = Curator(spy, ledger, "alice")
    totals: list[int] = []

    def ask(names):
        for _ in range(10):
            found = curator.measure(workload(*names), NO_NOISE, "q")
            totals.append(int(found.answers[0].sum()))

    threads = [threading.Thread(target=ask, args=(n,)) for n in (("a",), ("b",), ("a", "b"), ())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [sum(TABLE.values())] * 40
    assert ledger.balance("alice", "d").spent_rho == sum(
        e.price.rho for e in ledger.log() if e.price
    )


def test_what_the_curator_holds_cannot_be_pickled():
    curator = Curator(Spy(), granted(), "alice")
    curator.measure(workload("a"), NO_NOISE, "q")
    with pytest.raises(TypeError):
        pickle.dumps(curator._counts)


def test_three_billion_rows_do_not_wrap(monkeypatch):
    """B23: no 32-bit integer on the way; nor 64-bit ones where weights are heavy."""
    spy = Spy()
    rows = 3 * 10**9
    monkeypatch.setattr(
        spy, "counts", lambda columns: Sealed(Cells({}, np.array([rows], np.int64)))
    )
    curator = Curator(spy, granted(), "alice")
    assert curator.measure(workload(), NO_NOISE, "q").answers[0].tolist() == [[rows]]
    heavy = Weight((Term(ALWAYS),), 1 << 36)
    total = Grouping((), np.zeros(1, np.int64))
    weighted = Workload(Domain((), ()), (Block(ALWAYS, (heavy,), (total,)),))
    [[answer]] = (
        curator.measure(weighted, GaussianNoise(Fraction(1 << 60)), "q").answers[0].tolist()
    )
    assert answer > 1 << 63 and abs(answer - (rows << 36)) < 20 << 30


def test_a_condition_that_nobody_meets_is_noised_like_others():
    """B44: the same noise and price whatever WHERE keeps."""
    nobody = Leaf(Domain(("a",), (2,)), np.zeros(2, np.uint8))
    for where in (ALWAYS, nobody):
        event = quote(workload("a", where=where), dataset(), GaussianNoise(Fraction(9)))
        assert event == Gaussian(1, Fraction(9))
