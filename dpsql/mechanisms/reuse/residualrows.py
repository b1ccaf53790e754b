"""What was measured in residual tables, as rows over atoms, beside other releases.

Each value is one row with noise of its own: factor x (kron of its keys' Q) x the groups x matrix'.
So least squares on these rows and others is exact, whatever the others are.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.accounting.kept.tabled import Tabled
from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.strategies.mixed import Floats, MixedRows
from dpsql.mechanisms.strategies.tables import Precisions, Rebuilt
from dpsql.query.contrasts import Contrast


def residual_rows(design: Design, kept: Tabled, first: int, variance: Fraction) -> MixedRows:
    """The rows of residual tables whose first family has this number in the design."""
    width, stddev = len(kept.matrix), math.sqrt(variance)
    root = Rebuilt(kept).root
    mixed = np.einsum("wr,wr->w", root, root)
    told = Precisions(kept.sizes, kept.sets, kept.factors, float(variance))
    rows, sizes = list[Floats](), list[float]()
    for at, (keys, shape, factor) in enumerate(
        zip(kept.sets, kept.shapes, kept.factors, strict=True)
    ):
        groups = np.zeros((math.prod(shape), width, design.atoms))
        for weight in range(width):
            number = first + at * width + weight
            family, place = design.families[number], design.groups[number]
            inside = np.flatnonzero(place >= 0)
            heavy = design.weights[number][inside] * family.factor
            groups[family.origin[place[inside]], weight, inside] = heavy
            sizes.append(1.0 / (told.variance(keys) * float(mixed[weight])))
        each: Any = np.einsum("rw,gwa->gra", kept.matrix.astype(np.float64), groups)
        each = each.reshape(*shape, width, design.atoms)
        for axis, size in enumerate(shape):
            each = Contrast(size).measured(each, axis)
        rows.append((each * factor).reshape(-1, design.atoms))
    numbers = tuple(range(first, first + len(sizes)))
    matrix = np.concatenate(rows) / stddev
    return MixedRows(matrix, numbers, tuple(sizes), kept.values.reshape(-1), stddev)
