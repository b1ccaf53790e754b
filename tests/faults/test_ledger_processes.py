"""Many processes, forks and kills: never a charge too much, never an answer without its charge."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger

EVENT = Gaussian(1, Fraction(500))
TRIALS = Path(__file__).with_name("ledger_trials.py")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "a.ledger"
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
    yield place


def command(trial: str, *arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", str(TRIALS), trial, *map(str, arguments)]


def printed(trial: str, *arguments: object) -> list[str]:
    done = subprocess.run(
        command(trial, *arguments), capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def recorded(path: Path) -> list[str]:
    """The statements charged; the kept sums are recomputed on the way."""
    with Ledger.open(path, create=False) as ledger:
        log = list(ledger.log())
        charges = [entry for entry in log if entry.kind == "charge"]
        assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
        assert ledger.balance("alice", "adult").spent_rho == len(charges) * EVENT.rho
        ledger.charge("alice", "adult", EVENT, statement="it still charges")
    return [entry.statement for entry in charges]


def raced(path: Path, rounds: int, *trials: tuple[object, ...]) -> Iterator[list[str]]:
    """What each of some processes says in each round of a race for a purse of 3 charges."""
    with Ledger.open(path) as ledger:
        for number in range(rounds):
            grant = ledger.grant(f"user{number}", dataset="adult", epsilon=0.38)
            assert 3 * EVENT.rho <= grant.rho < 4 * EVENT.rho
    racers = [
        subprocess.Popen(
            command(str(name), path, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for name, *arguments in trials
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
        for number in range(rounds):
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write(f"user{number}\n")
            yield [racer.stdout.readline().strip() for racer in racers if racer.stdout]
    finally:
        for racer in racers:
            racer.communicate(timeout=60)


def test_fifty_processes_spend_exactly_what_is_there(path: Path) -> None:
    rounds = 10
    for said in raced(path, rounds, *[("race",)] * 50):
        assert Counter(said) == {"paid": 3, "refused": 47}
    with Ledger.open(path, create=False) as ledger:
        spent = [purse.spent_rho for purse in ledger.purses() if purse.grant.user != "alice"]
    assert spent == [3 * EVENT.rho] * rounds


def test_processes_that_ask_of_disjoint_people_do_not_pay_for_each_other(path: Path) -> None:
    """A race of 24 processes about two groups: three answers about each."""
    rounds = 6
    for said in raced(path, rounds, *[("race_for", number % 2) for number in range(24)]):
        for code in (0, 1):
            assert Counter(said[code::2]) == {"paid": 3, "refused": 9}
    with Ledger.open(path, create=False) as ledger:
        spent = [purse.spent_rho for purse in ledger.purses() if purse.grant.user != "alice"]
    assert spent == [3 * EVENT.rho] * rounds


def test_killed_at_any_line_of_a_joint_charge_the_sums_stay_those_of_the_log(path: Path) -> None:
    *answered, steps = printed("kill_people_at_lines", path)
    assert int(steps.removeprefix("steps ")) > 60
    with Ledger.open(path, create=False) as ledger:
        charges = [entry for entry in ledger.log() if entry.kind == "charge"]
        codes = Counter(-1 if e.statement == "first" else int(e.statement) % 5 for e in charges)
        codes[0] += codes.pop(-1)
        most = max(codes.values()) * EVENT.rho
        assert ledger.balance("alice", "adult").spent_rho == most == charges[-1].after.rho
    assert set(answered) <= {entry.statement for entry in charges}


def test_killed_at_any_line_no_answer_is_without_its_charge(path: Path) -> None:
    *answered, steps = printed("kill_at_lines", path)
    assert int(steps.removeprefix("steps ")) > 100  # every line of opening and charging
    kept = recorded(path)
    assert set(answered) <= set(kept)
    assert len(set(kept)) == len(kept)
    lost = {statement[:-1] for statement in set(kept) - set(answered)}
    assert len(lost) == len(set(kept) - set(answered))  # at most one charge a process is wasted


def test_killed_at_any_instant_no_answer_is_without_its_charge(path: Path) -> None:
    answered = printed("kill_at_instants", path, 120)
    kept = recorded(path)
    assert len(answered) > 50
    assert set(answered) <= set(kept)
    lost = Counter(statement.split(".")[0] for statement in set(kept) - set(answered))
    assert set(lost.values()) <= {1}


def test_a_fork_after_open_shares_the_ledger(path: Path) -> None:
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


def test_a_fork_that_python_does_not_know_of_is_refused(path: Path) -> None:
    (refusal,) = printed("foreign_fork", path)
    assert refusal.startswith("a.ledger: this process was forked, not by Python")
    assert recorded(path) == ["parent", "parent again"]


def test_a_full_disk_gives_no_answer_and_no_damage(path: Path) -> None:
    *answered, refusal, after = printed("fill_disk", path)
    assert re.match(
        r"refused a\.ledger: the ledger cannot be (read or )?written: the disk", refusal
    )
    assert len(answered) > 1
    assert recorded(path) == [*answered, after]
