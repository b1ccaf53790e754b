"""Draws of noise beside OpenDP's, and whether time tells size: `python -m benchmarks noise`.

All of it: `python -m benchmarks.noise`. Compare ratios, not seconds: machines differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure
from dpsql.curator import noise

MILLION = 1_000_000
ANSWERS = 20_000


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def opendp_rate(kind: str, spread: float, size: int = 20_000) -> float | None:
    """Draws a second of OpenDP's vector sampler; None where it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "gaussian":
        measure = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=spread)
    else:
        measure = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=spread)
    zeros = [0] * size
    return size / seconds(lambda: measure(zeros))


def measure(folder: Path) -> Iterator[Figure]:
    """A million draws, one draw, and the rank correlation of time and size."""
    del folder
    for kind, spread in (("gaussian", 10.0), ("laplace", 10.0)):
        exact = Fraction(spread)
        if kind == "gaussian":
            taken = seconds(partial(noise.gaussian, exact**2, MILLION))
        else:
            taken = seconds(partial(noise.laplace, exact, MILLION))
        theirs = opendp_rate(kind, spread)
        other = MILLION / theirs if theirs else None
        yield Figure(f"a million draws, {kind} {spread:g}, CPU", taken, "s", other, "s OpenDP", 3)
    yield Figure("one draw, wall", float(np.median(latencies(Fraction(100), 1)[0])) / 1e3, "us")
    times, sizes = latencies(Fraction(100), 1)
    shuffled = np.random.default_rng().permutation(ANSWERS)  # ties in random order
    rank = abs(float(np.corrcoef(ranks(times[shuffled]), ranks(sizes[shuffled]))[0, 1]))
    yield Figure("rank correlation of the time and the size of a draw", rank, "", target=0.05)


def throughput() -> None:
    print(f"{'law':<24}{'a million, CPU s':>18}{'draws/s':>14}{'OpenDP':>12}{'ratio':>8}")
    rows = [("gaussian", spread) for spread in (0.5, 1.0, 5.0, 1000.0, 2.0**40)]
    rows += [("laplace", spread) for spread in (0.5, 1.0, 5.0, 1000.0, 2.0**40)]
    for kind, spread in rows:
        exact = Fraction(spread)
        if kind == "gaussian":
            taken = seconds(partial(noise.gaussian, exact**2, MILLION))
        else:
            taken = seconds(partial(noise.laplace, exact, MILLION))
        theirs = opendp_rate(kind, spread)
        rate = MILLION / taken
        peer = f"{theirs:>12,.0f}{rate / theirs:>8.1f}" if theirs else f"{'absent':>12}{'':>8}"
        print(f"{kind + f' {spread:g}':<24}{taken:>18.3f}{rate:>14,.0f}{peer}")


def small_draws() -> None:
    print(f"\n{'small draws, stddev 10':<24}{'median us':>18}{'mean us':>14}{'99.9 % us':>12}")
    for size in (1, 10, 100):
        times = latencies(Fraction(100), size)[0] / 1e3
        high = np.quantile(times, 0.999)
        print(f"{f'of {size}':<24}{np.median(times):>18.1f}{times.mean():>14.1f}{high:>12.1f}")
    fresh = []
    for i in range(500):
        variance = Fraction(10_000 + i, 101)
        start = time.perf_counter_ns()
        noise.gaussian(variance, 1)
        fresh.append((time.perf_counter_ns() - start) / 1e3)
    print(f"{'of 1, a law never seen':<24}{np.median(fresh):>18.1f}{np.mean(fresh):>14.1f}")


def latencies(variance: Fraction, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Nanoseconds and largest magnitude of many draws."""
    times, sizes = np.empty(ANSWERS), np.empty(ANSWERS)
    noise.gaussian(variance, size)
    for i in range(ANSWERS):
        start = time.perf_counter_ns()
        values = noise.gaussian(variance, size)
        times[i] = time.perf_counter_ns() - start
        sizes[i] = np.abs(values).max()
    return times, sizes


def ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)


def correlation() -> None:
    print(f"\n{'time against size':<24}{'rank corr.':>18}{'corr.':>14}   (limit 0.05)")
    for sigma in (1, 10, 1000, 2**40):
        times, sizes = latencies(Fraction(sigma) ** 2, 1)
        shuffled = np.random.default_rng().permutation(ANSWERS)  # ties in random order
        rank = np.corrcoef(ranks(times[shuffled]), ranks(sizes[shuffled]))[0, 1]
        plain = np.corrcoef(times, sizes)[0, 1]
        print(f"{f'gaussian {sigma:g}':<24}{rank:>18.4f}{plain:>14.4f}")


if __name__ == "__main__":
    throughput()
    small_draws()
    correlation()
