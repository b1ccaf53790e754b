"""Ctrl-C and other threads stop a count at once, and the engine counts again."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dpsql.curator.engines import DuckDBEngine
from tests.faults.sources import declared, total


def test_ctrl_c_stops_a_count_at_once(database: Path) -> None:
    slow = "SELECT age FROM t, range(2_000_000) r(i) WHERE hash(t.id * i) = 1"
    engine = DuckDBEngine(database, declared(query=slow))
    for _ in range(3):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt) as caught:
            engine.counts(("age",))
        timer.join()
        assert time.monotonic() - started < 5
        assert caught.value.__context__ is None
    engine.close()


def test_another_thread_stops_a_count(database: Path) -> None:
    slow = "SELECT age FROM t, range(2_000_000) r(i) WHERE hash(t.id * i) = 1"
    engine = DuckDBEngine(database, declared(query=slow))
    timer = threading.Timer(0.3, engine.interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.counts(("age",))
    timer.join()
    stopped: list[BaseException] = []

    def count() -> None:
        try:
            engine.counts(("age",))
        except KeyboardInterrupt as error:
            stopped.append(error)

    worker = threading.Thread(target=count)
    worker.start()
    time.sleep(0.3)
    engine.interrupt()
    worker.join(10)
    assert len(stopped) == 1
    engine.close()


def test_an_engine_counts_again_after_it_was_stopped(database: Path) -> None:
    engine = DuckDBEngine(database, declared())
    engine.interrupt()
    assert total(engine) == 100_000
    for pause in (0.0, 0.001, 0.003, 0.01):
        timer = threading.Timer(pause, os.kill, (os.getpid(), signal.SIGINT))
        with contextlib.suppress(KeyboardInterrupt):
            timer.start()
            for _ in range(100):
                engine.counts(("age",))
                time.sleep(0.001)
        timer.join()
        assert total(engine) == 100_000
    engine.close()
