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
from dpsql.accounting.seals.verify import verify

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
        command(trial, *arguments), capture_output=True, text=True, timeout=240, check=False
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


def raced(path: str, rounds: int, *kinds: str) -> list[dict[int, str]]:
    """What each of 50 processes and 50 threads got in each round: the number of a charge, or a
    refusal. Each number is that of a charge in the log, which has no other ones."""
    said: list[dict[int, str]] = [{} for _ in range(rounds)]
    for line in printed("race", path, rounds, *kinds):
        dataset, rank, found = line.split()
        assert said[int(dataset.removeprefix("data"))].setdefault(int(rank), found) == found
    assert all(sorted(outcome) == list(range(100)) for outcome in said)
    assert verify(path).problems == ()
    with Ledger.open(path, create=False) as ledger:
        charges = [entry for entry in ledger.log() if entry.kind == "charge"]
        held = {(b.grant.user, b.grant.dataset): b.spent_rho for b in ledger.purses()}
        spent = {balance.grant.dataset: balance.spent_rho for balance in ledger.caps()}
    for number, outcome in enumerate(said):
        dataset = f"data{number}"
        mine = [entry for entry in charges if entry.dataset == dataset]
        assert {str(entry.seq) for entry in mine} == set(outcome.values()) - {"refused"}
        assert spent[dataset] == 3 * EVENT.rho
        each = Counter(entry.user for entry in mine)
        if kinds[number % len(kinds)] != "disjoint":
            paid = {user: rho for (user, of), rho in held.items() if of == dataset and rho}
            assert paid == {user: count * EVENT.rho for user, count in each.items()}
    return said


def test_fifty_processes_and_fifty_threads_spend_exactly_what_is_there(path: str) -> None:
    """A hundred rounds: as one user and as several, about everybody and about some people."""
    for outcome in raced(path, 100, "one", "capped", "overlapping", "both"):
        paid = [seq for seq in outcome.values() if seq != "refused"]
        assert len(set(paid)) == len(paid) == 3


def test_those_who_ask_of_disjoint_people_do_not_pay_for_each_other(path: str) -> None:
    """Three answers about each of two groups."""
    for outcome in raced(path, 6, "disjoint"):
        answered = [rank % 2 for rank, found in outcome.items() if found != "refused"]
        assert Counter(answered) == {0: 3, 1: 3}


def test_killed_at_any_line_of_a_joint_charge_the_sums_stay_those_of_the_log(path: str) -> None:
    *answered, steps = printed("kill_people_at_lines", path)
    assert int(steps.removeprefix("steps ")) > 60
    assert verify(path).problems == ()
    with Ledger.open(path, create=False) as ledger:
        charges = [entry for entry in ledger.log() if entry.kind == "charge"]
        codes = Counter(-1 if e.statement == "first" else int(e.statement) % 5 for e in charges)
        codes[0] += codes.pop(-1)
        most = max(codes.values()) * EVENT.rho
        assert ledger.balance("alice", "adult").spent_rho == most == charges[-1].after.rho
    assert set(answered) <= {entry.statement for entry in charges}


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
