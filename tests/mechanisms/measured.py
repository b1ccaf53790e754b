"""Workloads from SQL over a small domain, and what dense linear algebra says of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.accounting.events import Event, Gaussian
from dpsql.query.canon import Family, families, parts
from dpsql.query.compile import Compiled
from dpsql.query.grid import Grid
from dpsql.query.linear import Workload
from dpsql.schema import loads
from tests.query.exact import compiled

SCHEMA = """
dataset = "town"
unit = "row"
[source]
table = "people"

[columns]
sex = {type = "category", values = ["f", "m"]}
region = {type = "category", values = ["n", "e", "s"]}
age = {type = "integer", min = 0, max = 4}
smoker = {type = "boolean", nullable = true}
"""
DATASET = loads(SCHEMA)
GRID = Grid(DATASET)
DOMAIN = GRID.domain(["age", "region", "sex", "smoker"])
CODES = DOMAIN.grid()
CELLS = DOMAIN.cells


def workload(sql: str) -> Workload:
    """The workload of a statement FROM town."""
    return statement(sql).workload


def statement(sql: str) -> Compiled:
    found = compiled(sql, DATASET, GRID)
    assert isinstance(found, Compiled)
    return found


def matrix(found: Workload) -> np.ndarray:
    """The queries as rows over all cells of the domain: one histogram cell at a time."""
    columns = []
    for cell in range(CELLS):
        codes = {name: array[cell : cell + 1] for name, array in CODES.items()}
        answers = found.matvec(codes, np.ones(1, np.int64))
        columns.append(np.concatenate([block.reshape(-1) for block in answers]))
    return np.array(columns, np.float64).T


def measured(found: Workload, variance: int) -> list[tuple[Family, Event]]:
    """Its families, with Gaussian noise of this variance."""
    listed = [family for block in families(found) for family in block]
    assert all(listed)
    return [(family, Gaussian(1, Fraction(variance))) for family in listed]


def values(found: Workload, answers: list[np.ndarray]) -> list[np.ndarray]:
    """The answers of each family, in the order of its groups."""
    picked = []
    for block, listed, noisy in zip(found.blocks, families(found), answers, strict=True):
        for (start, _, column, _), family in zip(parts(block), listed, strict=True):
            picked.append(noisy[start + family.origin, column])
    return picked
