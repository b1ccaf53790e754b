"""Which SELECTs are planned together: each once, by their columns, while these can be listed."""

from __future__ import annotations

import random

import pytest

from dpsql.mechanisms.strategies import clusters
from dpsql.mechanisms.strategies.clusters import Cluster
from dpsql.mechanisms.strategies.factorization import factored
from dpsql.query.linear import Workload
from tests.mechanisms.measured import DOMAIN, workload

CONDITIONS = {
    "age": ["age < 2", "age > 1", "age BETWEEN 1 AND 3", "age IN (0, 4)"],
    "region": ["region = 'n'", "region <> 'e'", "region > 'e'"],
    "sex": ["sex = 'f'", "sex = 'm'"],
    "smoker": ["smoker", "NOT smoker", "smoker IS NULL"],
}


def counts(seed: int, many: int = 24) -> Workload:
    """Counts of conditions on two columns each."""
    rng = random.Random(seed)
    listed = []
    for _ in range(many):
        two = rng.sample(sorted(CONDITIONS), 2)
        where = " AND ".join(rng.choice(CONDITIONS[name]) for name in two)
        listed += workload(f"SELECT COUNT(*) FROM town WHERE {where}").blocks
    return Workload(DOMAIN, tuple(listed))


def listed(asked: Workload) -> list[Cluster]:
    return clusters.clusters(asked, range(len(asked.blocks)))


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the columns of all together were too many."""
    monkeypatch.setattr(clusters, "COLUMNS", 40)
    monkeypatch.setattr(clusters, "PARTS", 20)


@pytest.mark.parametrize("seed", range(6))
def test_every_block_is_in_one_cluster_that_is_listed(seed: int) -> None:
    found = listed(counts(seed))
    assert len(found) > 1
    assert sorted(at for cluster in found for at in cluster.places) == list(range(24))
    for cluster in found:
        assert list(cluster.places) == sorted(cluster.places)
        assert cluster.columns is not None and cluster.columns.size <= clusters.COLUMNS
        assert cluster.whole and cluster.workload.size == len(cluster.places)


def test_parts_by_columns_err_less_than_parts_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over some scripts, and in most of them."""
    pairs = []
    for seed in range(12):
        asked = counts(seed)
        mine = factored(asked).rmse
        with monkeypatch.context() as patch:
            patch.setattr(clusters, "_halves", lambda _, p: (p[: len(p) // 2], p[len(p) // 2 :]))
            patch.setattr(clusters, "_merged", lambda _, parts: list(parts))
            pairs.append((mine, factored(asked).rmse))
    assert sum(a for a, _ in pairs) < 0.95 * sum(b for _, b in pairs)
    assert sum(a < b for a, b in pairs) >= 9


def test_what_can_be_listed_together_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which leaves no more parts, and no more error."""
    for seed in range(6):
        asked = counts(seed, 12)
        with monkeypatch.context() as patch:
            patch.setattr(clusters, "_merged", lambda _, parts: list(parts))
            apart = listed(asked)
        together = listed(asked)
        assert len(together) <= len(apart)
        assert factored(asked).rmse <= 1.001 * sum(
            factored(each.workload).rmse * len(each.places) ** 0.5 / 12**0.5 for each in apart
        )


def test_halves_are_told_apart_by_a_column_that_half_of_them_mention() -> None:
    (a,), (b,), (c,) = (
        workload(f"SELECT COUNT(*) FROM town WHERE {where}").blocks
        for where in ("age < 2 AND smoker", "age > 1 AND sex = 'f'", "region = 'n' AND smoker")
    )
    asked = Workload(DOMAIN, (a, c, b, c))
    one, other = clusters._halves(asked, range(4))
    assert sorted([one, other]) == [[0, 2], [1, 3]]
    assert clusters._halves(Workload(DOMAIN, (a, a)), range(2)) == ([0], [1])
