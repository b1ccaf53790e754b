"""Threads and asyncio: a connection each, one ledger; stopping, closing, and never overspending."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.curator.curator import Curator
from dpsql.schema import Dataset
from dpsql.session import Session

SCHEMA = """
dataset = "{name}"
neighbours = "add-remove"
unit = "row"
[source]
{source}
[columns]
sex = {{type = "category", values = ["f", "m"]}}
age = {{type = "integer", min = 0, max = 9}}
"""
SLOW = "SELECT sex, age FROM town, range(4_000_000) r(i) WHERE hash(age * i) = 1"
COUNT = "SELECT COUNT(*) AS n FROM town WHERE age = ?"
STOPPED = "SELECT COUNT(*) FROM slow"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A town of 500, 50 of each age, and a query over it that takes minutes."""
    folder = tmp_path_factory.mktemp("threads")
    with duckdb.connect(str(folder / "town.duckdb")) as town:
        town.execute(
            "CREATE TABLE town AS SELECT CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex,"
            " i * 7 % 10 AS age FROM range(500) r(i)"
        )
    (folder / "schema").mkdir()
    for name, source in (("town", 'table = "town"'), ("slow", f'query = "{SLOW}"')):
        text = SCHEMA.format(name=name, source=source)
        (folder / "schema" / f"{name}.toml").write_text(text)
    return folder / "town.duckdb"


@pytest.fixture
def opened(place: Path, tmp_path: Path) -> Callable[..., dpsql.Connection]:
    """Opens connections to the town, with a new ledger for each test."""
    with dpsql.Ledger.open(tmp_path / "town.ledger") as ledger:
        for name in ("town", "slow"):
            ledger.grant("ann", dataset=name, epsilon=1)

    def connect(**settings: object) -> dpsql.Connection:
        return dpsql.connect(
            place, schema=place.parent / "schema", user="ann",
            ledger=tmp_path / "town.ledger", **settings,
        )  # fmt: skip

    return connect


def spent(opened: Callable[..., dpsql.Connection], dataset: str = "town") -> float:
    with opened() as con:
        return con.budget(dataset).spent.rho


# -- many at once ------------------------------------------------------------------------------


def test_threads_never_spend_more_than_the_grant(
    opened: Callable[..., dpsql.Connection],
) -> None:
    """Each asks for a tenth of the grant, the same people: ten are answered, the rest refused."""
    with opened() as con:
        granted = con.budget("town").granted.rho

    def ask(number: int) -> bool:
        with opened(reuse=False) as con:
            try:
                con.execute("SELECT COUNT(*) FROM town", rho=granted / 10.000001)
            except dpsql.BudgetExceeded:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        answered = list(pool.map(ask, range(24)))
    assert answered.count(True) == 10
    assert spent(opened) <= granted


def test_coroutines_never_spend_more_than_the_grant(
    opened: Callable[..., dpsql.Connection],
) -> None:
    """A third of the grant four times about each of five ages: three fit, and no person pays for
    another's."""
    with opened() as con:
        granted = con.budget("town").granted.rho

    def answer(age: int) -> float:
        with opened(reuse=False) as con:
            release = con.execute(COUNT, [age], rho=granted / 3.000001).release
        assert release.charged is not None
        return release.charged.rho

    async def all_of_them() -> list[float | BaseException]:
        asked = (asyncio.to_thread(answer, age % 5) for age in range(20))
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(all_of_them())
    paid = [one for one in found if not isinstance(one, BaseException)]
    refused = [one for one in found if isinstance(one, BaseException)]
    assert len(paid) == 15 and all(isinstance(one, dpsql.BudgetExceeded) for one in refused)
    assert sum(paid) == pytest.approx(spent(opened), rel=1e-9) and spent(opened) <= granted


def test_answers_of_threads_do_not_mix(opened: Callable[..., dpsql.Connection]) -> None:

    def ask(number: int) -> tuple[int, object]:
        with opened() as con:
            probe = con.execute("SELECT ? + 0 AS n", [number]).fetchone()
            return number, probe

    with ThreadPoolExecutor(8) as pool:
        assert all(found == (number,) for number, found in pool.map(ask, range(40)))


# -- stopping ----------------------------------------------------------------------------------


def stopped_after(con: dpsql.Connection, work: Callable[[], object], seconds: float) -> float:
    """Seconds until `work` ended after `con` was told to stop."""
    done, ended = threading.Event(), []

    def stop() -> None:
        while not done.wait(seconds):
            ended.append(time.monotonic())
            con.interrupt()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        work()
    finally:
        finish = time.monotonic()
        done.set()
        stopper.join()
    return finish - ended[0]


