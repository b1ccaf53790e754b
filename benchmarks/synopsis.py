"""A model of the table fitted to released marginals: `python -m benchmarks synopsis`.

Errors are in rows, beside Gaussian noise on each of 1,000 conjunctions of three columns by itself,
at one total price, (1, 1e-9). Half of the conjunctions are of a row that there is. The noise is
drawn here: what a synopsis pays and how it is asked are not part of this.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks.clock import timed
from benchmarks.figures import Figure, Note
from benchmarks.marginals import GRID, Codes, counts, noise, residual, table, triples
from benchmarks.private_pgm import beside
from benchmarks.rounds import figures
from benchmarks.tables import build
from dpsql.accounting.convert import rho_of
from dpsql.accounting.events import PICO, Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.curator.noise import gaussian
from dpsql.domain import Domain
from dpsql.mechanisms.synopses.entropy import fitted
from dpsql.mechanisms.synopses.expectation import answers
from dpsql.mechanisms.synopses.factors import Factored, of_dense
from dpsql.mechanisms.synopses.growth import FIRST, grown, rooted
from dpsql.mechanisms.synopses.junction import Entangled, Names
from dpsql.mechanisms.synopses.multiplicative import Question, exponential, question
from dpsql.mechanisms.synopses.noisy import linear, total
from dpsql.mechanisms.synopses.purchase import counted
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import And, Leaf

RHO = rho_of(1.0, 1e-9) / PICO
ASKED = 1000
RUNS = 5
LEARNT, LESSONS = 30, 12
SEVEN = ("workclass", "education", "marital_status", "occupation", "race", "sex", "income")
FOURTEEN = (
    "age", "workclass", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week",
    "native_country", "income",
)  # fmt: skip
NINE = ("age", *SEVEN, "relationship")
KEPT = (  # marginals of synthetic rows
    ("age", "marital_status", "income"), ("marital_status", "relationship", "sex"),
    ("education", "education_num"), ("education", "occupation", "income"),
    ("workclass", "occupation"), ("race", "native_country"), ("race", "sex"),
    ("hours_per_week", "income"), ("capital_gain", "income"), ("capital_loss", "income"),
    ("relationship", "sex", "income"),
)  # fmt: skip
UNIVERSES = {
    "10^6": (10,) * 6,
    "10^18": (74, 9, 16, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2, 12),
}
CLIQUES = 1 << 17  # cells of a state that is asked and updated in milliseconds

Asked = tuple[Names, tuple[int, ...]]


def measure(folder: Path) -> Iterator[Figure | Note]:
    """Conjunctions on seven and on fourteen columns, speed, and synthetic rows."""
    database = build("adult", folder, epsilon=1e6)
    yield from _seven(*table(database, SEVEN))
    yield from _chosen(*table(database, SEVEN))
    yield from _fourteen(*table(database, FOURTEEN))
    for name, sizes in UNIVERSES.items():
        yield from _speed(name, sizes)
    yield from _lessons("seven", *table(database, SEVEN))
    yield from _lessons("nine", *table(database, NINE))
    yield _agreement()
    yield from beside(*table(database, FOURTEEN), [*((name,) for name in FOURTEEN), *KEPT], RHO)


def conjunctions(domain: Domain, codes: Codes, seed: int) -> list[Asked]:
    """Values of three columns, half of them those of some row; all different."""
    draw, found = random.Random(seed), dict[Asked, None]()
    many = len(codes[domain.names[0]])
    listed = triples(domain)
    while len(found) < ASKED:
        names = draw.choice(listed)
        row = draw.randrange(many)
        anchored = draw.random() < 0.5
        found[
            names,
            tuple(
                int(codes[name][row]) if anchored else draw.randrange(domain.size(name))
                for name in names
            ),
        ] = None
    return list(found)


def _seven(domain: Domain, codes: Codes) -> Iterator[Figure]:
    """Means of a few runs, each with conjunctions and noise of its own."""
    found = np.array([_run(domain, codes, seed) for seed in range(RUNS)])
    one, most, error, largest, without, spent, away = found.mean(axis=0).tolist()
    name = f"{ASKED} conjunctions on 7 columns by maximum entropy, mean error"
    beside = "rows one by one"
    yield Figure(name, error, "rows", one, beside, 0.09 * one)
    yield Figure("largest error", largest, "rows", most, beside, 0.15 * most)
    yield Figure("the same marginals without a model, mean error", without, "rows", one, beside)
    yield Figure("measuring, fitting and answering, CPU", spent, "s", None, "", 10)
    yield Figure("the fit from the optimum, at most", away, "stderr", None, "", 0.05)


def _run(domain: Domain, codes: Codes, seed: int) -> tuple[float, ...]:
    """Mean and largest error one by one and by the model, mean without it, seconds, distance."""
    asked = conjunctions(domain, codes, seed)
    margins = {names: counts(domain, codes, names) for names in triples(domain)}
    truth = np.array([margins[names][values] for names, values in asked])
    alone = np.abs(noise(ASKED / (2 * RHO), (ASKED,)))
    start = time.process_time()
    tables = residual(domain, codes, triples(domain), RHO)
    fit = fitted(domain, total(tables), tables)
    models = {names: fit.state.marginal(names) for names in triples(domain)}
    error = np.abs(truth - [models[names][values] for names, values in asked])
    spent = time.process_time() - start
    plain = {names: linear(tables, names) for names in triples(domain)}
    without = fmean(np.abs(truth - [plain[names][values] for names, values in asked]))
    sizes = fmean(alone), float(alone.max()), fmean(error), float(error.max())
    return *sizes, without, spent, fit.away


def _chosen(domain: Domain, codes: Codes) -> Iterator[Figure]:
    """The same conjunctions, for which tables are chosen in rounds."""
    asked = conjunctions(domain, codes, 0)
    workload = Workload(domain, tuple(_count(domain, *one) for one in asked))
    yield from figures(workload, codes, RHO, f"{ASKED} conjunctions on 7 columns")


def _count(domain: Domain, names: Names, values: tuple[int, ...]) -> Block:
    leaves = []
    for name, value in zip(names, values, strict=True):
        holds = np.where(np.arange(domain.size(name)) == value, 2, 0)
        leaves.append(Leaf(domain.project([name]), holds.astype(np.uint8)))
    one = Grouping((), np.zeros(1, np.int64))
    return Block(And(tuple(leaves)), (Weight((Term(And(())),)),), (one,))


def _fourteen(domain: Domain, codes: Codes) -> Iterator[Figure]:
    """Too entangled for a model of all marginals: the estimates themselves, cut at 0."""
    asked = conjunctions(domain, codes, RUNS)
    truth = [float(counts(domain, codes, names)[values]) for names, values in asked]
    alone = np.abs(noise(ASKED / (2 * RHO), (ASKED,)))
    tables = residual(domain, codes, triples(domain), RHO)
    by_names = {t.names: t for t in tables}
    found = []
    for names, values in asked:
        near = 0.0
        for r in range(4):
            for kept in itertools.combinations(range(3), r):
                some = by_names[tuple(names[at] for at in kept)]
                others = [domain.size(names[at]) for at in range(3) if at not in kept]
                near += some.values[tuple(values[at] for at in kept)] / math.prod(others)
        found.append(max(near, 0.0))
    error, one = np.abs(np.array(truth) - found), fmean(alone)
    name = f"{ASKED} conjunctions on 14 columns by a residual plan, mean error"
    yield Figure(name, fmean(error), "rows", one, "rows one by one", 0.4 * one)


# -- speed -----------------------------------------------------------------------------------------


def _speed(name: str, sizes: tuple[int, ...]) -> Iterator[Figure]:
    """Multiplicative weights of conjunctions on random columns, but for too entangled ones."""
    draw = random.Random(30)
    domain = Domain(tuple(f"c{at}" for at in range(len(sizes))), sizes)
    state, learnt, refused, updates = Factored(domain, 32_561.0, most=CLIQUES), 0, 0, []
    while learnt < LEARNT:
        asked = _box(domain, draw)

        def update(asked: Question = asked, before: Factored = state) -> Factored:
            found = exponential(before, asked, draw.gauss(0, 1))
            assert found.beliefs
            return found

        start = time.process_time()
        try:
            state = update()
        except Entangled:
            refused += 1
            continue
        updates.append(1e3 * (time.process_time() - start))
        learnt += 1
    queries = [_box(domain, draw).query for _ in range(ASKED)]
    spent = [timed(lambda query=query: answers(state, query))[1] for query in queries]
    what = f"a free answer, {name} cells, {learnt} learnt and {refused} too entangled, p50"
    yield Figure(what, 1e3 * median(spent), "ms", None, "", 1 if name == "10^6" else 3)
    yield Figure("an update by a step, p50 CPU", median(updates), "ms", None, "", 10)


def _box(domain: Domain, draw: random.Random) -> Question:
    """Three columns: a range of those with many values, a value of the others."""
    leaves = []
    for at in draw.sample(range(len(domain.sizes)), 3):
        size = domain.sizes[at]
        low = high = draw.randrange(size)
        if size > 20:
            low, high = sorted(draw.sample(range(size), 2))
        holds = np.where((np.arange(size) >= low) & (np.arange(size) <= high), 2, 0)
        leaves.append(Leaf(domain.project([domain.names[at]]), holds.astype(np.uint8)))
    weight, one = Weight((Term(And(())),)), Grouping((), np.zeros(1, np.int64))
    return question(domain, Workload(domain, (Block(And(tuple(leaves)), (weight,), (one,)),)))


def _lessons(many: str, domain: Domain, codes: Codes) -> Iterator[Figure]:
    """Tables of three columns, one by one, to a fit of all pairs that goes on learning."""
    draw, spent = random.Random(6), []
    ones = [(name,) for name in domain.names]
    first = _stored(domain, codes, [*ones, *itertools.combinations(domain.names, 2)], 0.3 * RHO)
    found = rooted(domain, first, FIRST)
    for names in draw.sample(triples(domain), LESSONS):
        stored = _stored(domain, codes, [names], 0.7 * RHO / LESSONS)
        assert found.state.beliefs  # it was asked before
        start = time.process_time()
        found = grown(found, stored)
        spent.append(1e3 * (time.process_time() - start))
    name = f"an update beside all pairs of {many} columns of adult, p50 CPU"
    yield Figure(name, median(spent), "ms", None, "", 10)
    yield Figure("the longest of them", max(spent), "ms", None, "", 10)


def _stored(domain: Domain, codes: Codes, sets: Sequence[Names], rho: float) -> Stored:
    """Tables as a ledger keeps them, all with the same noise."""
    variance = Fraction(len(sets) / (2 * rho)).limit_denominator(GRID)
    each = []
    for names in sets:
        values = counts(domain, codes, names).reshape(-1, 1).astype(np.int64)
        each.append(values + gaussian(variance, values.size).reshape(-1, 1))
    found = Stored.of(counted(domain, sets), Gaussian(len(sets), variance), [np.concatenate(each)])
    assert found is not None
    return found


def _agreement() -> Figure:
    """Thirty steps on 5,040 cells: the dense table's answers and the factors', parts of a row."""
    draw = random.Random(3)
    domain = Domain(tuple("abcdef"), (7, 6, 5, 4, 3, 2))
    state, dense = Factored(domain, 1.0), of_dense(domain, np.full(domain.sizes, 1 / domain.cells))
    away = 0.0
    for _ in range(LEARNT):
        asked, step = _box(domain, draw), draw.gauss(0, 1)
        state, dense = exponential(state, asked, step), exponential(dense, asked, step)
        away = max(away, abs(asked.share(state) - asked.share(dense)))
    table: NDArray[np.float64] = state.dense() - dense.dense()
    away = max(away, float(np.abs(table).max()))
    return Figure("dense and factored states differ by", away, "", None, "", 1e-12)
