"""Noisy marginals of a table of codes, as a mechanism would release them; no session, no ledger.

The curator's samplers draw the noise. A benchmark may count without paying: nobody sees its tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.curator.noise import gaussian
from dpsql.domain import Domain
from dpsql.mechanisms.strategies.axes import Identity
from dpsql.mechanisms.strategies.residual import plan
from dpsql.mechanisms.synopses.ascent import centred
from dpsql.mechanisms.synopses.junction import Floats, Names
from dpsql.mechanisms.synopses.noisy import NoisyTable, whole
from dpsql.schema import load

Codes = dict[str, NDArray[np.int64]]

GRID = 1 << 10  # of the noise: multiples of 1/1024 row
WIDTHS = {"capital_gain": 1000, "capital_loss": 50}  # of bins


def table(database: Path, columns: Sequence[str]) -> tuple[Domain, Codes]:
    """The codes of a table's columns, capital gains and losses in bins."""
    declared = load(database.with_suffix(".toml"))
    codes, sizes = {}, []
    with duckdb.connect(str(database), read_only=True) as plain:
        for name in columns:
            column = declared.column(name)
            listed = plain.execute(f"SELECT {name} FROM {declared.name}").fetchall()
            known = {value: column.size if value is None else column.code(value)
                     for (value,) in set(listed)}  # fmt: skip
            width = WIDTHS.get(name, 1)
            codes[name] = np.array([known[value] for (value,) in listed], np.int64) // width
            sizes.append(-(-column.cells // width))
    return Domain(tuple(columns), tuple(sizes)), codes


def counts(domain: Domain, codes: Codes, names: Sequence[str]) -> Floats:
    """A marginal."""
    some = domain.project(names)
    many = len(codes[domain.names[0]])
    at = some.index(codes, many) if names else np.zeros(many, np.int64)
    return np.bincount(at, minlength=some.cells).astype(np.float64).reshape(some.sizes)


def noise(variance: float, shape: tuple[int, ...]) -> Floats:
    """Discrete Gaussian noise on a fine grid."""
    drawn = gaussian(Fraction(variance) * GRID**2, math.prod(shape))
    return drawn.astype(np.float64).reshape(shape) / GRID


def residual(domain: Domain, codes: Codes, sets: Sequence[Names], rho: float) -> list[NoisyTable]:
    """The residual tables of some marginals at the best plan for `rho` together."""
    place = {name: at for at, name in enumerate(domain.names)}
    listed = [tuple(place[name] for name in names) for names in sets]
    found = plan([Identity(size) for size in domain.sizes], listed)
    tables = []
    for columns, share in zip(found.closure.columns, found.shares.tolist(), strict=True):
        names = tuple(domain.names[at] for at in columns)
        moved = math.prod(1 - 1 / domain.sizes[at] for at in columns)  # |C e_x|^2
        variance = moved / (2 * rho * share)
        values = counts(domain, codes, names)
        values = centred(values + noise(variance, values.shape))
        classes = tuple(np.arange(domain.sizes[at]) for at in columns)
        tables.append(NoisyTable(names, classes, values, variance, bool(columns)))
    return tables


def alike(domain: Domain, codes: Codes, sets: Sequence[Names], rho: float) -> list[NoisyTable]:
    """The marginals themselves, all with the same noise."""
    variance = len(sets) / (2 * rho)
    found = []
    for names in sets:
        values = counts(domain, codes, names)
        found.append(whole(domain, names, values + noise(variance, values.shape), variance))
    return found


def triples(domain: Domain) -> list[Names]:
    return list(itertools.combinations(domain.names, 3))
