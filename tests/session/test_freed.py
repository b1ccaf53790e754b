"""A session is freed when it is let go: what it held must not wait for the garbage collector, which
may run in a forked child, where DuckDB's threads are gone.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from dpsql.session import Session


def test_a_session_is_in_no_cycle(town: Any, crowd: Callable[..., list[Any]]) -> None:
    path = town.database("a", crowd(300, 1))
    gc.disable()
    try:
        session = Session(path, user="alice", ledger=town.ledger, settings={"reuse": True})
        with session:
            session.synopses.create("main", ["sex", "age"], rho=1.0, method="pmw", ways=1)
            for backend in ("auto", "synopsis"):
                session.answer("SELECT sex, COUNT(*) FROM town GROUP BY sex", backend=backend)
            session.explain("SELECT COUNT(*) FROM town WHERE age < 3 AND sex = 'male'")
            session.answer("SELECT COUNT(*) FROM town WHERE age < 3 AND sex = 'male'",
                           backend="synopsis")  # fmt: skip
            session.run("SELECT COUNT(*) FROM town; SELECT region, COUNT(*) FROM town GROUP BY 1")
        parts = [weakref.ref(session), *map(weakref.ref, session._grids.values())]
        del session
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()
