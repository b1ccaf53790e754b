"""A box for true values: it shows nothing of them, whoever asks, until the curator opens it.

This guards against accidents (a log line, a traceback, a pickle), not against a program that sets
out to read memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Never, TypeVar, final

T = TypeVar("T")


@final
class Sealed(Generic[T]):
    """A value that cannot be printed, compared, iterated, indexed, converted, copied or pickled.

    What would show the value, or a fact about it such as its length or truth, raises TypeError;
    `repr`, `str` and `format` give the same word for every value.
    """

    __slots__ = ("_open",)

    def __init__(self, value: T) -> None:
        self._open: Callable[[], T] = lambda: value

    def __repr__(self) -> str:
        return "<Sealed>"

    def __format__(self, spec: str) -> str:
        return "<Sealed>"

    def __dir__(self) -> list[str]:
        return []

    def _refuse(self, *asked: object, **named: object) -> Never:
        raise TypeError("a sealed value cannot be looked at outside the curator")

    # What every object answers unless it refuses; all else (len, iteration, indexing, arithmetic,
    # conversion to a number) is a TypeError because nothing here defines it.
    __eq__ = __ne__ = __hash__ = __bool__ = _refuse
    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse
    __array__ = _refuse
    __array_ufunc__ = None  # numpy's operators refuse then

    def __init_subclass__(cls, **named: Any) -> None:
        raise TypeError("Sealed is final")


def unseal(sealed: Sealed[T]) -> T:
    """The value. Only the curator may call this; a test counts where it does."""
    return sealed._open()
