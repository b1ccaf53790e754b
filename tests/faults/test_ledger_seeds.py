"""A thousand seeded runs of what can befall a ledger: what is released is spent, in each of them.

130 processes are killed at a line of charge, look, answer and store, with reuse on; 220 at a line
of joint charges; 60 at one of making a ledger. In 140 a power cut takes a part of what was written
after the newest charge, in 100 the disk is full, in 70 files are read-only, in 140 one is truncated
and in 140 bits are flipped. After each run the ledger opens and knows of all that was released, or
it says what is wrong with it, and what to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNS = {
    "answers": 130,
    "charges": 220,
    "made": 60,
    "power": 140,
    "full": 100,
    "shut": 70,
    "cut": 140,
    "flipped": 140,
}
OUTCOMES = {
    "answers": {"killed-0", "killed-1", "whole"},
    "charges": {"killed-0", "killed-1", "killed-2"},
    "made": {"killed"},
    "power": {"lost"},
    "full": {"refused"},
    "shut": {"refused", "whole"},
    "cut": {"refused", "opened"},
    "flipped": {"refused", "opened"},
}


def test_there_are_a_thousand_runs() -> None:
    assert sum(RUNS.values()) == 1000 and OUTCOMES.keys() == RUNS.keys()


@pytest.mark.parametrize("fault", RUNS)
def test_what_is_released_is_spent_and_a_ledger_opens_or_says_why_not(
    fault: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "tests.faults.harmed",
            fault,
            tmp_path,
            str(RUNS[fault]),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    outcomes = Counter(done.stdout.split())
    assert outcomes.total() == RUNS[fault]
    assert outcomes.keys() >= OUTCOMES[fault], outcomes
