"""Matrices of axes, from their definitions."""

from __future__ import annotations

import numpy as np

from dpsql.mechanisms.strategies.axes import Along, Identity, Prefix, Ranges, Rows


def matrix(along: Along) -> np.ndarray:
    """W of one axis, from its definition."""
    n = along.size
    match along:
        case Identity():
            return np.eye(n)
        case Prefix():
            return np.array([[float(j <= i) for j in range(n)] for i in range(n)])
        case Ranges():
            return np.array(
                [[float(a <= j <= b) for j in range(n)] for a in range(n) for b in range(a, n)]
            )
        case Rows():
            return np.array(along.rows, float)
