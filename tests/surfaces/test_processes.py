"""The command as a process: Ctrl-C, readers who leave, full disks, many rows.

The session is scripted here, so that each thing can go wrong on purpose.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SHIM = """
import sys, time
from types import ModuleType, SimpleNamespace
sys.path.insert(0, {tests!r})
from conftest import released
from dpsql.release import Cost

class Session:
    last_charge = None
    user, datasets = "alice", {{}}
    def __init__(self, *a, **k): pass
    def __enter__(self): return self
    def __exit__(self, *e): pass
    def answer(self, sql, **settings):
        if sql.startswith("slow"):
            if sql == "slow paid":
                self.last_charge = Cost(0.0008, 0.171, 1e-6)
            sys.stderr.write("started\\n"); sys.stderr.flush()
            time.sleep(30)
        return released(rows=tuple((f"k{{i}}", i) for i in range(int(sql))))

module = ModuleType("dpsql.session")
module.Session = Session
sys.modules["dpsql.session"] = module
from dpsql.surfaces.cli import main
sys.exit(main())
"""


def spawn(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    code = SHIM.format(tests=str(Path(__file__).parent))
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize(
    ("sql", "words"), [("slow", b"nothing was charged"), ("slow paid", b"charged \xce\xb5 0.171")]
)
def test_an_interrupt_says_what_was_charged_and_is_130(sql: str, words: bytes) -> None:
    with spawn("query", "a.duckdb", sql, stdout=subprocess.DEVNULL) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == b"started\n"
        child.send_signal(signal.SIGINT)
        shown = child.stderr.read()
        assert child.wait(20) == 130
    assert shown.startswith(b"interrupted: ") and words in shown and b"Traceback" not in shown


def test_a_reader_who_leaves_is_no_error() -> None:
    with spawn("query", "a.duckdb", "200000", "--format", "csv", stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == b"sex,n\n"
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(20) == 0


def test_a_full_standard_output_loses_no_paid_answer() -> None:
    with open("/dev/full", "w") as full, spawn("query", "a.duckdb", "2", stdout=full) as child:
        assert child.stderr is not None
        shown = child.stderr.read().decode()
        assert child.wait(20) == 2
    assert "cannot write to standard output: no space left" in shown and "k1" in shown


def test_many_rows_stream() -> None:
    started = time.monotonic()
    with spawn("query", "a.duckdb", "200000", "--format", "csv", stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert sum(1 for _ in child.stdout) == 200_001
        assert child.wait(20) == 0
    assert time.monotonic() - started < 60


ALONE = """
import gc, os, sys
from dpsql.surfaces.cli import main
from dpsql.surfaces.run import Run
def settings():
    return gc.isenabled(), gc.get_freeze_count() > 0, os.environ.get("OPENBLAS_THREAD_TIMEOUT")
main(["--help"])
with Run().importing():
    found = [settings()]
found.append(settings())
with Run(alone=True).importing():
    found.append(settings())
found.append(settings())
sys.argv = ["dpsql", "--help"]
main()
found.append(settings())
print(found, file=sys.stderr)
"""


@pytest.mark.parametrize("given", [None, "26"])
def test_only_a_process_of_its_own_is_set_up_for_one_command(given: str | None) -> None:
    usual = {k: v for k, v in os.environ.items() if k != "OPENBLAS_THREAD_TIMEOUT"}
    asked = {} if given is None else {"OPENBLAS_THREAD_TIMEOUT": given}
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, env={**usual, **asked}
    )
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stderr) == [
        (True, False, given),
        (True, False, given),
        (False, False, given),
        (True, True, given),
        (True, True, given or "20"),
    ]
