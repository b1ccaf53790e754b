"""Noise drawn ahead is given once: to threads, after exceptions, and to forked children."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from dpsql.curator import pool as pools
from dpsql.curator.pool import BLOCK, LAWS, Pool


class Counter:
    """A sampler that gives every integer once, so that a value given twice shows."""

    def __init__(self) -> None:
        self._next = itertools.count()
        self._lock = threading.Lock()
        self.drawn: list[int] = []

    def __call__(self, size: int) -> np.ndarray:
        with self._lock:
            self.drawn.append(size)
            return np.array(list(itertools.islice(self._next, size)), np.int64)


LAW = ("gaussian", 1, 1)


def test_values_are_given_once_in_every_size():
    pool, draw = Pool(), Counter()
    taken = [pool.take(LAW, size, draw) for size in [1, 3, 0, 100, BLOCK - 1, BLOCK, 700, 1] * 20]
    values = np.concatenate(taken)
    assert np.unique(values).size == values.size
    assert [part.size for part in taken[:8]] == [1, 3, 0, 100, BLOCK - 1, BLOCK, 700, 1]


def test_a_small_draw_is_cut_from_a_block_drawn_before():
    pool, draw = Pool(), Counter()
    for _ in range(BLOCK + 1):
        pool.take(LAW, 1, draw)
    assert draw.drawn == [BLOCK + 1]


def test_threads_never_share_a_value():
    pool, draw = Pool(), Counter()
    taken: list[np.ndarray] = []

    def work() -> None:
        taken.extend(pool.take(LAW, 1 + i % 7, draw) for i in range(500))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = np.concatenate(taken)
    assert len(taken) == 4000
    assert np.unique(values).size == values.size


def test_an_exception_loses_noise_and_repeats_none():
    pool, draw = Pool(), Counter()
    first = pool.take(LAW, 10, draw)

    def fails(size: int) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.take(LAW, 10 * BLOCK, fails)
    second = pool.take(LAW, 10, draw)
    assert not set(first.tolist()) & set(second.tolist())


def test_the_pool_stays_small():
    pool, draw = Pool(), Counter()
    for variance in range(1, 200):
        pool.take(("gaussian", variance, 1), 1, draw)
    assert len(pool._spare) == LAWS
    assert sum(block.size for block in pool._spare.values()) <= LAWS * BLOCK


def test_laws_do_not_mix():
    pool = Pool()
    for name in ("gaussian", "laplace"):
        for p, q in ((1, 1), (1, 2), (2, 1)):
            mark = hash((name, p, q))
            got = pool.take((name, p, q), 5, lambda n, m=mark: np.full(n, m, np.int64))
            assert (got == mark).all()


def test_what_was_given_can_be_written_without_touching_the_pool():
    pool, draw = Pool(), Counter()
    pool.take(LAW, 3, draw)[:] = -1
    assert (pool.take(LAW, BLOCK, draw) >= 0).all()


def test_a_process_that_finds_itself_forked_starts_afresh(monkeypatch):
    pool, draw = Pool(), Counter()
    parent = pool.take(LAW, 1, draw)
    monkeypatch.setattr(pools.os, "getpid", lambda: -1)
    assert pool.take(LAW, 1, draw).tolist() == [BLOCK + 1]
    assert parent.tolist() == [0]


def test_a_fork_in_the_middle_of_a_draw_draws_again():
    pool, draw = Pool(), Counter()

    def forks(size: int) -> np.ndarray:
        if not draw.drawn:
            pool.forget()  # what a forked child does first
        return draw(size)

    assert pool.take(LAW, 1, forks).tolist() == [BLOCK + 1]
    assert pool.take(LAW, 1, forks).tolist() == [BLOCK + 2]
