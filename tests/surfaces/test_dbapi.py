"""The Python interface has the shape of PEP 249."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import dpsql
from dpsql import errors
from dpsql.release import Release
from dpsql.surfaces import dbapi

Make = Callable[..., Release]


class Scripted:
    """A session that gives the releases it is told to, or raises them."""

    def __init__(self, *answers: Release | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Sequence[Any] | None, dict[str, Any]]] = []
        self.closed = False

    def answer(self, sql: str, params: Sequence[Any] | None = None, **settings: Any) -> Release:
        self.asked.append((sql, params, settings))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


def connection(*answers: Release | Exception) -> tuple[dbapi.Connection, Scripted]:
    session = Scripted(*answers)
    return dbapi.Connection(session), session


def test_the_module_says_what_pep_249_asks() -> None:
    assert (dpsql.apilevel, dpsql.paramstyle, dpsql.threadsafety) == ("2.0", "qmark", 1)
    assert issubclass(dpsql.DataError, dpsql.DatabaseError)
    for error in (
        dpsql.IntegrityError,
        dpsql.InternalError,
        dpsql.NotSupportedError,
        dpsql.OperationalError,
        dpsql.ProgrammingError,
        dpsql.InterfaceError,
    ):
        assert issubclass(error, dpsql.Error)
        assert getattr(dbapi.Connection, error.__name__, error) is error
    assert issubclass(errors.BudgetExceeded, dpsql.OperationalError)
    assert issubclass(errors.SourceError, dpsql.OperationalError)


def test_rows_are_read_one_by_one_in_parts_and_all(release: Make) -> None:
    made = release(rows=tuple((str(i), i) for i in range(6)))
    cursor = connection(made)[0].execute("SELECT")
    assert cursor.fetchone() == ("0", 0)
    assert cursor.fetchmany() == [("1", 1)]
    cursor.arraysize = 2
    assert cursor.fetchmany() == [("2", 2), ("3", 3)]
    assert cursor.fetchall() == [("4", 4), ("5", 5)]
    assert cursor.fetchone() is None and cursor.fetchall() == []
    assert cursor.rowcount == 6
    assert cursor.release is made


def test_the_description_has_names_and_types(release: Make) -> None:
    cursor = connection(release())[0].execute("SELECT")
    assert cursor.description is not None
    assert [column[:2] for column in cursor.description] == [("sex", "VARCHAR"), ("n", "BIGINT")]
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.description[0][1] == dbapi.STRING and cursor.description[1][1] == dbapi.NUMBER
    assert dbapi.NUMBER == "DECIMAL(18,3)" and dbapi.DATETIME == "TIMESTAMP"
    assert dbapi.NUMBER != "VARCHAR"


def test_intervals_are_columns_when_asked(release: Make) -> None:
    held, _ = connection(release(intervals=True), release())
    assert held.execute("SELECT").fetchone() == ("Female", 10771, 10724.0, 10818.0)
    assert len(held.execute("SELECT").description or ()) == 2


def test_parameters_and_settings_reach_the_session(release: Make) -> None:
    held, session = connection(release())
    held.execute("SELECT ?", ["F"], epsilon=0.1)
    assert session.asked == [("SELECT ?", ["F"], {"epsilon": 0.1})]
    with pytest.raises(dpsql.InterfaceError, match="list or tuple"):
        held.execute("SELECT ?", "F")


def test_many_answers_follow_each_other(release: Make) -> None:
    cursor = connection(release(), release(rows=(("x", 1),)))[0].cursor()
    cursor.executemany("SELECT ?", [["a"], ["b"]])
    assert cursor.fetchall() == [("Female", 10771), ("Male", 21790), ("x", 1)]
    assert len(cursor.releases) == 2


def test_what_is_paid_for_stays_readable_when_a_later_set_is_refused(release: Make) -> None:
    cursor = connection(release(), errors.BudgetExceeded("no"))[0].cursor()
    with pytest.raises(dpsql.OperationalError):
        cursor.executemany("SELECT ?", [["a"], ["b"]])
    assert cursor.fetchall() == [("Female", 10771), ("Male", 21790)]
    assert len(cursor.releases) == 1


def test_an_answer_is_drawn_once_however_often_it_is_read(release: Make) -> None:
    held, session = connection(release())
    cursor = held.execute("SELECT")
    assert cursor.arrow().num_rows == len(cursor.df()) == len(cursor.pl()) == 2
    assert len(cursor.fetchall()) == 2
    assert len(session.asked) == 1


def test_what_is_closed_says_so(release: Make) -> None:
    held, session = connection(release(), release())
    cursor = held.execute("SELECT")
    with held, cursor:
        held.commit()
        held.rollback()
    assert session.closed
    for call in (held.cursor().fetchall, held.commit, cursor.fetchall, lambda: held.execute("")):
        with pytest.raises(dpsql.InterfaceError, match="closed"):
            call()
    held.close()
    assert repr(held) == "<a closed connection of dpsql>"


def test_a_cursor_is_its_own_iterator(release: Make) -> None:
    cursor = connection(release(rows=(("x", 1), ("y", 2), ("z", 3))))[0].execute("SELECT")
    assert cursor.rownumber == 0
    assert next(cursor) == ("x", 1) and cursor.rownumber == 1
    assert list(cursor) == [("y", 2), ("z", 3)] and cursor.rownumber == 3
    assert list(cursor) == []
    assert connection()[0].cursor().rownumber is None


def test_what_another_thread_stops_says_what_it_charged(release: Make) -> None:
    class Stopped(Scripted):
        last_charge = None

        def answer(self, *asked: Any, **settings: Any) -> Release:
            held.interrupt()
            raise stop

        run = explain = explain_script = answer

        def interrupt(self) -> None: ...

    held = dbapi.Connection(Stopped())
    for call in (held.execute, held.run, held.explain, held.explain_script):
        stop = KeyboardInterrupt()
        with pytest.raises(dpsql.Interrupted, match=r"stopped\nnothing was charged"):
            call("SELECT")
        stop.add_note("charged ε 0.171 (ρ 0.0008) for the statement")
        with pytest.raises(dpsql.OperationalError, match=r"stopped\ncharged ε 0.171"):
            call("SELECT")
    held._session = Scripted(release())
    assert held.execute("SELECT").rowcount == 2

    def pressed(*asked: Any, **settings: Any) -> Release:
        raise KeyboardInterrupt

    held._session.answer = pressed
    with pytest.raises(KeyboardInterrupt):
        held.execute("SELECT")


def test_constructors_make_python_s_own_values() -> None:
    when = datetime.datetime(2026, 3, 29, 12, 30, 15)
    ticks = when.timestamp()
    assert dpsql.Timestamp(2026, 3, 29, 12, 30, 15) == dpsql.TimestampFromTicks(ticks) == when
    assert dpsql.Date(2026, 3, 29) == dpsql.DateFromTicks(ticks) == when.date()
    assert dpsql.Time(12, 30, 15) == dpsql.TimeFromTicks(ticks) == when.time()
    assert dpsql.Binary(b"abc") == b"abc"
    assert dpsql.NUMBER == "DOUBLE" and dpsql.DATETIME == "DATE" and dpsql.STRING == "VARCHAR"
    assert len({dpsql.STRING, dpsql.BINARY, dpsql.NUMBER, dpsql.DATETIME, dpsql.ROWID}) == 5


def test_nothing_is_fetched_before_a_statement() -> None:
    cursor = connection()[0].cursor()
    assert cursor.description is None and cursor.rowcount == -1
    for read in (cursor.fetchone, cursor.fetchall, lambda: cursor.release, cursor.df):
        with pytest.raises(dpsql.InterfaceError, match="no statement"):
            read()


def test_public_names_are_sorted_and_resolve() -> None:
    assert dpsql.__all__ == sorted(dpsql.__all__)
    assert set(dpsql.__all__) <= set(dir(dpsql))
    for name in dpsql.__all__:
        assert getattr(dpsql, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dpsql.__getattr__("nothing")


def test_importing_costs_next_to_nothing() -> None:
    code = (
        "import time; t = time.process_time(); import dpsql; t = time.process_time() - t\n"
        "import sys; assert t < 0.1, t\n"
        "heavy = {'duckdb', 'numpy', 'click', 'dpsql.session'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("argument", ["database", "schema", "user", "ledger"])
@pytest.mark.parametrize("value", [5, b"x", 1.5, object(), {}, [7], True])
def test_an_argument_of_another_type_is_named(argument: str, value: Any) -> None:
    with pytest.raises(errors.UsageError, match=f"^{argument} is .*, not "):
        dpsql.connect(**{"database": "t.duckdb", argument: value})
