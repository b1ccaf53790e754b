"""Charge first, then look, then add noise; and whatever is free or refused looks at nothing."""

from __future__ import annotations

import io
import os
import traceback
from contextlib import redirect_stderr

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.curator import noise
from dpsql.errors import (
    BudgetExceeded,
    Error,
    InternalError,
    NoGrant,
    Refused,
    SourceError,
    UsageError,
)
from dpsql.query.linear import Workload
from dpsql.session import Session
from dpsql.surfaces.faults import report
from tests.privacy.trial import USER, purse, rows, run, spent, table, traced, watch

ASKED = [
    "SELECT COUNT(*) FROM people",
    "SELECT race, COUNT(*), AVG(rich), SUM(hours) FROM people WHERE age > 30 GROUP BY race",
    "SELECT age, STDDEV(hours) FROM people GROUP BY age HAVING COUNT(*) > 3 ORDER BY 2 LIMIT 3",
    "SELECT COUNT(*) FROM people UNION ALL SELECT SUM(age) FROM people WHERE rich",
]
FREE = [
    "EXPLAIN SELECT race, AVG(age) FROM people GROUP BY race",
    "DESCRIBE people",
    "SHOW TABLES",
    "SHOW BUDGET",
    "SHOW ALL",
    "SET epsilon = 0.25",
    "RESET epsilon",
    "SELECT 1",
    "SELECT * FROM people LIMIT 0",
    "SELECT race FROM people WHERE 1 = 0",
]
REFUSED = [
    "SELECT * FROM people",
    "SELECT MIN(age) FROM people",
    "SELECT COUNT(*) FROM people WHERE race = 'Purple'",
    "SELECT COUNT(*) FROM people WHERE 1 // (age - 30) > 0",
    "SELECT COUNT(*) FROM people WHERE CASE WHEN race = 'Asian' THEN CAST(race AS INT) END = 0",
    "SELECT COUNT(DISTINCT race) FROM people",
    "SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM peeple",
    "DELETE FROM people",
    "EXPLAIN ANALYZE SELECT COUNT(*) FROM people",
    "SUMMARIZE people",
    "SELECT COUNT(*) FROM duckdb_tables()",
    "SELECT COUNT(*) FROM 'people.parquet'",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 0.5) COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE random() < 0.5",
    "this is no SQL",
]
MISUSED = [{"epsilon": -1}, {"rho": float("nan")}, {"epsilon": 1, "rho": 1}, {"accuracy": "3%"},
           {"accuracy": 3, "rho": 1}, {"backend": "none"}, {"confidence": 1}]  # fmt: skip

# what may be said to a database that is being opened: nothing that reads a row
OPENING = ("SET ", "SELECT current_setting", "ATTACH ", "USE ", "SELECT schema_name, table_name",
           "DESCRIBE SELECT * FROM ", "CREATE TYPE ")  # fmt: skip

UNREADABLE = (
    "CREATE VIEW unreadable AS SELECT pid, race, "
    "CASE WHEN age > 0 THEN error('row of ' || pid || ' was read')::INTEGER END AS age, "
    "rich, hours FROM people"
)


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
@pytest.mark.parametrize("sql", ASKED)
def test_nothing_is_read_before_it_is_paid(sql, backend, tmp_path, monkeypatch):
    """Law 2: the charge is on the disk, for anybody to see, when the first row is asked for."""
    path = table(tmp_path, rows(40))
    ledger = tmp_path / "people.ledger"
    with Ledger.open(ledger) as made:
        made.grant(USER, dataset="people", epsilon=10)
    spy = watch(monkeypatch)
    durable: list[int] = []
    spy.fail = lambda sql: durable.append(spent(ledger)) if not sql.startswith(OPENING) else None
    sampler = getattr(noise, backend)

    def draw(*args):
        durable.append(spent(ledger))
        return sampler(*args)

    monkeypatch.setattr(noise, backend, draw)
    with Session(path, user=USER, ledger=ledger) as session:
        release = session.answer(sql, rho=1e-3, backend=backend)
        assert spy.kinds("charge", "rows", "noise") == ["charge", "rows", "noise"]
        (charged,) = [more for kind, more in spy.happened if kind == "charge"]
        assert len(durable) >= 2
        assert set(durable) == {charged.rho}
        assert release.charged.rho == charged.rho / 1e12
        before = next(i for i, (kind, _) in enumerate(spy.happened) if kind == "charge")
        opening = [text for kind, text in spy.happened[:before] if kind == "sql"]
        assert all(text.startswith(OPENING) for text in opening)
        session.answer(sql, rho=1e-3, backend=backend)  # from counts that are kept
        assert spy.kinds("charge", "noise") == ["charge", "noise"] * 2


