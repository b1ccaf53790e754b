"""A report beside SmartNoise, at one total price: `python -m benchmarks smartnoise`.

Only counts and grouped counts: means of predicates it does not answer. It has (1, 1e-6) for these
alone, dpsql for the means as well; its odometer composes, its groups are all listed (not censored),
and a person has one row. Errors are in rows, against plain DuckDB's own answers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb

from benchmarks.accuracy import RHO
from benchmarks.factorization import report
from benchmarks.figures import Figure, Note
from benchmarks.tables import build
from dpsql.schema import Kind, load
from dpsql.session import Session

EPSILON, DELTA = 1.0, 1e-6
SLACK = 0.9  # of delta, which its odometer spends on composing
RUNS = 5  # of either: the ratio of one has a standard deviation of a tenth of itself
Groups = Mapping[Any, float]


def measure(folder: Path) -> Iterator[Figure | Note]:
    """The mean error of the counts of a report, both systems in one run."""
    try:
        import snsql  # noqa: F401
    except ImportError:
        yield Note("not measured: pip install smartnoise-sql")
        return
    database = build("adult", folder, epsilon=1e6)
    listed = report()
    counts = [sql for sql in listed if "AVG" not in sql]
    with duckdb.connect(str(database), read_only=True) as plain:
        truth = [_groups(plain.execute(sql).fetchall()) for sql in counts]
    ours, theirs = [], []
    with Session(database, user="alice", settings={"reuse": False}) as session:
        for _ in range(RUNS):
            releases = dict(zip(listed, session.run(";\n".join(listed), rho=RHO), strict=True))
            ours.append(_error([_groups(releases[sql].rows) for sql in counts], truth))
            rows = _answers(database, counts)
            theirs.append(_error([_groups(some) for some in rows], truth))
    name = f"{len(counts)} counts and GROUP BYs of a report in (1, 1e-6), mean error"
    beside = fmean(theirs)
    yield Figure(name, fmean(ours), "rows", beside, "rows SmartNoise", 0.3 * beside)


def _groups(rows: Sequence[tuple[Any, ...]]) -> Groups:
    """The count of each group; of one count under None."""
    return {row[0] if len(row) > 1 else None: row[-1] for row in rows}


def _error(found: Sequence[Groups], truth: Sequence[Groups]) -> float:
    """The mean over statements of the mean over the groups that there are."""
    return fmean(
        fmean(abs(one.get(key, 0) - count) for key, count in true.items())
        for one, true in zip(found, truth, strict=True)
        if true
    )


def _answers(database: Path, counts: Sequence[str]) -> list[list[tuple[Any, ...]]]:
    from snsql import Privacy, from_df

    logging.disable(logging.WARNING)
    with duckdb.connect(str(database), read_only=True) as plain:
        rows = plain.execute("SELECT * FROM adult").df()
    price = Privacy(epsilon=_share(len(counts)), delta=(1 - SLACK) * DELTA / len(counts))
    reader = from_df(rows, privacy=price, metadata=_metadata(database, len(rows)))
    found = []
    for sql in counts:
        _, *answers = reader.execute(sql.replace("FROM adult", "FROM A.adult"))
        found.append([tuple(row) for row in answers])
    logging.disable(logging.NOTSET)
    return found


def _share(many: int) -> float:
    """The epsilon of each of so many counts by its own odometer, or by sums where that is more."""
    from snsql import Privacy
    from snsql.sql.odometer import OdometerHeterogeneous

    low, high = EPSILON / many, EPSILON
    for _ in range(40):
        middle = (low + high) / 2
        odometer = OdometerHeterogeneous(Privacy(epsilon=middle, delta=SLACK * DELTA))
        for _ in range(many):
            odometer.spend(Privacy(epsilon=middle, delta=0.0))
        low, high = (middle, high) if odometer.spent[0] <= EPSILON else (low, middle)
    return low


def _metadata(database: Path, rows: int) -> dict[str, Any]:
    columns: dict[str, Any] = {"row_privacy": True, "rows": rows, "censor_dims": False}
    for column in load(database.with_suffix(".toml")).columns:
        columns[column.name] = {"type": "string"}
        if column.kind is Kind.INTEGER:
            bounds = {"lower": column.minimum, "upper": column.maximum}
            columns[column.name] = {"type": "int", **bounds}
    return {"": {"A": {"adult": columns}}}
