"""A statement that is paid in parts: whatever stops it, what all parts charged is said."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.curator.gate import Gate
from dpsql.errors import Interrupted, SourceError
from dpsql.session import Session, explained, tell
from dpsql.session.synopses import buying, exported, held, learned, taught
from dpsql.surfaces.dbapi import Connection
from tests.session.conftest import Town, people

NOT_TOLD = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N' AND age < 5"
WORDS = "words of others"
STOPS: list[Callable[[], BaseException]] = [
    lambda: SourceError("touched"),
    lambda: RuntimeError(WORDS),
    lambda: KeyboardInterrupt(),
]
PLACES: list[tuple[Any, str]] = [
    (Gate, "exceeds"),  # a gate was bought
    (held, "fit"),  # the tables were read
    (learned._Asking, "_learn"),  # the guess was far off
    (taught, "note_learnt"),  # while the table is paid
]


@pytest.fixture(scope="module")
def readers(tmp_path_factory: Any) -> Iterator[Session]:
    """Sessions of others, who have read nothing yet of a synopsis that alice bought."""
    town = Town(tmp_path_factory.mktemp("town"))
    path: Path = town.database("a", people(400, 1))
    town.ledger.grant("alice", dataset="town", epsilon=100, cap=10_000)
    with town.open(path) as alice:
        alice.synopses.create("main", ["sex", "region", "age"], method="pmw", rho=2.0, ways=1)

    def opened() -> Iterator[Session]:
        for number in itertools.count():
            town.ledger.grant(f"bob{number}", dataset="town", epsilon=100)
            yield Session(path, user=f"bob{number}", ledger=town.ledger, settings={"reuse": True})

    return opened()


def stopped(
    patch: pytest.MonkeyPatch, where: Any, name: str, stop: Callable[[], BaseException]
) -> None:
    def fails(*args: object, **named: object) -> None:
        raise stop()

    patch.setattr(where, name, fails)


def says_what_was_charged(session: Session, error: BaseException) -> None:
    said = "\n".join([str(error), *getattr(error, "__notes__", ())])
    spent = session.ledger.balance(session.user, "town").spent_rho
    assert spent > 0 and session.last_charge is not None
    assert session.last_charge.rho == pytest.approx(spent / 1e12)
    assert f"charged {session.last_charge} for the statement" in said
    assert WORDS not in said and "nothing was charged" not in said


def tried(session: Session, place: tuple[Any, str], stop: Callable[[], BaseException]) -> None:
    with session, pytest.MonkeyPatch.context() as patch:
        if place[0] is not Gate:  # every guess is far off
            patch.setattr(Gate, "exceeds", lambda *asked: True)
        stopped(patch, *place, stop)
        with pytest.raises(BaseException) as caught:
            session.answer(NOT_TOLD, backend="synopsis")
        says_what_was_charged(session, caught.value)


def test_whatever_stops_it_what_all_parts_charged_is_said(readers: Iterator[Session]) -> None:
    for place, stop in itertools.product(PLACES, STOPS):
        tried(next(readers), place, stop)


def test_so_it_is_where_rows_are_made_up(readers: Iterator[Session]) -> None:
    for stop in STOPS:
        with next(readers) as session, pytest.MonkeyPatch.context() as patch:
            stopped(patch, exported, "quality", stop)
            with pytest.raises(BaseException) as caught:
                session.synopses.export("main", 10)
            says_what_was_charged(session, caught.value)


def test_what_another_thread_stops_does_not_say_that_nothing_was_charged(
    readers: Iterator[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Connection(next(readers)) as connection:

        def fails(*asked: object) -> None:
            connection.interrupt()
            raise KeyboardInterrupt

        monkeypatch.setattr(Gate, "exceeds", fails)
        with pytest.raises(Interrupted) as caught:
            connection.execute(NOT_TOLD, backend="synopsis")
        says_what_was_charged(connection.session, caught.value)


def test_synopses_are_stopped_as_statements_are(
    readers: Iterator[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """KeyboardInterrupt out of a thread would end the event loop that waits for it."""
    with Connection(next(readers)) as connection:

        def stopping(*asked: object) -> None:
            connection.interrupt()
            raise KeyboardInterrupt

        monkeypatch.setattr(buying, "fit", stopping)
        with pytest.raises(Interrupted) as caught:
            connection.synopses.create("own", ["month", "smoker"], rho=0.1)
        says_what_was_charged(connection.session, caught.value)
        monkeypatch.setattr(exported, "quality", stopping)
        with pytest.raises(Interrupted, match="nothing was charged"):
            connection.synopses.export("own", 10)


def test_so_it_is_where_a_script_is_stopped_after_its_charge(
    readers: Iterator[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While SHOW BUDGET, below its SELECT, is asked again."""
    shown = tell.budgets
    with Connection(next(readers)) as connection:

        def once(*asked: Any) -> Any:
            monkeypatch.setattr(tell, "budgets", stopping)
            return shown(*asked)

        def stopping(*asked: object) -> None:
            connection.interrupt()
            raise KeyboardInterrupt

        monkeypatch.setattr(tell, "budgets", once)
        with pytest.raises(Interrupted) as caught:
            connection.run("SELECT COUNT(*) FROM town WHERE month = 3; SHOW BUDGET", rho=0.1)
        says_what_was_charged(connection.session, caught.value)
        with pytest.raises(Interrupted, match="nothing was charged"):
            monkeypatch.setattr(explained, "wanted", stopping)
            connection.explain("SELECT COUNT(*) FROM town", rho=0.1)


def test_nothing_is_said_to_be_charged_where_nothing_was(
    readers: Iterator[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    with next(readers) as session:
        stopped(monkeypatch, learned, "outlook", STOPS[1])
        with pytest.raises(Exception, match="nothing was charged"):
            session.answer(NOT_TOLD, backend="synopsis")
        assert session.last_charge is None


@pytest.mark.parametrize("stop", STOPS, ids=["source", "fault", "interrupt"])
def test_so_it_is_once_all_was_bought(
    stop: Callable[[], BaseException], readers: Iterator[Session]
) -> None:
    """At last, for the synopsis has learnt it then."""
    tried(next(readers), (learned, "build"), stop)
