"""What is shown in place of noisy answers where `postprocess = projection` asks for it.

Statements that are answered together are explained by one table. What can be refused is refused
when a `Projection` is made, which is before anything is charged and depends on public things alone;
applying it is post-processing, which costs nothing and always gives the same for the same answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms.integral import integral
from dpsql.mechanisms.intervals.noises import Joint, Noise
from dpsql.mechanisms.projection import GAP, listed, nearest
from dpsql.mechanisms.reuse.found import Answered
from dpsql.mechanisms.threads import one_thread
from dpsql.query.canon import families, remember
from dpsql.query.distinct import Distinct
from dpsql.query.linear import Workload
from dpsql.session.settings import Settings

Floats: TypeAlias = NDArray[np.float64]

_SAFE = 1 << 62
_AS_IT_IS = 1e-3  # of a standard error: answers that are moved by less are what a table gives
_FAR = 6.0  # standard errors, root mean square: no noise takes answers so far from all tables


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Answers of each SELECT as they are shown, (groups, weights), the public number of rows, and
    what is said of them."""

    answers: tuple[NDArray[Any], ...]
    total: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Workloads that are to be explained by one table, and the distinct columns of all of them."""

    workloads: tuple[Workload, ...]
    columns: Distinct
    total: int | None

    @property
    def note(self) -> str:
        """What plans and releases say."""
        rows = "" if self.total is None else f" of {self.total:,} rows"
        several = f", of all {len(self.workloads)} statements" if len(self.workloads) > 1 else ""
        return (
            f"values are those of the one table{rows} that is nearest to the noisy answers"
            f"{several} (postprocess = projection), which biases them; standard errors and "
            "intervals are those of the noisy answers"
        )

    def shown(self, answered: Sequence[Answered]) -> list[Shown]:
        """What is shown of the answers of each workload."""
        raw = [each for said in answered for each in said.answers]
        noises = [noise for said in answered for noise in said.noises]
        noisy = np.concatenate([each.reshape(-1) for each in raw])
        stderr = np.concatenate([_stderr(*each) for each in zip(raw, noises, strict=True)])
        values = noisy.astype(np.float64)
        with one_thread():
            sparse = nearest(self.columns, values, stderr, self.total)
        known = stderr > 0
        scale = np.where(known, 1.0 / np.where(known, stderr, 1.0), 0.0)[:, None]
        scaled = sparse.columns.astype(np.float64) * scale
        off = float(((scaled @ sparse.rows - values * scale[:, 0]) ** 2).mean()) ** 0.5
        if off > _AS_IT_IS:
            rows = integral(scaled, sparse.rows, self.total)
            heaviest = int(np.abs(sparse.columns).max(initial=1))
            exact: Any = np.int64 if int(rows.sum()) * heaviest < _SAFE else object
            noisy = sparse.columns.astype(exact) @ rows.astype(exact)
        notes = [self.note]
        if sparse.gap > GAP * len(values):
            apart = (2.0 * sparse.gap / len(values)) ** 0.5
            notes.append(
                f"the nearest table was not found in time: values are within {apart:.2g} standard "
                "errors of it, root mean square"
            )
        if off > _FAR and self.total is not None:
            notes.append(
                f"the noisy answers are {off:.0f} standard errors away from every table of "
                f"{self.total:,} rows: is total right?"
            )
        found, start = [], 0
        for said in answered:
            parts = []
            for each in said.answers:
                parts.append(noisy[start : start + each.size].reshape(each.shape))
                start += each.size
            found.append(Shown(tuple(parts), self.total, tuple(notes)))
        return found


def projection(workloads: Sequence[Workload], settings: Settings) -> Projection | None:
    """What is to be done to the answers of some workloads. Raises UsageError."""
    if settings.postprocess == "none":
        if settings.total is not None and settings.target == "sample":
            raise UsageError(
                f"total = {settings.total} is what postprocess = projection holds to, and "
                "postprocess is none: SET postprocess = projection, or RESET total"
            )
        return None
    stacked = workloads[0]
    if len(workloads) > 1:
        stacked = _stacked(workloads)
    return Projection(tuple(workloads), listed(stacked), settings.total)


def projections(
    workloads: Sequence[Workload], settings: Sequence[Settings]
) -> list[tuple[list[int], Projection]]:
    """Of a script: the statements with the same post-processing, explained by one table each time.

    Raises UsageError.
    """
    alike: dict[tuple[str, int | None], list[int]] = {}
    for at, own in enumerate(settings):
        alike.setdefault((own.postprocess, own.total), []).append(at)
    found = []
    for group in alike.values():
        made = projection([workloads[at] for at in group], settings[group[0]])
        if made is not None:
            found.append((group, made))
    return found


def _stacked(workloads: Sequence[Workload]) -> Workload:
    """The blocks of all workloads."""
    sizes: dict[str, int] = {}
    for workload in workloads:
        sizes.update(zip(workload.domain.names, workload.domain.sizes, strict=True))
        for block, known in zip(workload.blocks, families(workload), strict=True):
            remember(block, known)
    domain = Domain(tuple(sorted(sizes)), tuple(sizes[name] for name in sorted(sizes)))
    return Workload(domain, tuple(block for each in workloads for block in each.blocks))


def _stderr(answers: NDArray[Any], noise: Noise) -> Floats:
    """The standard error of each answer."""
    if not isinstance(noise, Joint):
        return np.full(answers.size, noise.sigma)
    found: Floats = np.sqrt(np.maximum(noise.fitted.spread.variances, 0.0)).reshape(-1)
    return found
