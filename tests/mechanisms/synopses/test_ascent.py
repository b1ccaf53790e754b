"""Steps of an ascent: the best potential of a table, found by either road; and sums that go on."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.mechanisms.synopses import ascent
from dpsql.mechanisms.synopses.ascent import alone
from dpsql.mechanisms.synopses.noisy import NoisyTable


def one(draw: np.random.Generator, part: bool) -> tuple[float, NoisyTable, np.ndarray, float]:
    """Rows, a noisy table, all of whose cells or some were measured, chances beside it, and tau."""
    shape = tuple(draw.integers(1, 9, size=draw.integers(1, 4)).tolist())
    many = int(np.prod(shape))
    total, variance = 10 ** draw.uniform(1, 5), 10 ** draw.uniform(1, 5)
    chances, true = draw.dirichlet(np.full(many, 10 ** draw.uniform(-1, 1)), size=2)
    values = np.rint(total * true + np.sqrt(variance) * draw.normal(size=many)).reshape(shape)
    seen = None
    if part:
        seen = draw.random(shape) < 0.5
        seen.flat[0] = True
        values = values * seen
    classes = tuple(np.arange(size) for size in shape)
    values = np.asfortranarray(values)
    table = NoisyTable(tuple("abc"[: len(shape)]), classes, values, variance, seen=seen)
    return total, table, chances.reshape(shape), 10 ** draw.uniform(-3, 0)


@pytest.mark.parametrize("part", [False, True])
def test_a_potential_alone_is_the_best_one(part: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """n m exp(theta - a) + tau v theta = y where it was measured, and theta = 0 elsewhere; the same
    where Newton's steps from what is near find nothing."""
    draw, near, found = np.random.default_rng(31), ascent._near, []

    def counting(*given: object) -> object:
        found.append(near(*given))
        return found[-1]

    for _ in range(300):
        total, table, chances, tau = one(draw, part)
        chances = np.asfortranarray(chances)
        now = draw.dirichlet(np.ones(chances.size)).reshape(chances.shape)
        monkeypatch.setattr(ascent, "_near", counting)
        theta = alone(total, table, chances, tau, now if draw.random() < 0.5 else None)
        monkeypatch.setattr(ascent, "_near", lambda *given: None)
        other = alone(total, table, chances, tau)
        pull = tau * table.variance
        assert np.abs(pull * (theta - other)).max() <= 1e-7 * total
        rows = (chances + 1e-9 / total) * np.exp(theta - theta.max())
        off = total * rows / rows.sum() + pull * theta - table.values
        seen = np.ones(off.shape, bool) if table.seen is None else table.seen
        assert np.abs(off[seen]).max() <= 1e-7 * (total + np.abs(table.values).max())
        assert not theta[~seen].any()
        assert theta.flags.c_contiguous  # as what is read again
    missed = sum(u is None for u in found)
    assert missed < 60 and (missed or not part)
