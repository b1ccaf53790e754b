"""One thread for NumPy's linear algebra while a strategy is looked for, or answers are fitted.

It makes thousands of small products and spectra, in which the threads of OpenBLAS mostly wait for
each other: spinning, and where other programs have the cores, for a hundred times as long as the
work takes. One thread also adds in the same order on any number of cores, so that what is fitted
again is the same to the last bit.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from importlib import import_module

from dpsql.query.renewed import Renewed

# of the OpenBLAS in NumPy's own wheels, and of others
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


_CHANGING = Renewed()
_BEFORE: list[int] = []  # one entry for each that is within


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within it OpenBLAS has one thread, until the last one is out; another library is left as it
    is.
    """
    found = _openblas()
    if found is None:
        yield
        return
    threads, set_threads = found
    with _CHANGING.held():
        _BEFORE.append(_BEFORE[0] if _BEFORE else threads())
        set_threads(1)
    try:
        yield
    finally:
        with _CHANGING.held():
            before = _BEFORE.pop() if _BEFORE else 0  # 0: in a process that was forked meanwhile
            if before and not _BEFORE:
                set_threads(before)


def _in_child() -> None:
    """A fork leaves the threads behind that were within."""
    found = _openblas() if _BEFORE else None
    if found is not None:
        found[1](_BEFORE[0])
    _BEFORE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@functools.cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """What tells and what sets the number of threads of NumPy's OpenBLAS; None without one."""
    path = import_module("numpy.linalg._umath_linalg").__file__
    if path is None:
        return None
    library = ctypes.CDLL(path)  # loaded already; its symbols are those of what it is linked to
    for name in _NAMES:
        with contextlib.suppress(AttributeError):
            return library[name.format("get")], library[name.format("set")]
    return None