def test_another_thread_stops_a_statement(opened: Callable[..., dpsql.Connection]) -> None:
    with opened() as con:
        assert repr(con).endswith("town.duckdb for 'ann'>")

        def work() -> None:
            with pytest.raises(dpsql.Interrupted, match="the statement was stopped") as caught:
                con.execute(STOPPED)
            assert isinstance(caught.value, dpsql.OperationalError)
            assert "nothing was charged" in str(caught.value), "it reads all rows before it pays"

        assert stopped_after(con, work, 0.5) < 10
        with pytest.raises(dpsql.Interrupted):
            stopped_after(con, lambda: con.run(f"{STOPPED};{STOPPED} WHERE age > 3"), 0.5)
        assert con.execute("SELECT COUNT(*) FROM town").rowcount == 1, "it goes on"
        con.interrupt()
        assert con.execute("SELECT COUNT(*) FROM town").rowcount == 1, "where none runs, none stops"
    assert spent(opened, "slow") == 0


def test_what_is_stopped_while_it_is_planned_is_not_charged(
    opened: Callable[..., dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interruption comes when nothing is counted yet, and the plan has just been made."""
    counts = "SELECT age, COUNT(*) AS n FROM town GROUP BY age"
    with opened() as con:
        usual = Session._curator

        def interrupted(self: Session, dataset: Dataset) -> Curator:
            con.interrupt()
            return usual(self, dataset)

        with monkeypatch.context() as patch:
            patch.setattr(Session, "_curator", interrupted)
            for ask in (
                lambda: con.execute(counts),
                lambda: con.run(f"{counts};{counts} LIMIT 3"),
                lambda: con.execute(f"{counts} FIRST 1 ABOVE 5"),
            ):
                with pytest.raises(dpsql.Interrupted, match="nothing was charged"):
                    ask()
        assert spent(opened) == 0
        assert con.execute(counts).rowcount == 10, "the next one goes on"


def test_ctrl_c_is_no_error_of_the_statement(opened: Callable[..., dpsql.Connection]) -> None:
    with opened() as con:
        timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            con.execute(STOPPED)
        timer.join()
    assert not isinstance(caught.value, dpsql.Error)


def test_a_cancelled_coroutine_stops_its_statement(
    opened: Callable[..., dpsql.Connection],
) -> None:
    """As the documentation has it: the loop lives on, and the thread ends."""

    async def answer(con: dpsql.Connection, sql: str) -> dpsql.Release:
        work = asyncio.create_task(asyncio.to_thread(lambda: con.execute(sql).release))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            while not work.done():
                con.interrupt()
                await asyncio.wait([work], timeout=0.1)
            work.exception()
            raise

    async def main() -> tuple[bool, int]:
        with opened() as con:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(answer(con, STOPPED), 0.5)
            release = await answer(con, "SELECT COUNT(*) FROM town")
        return True, len(release.rows)

    started = time.monotonic()
    assert asyncio.run(main()) == (True, 1)
    assert time.monotonic() - started < 30


# -- closing -----------------------------------------------------------------------------------


def files() -> list[str]:
    """What the process has open."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # the folder's own
            continue
    return sorted(found)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_context_manager_closes_files_and_threads(
    opened: Callable[..., dpsql.Connection], tmp_path: Path
) -> None:
    def use() -> None:
        with opened() as con, con.cursor() as cursor:
            cursor.execute("SELECT sex, COUNT(*) AS n FROM town GROUP BY sex").arrow()
            con.run("SELECT COUNT(*) FROM town; SELECT AVG(age) FROM town")
            with pytest.raises(dpsql.Refused):
                cursor.execute("SELECT age FROM town")
            assert any("town.duckdb" in name for name in files())
            assert any("town.ledger" in name for name in files())

    use()  # libraries open what they keep
    gc.collect()
    before, names, tasks = files(), threading.enumerate(), len(os.listdir("/proc/self/task"))
    for _ in range(5):
        use()
    worker = threading.Thread(target=use)
    worker.start()
    worker.join()
    gc.collect()
    assert files() == before and threading.enumerate() == names
    assert len(os.listdir("/proc/self/task")) <= tasks + 1, "one of an empty database, kept"
    assert not any("town" in name for name in before)
    assert not list(tmp_path.glob("*-wal")) and not list(tmp_path.glob("*-journal"))


def test_an_error_closes_too(opened: Callable[..., dpsql.Connection]) -> None:
    before = files() if sys.platform == "linux" else []
    with pytest.raises(ZeroDivisionError), opened() as con:
        con.execute("SELECT COUNT(*) FROM town")
        raise ZeroDivisionError
    with pytest.raises(dpsql.InterfaceError, match="closed"):
        con.execute("SELECT COUNT(*) FROM town")
    if before:
        assert not [name for name in files() if "town" in name and name not in before]
