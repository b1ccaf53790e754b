"""Planning never harms: no handed statement errs more, or costs more, than with plain noise."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from dpsql.accounting.purse import Grant
from dpsql.errors import UsageError
from dpsql.mechanisms.intervals.noises import error
from dpsql.mechanisms.strategies.plans import MANY
from dpsql.planner import Asked, Choice, Terms, choose
from dpsql.query.compile import Compiled
from dpsql.query.grid import Grid
from dpsql.schema import Dataset, load
from dpsql.session.build import widest
from dpsql.session.scripts.joint import joint, scaled
from tests.cases.published import cases
from tests.query.exact import compiled

CASES = cases("accept.csv")
TERMS = Terms.of(Grant.of("alice", "d", 1e4, 1e-6, "now"))
PRICES = (1e-4, 0.01, 1.0, 30.0, 1000.0)  # rho
HALVES = (0.4, 1.0, 2.0, 3.5, 20.0, 1e4)  # of intervals, in the units of the outputs


@functools.cache
def opened(table: str) -> tuple[Dataset, Grid]:
    dataset = load(Path(__file__).parents[2] / "schemas" / f"{table}.toml")
    return dataset, Grid(dataset)


def asked(case: dict[str, str]) -> tuple[Compiled, Dataset]:
    dataset, grid = opened(case["table"])
    found = compiled(case["sql"], dataset, grid)
    assert isinstance(found, Compiled)
    return found, dataset


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_no_statement_errs_more_than_with_plain_noise(case: dict[str, str]) -> None:
    """At one price: root mean square, or the largest error where that is what is to be least."""
    found, dataset = asked(case)
    workload = found.workload

    def errors(choice: Choice, rho: float) -> tuple[float, float]:
        assert choice.price.rho <= rho
        noises = choice.noises(workload)
        return error(workload, noises), max(noise.worst for noise in noises) ** 0.5

    for rho in PRICES:
        plain = errors(choose(workload, dataset, Asked(rho=rho, backend="gaussian"), TERMS), rho)
        for at, objective in enumerate(("total", "largest")):
            for backend in ("auto", "factorization"):
                ask = Asked(rho=rho, backend=backend, objective=objective)
                planned = errors(choose(workload, dataset, ask, TERMS), rho)
                assert planned[at] <= plain[at] * (1 + 1e-6), (rho, objective, backend)


BY_SEX = [
    f"SELECT sex, education, COUNT(*) FROM adult WHERE age <= {n} GROUP BY sex, education"
    for n in range(17, 60)
]
AGES = [f"SELECT COUNT(*) FROM adult WHERE age <= {n}" for n in range(17, 91)]
CROSSED = [
    f"SELECT COUNT(*) FROM adult WHERE age <= {n} AND hours_per_week BETWEEN {low} AND {low + 20}"
    for n in range(17, 90, 3)
    for low in range(1, 75, 3)
]
BESIDE = ["SELECT sex, AVG(age) FROM adult GROUP BY sex", "SELECT COUNT(*) FROM adult"]
SCRIPTS = {"one product": BY_SEX, "crossed": CROSSED, "a union": [*BY_SEX, *AGES, *BESIDE]}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("objective", ["total", "largest"])
def test_no_script_of_products_errs_more_than_with_plain_noise(name: str, objective: str) -> None:
    """The same of scripts that Kronecker products answer, or are weighed for."""
    listed = [asked({"table": "adult", "sql": sql}) for sql in SCRIPTS[name]]
    dataset = listed[0][1]
    stacked = [one.workload for one in scaled([one for one, _ in listed], [1.0] * len(listed))]
    assert sum(workload.size for workload in stacked) > MANY
    for rho in (1e-4, 1.0, 1000.0):

        def told(backend: str, rho: float = rho) -> float:
            ask = Asked(rho=rho, backend=backend, objective=objective)
            found = joint(stacked, dataset, ask, TERMS)
            assert found.choice.price.rho <= rho
            noises = found.choice.noises(found.workload)
            if objective == "largest":
                return max(noise.worst for noise in noises) ** 0.5
            return error(found.workload, noises)

        assert told("auto") <= told("gaussian") * (1 + 1e-6), rho


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_no_accuracy_costs_more_than_with_plain_noise(case: dict[str, str]) -> None:
    found, dataset = asked(case)
    width = widest(found, 0.95)

    def price(half: float, backend: str, objective: str) -> int | None:
        ask = Asked(backend=backend, objective=objective, accuracy=half, widest=width)
        try:
            return choose(found.workload, dataset, ask, TERMS).event.rho
        except UsageError:  # a ratio's interval depends on the answer
            return None

    for half in HALVES:
        plain = price(half, "gaussian", "total")
        for objective in ("total", "largest"):
            for backend in ("auto", "factorization"):
                planned = price(half, backend, objective)
                if plain is None:
                    assert planned is None
                else:
                    assert planned is not None and planned <= plain, (half, objective, backend)
