"""One thread while strategies are looked for, and as many as before after it."""

from __future__ import annotations

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
