"""The samplers: exact on every path, from the system's bits, never the same twice."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpsql
from dpsql.curator import noise
from dpsql.curator.bernoulli import Uniform
from dpsql.curator.bits import BLOCK, SYSTEM

PACKAGE = Path(dpsql.__file__).parent
BIG = 3**90  # beyond 64 bits


class Tape:
    """A seeded source of words that counts what is read."""

    def __init__(self, seed: int) -> None:
        self._source = np.random.default_rng(seed)
        self.read = 0

    def words(self, count: int) -> np.ndarray:
        self.read += count
        return self._source.integers(0, 2**64, count, np.uint64)


def all_exact(monkeypatch):
    """Decide every coin by integer arithmetic."""

    def bernoulli(x, exact, bits):
        words = bits.words(x.size).tolist()
        coins = [Uniform(word, bits).below_exp(*exact(i)) for i, word in enumerate(words)]
        return np.array(coins, np.bool_)

    def geometric(count, bits):
        depths = [Uniform(word, bits).depth() for word in bits.words(count).tolist()]
        return np.array(depths, np.int64)

    monkeypatch.setattr(noise, "bernoulli", bernoulli)
    monkeypatch.setattr(noise, "geometric", geometric)


VARIANCES = [
    Fraction(1, 10**6),
    Fraction(1, 2000),
    Fraction(1, 4),
    Fraction(1),
    Fraction(73, 10),
    Fraction(10**4),
    Fraction(BIG, 3**80),
    Fraction(2**112 - 1),
    Fraction(2**112),
]
SCALES = [
    Fraction(1, 1000),
    Fraction(1, 3),
    Fraction(1),
    Fraction(7, 2),
    Fraction(1000, 7),
    1 / Fraction(0.1),
    Fraction(2**56),
    Fraction(BIG, 3**80 + 1),
    Fraction(BIG + 1, BIG),
    Fraction(10**400 + 1, 10**399),
]


@pytest.mark.parametrize("variance", VARIANCES, ids=float)
def test_gaussian_equals_its_all_exact_path_on_the_same_bits(variance, monkeypatch):
    fast, slow = Tape(5), Tape(5)
    quick = noise.gaussian(variance, 150, bits=fast)
    all_exact(monkeypatch)
    assert quick.tolist() == noise.gaussian(variance, 150, bits=slow).tolist()
    assert fast.read == slow.read


@pytest.mark.parametrize("scale", SCALES, ids=float)
def test_laplace_equals_its_all_exact_path_on_the_same_bits(scale, monkeypatch):
    fast, slow = Tape(6), Tape(6)
    quick = noise.laplace(scale, 150, bits=fast)
    all_exact(monkeypatch)
    assert quick.tolist() == noise.laplace(scale, 150, bits=slow).tolist()
    assert fast.read == slow.read


@pytest.mark.parametrize("scale", SCALES, ids=float)
def test_exponential_equals_its_all_exact_path_on_the_same_bits(scale, monkeypatch):
    fast, slow = Tape(9), Tape(9)
    quick = noise.exponential(scale, 150, bits=fast)
    all_exact(monkeypatch)
    assert quick.tolist() == noise.exponential(scale, 150, bits=slow).tolist()
    assert fast.read == slow.read
    assert quick.min() >= 0


@pytest.mark.parametrize("limit", [1, 2, 3, 1000, 2**63 - 1, 2**63])
def test_a_number_below_a_limit_is_the_word_in_whole_turns(limit):
    """The words of the last, incomplete turn are drawn again."""

    class Words:
        def words(self, count: int) -> np.ndarray:
            return np.resize(np.array(listed, np.uint64), count)

    turns = 2**64 // limit * limit
    listed = [turns - 1, *range(turns, min(turns + 2, 2**64)), 0]
    assert noise.below(limit, 4, bits=Words()).tolist() == [limit - 1, 0] * 2
    assert noise.below(limit, 0).shape == (0,)
    with pytest.raises(ValueError, match="limit"):
        noise.below(0, 1)


@pytest.mark.parametrize("t", [1 << 57, (1 << 57) + 12345, 3**37])
def test_the_wide_path_follows_the_same_algorithm(t, monkeypatch):
    """The 64-bit path, forced on a scale just beyond it, gives the same values."""
    wide, _ = noise._wide_sizes(t, t // 1000, 400, Tape(7))
    assert wide.size > 100
    assert 0 <= wide.min() <= wide.max() < 40_000
    narrow = (1 << 57) - 1
    ordinary = noise._sizes(narrow, narrow // 1000, 400, Tape(7))
    for found, known in zip(
        noise._wide_sizes(narrow, narrow // 1000, 400, Tape(7)), ordinary, strict=True
    ):
        assert found.tolist() == known.tolist()


class TopFirst(Tape):
    """The largest words there are, once; then random ones."""

    def words(self, count: int) -> np.ndarray:
        if self.read:
            return super().words(count)
        self.read += count
        return np.full(count, 2**64 - 1, np.uint64)


@pytest.mark.parametrize("t", [3, 1000, 3 * 2**50, 3 * 2**60, 3**60])
def test_the_incomplete_last_turn_is_refused(t, monkeypatch):
    """2^63 is no multiple of t: its last remainders would come once too often."""
    monkeypatch.setattr(noise, "bernoulli", lambda x, exact, bits: np.ones(x.size, np.bool_))
    assert noise._proposals(t, 1 << 40, 64, TopFirst(1)).size == 0
    assert noise._proposals(t, 1 << 40, 64, Tape(1)).size > 0


def test_a_deep_geometric_draw_takes_the_wide_road(monkeypatch):
    """V >= 63 comes once in 2^90 draws; t V would pass 2^63, the quotient does not."""
    monkeypatch.setattr(noise, "geometric", lambda count, bits: np.full(count, 100, np.int64))
    t = (1 << 57) - 1
    values = noise._proposals(t, 3, 50, Tape(8))
    assert values.size
    assert all(100 * t // 3 <= abs(v) <= 101 * t // 3 for v in values.tolist())
    with pytest.raises(OverflowError):
        noise._proposals(t, 1, 50, Tape(8))


@pytest.mark.parametrize("variance", [v for v in VARIANCES if v >= 1], ids=float)
def test_the_floats_of_gaussian_coins_keep_their_error_budget(variance):
    """|x - exact x| <= 2^-50 (sqrt(x) + x), what `bernoulli` allows, on y near and far."""
    seen = []

    def watch(x, exact, bits):
        seen.extend((Fraction(v), Fraction(*exact(i))) for i, v in enumerate(x.tolist()))
        return np.ones(x.size, np.bool_)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "_proposals", lambda t, s, count, bits: targets(t))
        patch.setattr(noise, "bernoulli", watch)
        noise.gaussian(variance, 1, bits=Tape(1))
    assert len(seen) > 50
    for x, exact in seen:
        if exact < 50:
            # |x - e| <= 2^-50 (sqrt(e) + e), without a square root
            over = abs(x - exact) * 2**50 - exact
            assert over <= 0 or over * over <= exact


def targets(t: int) -> np.ndarray:
    """Proposals around 0, around the centre (about t), and as far as they come."""
    near = [k + d for k in (0, t // 2, t, 2 * t, 5 * t, 9 * t) for d in range(-6, 7)]
    return np.array([y for y in near if abs(y) < 2**63], np.int64)


def test_tiny_variances_give_nothing_but_zero():
    """P(z != 0) is below 1e-400."""
    for variance in (Fraction(1, 2000), Fraction(1, 10**6), Fraction(1, 10**400)):
        assert not noise.gaussian(variance, 100_000).any()
    for scale in (Fraction(1, 1000), Fraction(1, 10**400)):
        assert not noise.laplace(scale, 100_000).any()
        assert not noise.exponential(scale, 100_000).any()


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 100_000])
def test_the_size_asked_for_is_given(size):
    for law in (noise.gaussian, noise.laplace, noise.exponential):
        values = law(Fraction(3), size)
        assert values.shape == (size,)
        assert values.dtype == np.int64
        assert values.flags.writeable


@pytest.mark.parametrize("wrong", [Fraction(0), Fraction(-1), 0, -5])
def test_a_law_without_spread_is_refused(wrong):
    with pytest.raises(ValueError, match="above 0"):
        noise.gaussian(wrong, 1)
    for law in (noise.laplace, noise.exponential):
        with pytest.raises(ValueError, match="above 0"):
            law(wrong, 1)


def test_a_law_too_wide_is_refused():
    with pytest.raises(ValueError, match="at most"):
        noise.gaussian(Fraction(2**112) + Fraction(1, 9), 1)
    with pytest.raises(ValueError, match="at most"):
        noise.laplace(Fraction(2**56 + 1), 1)
    with pytest.raises(ValueError, match="at most"):
        noise.exponential(Fraction(2**56 + 1), 1)
    with pytest.raises(ValueError, match="at least 0"):
        noise.gaussian(Fraction(1), -1)


def test_words_come_in_any_number():
    for count in (0, 1, BLOCK // 8, BLOCK // 8 + 1, 3 * BLOCK // 8 + 5):
        assert SYSTEM.words(count).shape == (count,)
    assert np.unique(SYSTEM.words(10_000)).size == 10_000  # fails once in 3e11


def test_no_generator_of_numpy_or_python_is_used_in_the_product():
    """Only `os.urandom` gives randomness: numpy's generators gave forked workers equal noise."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    imported = [name.name for name in names]
                case ast.ImportFrom(module=module, names=names):
                    imported = [f"{module}.{name.name}" for name in names]
                case ast.Attribute(attr="random" | "default_rng" | "RandomState" as attr):
                    imported = [f"numpy.{attr}"]
                case _:
                    continue
            for name in imported:
                assert not name.startswith("random"), f"{path}: {name}"
                assert "numpy.random" not in name, f"{path}: {name}"
                assert "default_rng" not in name and "RandomState" not in name, f"{path}: {name}"