@pytest.mark.parametrize("source", ['table = "unreadable"', 'query = "SELECT * FROM unreadable"'])
def test_what_is_free_or_refused_reads_no_row(source, tmp_path, monkeypatch):
    """Of a source whose every row is an error, all but an answer can be had."""
    path = table(tmp_path, rows(9), source=source, then=[UNREADABLE])
    ledger = purse()
    spy = watch(monkeypatch)
    with Session(path, user=USER, ledger=ledger) as session:
        dump = ledger.dump()
        for sql in FREE:
            assert session.answer(sql).price is None
            assert session.last_charge is None
        for sql in ASKED:
            assert session.explain(sql).price.rho > 0
        for sql in REFUSED:
            with pytest.raises(Refused):
                session.answer(sql)
        looked = spy.opened
        assert looked <= 1 and all(text.startswith(OPENING) for text in spy.texts())
        session._curator(session.datasets["people"])
        assert spy.opened == looked + 1
        assert all(text.startswith((*OPENING, "CREATE TEMP VIEW")) for text in spy.texts())
        assert ledger.dump() == dump
        with pytest.raises(SourceError) as caught:
            session.answer(ASKED[0], rho=1e-3)
        assert "row of" not in shown(caught.value)
        assert session.last_charge is None and ledger.dump() == dump
        assert spy.kinds("charge", "rows", "noise") == []


