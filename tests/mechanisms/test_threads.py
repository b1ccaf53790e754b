"""One thread while strategies are looked for, and as many as before after it."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from dpsql.mechanisms import threads
from dpsql.mechanisms.threads import one_thread


@pytest.fixture
def several(monkeypatch):
    """A library with three threads; how many it has now."""
    now = [3]
    calls = (lambda: now[0], lambda number: now.__setitem__(0, number))
    monkeypatch.setattr(threads, "_openblas", lambda: calls)
    return now


def test_it_has_one_thread_within_and_as_many_as_before_after_an_error(several):
    with pytest.raises(ZeroDivisionError), one_thread():
        assert several == [1]
        with one_thread():
            assert several == [1]
        assert several == [1]
        raise ZeroDivisionError
    assert several == [3]


def test_the_last_one_out_gives_the_threads_back(several):
    """In whatever order: the first one in leaves first."""
    inside, leave = threading.Event(), threading.Event()

    def first():
        with one_thread():
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=first)
    other.start()
    assert inside.wait(10)
    with one_thread():
        leave.set()
        other.join(10)
        assert several == [1]
    assert several == [3]


def test_numpys_own_library_obeys():
    found = threads._openblas()
    if found is None:  # another library than OpenBLAS, which is left as it is
        with one_thread():
            return
    before = found[0]()
    with one_thread():
        assert found[0]() == 1
    assert found[0]() == before


FORKED = """
import os, signal, sys, threading, time
from dpsql.mechanisms import threads
from dpsql.mechanisms.strategies import plans
from dpsql.query import distinct, shapes

locks = plans._PLANNING, threads._CHANGING, distinct._LISTING, shapes._KEEPING
held = threading.Event()
found = threads._openblas()
before = found and found[0]()

def hold():
    planning, changing, listing, keeping = (lock.held() for lock in locks)
    with planning, listing, keeping, threads.one_thread(), changing:
        held.set()
        time.sleep(60)

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    for lock in (plans._PLANNING, distinct._LISTING, shapes._KEEPING):
        with lock.held():
            pass
    with threads.one_thread():
        pass
    os._exit(0 if (found and found[0]()) == before else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0)
"""


def test_a_fork_in_the_midst_of_planning_leaves_a_child_that_can_plan() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    assert done.stdout.strip() == "0", done.stderr
