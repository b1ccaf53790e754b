"""Gates judged from outside: what comes out with which chance, by exact sums over the noise.

Nothing here calls the product. `outcomes` sums over the threshold's noise, term by term; the noise
of the questions enters by its tails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

GONE = 45  # scales of noise that are summed: what is beyond has a chance of 1e-19


@dataclass(frozen=True)
class Noisy:
    """A gate as the paper has it; a scale of 0 is no noise, `positives` 0 is no cut-off.

    `renewed`: the threshold's noise is drawn again at every question, which is wrong.
    """

    threshold: float
    query: float
    positives: int = 1
    runs: int = 1
    noise: str = "exponential"
    renewed: bool = False

    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """The values of the threshold's noise, and their chances."""
        if not self.threshold:
            return np.zeros(1), np.ones(1)
        top = math.ceil(GONE * self.threshold) + 1
        z = np.arange(0 if self.noise == "exponential" else -top, top + 1)
        chances = np.exp(-np.abs(z) / self.threshold)
        return z, chances / chances.sum()

    def tail(self, t: np.ndarray) -> np.ndarray:
        """P(N >= t) of the noise of a question."""
        if not self.query:
            return (t <= 0).astype(float)
        if self.noise == "exponential":
            return np.exp(-np.maximum(t, 0) / self.query)
        q = math.exp(-1 / self.query)
        up = q ** np.maximum(t, 1) / (1 + q)
        return np.where(t >= 1, up, 1 - q ** np.maximum(1 - t, 1) / (1 + q))


def outcomes(gate: Noisy, values: Sequence[int]) -> dict[str, float]:
    """All that can come out when these are asked with the threshold 0, and its chance.

    "001" is two belows and an above, with which a gate of one positive ends.
    """
    z, chances = gate.drawn()
    found: dict[str, float] = {}

    def ask(at: int, told: str, mass: np.ndarray, tops: int) -> None:
        if at == len(values) or (gate.positives and tops == gate.positives * gate.runs):
            found[told] = found.get(told, 0.0) + float(mass.sum())
            return
        above = gate.tail(z - values[at])
        if gate.renewed:
            above = np.full(len(z), float(above @ chances))
        ask(at + 1, told + "0", mass * (1 - above), tops)
        after = mass * above
        if gate.positives and (tops + 1) % gate.positives == 0:
            after = float(after.sum()) * chances
        ask(at + 1, told + "1", after, tops + 1)

    ask(0, "", chances, 0)
    return found


def losses(gate: Noisy, one: Sequence[int], other: Sequence[int]) -> list[float]:
    """log(P/Q) of all that has a chance above 1e-13 on both tables."""
    p, q = outcomes(gate, one), outcomes(gate, other)
    return [math.log(p[told] / q[told]) for told in p if min(p[told], q[told]) > 1e-13]


def worst(gate: Noisy, one: Sequence[int], other: Sequence[int]) -> float:
    """The largest loss, either way round."""
    return max(map(abs, losses(gate, one, other)))


def event(
    p: dict[str, float], q: dict[str, float], epsilon: float
) -> tuple[set[str], float, float]:
    """What to look for at `epsilon`, and its chances on both tables: the strongest test."""
    least = math.exp(epsilon) * (1.0 + 1e-9)  # what is at the bound itself proves nothing
    told = {what for what in p if p[what] > least * q.get(what, 0.0)}
    return told, sum(p[what] for what in told), sum(q.get(what, 0.0) for what in told)
