"""Scripts of tables: residual tables beside other strategies, as good and as exact as is said."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.pack import unpack
from dpsql.accounting.kept.stored import BESIDE, KINDS, TABLED, Stored
from dpsql.curator.mixed import reach
from dpsql.mechanisms.reuse.coarser import Coarser
from dpsql.mechanisms.strategies import clusters, drafts
from dpsql.mechanisms.strategies.axes import Identity
from dpsql.mechanisms.strategies.factorization import Factored, factored
from dpsql.mechanisms.strategies.full import kinds, read
from dpsql.mechanisms.strategies.mixing import importance
from dpsql.mechanisms.strategies.plans import factorized
from dpsql.mechanisms.strategies.residual import plan
from dpsql.mechanisms.strategies.solved import Solved, Tables
from dpsql.query.linear import Workload
from tests.curator.brute import ADD, REPLACE
from tests.curator.test_footprint import dataset
from tests.curator.test_mixed import farthest
from tests.mechanisms.measured import CELLS, CODES, DOMAIN, workload

LAW = Gaussian(1, Fraction(1 << 42))
COUNTS = np.arange(CELLS) * 7 % 23
TABLES = [
    "SELECT region, age, COUNT(*) FROM town GROUP BY region, age",
    "SELECT sex, region, COUNT(*) FROM town GROUP BY sex, region",
    "SELECT sex, age, COUNT(*) FROM town GROUP BY age, sex",
    "SELECT COUNT(*) FROM town",
]
MEANS = [
    "SELECT sex, COUNT(*), AVG(smoker) FROM town WHERE age > 0 GROUP BY CUBE (sex)",
    "SELECT region, age, COUNT(*), AVG(smoker) FROM town WHERE age > 0 GROUP BY region, age",
]
OTHERS = [
    "SELECT COUNT(*) FROM town WHERE smoker AND age < 2",
    "SELECT SUM(age), COUNT_IF(sex = 'f') FROM town WHERE smoker",
]
NOBODY = "SELECT sex, COUNT(*), SUM(age) FROM town WHERE age < 1 AND age > 1 GROUP BY sex"


def stacked(listed: list[str], times: tuple[int, ...] = ()) -> Workload:
    """All statements as one workload, the first ones so many times."""
    blocks = []
    for at, sql in enumerate(listed):
        (block,) = workload(sql).blocks
        factor = times[at] if at < len(times) else 1
        weights = (dataclasses.replace(w, factor=w.factor * factor) for w in block.weights)
        blocks.append(dataclasses.replace(block, weights=tuple(weights)))
    return Workload(DOMAIN, tuple(blocks))


SCRIPTS = {
    "tables": stacked(TABLES),
    "weights": stacked(TABLES, (2, 6, 4)),
    "aggregates": stacked(MEANS),
    "beside": stacked([*OTHERS[:1], *TABLES, *OTHERS[1:]]),
    "both": stacked([*MEANS, *OTHERS], (3, 3)),
    "kinds": stacked([*TABLES, *MEANS], (2, 6)),
    "kinds beside": stacked([*MEANS, *OTHERS, *TABLES]),
    "nobody": stacked([NOBODY, *TABLES]),
}


@pytest.fixture(params=["total", "largest"])
def largest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether that is what is least; as if there were too much to plan as a whole."""
    monkeypatch.setattr(drafts, "FEW", 0)
    monkeypatch.setattr(clusters, "COLUMNS", 25)
    return bool(request.param == "largest")


def planned(name: str, largest: bool) -> Factored:
    found = factored(SCRIPTS[name], largest=largest)
    tables = [len(each.places) for each in found.solved if isinstance(each, Tables)]
    kinds = 4 if name in ("tables", "weights", "beside", "nobody") else 2
    assert tables == ([4, 2] if "kinds" in name else [kinds])
    return found


def measured(made: Factored) -> list[np.ndarray]:
    return [part.matvec(CODES, COUNTS) for part in made.strategy.parts]


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_noise_every_answer_is_right(name: str, largest: bool) -> None:
    made = planned(name, largest)
    answered = made.answered(measured(made), LAW)
    for found, true in zip(answered.answers, SCRIPTS[name].matvec(CODES, COUNTS), strict=True):
        assert (found == true).all()


