"""Weights on the cells of a workload W, and the spectrum that tells how to better them.

Denisov, McMahan, Rush, Smith, Thakurta 2022 (arXiv:2202.08312), section 3. With weights v > 0 and
V = diag(v), let R = (V^1/2 G V^1/2)^1/2 for G = W'W, and d = diag R. The dual of

    minimise tr(G X^-1) subject to diag X <= 1

is to maximise 2 tr R - sum v; its gradient in log v is d - v. So at any v

    (tr R)^2 / sum v  <=  optimum  <=  tr R max(d / v),

the right one reached by X = V^-1/2 R V^-1/2 / max(d / v), and v = d at the optimum.

The paper iterates v <- d. Here the step is Newton's. For R = Q diag(r) Q' the second derivative in
log v is diag(d - v) - K with

    K_ij = sum_ab Q_ia Q_ja Q_ib Q_jb k(r_a, r_b),      k(a, b) = a b / (a + b),

from the derivative of a square root in its eigenbasis: K is positive semidefinite (k is a Cauchy
kernel of 1/r) and K 1 = d / 2. With k(a, b) = sqrt(ab) sech((ln a - ln b) / 2) / 2 and the Fourier
transform of sech, K is a short sum of entrywise squares of matrices:

    K = int_0^inf sech(pi w) [(Q C Q')^2 + (Q S Q')^2] dw,
    C = diag(r^1/2 cos(w ln r)), S = diag(r^1/2 sin(w ln r)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_NODES = 5  # of the integral: the next has weight 0.35 sech(1.75 pi) = 0.003
_APART = 0.35  # its period, 2 pi / 0.35, is above ln(r_1 / r_n) for all well-posed workloads
_LARGEST_STEP = 3.0  # in log v
_LEAST = 1e-13  # a weight, relative to the largest
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The positive part of R: `vectors` Q (cells, rank) and `roots` r (rank,), at `weights` v.

    The weights are scaled so that sum v = tr R, where the two bounds are closest to the dual.
    """

    weights: Floats
    vectors: Floats
    roots: Floats

    def __post_init__(self) -> None:
        if self.vectors.shape != (len(self.weights), len(self.roots)):
            raise ValueError("a spectrum has a vector for every root and an entry for every cell")
        if not bool((self.weights > 0).all() and (self.roots > 0).all()):
            raise ValueError("weights and roots are above 0")

    @property
    def total(self) -> float:
        """tr R."""
        return float(self.roots.sum())

    @property
    def diagonal(self) -> Floats:
        """d = diag R, one a cell."""
        found: Floats = (self.vectors * self.vectors) @ self.roots
        return found

    @property
    def lower(self) -> float:
        """A bound from below on tr(G X^-1) of every X with diag X <= 1."""
        return self.total**2 / float(self.weights.sum())

    @property
    def excess(self) -> Floats:
        """d / v: the squared column norms of the strategy at these weights, before it is scaled."""
        return self.diagonal / self.weights

    def curvature(self) -> NDArray[np.float32]:
        """D^-1/2 K D^-1/2 (cells, cells), with D = diag d."""
        logs = np.log(self.roots)
        logs -= (logs.max() + logs.min()) / 2
        scaled = self.vectors * self.roots**0.25 / self.diagonal[:, None] ** 0.25
        rows = scaled.astype(np.float32)
        found = np.zeros((len(rows), len(rows)), np.float32)
        for node in range(_NODES):
            share = _APART / np.cosh(np.pi * _APART * node) / (2 if node == 0 else 1)
            for wave in (np.cos, np.sin) if node else (np.cos,):
                term = (rows * wave(_APART * node * logs).astype(np.float32)) @ rows.T
                term *= term
                term *= np.float32(share)
                found += term
        return found

    def stepped(self, curvature: NDArray[np.float32], damping: float, share: float = 1.0) -> Floats:
        """Weights after a Newton step in log v, of which only a share may be taken."""
        root = np.sqrt(self.diagonal)
        system = curvature.astype(np.float64)
        system.flat[:: len(system) + 1] += damping
        move = np.linalg.solve(system, root * np.log(self.excess)) / root
        return floored(self.weights * np.exp(share * np.clip(move, -_LARGEST_STEP, _LARGEST_STEP)))


def floored(weights: Floats) -> Floats:
    """Weights that are not below a tiny share of the largest: no cell is lost for ever."""
    found: Floats = np.maximum(weights, _LEAST * weights.max())
    return found


def of_gram(gram: Floats, weights: Floats) -> Spectrum:
    """The spectrum of a Gram matrix G (cells, cells) with a positive diagonal."""
    root = np.sqrt(weights)
    values, vectors = np.linalg.eigh(gram * root[:, None] * root)
    keep = values > 4 * len(values) * EPS * values[-1]
    return _scaled(weights, vectors[:, keep], np.sqrt(values[keep]))


def of_columns(columns: Floats, weights: Floats) -> Spectrum:
    """The spectrum of W'W for W (queries, cells), through the smaller W V W'."""
    half = columns * np.sqrt(weights)
    values, vectors = np.linalg.eigh(half @ half.T)
    keep = values > 4 * len(values) * EPS * values[-1]
    roots = np.sqrt(values[keep])
    return _scaled(weights, (half.T @ vectors[:, keep]) / roots, roots)


def _scaled(weights: Floats, vectors: Floats, roots: Floats) -> Spectrum:
    """R grows with the root of v, so that some multiple of v sums to tr R."""
    times = float(roots.sum() / weights.sum())
    return Spectrum(weights * times**2, vectors, roots * times)
