"""What goes wrong where true counts are at hand says nothing about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpsql.errors import InternalError, SourceError

T = TypeVar("T")


def quiet(work: Callable[[], T]) -> T:
    """What `work` gives.

    Raises SourceError or InternalError in words of ours, which hold no frame that saw the data; an
    interrupt loses its frames.
    """
    failure: BaseException
    try:
        return work()
    except (SourceError, InternalError) as error:
        failure = type(error)(str(error))
    except Exception:
        failure = InternalError(
            "reading the data failed; the price was charged and nothing is released"
        )
    except BaseException as stopped:  # Ctrl-C may come while true counts are at hand
        failure = stopped.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    raise failure  # out here, so that it does not carry what it was made from