def test_what_is_free_or_refused_begins_no_write_transaction(tmp_path, monkeypatch):
    """Opening a session, plans, descriptions, refusals and misuse only ever read the ledger."""
    path = table(tmp_path, rows(9))
    ledger = tmp_path / "people.ledger"
    with Ledger.open(ledger) as made:
        made.grant(USER, dataset="people", epsilon=10)
        dump = made.dump()
    said, spy = traced(monkeypatch), watch(monkeypatch)
    with Session(path, user=USER, ledger=ledger) as session:
        for sql in FREE:
            session.answer(sql)
        for sql in ASKED:
            session.explain(sql)
        for sql in REFUSED:
            with pytest.raises(Refused):
                session.answer(sql, epsilon=0.1)
        for wrong in MISUSED:
            with pytest.raises(UsageError):
                session.answer(ASKED[0], **wrong)
        assert said
        writing = ("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "INSERT", "UPDATE", "DELETE", "REPLACE")
        assert not [text for text in said if text.upper().startswith(writing)]
        assert {kind for kind, _ in spy.happened} <= {"sql"}
        assert all(text.startswith(OPENING) for text in spy.texts())
        assert session.ledger.dump() == dump
        session.answer(ASKED[0], epsilon=0.1)  # the test sees one where there is one
        assert [text for text in said if text.startswith(writing)]


def test_what_cannot_be_paid_opens_no_database(tmp_path, monkeypatch):
    """Prices that nobody can ask for, users without a grant; and one above the grant reads none."""
    path = table(tmp_path, rows(9))
    spy = watch(monkeypatch)
    with Session(path, user="stranger", ledger=purse()) as session, pytest.raises(NoGrant):
        session.answer(ASKED[0])
    pure = purse(epsilon=1, delta=0)
    with Session(path, user=USER, ledger=pure) as session, pytest.raises(UsageError):
        session.answer(ASKED[1], backend="gaussian")
    strict = purse(epsilon=1, delta=1e-300)
    with Session(path, user=USER, ledger=strict) as session, pytest.raises(UsageError):
        session.answer(ASKED[0], epsilon=1e-12)
    assert spy.opened == 0
    with Session(path, user=USER, ledger=purse(epsilon=1)) as session:
        with pytest.raises(BudgetExceeded):
            session.answer(ASKED[0], epsilon=2)
        assert session.last_charge is None
    assert all(text.startswith(OPENING) for text in spy.texts())
    assert spy.kinds("charge", "rows", "noise") == []


@pytest.mark.parametrize(
    ("sql", "confidence"),
    [
        ("SELECT age, hours, STDDEV(age) FROM people GROUP BY ALL LIMIT 3", 1 - 1e-7),
        ("SELECT age, AVG(rich) FROM people GROUP BY age HAVING COUNT(*) > 1", 1 - 1e-9),
        (f"SELECT {' + '.join(['STDDEV(age)'] * 60)} FROM people", 1 - 1e-9),
    ],
    ids=["limit", "having", "sum"],
)
def test_a_level_that_no_interval_can_have_is_refused_before_the_charge(sql, confidence, tmp_path):
    """Law 5: not after it, where nothing could be released any more."""
    ledger = purse()
    with Session(table(tmp_path, rows(9)), user=USER, ledger=ledger) as session:
        dump = ledger.dump()
        for ask in (session.answer, session.explain):
            with pytest.raises(UsageError, match="closer to 1"):
                ask(sql, rho=0.1, confidence=confidence)
        assert ledger.dump() == dump
        for sql in ASKED:
            assert session.answer(sql, rho=0.1, confidence=1 - 1e-7).rows


# -- what fails after the charge ----------------------------------------------------------------

SECRET = "Mrs Petulengro, 47"


def shown(error: BaseException) -> str:
    """All that an error could tell: words, arguments, causes, and locals of frames not of tests."""
    found: list[str] = []
    pending: list[BaseException | None] = [error]
    while pending:
        some = pending.pop()
        if some is None:
            continue
        found += [str(some), repr(some), repr(some.args), repr(vars(some))]
        found += getattr(some, "__notes__", [])
        for frame, _ in traceback.walk_tb(some.__traceback__):
            if os.path.dirname(__file__) not in frame.f_code.co_filename:
                found.append(f"{frame.f_code.co_name} {frame.f_locals!r}")
        pending += [some.__cause__, some.__context__]
    return "\n".join(found)


def functions(error: BaseException) -> set[str]:
    """The functions whose frames an error holds."""
    return {frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)}


# the functions that have true counts, or what the engine said, at hand
BEHIND = {"_noisy", "_cells", "counts", "_counts", "_run", "attempt", "arrays", "matvec", "broken"}


def engine_fails(error: BaseException):
    """DuckDB raises when it is asked for counts."""

    def broken(spy, patch):
        def fail(sql):
            if not sql.startswith(OPENING):
                raise error

        spy.fail = fail

    return broken


def sampler_fails(spy, patch):
    def broken(*args, **named):
        raise OverflowError(f"noise of {SECRET}")

    patch.setattr(noise, "gaussian", broken)


def workload_fails(spy, patch):
    def broken(workload, codes, counts):
        secret = (SECRET, codes, counts)
        raise ValueError(*secret)

    patch.setattr(Workload, "matvec", broken)


def interrupted(spy, patch):
    def broken(workload, codes, counts):
        true = (SECRET, counts)
        assert true
        raise KeyboardInterrupt

    patch.setattr(Workload, "matvec", broken)


