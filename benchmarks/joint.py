"""A new maximum in a purse of a thousand releases; a long one: `python -m benchmarks joint`.

The releases are counts in random boxes on three columns: values of seven columns of 302,400 cells
(exact), ranges of four numeric columns and values of three others, and values of fourteen columns
(a bound). What is spent stands beside the sum of the single prices.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import median, quantiles

from benchmarks.figures import Figure
from benchmarks.ledger import LONG, lengthen
from dpsql.accounting.events import PICO, Gaussian
from dpsql.accounting.footprints.footprint import Axis, Factor, Footprint, Loss
from dpsql.accounting.ledger import Ledger

COUNT = 1000
RHO = 1_000_000
EVENT = Gaussian(RHO, Fraction(PICO, 2))
SHAPES = {
    "values of 7 columns": ((9, 16, 7, 15, 5, 2, 2), False),
    "ranges and values of 7 columns": ((74, 100, 90, 99, 7, 5, 2), True),
    "values of 14 columns": ((74, 9, 16, 16, 7, 15, 6, 5, 2, 100, 90, 99, 42, 2), False),
}


def interval(name: str, low: int, high: int, size: int) -> Axis:
    """The codes from `low` up to `high` are class 1, the others 0."""
    runs = {0: 0, low: 1, high: 0} if low else {0: 1, high: 0}
    kept = {start: code for start, code in runs.items() if start < size}
    return Axis(name, tuple(kept), tuple(kept.values()))


def box(draw: random.Random, sizes: Sequence[int], ranges: bool) -> Footprint:
    """A count of the people in a box of three columns; low codes are asked for more often."""
    axes = []
    for column in sorted(draw.sample(range(len(sizes)), 3)):
        size = sizes[column]
        low = min(int(draw.expovariate(8 / size)), size - 1)
        high = low + 1
        if ranges and size > 20:
            low, high = sorted(draw.sample(range(0, size, 5), 2))
        axes.append(interval(f"c{column}", low, high, size))
    return Footprint(Loss(0, (Factor(tuple(axes), (0,) * 7 + (RHO,)),), RHO), None)


def timed(work: Callable[[], object]) -> float:
    """Processor milliseconds of a call."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def shape(name: str, ledger: Ledger) -> Iterator[Figure]:
    """A thousand releases of one shape, and then some more."""
    sizes, ranges = SHAPES[name]
    draw = random.Random(20261128)
    ledger.grant("alice", dataset=name, epsilon=1e6)

    def charge(footprint: Footprint) -> None:
        ledger.charge("alice", name, EVENT, statement="", footprint=footprint)

    for _ in range(COUNT):
        charge(box(draw, sizes, ranges))
    spent = ledger.balance("alice", name).spent_rho / RHO
    yield Figure(f"{name}: spent", spent, "prices", COUNT, "prices")
    more = [box(draw, sizes, ranges) for _ in range(300)]
    rises = [timed(lambda f=f: ledger.rise("alice", name, EVENT, footprint=f)) for f in more]
    paid = [timed(lambda f=f: charge(f)) for f in more]
    yield Figure(f"{name}: the rise, median CPU", median(rises), "ms", target=5)
    yield Figure(f"{name}: a charge, median CPU", median(paid), "ms", target=5)
    yield Figure(f"{name}: a charge, 95 of 100, CPU", quantiles(paid, n=20)[-1], "ms")


def measure(folder: Path) -> Iterator[Figure]:
    """Charges in memory, where no disk is waited for; then a file with a long log."""
    with Ledger.memory() as ledger:
        for name in SHAPES:
            yield from shape(name, ledger)
    path = folder / "a.ledger"
    sizes, ranges = SHAPES["values of 7 columns"]
    draw = random.Random(1)

    def charge(ledger: Ledger) -> None:
        asked = box(draw, sizes, ranges)
        ledger.charge("alice", "adult", EVENT, statement="", footprint=asked)

    with Ledger.open(path) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
        for _ in range(1200):
            charge(ledger)
    for name in ("of 1,200 charges", f"of {LONG:,} more"):
        if name != "of 1,200 charges":
            lengthen(path)
        opened = []

        def first() -> None:
            with Ledger.open(path, create=False) as ledger:
                charge(ledger)

        for _ in range(9):
            opened.append(timed(first))
        yield Figure(f"opened {name}, first charge, CPU", median(opened), "ms", target=200)
        with Ledger.open(path, create=False) as ledger:
            paid = [timed(lambda: charge(ledger)) for _ in range(200)]
            yield Figure(f"a charge to a file {name}, median CPU", median(paid), "ms")


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["joint"])
