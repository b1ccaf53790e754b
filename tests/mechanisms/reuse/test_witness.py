"""A few cells never say that a query follows from nothing where it does, and mostly where not."""

from __future__ import annotations

import itertools
import random

import numpy as np

from dpsql.mechanisms.reuse.witness import _may_combine
from dpsql.query.canon import families
from tests.mechanisms.measured import workload

ASKED = [
    *(f"age {op} {n}" for op in ("<", ">=", "=") for n in (1, 2, 3)),
    *(f"sex = '{sex}'" for sex in "fm"),
    *(f"region {op} '{region}'" for op in ("=", "<>") for region in "nes"),
    "smoker",
    "smoker IS NULL",
    "region IN ('n', 'e')",
    "age BETWEEN 1 AND 2",
]
PAIRS = [f"{a} AND {b}" for a, b in itertools.combinations(ASKED, 2)]
SUMS = ["age", "CASE WHEN sex = 'f' THEN 2 ELSE age END"]
GROUPED = [f"SELECT {by}, COUNT(*) FROM town GROUP BY {by}" for by in ("sex", "age", "sex, region")]
LISTED = [
    *(f"SELECT COUNT(*) FROM town WHERE {where}" for where in (*ASKED, *PAIRS)),
    *(f"SELECT SUM({each}) FROM town WHERE {where}" for each in SUMS for where in ASKED),
]


def on_all_cells(family, sizes):
    """The queries of a family on the cells of all columns."""
    cells = dict(zip(sizes, np.indices([*sizes.values()]).reshape(len(sizes), -1), strict=True))
    at = np.zeros(len(next(iter(cells.values()))), np.int64)
    for (name, classes), size in zip(family.classes.items(), family.shape, strict=True):
        at = at * size + classes[cells[name]]
    own = family.groups[at] == np.arange(family.met)[:, None]
    return np.where(own, family.weights[at], 0).astype(float)


def test_a_query_that_a_few_cells_speak_against_is_no_combination():
    draw, found = random.Random(3), {True: [0, 0], False: [0, 0]}
    known = {sql: families(workload(sql))[0][0] for sql in (*LISTED, *GROUPED)}
    sizes = {n: len(c) for family in known.values() for n, c in family.classes.items()}
    for turn in range(300):
        # half of them of one pair of columns, of which many follow
        of = draw.choice(PAIRS).split(" AND ") if turn % 2 else [""]
        listed = [sql for sql in LISTED if all(part in sql for part in of)] if turn % 3 else LISTED
        some = [draw.choice(listed) for _ in range(draw.randint(1, 20))]
        some += draw.sample(GROUPED, draw.randint(0, 2))
        sql = draw.choice(listed)
        rows = np.concatenate([on_all_cells(known[one], sizes) for one in some])
        asked = on_all_cells(known[sql], sizes).sum(axis=0)
        left = asked - rows.T @ np.linalg.lstsq(rows.T, asked, rcond=None)[0]
        follows = bool(np.abs(left).max() < 1e-6)
        said = _may_combine(known[sql], [known[one] for one in some])
        assert said or not follows, (sql, some)
        found[follows][said] += 1
    assert found[True][True] > 30 and found[False][False] > 100
    assert found[False][True] < 0.4 * found[False][False]  # else it would be of little use
