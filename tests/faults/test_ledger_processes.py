"""Many processes, forks and kills: never a charge too much, never an answer without its charge."""

import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.verify import verify

EVENT = Gaussian(1, Fraction(500))
TRIALS = Path(__file__).with_name("ledger_trials.py")


@pytest.fixture(params=["sqlite", "postgres"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger is in which alice has a grant: a file, or a server."""
    place = str(tmp_path / "a.ledger")
    if request.param == "postgres":
        place = request.getfixturevalue("address")
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
    return place


@pytest.fixture
def file(tmp_path: Path) -> str:
    place = str(tmp_path / "a.ledger")
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
    return place


def command(trial: str, *arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", str(TRIALS), trial, *map(str, arguments)]


def printed(trial: str, *arguments: object) -> list[str]:
    done = subprocess.run(
        command(trial, *arguments), capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def recorded(path: str) -> list[str]:
    """The statements charged; the kept sums, and all links, are recomputed on the way."""
    assert verify(path).problems == ()
    with Ledger.open(path, create=False) as ledger:
        log = list(ledger.log())
        charges = [entry for entry in log if entry.kind == "charge"]
        assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
        assert ledger.balance("alice", "adult").spent_rho == len(charges) * EVENT.rho
        ledger.charge("alice", "adult", EVENT, statement="it still charges")
    return [entry.statement for entry in charges]


def test_fifty_processes_spend_exactly_what_is_there(path: str) -> None:
    """As one user, and as fifty users under one cap."""
    rounds = 10
    with Ledger.open(path) as ledger:
        for number in range(rounds):
            dataset = f"data{number}"
            users = ["one"] if number % 2 else [f"user{rank}" for rank in range(50)]
            for user in users:
                grant = ledger.grant(user, dataset=dataset, epsilon=0.38)
            assert 3 * EVENT.rho <= grant.rho < 4 * EVENT.rho
    racers = [
        subprocess.Popen(
            command("race", path, rank),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for rank in range(50)
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
        for number in range(rounds):
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write(f"{'one' if number % 2 else 'user%'} data{number}\n")
            said = Counter(racer.stdout.readline() for racer in racers if racer.stdout)
            assert said == {"paid\n": 3, "refused\n": 47}
    finally:
        for racer in racers:
            racer.communicate(timeout=60)
    with Ledger.open(path, create=False) as ledger:
        caps = {balance.grant.dataset: balance.spent_rho for balance in ledger.caps()}
        assert [caps[f"data{number}"] for number in range(rounds)] == [3 * EVENT.rho] * rounds
    assert verify(path).problems == ()


def test_killed_at_any_line_no_answer_is_without_its_charge(path: str) -> None:
    *answered, steps = printed("kill_at_lines", path)
    assert int(steps.removeprefix("steps ")) > 100  # every line of opening and charging
    kept = recorded(path)
    assert set(answered) <= set(kept)
    assert len(set(kept)) == len(kept)
    lost = {statement[:-1] for statement in set(kept) - set(answered)}
    assert len(lost) == len(set(kept) - set(answered))  # at most one charge a process is wasted


def test_killed_at_any_instant_no_answer_is_without_its_charge(path: str) -> None:
    answered = printed("kill_at_instants", path, 120)
    kept = recorded(path)
    assert len(answered) > 50
    assert set(answered) <= set(kept)
    lost = Counter(statement.split(".")[0] for statement in set(kept) - set(answered))
    assert set(lost.values()) <= {1}


def test_a_fork_after_open_shares_the_ledger(path: str) -> None:
    assert printed("fork_after_open", path) == ["done"]
    assert Counter(recorded(path)) == {
        "parent": 1,
        "thread": 30,
        "child": 8,
        "parent again": 1,
        "reopened": 1,
        "child again": 8,
        "last": 1,
    }


def test_a_fork_that_python_does_not_know_of_is_refused(path: str) -> None:
    (refusal,) = printed("foreign_fork", path)
    assert ": this process was forked, not by Python, while the ledger was open" in refusal
    assert recorded(path) == ["parent", "parent again"]


def test_a_full_disk_gives_no_answer_and_no_damage(file: str) -> None:
    *answered, refusal, after = printed("fill_disk", file)
    assert re.match(
        r"refused a\.ledger: the ledger cannot be (read or )?written: the disk", refusal
    )
    assert len(answered) > 1
    assert recorded(file) == [*answered, after]
