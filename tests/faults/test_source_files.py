"""Broken, locked, missing and moved files: each has an error of ours that says what would do."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.curator.engines import DuckDBEngine
from dpsql.curator.sealed import unseal
from dpsql.errors import SourceError
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit
from tests.faults.sources import AGE, checked, declared, refusal, total


def test_a_missing_file(database: Path) -> None:
    assert "none.duckdb does not exist" in refusal(database.with_name("none.duckdb"))
    assert "does not exist" in refusal(database / "below" / "x.duckdb")
    assert not database.with_name("none.duckdb").exists()
    for name in ("none.parquet", "none.csv"):
        assert f"{name} does not exist" in refusal(database.with_name(name))


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_a_name_that_no_file_can_have(database: Path, name: str) -> None:
    assert "refuses its name" in refusal(database.with_name(name))


def test_a_folder(database: Path) -> None:
    assert "is a folder" in refusal(database.parent.parent / "private place" / "..")
    folder = database.parent / "x.parquet"
    folder.mkdir()
    assert "is a folder" in refusal(folder)


def test_a_pipe_is_not_waited_for(database: Path) -> None:
    pipe = database.with_name("pipe.csv")
    os.mkfifo(pipe)
    assert "not a regular file" in refusal(pipe)


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """As a user whom permissions bind, if this is the superuser."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("name", ["a.duckdb", "a.parquet", "a.csv"])
def test_a_file_or_folder_without_permission(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, shut = Path(place), Path(place) / "shut"
        shut.mkdir()
        for path in (folder / name, shut / name):
            path.write_text("age\n1\n")
        folder.chmod(0o755)
        (folder / name).chmod(0)
        shut.chmod(0)
        with unprivileged():
            said = refusal(folder / name), refusal(shut / name)
        shut.chmod(0o700)
    assert "may not be read by this user" in said[0]
    assert "may not be entered by this user" in said[1]


def test_a_database_that_another_process_writes(database: Path) -> None:
    write = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    command = [sys.executable, "-c", write, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        said = refusal(database)
        writer.communicate(b"\n")
    assert "locked: another process is writing" in said
    engine = DuckDBEngine(database, declared())
    engine.close()


def test_a_database_that_this_process_has_open_for_writing(database: Path) -> None:
    with duckdb.connect(str(database)):
        said = refusal(database)
    assert "already has" in said and "close that connection" in said and "another process" in said


CONTENTS = {
    "empty": b"",
    "text": b"age\n1\n2\n" * 2000,
    "zeros": bytes(20_000),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_file_that_is_no_database(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.duckdb"
    path.write_bytes(CONTENTS[kind])
    assert "is not a DuckDB database" in refusal(path)


def test_a_database_of_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    made = sqlite3.connect(path)
    made.execute("CREATE TABLE t (age INTEGER)")
    made.commit()
    made.close()
    assert "is not a DuckDB database" in refusal(path)


@pytest.mark.parametrize("share", [0.005, 0.01, 0.1, 0.5])
def test_a_database_cut_short(database: Path, share: float) -> None:
    content = database.read_bytes()
    database.write_bytes(content[: int(len(content) * share)])
    assert "is damaged" in refusal(database) or share < 0.008


def test_a_damaged_header(database: Path) -> None:
    content = bytearray(database.read_bytes())
    content[20:40] = b"x" * 20
    database.write_bytes(content)
    assert "is damaged" in refusal(database)


def test_damage_that_shows_only_when_rows_are_read(database: Path) -> None:
    content = database.read_bytes()
    path = database.with_name("torn.duckdb")
    told: list[str] = []
    for first in range(12_288, len(content), 262_144):
        torn = bytearray(content)
        torn[first + 20_000 : first + 21_000] = bytes(b ^ 0x5A for b in torn[first : first + 1000])
        path.write_bytes(torn)
        try:
            engine = DuckDBEngine(path, declared())
        except SourceError as error:
            told.append("opening: " + checked(error))
            continue
        try:
            assert total(engine) == 100_000
        except SourceError as error:
            told.append("counting: " + checked(error))
        finally:
            engine.close()
    assert told and all("is damaged" in said for said in told)
    assert any(said.startswith("counting") for said in told)


def _newer(content: bytes, version: int) -> bytes:
    """A database whose header names another storage version, with the checksum that it needs."""
    body = content[8:12] + struct.pack("<Q", version) + content[20:4096]
    total = 5381
    for (word,) in struct.iter_unpack("<Q", body):
        total ^= word * 0xBF58476D1CE4E5B9 & 2**64 - 1
    return struct.pack("<Q", total) + body + content[4096:]


@pytest.mark.parametrize("version", [70, 200, 5000])
def test_a_database_of_a_newer_duckdb(database: Path, version: int) -> None:
    database.write_bytes(_newer(database.read_bytes(), version))
    said = refusal(database)
    assert "newer" in said and "pip install --upgrade duckdb" in said


def test_a_log_of_another_database(database: Path) -> None:
    other = database.with_name("other.duckdb")
    leave = (
        "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]);"
        "c.execute('CREATE TABLE t AS SELECT 1 AS age, 2 AS b'); c.execute('CHECKPOINT');"
        "c.execute('INSERT INTO t VALUES (2, 3)'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", leave, str(other)], check=True)
    engine = DuckDBEngine(other, declared())
    assert total(engine) == 2  # a log of its own is read
    engine.close()
    shutil.copy(f"{other}.wal", f"{database}.wal")
    assert ".wal, the log beside" in refusal(database)


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"not parquet" * 100, b"PAR1" + bytes(99) + b"PAR1"]
)
def test_a_file_that_is_not_parquet(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    assert "is not a Parquet file" in refusal(path)


@pytest.mark.parametrize("content", [b"", b"age,Age\n1,2\n", b"\xff\xfe\x00age\n"])
def test_a_file_that_is_not_csv(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    said = refusal(path)
    assert "cannot be read as CSV" in said or "lacks the declared column" in said


def test_a_table_that_is_not_there_is_not_named(database: Path) -> None:
    said = refusal(database, declared(table="secret_table"))
    assert "lacks the table" in said and "secret_table" not in said


def test_all_missing_columns_at_once(database: Path) -> None:
    columns = tuple(Column(name, Kind.BOOLEAN) for name in ("a", "b"))
    missing = Dataset("d", (AGE, *columns), Neighbours.ADD_REMOVE, Unit(), Source(table="t"))
    assert "lacks the declared columns a, b" in refusal(database, missing)
    unit = Dataset("d", (AGE,), Neighbours.ADD_REMOVE, Unit("who", 2), Source(table="t"))
    with pytest.raises(SourceError, match="names as its unit"):
        DuckDBEngine(database, unit, unit_key=bytes(32))


QUERIES = {
    "selec age from t": "fails",
    "SELECT age FROM nowhere": "lacks",
    "SELECT nope FROM t": "fails",
    "SELECT age FROM t; SELECT age FROM t": "one SELECT",
    "DELETE FROM t": "one SELECT",
    "CREATE TABLE u AS FROM t": "one SELECT",
    "SELECT age FROM t WHERE id = ?": "fails",
    "SELECT * FROM '/etc/passwd'": "lacks",
    "SELECT * FROM '/etc/passwd.csv'": "database alone",
    "SELECT * FROM read_csv('/etc/passwd')": "database alone",
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_does_not_run(database: Path, query: str) -> None:
    assert QUERIES[query] in refusal(database, declared(query=query))


def test_a_query_that_fails_on_the_rows_does_not_quote_them(database: Path) -> None:
    query = (
        "SELECT CASE WHEN id = 77777 THEN CAST('secret' || id AS BIGINT) ELSE age END AS age FROM t"
    )
    engine = DuckDBEngine(database, declared(query=query))
    with pytest.raises(SourceError, match="rows that cannot be read") as caught:
        engine.ready()
    assert "secret" not in checked(caught.value) and "77777" not in checked(caught.value)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "secret77777" not in "".join(told.format())
    engine.close()


def test_a_view_that_reads_another_file(database: Path) -> None:
    other = database.with_name("b.csv")
    other.write_text("age\n1\n")
    with duckdb.connect(str(database)) as made:
        quoted = str(other).replace("'", "''")
        made.execute(f"CREATE VIEW v AS SELECT * FROM read_csv('{quoted}')")
    assert "tables of its own database only" in refusal(database, declared(table="v"))


def copy_as(database: Path, suffix: str) -> Path:
    if suffix == ".duckdb":
        return database
    path = database.with_suffix(suffix)
    with duckdb.connect(str(database), read_only=True) as made:
        made.execute(f"COPY t TO '{str(path).replace(chr(39), chr(39) * 2)}'")
    return path


@pytest.mark.parametrize("counted", [0, 1, 2])
@pytest.mark.parametrize("suffix", [".duckdb", ".parquet", ".csv"])
def test_a_file_that_is_replaced_changed_or_gone_while_open(
    database: Path, suffix: str, counted: int
) -> None:
    path = copy_as(database, suffix)
    engine = DuckDBEngine(path, declared())
    first = engine.snapshot()
    for _ in range(counted):
        assert total(engine) == 100_000
    spare = path.with_name("spare")
    shutil.copy2(path, spare)
    kept = path.with_name("kept")
    path.rename(kept)
    with pytest.raises(SourceError, match="is gone") as caught:
        engine.counts(())
    checked(caught.value)
    with pytest.raises(SourceError, match="is gone"):
        engine.snapshot()
    spare.rename(path)  # same size, same time, same bytes: another file
    with pytest.raises(SourceError, match="changed after it was opened: open it again"):
        engine.counts(())
    with pytest.raises(SourceError, match="changed after it was opened"):
        engine.snapshot()
    newer = DuckDBEngine(path, declared())
    assert newer.snapshot() != first
    newer.close()
    kept.replace(path)
    assert total(engine) == 100_000  # it has its name again
    assert engine.snapshot() != first
    os.utime(path, ns=(1, 1))
    with pytest.raises(SourceError, match="changed after"):
        engine.counts(())
    engine.close()
    again = DuckDBEngine(path, declared())
    assert total(again) == 100_000
    again.close()


@pytest.mark.parametrize("suffix", [".duckdb", ".parquet", ".csv"])
def test_a_file_that_is_touched_is_another_snapshot_and_no_refusal(
    database: Path, suffix: str
) -> None:
    """What an edit in place with its time put back and another mode have in common is the ctime."""
    path = copy_as(database, suffix)
    engine = DuckDBEngine(path, declared())
    first = engine.snapshot()
    assert total(engine) == 100_000 and engine.snapshot() == first
    path.chmod(0o600)
    assert total(engine) == 100_000
    assert engine.snapshot() != first
    other = DuckDBEngine(path, declared())
    assert other.snapshot() == engine.snapshot()
    other.close()
    engine.close()


def test_an_edit_in_place_with_its_time_put_back_is_read_and_is_another_snapshot(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sex,age\n" + "1,1\n" * 50)
    engine = DuckDBEngine(path, declared())
    before, times = engine.snapshot(), path.stat()
    seen = unseal(engine.counts(("age",))).codes["age"].tolist()
    with path.open("r+") as file:
        file.write("sex,age\n" + "2,2\n" * 50)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert engine.snapshot() != before
    assert unseal(engine.counts(("age",))).codes["age"].tolist() != seen
    engine.close()


def test_a_writer_that_gets_in_is_noticed(database: Path) -> None:
    """POSIX drops a process's lock on a file when any of its readers closes it."""
    engine, other = (DuckDBEngine(database, declared()) for _ in range(2))
    assert total(engine) == 100_000
    other.close()
    write = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('DELETE FROM t')"
    written = subprocess.run([sys.executable, "-c", write, str(database)], capture_output=True)
    if written.returncode == 0:
        with pytest.raises(SourceError, match="changed after it was opened"):
            engine.counts(())
    else:
        assert total(engine) == 100_000
    engine.close()


def test_a_snapshot_is_the_same_for_all_who_look(database: Path) -> None:
    one, two = (DuckDBEngine(database, declared()) for _ in range(2))
    other = DuckDBEngine(database, declared(query="FROM t"))
    before = one.snapshot()
    assert before == two.snapshot() != other.snapshot()
    assert "clinic" not in before
    for engine in (one, two, other):
        engine.close()
    with duckdb.connect(str(database)) as writer:
        writer.execute("INSERT INTO t VALUES (1, 1)")
    after = DuckDBEngine(database, declared())
    assert after.snapshot() != before and total(after) == 100_001
    after.close()


def test_no_folder_for_temporary_files(database: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(database.parent / "none"))
    assert "TMPDIR" in refusal(database)