@pytest.mark.parametrize("name", SCRIPTS)
def test_noise_is_as_large_as_is_said(name: str, largest: bool) -> None:
    """2,000 draws: each variance within 20 %, a false alarm below 1e-9; the mean of all within 5 %,
    of which noise 10 % off would be none."""
    made, rng = planned(name, largest), np.random.default_rng(8)
    true, bare = SCRIPTS[name].matvec(CODES, COUNTS), measured(made)
    squares = [np.zeros(block.shape) for block in true]
    for _ in range(2000):
        noise = [np.rint(rng.normal(0, math.sqrt(LAW.variance), b.shape)) for b in bare]
        values = [b + n.astype(np.int64) for b, n in zip(bare, noise, strict=True)]
        answered = made.answered(values, LAW)
        for total, one, block in zip(squares, answered.noises, true, strict=True):
            total += (one.centre(None) - block) ** 2
    ratios = np.concatenate(
        [
            (total / 2000 / spread.variances).reshape(-1)
            for total, spread in zip(squares, made.spreads(LAW), strict=True)
        ]
    )
    assert (abs(ratios - 1) < 0.2).all() and abs(ratios.mean() - 1) < 0.05


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_kept_says_the_same(name: str, largest: bool) -> None:
    """Of all statements together, and of each of them, whichever part it is from."""
    made, rng = planned(name, largest), np.random.default_rng(5)
    values = [
        bare + np.rint(rng.normal(0, math.sqrt(LAW.variance), bare.shape)).astype(np.int64)
        for bare in measured(made)
    ]
    first = made.answered(values, LAW)
    stored = made.stored(values, LAW, first.answers)
    assert stored is not None
    beside = any(isinstance(each, Solved) for each in made.solved)
    version = KINDS if "kinds" in name else BESIDE if beside else TABLED
    assert unpack(stored.to_bytes())["version"] == version
    kept = Coarser(Stored.from_bytes(stored.to_bytes()))
    every = zip(SCRIPTS[name].blocks, first.answers, made.spreads(LAW), strict=True)
    for block, answers, spread in every:
        (again,) = kept.answers(Workload(DOMAIN, (block,)))
        assert again.spread.known.all() and (again.shown == answers).all()
        for one, other in (
            (again.spread.covariance, spread.covariance),
            (again.spread.shown, spread.shown),
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_what_a_statement_has_of_both_parts_is_told_apart(largest: bool) -> None:
    """Its noises are independent then."""
    made = planned("beside", largest)
    values = measured(made)
    stored = made.stored(values, LAW, made.answered(values, LAW).answers)
    assert stored is not None
    asked = workload("SELECT COUNT_IF(smoker AND age < 2), COUNT_IF(age = 1) FROM town")
    (found,) = Coarser(stored).answers(asked)
    (true,) = asked.matvec(CODES, COUNTS)
    assert (found.shown == true).all() and found.spread.known.all()
    assert (
        not np.diag(np.diag(found.spread.covariance[0])).any()
        or not (found.spread.covariance[0] - np.diag(np.diag(found.spread.covariance[0]))).any()
    )


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("neighbours", [ADD, REPLACE], ids=str)
def test_neighbours_are_no_farther_apart_than_is_charged(name, neighbours, largest):
    """By brute force, on the integers that are measured; exactly so for one row in counts."""
    made = planned(name, largest)
    found, truth = reach(made.strategy, dataset(neighbours)), farthest(made.strategy, neighbours)
    assert found.squared >= truth
    assert found.squared <= truth * (4 if neighbours is REPLACE else 2)
    if name == "tables" and neighbours is ADD:
        assert found.squared == truth


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_error_is_what_the_strategy_that_is_measured_has(name: str, largest: bool) -> None:
    made = planned(name, largest)
    squared = sum(reach(made.strategy, dataset(ADD)).parts)
    spreads = made.spreads(Gaussian(squared, Fraction(squared)))
    wanted = importance(SCRIPTS[name], largest=largest)
    errors = [s.variances * w for s, w in zip(spreads, wanted, strict=True)]
    total = max(e.max() for e in errors) if largest else sum(e.sum() for e in errors)
    assert math.sqrt(total) == pytest.approx(made.rmse, rel=2e-2)
    assert made.lower <= made.rmse * (1 + 1e-9)


def test_tables_alone_realise_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "FEW", 0)
    made = factored(SCRIPTS["tables"])
    ((size, age, region),) = [[2, 5, 3]]
    ideal = plan([Identity(size), Identity(age), Identity(region)], [(1, 2), (0, 2), (0, 1), ()])
    wanted = math.sqrt(float(np.mean(ideal.average(0.5))))
    assert made.rmse == pytest.approx(wanted, rel=1e-9) and made.ratio == pytest.approx(1.0)


