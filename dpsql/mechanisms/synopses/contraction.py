"""Contraction of small tensors with named axes, along paths that `opt_einsum` finds and keeps.

Smith and Gray, "opt_einsum" (Journal of Open Source Software 3, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from dpsql.mechanisms.synopses.junction import CELLS, Entangled, Floats, Names
from dpsql.mechanisms.threads import one_thread

_Spec: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # axes, shape

_PATHS = 4096
_MANY = 8  # tensors: for more the path is found greedily


class Tensor(NamedTuple):
    """A table over named axes."""

    names: Names
    table: Floats


def contracted(tensors: Sequence[Tensor], kept: Names) -> Floats:
    """The sum of products over all axes that are not kept. Raises Entangled where a table on the
    way has more than CELLS cells."""
    letters = {name: at for at, name in enumerate(dict.fromkeys(n for t in tensors for n in t[0]))}
    spec = tuple((tuple(letters[name] for name in t.names), t.table.shape) for t in tensors)
    expression = _path(spec, tuple(letters[name] for name in kept))
    with one_thread():
        return cast(Floats, np.asarray(expression(*(t.table for t in tensors))))


@lru_cache(_PATHS)
def _path(spec: _Spec, kept: tuple[int, ...]) -> Any:
    import opt_einsum

    def word(axes: Sequence[int]) -> str:
        return "".join(opt_einsum.get_symbol(axis) for axis in axes)

    text = f"{','.join(word(axes) for axes, _ in spec)}->{word(kept)}"
    shapes = [shape for _, shape in spec]
    how = "greedy" if len(spec) > _MANY else "auto"
    path, told = opt_einsum.contract_path(text, *shapes, shapes=True, optimize=how)
    if told.largest_intermediate > CELLS:
        raise Entangled(f"a table of {int(told.largest_intermediate):,} cells is over {CELLS:,}")
    return opt_einsum.contract_expression(text, *shapes, optimize=path)
