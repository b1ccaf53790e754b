"""Many processes, forks and kills: never a charge too much, never an answer without its charge."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
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


def raced(
    path: str, rounds: int, users: Callable[[int], list[str]], racers: list[tuple[object, ...]]
) -> Iterator[list[str]]:
    """What each of some processes says in each round of a race for 3 charges on a new dataset."""
    with Ledger.open(path) as ledger:
        for number in range(rounds):
            for user in users(number):
                grant = ledger.grant(user, dataset=f"data{number}", epsilon=0.38)
            assert 3 * EVENT.rho <= grant.rho < 4 * EVENT.rho
    running = [
        subprocess.Popen(
            command(str(trial), path, argument),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for trial, argument in racers
    ]
    try:
        for racer in running:
            assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
        for number in range(rounds):
            user = "one" if len(users(number)) == 1 else "user%"
            for racer in running:
                assert racer.stdin is not None
                racer.stdin.write(f"{user} data{number}\n")
            yield [racer.stdout.readline().strip() for racer in running if racer.stdout]
    finally:
        for racer in running:
            racer.communicate(timeout=60)


def caps(path: str, rounds: int) -> list[int]:
    """What the caps of the datasets of a race have spent."""
    with Ledger.open(path, create=False) as ledger:
        spent = {balance.grant.dataset: balance.spent_rho for balance in ledger.caps()}
    assert verify(path).problems == ()
    return [spent[f"data{number}"] for number in range(rounds)]


def test_fifty_processes_spend_exactly_what_is_there(path: str) -> None:
    """As one user, and as fifty users under one cap."""
    rounds = 10

    def users(number: int) -> list[str]:
        return ["one"] if number % 2 else [f"user{rank}" for rank in range(50)]

    for said in raced(path, rounds, users, [("race", rank) for rank in range(50)]):
        assert Counter(said) == {"paid": 3, "refused": 47}
    assert caps(path, rounds) == [3 * EVENT.rho] * rounds


def test_processes_that_ask_of_disjoint_people_do_not_pay_for_each_other(path: str) -> None:
    """A race of 24 processes about two groups: three answers about each."""
    rounds = 6
    racers: list[tuple[object, ...]] = [("race_for", number % 2) for number in range(24)]
    for said in raced(path, rounds, lambda _: ["one"], racers):
        for code in (0, 1):
            assert Counter(said[code::2]) == {"paid": 3, "refused": 9}
    assert caps(path, rounds) == [3 * EVENT.rho] * rounds


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