def test_the_same_queries_by_other_keys_are_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrices are remembered; what is measured is of the very workload that is asked."""
    monkeypatch.setattr(drafts, "FEW", 0)
    one, other = stacked(TABLES), stacked(TABLES)
    first, second = factorized(one, dataset(ADD)), factorized(other, dataset(ADD))
    assert first is not None and second is not None and second.workload is other
    (a,), (b,) = first.solved, second.solved
    assert isinstance(a, Tables) and isinstance(b, Tables)
    assert a.part.factors == b.part.factors and a.part.workload is not b.part.workload
    turned = stacked([TABLES[0].replace("BY region, age", "BY age, region"), *TABLES[1:]])
    third = factorized(turned, dataset(ADD))
    assert third is not None
    found = third.answered(measured(third), LAW).answers
    for answers, true in zip(found, turned.matvec(CODES, COUNTS), strict=True):
        assert (answers == true).all()


def test_only_what_counts_the_same_is_of_one_kind() -> None:
    filtered = "SELECT sex, COUNT(*) FROM town WHERE smoker GROUP BY sex"
    listed = stacked([*TABLES, *MEANS, filtered, *OTHERS], (2, 3, 1, 5))
    assert kinds(listed) == [[0, 1, 2, 3], [4, 5], [6]]
    found = read(listed, [0, 1, 2, 3])
    assert found.number == 4 and sorted(found.sizes) == [2, 3, 5]
    assert kinds(stacked(OTHERS)) == kinds(stacked(TABLES[:1])) == []


def test_groups_that_a_condition_leaves_out_make_no_full_table() -> None:
    some = [
        "SELECT age, sex, COUNT(*) FROM town WHERE age > 2 OR sex = 'm' GROUP BY age, sex",
        "SELECT age, COUNT(*) FROM town WHERE age > 2 OR sex = 'm' GROUP BY age",
        "SELECT sex, COUNT(*) FROM town WHERE age > 2 OR sex = 'm' GROUP BY sex",
    ]
    listed = stacked(some)
    assert kinds(listed) == [[0, 1, 2]] and read(listed, [0, 1, 2]).blocks == (1, 2)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_it_is_taken_where_it_errs_less(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table or two are left among the other queries where these make them free, or nearly."""
    monkeypatch.setattr(clusters, "COLUMNS", 60)
    monkeypatch.setattr(drafts, "WORTH", share)
    for one, other in itertools.combinations(TABLES, 2):
        asked = stacked([one, other, *OTHERS])
        plan_ = factored(asked)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drafts, "_tables", lambda *_: [])
            plain = factored(asked)
        tables = any(isinstance(each, Tables) for each in plan_.solved)
        assert plan_.rmse < plain.rmse * (1 - share) if tables else plan_.rmse == plain.rmse


GROUPED = [
    "SELECT age, COUNT(*), COUNT_IF(sex = 'f'), AVG(smoker) FROM town GROUP BY age",
    "SELECT age, sex, COUNT_IF(smoker), COUNT(*) FROM town WHERE region <> 'n'"
    " GROUP BY ROLLUP (age, sex)",
    "SELECT region, COUNT_IF(age < 2), COUNT_IF(age < 4), COUNT(*) FROM town GROUP BY region"
    " UNION ALL SELECT sex, 0, 0, COUNT(*) FROM town GROUP BY sex",
    "SELECT region, COUNT(*), COUNT_IF(smoker) FROM town GROUP BY region UNION ALL "
    + NOBODY.replace("SUM(age)", "COUNT_IF(smoker)"),
]


@pytest.mark.parametrize("sql", GROUPED)
def test_the_aggregates_of_a_group_are_mixed_alike_in_all_groups(sql: str) -> None:
    """Right without noise, no farther apart than is charged, and with the noise that is said: 2,000
    draws, each variance within 20 % (a false alarm below 1e-9), their mean within 5 %."""
    asked, rng = workload(sql), np.random.default_rng(2)
    made = factored(asked, grouped=True)
    true, bare = asked.matvec(CODES, COUNTS), measured(made)
    for found, block in zip(made.answered(bare, LAW).answers, true, strict=True):
        assert (found == block).all()
    for neighbours in (ADD, REPLACE):
        moved = reach(made.strategy, dataset(neighbours)).squared
        assert moved >= farthest(made.strategy, neighbours)
    squares = [np.zeros(block.shape) for block in true]
    for _ in range(2000):
        noise = [np.rint(rng.normal(0, math.sqrt(LAW.variance), b.shape)) for b in bare]
        values = [b + n.astype(np.int64) for b, n in zip(bare, noise, strict=True)]
        answered = made.answered(values, LAW)
        for total, one, block in zip(squares, answered.noises, true, strict=True):
            total += (one.centre(None) - block) ** 2
    ratios = np.concatenate(
        [
            (total / 2000 / spread.variances).reshape(-1)
            for total, spread in zip(squares, made.spreads(LAW), strict=True)
        ]
    )
    assert (abs(ratios - 1) < 0.2).all() and abs(ratios.mean() - 1) < 0.05


@pytest.mark.parametrize("largest", [False, True])
def test_a_strategy_on_many_cells_is_found_once(
    largest: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second time it comes from the cache on disk, and is the same; a spoilt file is none."""
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path))
    monkeypatch.setattr(clusters, "QUERIES", 3)
    monkeypatch.setattr(drafts, "MANY", 4)
    asked = workload(f"SELECT {', '.join(f'COUNT_IF(age <= {n})' for n in range(5))} FROM town")
    first = factored(asked, largest=largest)
    (kept,) = tmp_path.iterdir()
    finders = [(drafts, "optimum"), (drafts, "smallest_largest")]
    with pytest.MonkeyPatch.context() as patch:
        for module, name in finders:
            patch.setattr(module, name, lambda *_, **__: pytest.fail("it is kept"))
        again = factored(asked, largest=largest)
    assert (first.solved[0].matrix == again.solved[0].matrix).all()
    assert (first.rmse, first.lower) == (again.rmse, again.lower)
    kept.write_bytes(kept.read_bytes()[:-7])
    assert (factored(asked, largest=largest).solved[0].matrix == again.solved[0].matrix).all()