FAILURES = {
    "a value in a cast": engine_fails(duckdb.ConversionException(f"Could not convert {SECRET!r}")),
    "a value in an error": engine_fails(duckdb.InvalidInputException(f"row of {SECRET}")),
    "no memory": engine_fails(duckdb.OutOfMemoryException(f"while at {SECRET}")),
    "damage": engine_fails(duckdb.FatalException(f"Corrupt database: {SECRET}")),
    "a bug of the engine": engine_fails(RuntimeError(SECRET)),
    "the sampler": sampler_fails,
    "a bug of the workload": workload_fails,
    "Ctrl-C amid the counts": interrupted,
}


@pytest.mark.parametrize("failure", FAILURES)
def test_what_fails_after_the_charge_says_nothing_and_stays_paid(
    failure, tmp_path, monkeypatch, capfd
):
    """A36: no word, cause, context, local or line of output has it; the next answer is given."""
    ledger = purse()
    spy = watch(monkeypatch)
    with Session(table(tmp_path, rows(40)), user=USER, ledger=ledger) as session:
        price = session.explain(ASKED[1], rho=1e-3).price
        with pytest.MonkeyPatch.context() as patch:
            FAILURES[failure](spy, patch)
            with pytest.raises((SourceError, InternalError, KeyboardInterrupt)) as caught:
                session.answer(ASKED[1], rho=1e-3)
        said = shown(caught.value)
        assert "Petulengro" not in said
        assert not functions(caught.value) & BEHIND
        assert caught.value.__cause__ is None and caught.value.__context__ is None
        assert session.last_charge == price
        assert ledger.balance(USER, "people").spent_rho == round(price.rho * 1e12)
        assert spy.kinds("charge")
        spy.fail = lambda sql: None
        assert len(session.answer(ASKED[1], rho=1e-3).rows) == 4
    for as_json in (False, True):
        with redirect_stderr(io.StringIO()) as stream:
            report(caught.value, as_json=as_json, charged=price)
        assert "Petulengro" not in stream.getvalue()
    out, err = capfd.readouterr()
    assert out + err == ""


@pytest.mark.parametrize("failure", FAILURES)
def test_what_is_told_of_a_failure_does_not_depend_on_the_rows(failure, tmp_path, monkeypatch):
    """A constant: the same class and words on an empty table and on a full one."""
    told = []
    for count in (0, 40):
        spy = watch(monkeypatch)
        path = table(tmp_path / str(count), rows(count))
        with Session(path, user=USER, ledger=purse()) as session:
            with pytest.MonkeyPatch.context() as patch:
                FAILURES[failure](spy, patch)
                with pytest.raises((Error, KeyboardInterrupt)) as caught:
                    session.answer(ASKED[1], rho=1e-3)
            told.append((type(caught.value), str(caught.value), session.last_charge))
    assert told[0] == told[1]


FORKED = """
import json, os, sys
from dpsql.session import Session
session = Session(sys.argv[1], user="alice")
sql = "SELECT age, COUNT(*) FROM people GROUP BY age"
def answer(session, sql):
    try:
        told = [list(row) for row in session.answer(sql, rho=1e-3).rows]
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    return told, session.budget().spent.rho
answer(session, sql)
for sql in (sql, sql.replace("age", "hours")):
    read, write = os.pipe()
    before = session.budget().spent.rho
    if os.fork() == 0:
        with os.fdopen(write, "w") as out:
            json.dump(answer(session, sql), out)
        os._exit(0)
    os.close(write)
    os.wait()
    with os.fdopen(read) as found:
        print(json.dumps([before, *json.load(found)]))
"""


def test_a_session_from_before_a_fork_pays_nothing_for_an_answer_that_it_cannot_give(tmp_path):
    path = table(tmp_path, rows(40))
    with Ledger.open(tmp_path / "people.ledger") as made:
        made.grant(USER, dataset="people", epsilon=10)
    found = run(FORKED, path)
    assert len(found) == 2
    for before, told, after in found:
        assert told == "SourceError: people.duckdb was opened before a fork: open it again after it"
        assert after == before