WIDE = Fraction(2**100)  # two draws agree once in 2^50


def test_no_seed_reaches_the_noise():
    def seeded():
        np.random.seed(0)
        noise.forget()
        return noise.gaussian(WIDE, 50).tolist()

    assert not set(seeded()) & set(seeded())


def test_threads_draw_distinct_noise():
    drawn: list[int] = []

    def work() -> None:
        for _ in range(200):
            drawn.extend(noise.gaussian(WIDE, 3).tolist())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == len(set(drawn)) == 3600  # false alarm below 1e-8


FORKS = """
import os, sys, threading
from fractions import Fraction
from dpsql.curator import noise

WIDE = Fraction(2**100)
drawn = noise.gaussian(WIDE, 3).tolist() + noise.laplace(Fraction(2**50), 3).tolist()

def draw(into):
    for _ in range(50):
        into.extend(noise.gaussian(WIDE, 2).tolist())
        into.extend(noise.laplace(Fraction(2**50), 2).tolist())
        into.extend((-noise.exponential(Fraction(2**50), 2) - 2**63 // 2).tolist())

pipes = []
for _ in range(4):
    read, write = os.pipe()
    if os.fork() == 0:
        mine = []
        threads = [threading.Thread(target=draw, args=(mine,)) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        with os.fdopen(write, "w") as out: out.write(" ".join(map(str, mine)))
        os._exit(0)
    os.close(write)
    pipes.append(read)
draw(drawn)
for read in pipes:
    with os.fdopen(read) as lines: drawn.extend(map(int, lines.read().split()))
    os.wait()
print(len(drawn), len(set(drawn)))
"""


def test_forked_children_and_their_threads_draw_distinct_noise():
    """False alarm: 4206 values, two equal once in 1e8."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=PACKAGE.parent,
    )
    total = 6 + 300 + 4 * 3 * 300
    assert (done.stdout.split(), done.stderr) == ([str(total), str(total)], "")


REBORN = """
import os
from fractions import Fraction
from dpsql.curator import noise

os.getpid = lambda: 100  # a grandchild may get the number of a grandparent that is gone
noise.gaussian(Fraction(2**100), 3)
read, write = os.pipe()
if os.fork() == 0:
    with os.fdopen(write, "w") as out:
        out.write(" ".join(map(str, noise.gaussian(Fraction(2**100), 50).tolist())))
    os._exit(0)
os.close(write)
with os.fdopen(read) as lines: child = set(map(int, lines.read().split()))
os.wait()
print(len(child), len(child & set(noise.gaussian(Fraction(2**100), 50).tolist())))
"""


def test_a_child_with_the_number_of_a_dead_ancestor_draws_its_own_noise():
    """False alarm: one in 1e11."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", REBORN],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=PACKAGE.parent,
    )
    assert (done.stdout.split(), done.stderr) == (["50", "0"], "")
