"""`dpsql budget report`: figures that add up to the ledger's, of the ledger alone."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.accounting import clock
from dpsql.accounting.events import Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.surfaces.cli import main
from dpsql.surfaces.figures import figure
from dpsql.surfaces.html.books import read
from dpsql.surfaces.html.budget import days_words, of_books
from tests.surfaces.html import checks
from tests.surfaces.html.test_markup import HOSTILE

START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
Later = Callable[[float], str]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """Moves the ledger's clock on by days, and gives its time."""
    moment = [START]
    monkeypatch.setattr("dpsql.accounting.ledger._now", lambda: clock.written(moment[0]))

    def move(days: float) -> str:
        moment[0] += datetime.timedelta(days=days)
        return clock.written(moment[0])

    return move


def rows(root: Element, caption: str) -> list[list[str]]:
    """The rows of the table in the section with this heading."""
    [section] = [
        s for s in checks.found(root, "section") if checks.text(checks.found(s, "h2")[0]) == caption
    ]
    [table] = checks.found(section, "table")
    return [[checks.text(cell) for cell in row] for row in checks.found(table, "tr")][1:]


def spent(
    ledger: Ledger, user: str, dataset: str, variance: int, statement: str = "SELECT 1"
) -> None:
    ledger.charge(user, dataset, Gaussian(1, Fraction(variance)), statement=statement)


def test_the_parts_add_up_to_what_the_caps_have_spent(later: Later) -> None:
    with Ledger.memory() as ledger:
        ledger.grant("ann", dataset="t", epsilon=2, cap=4)
        ledger.join("bob", "team", dataset="t")
        ledger.grant("team", dataset="t", epsilon=1, until="2026-12-31")
        ledger.grant("eve", dataset="u", epsilon=1, delta=0)
        for days in range(20):
            later(days / 4)
            spent(ledger, "ann", "t", 900)
            spent(ledger, "bob", "t", 2_500)
            ledger.charge("eve", "u", Laplace(1, 1, Fraction(50)), statement="SELECT 2")
        now = later(0)
        books = read(ledger, None, now)
        caps = {b.grant.dataset: b for b in ledger.caps()}
    for dataset, cap in caps.items():
        for sums in (books.tally.users, books.tally.mechanisms):
            parts = [found for (name, _), found in sums.items() if name == dataset]
            assert sum(found.rho for found in parts) == cap.spent_rho
            assert sum(found.epsilon for found in parts if cap.grant.pure) == (
                cap.spent_epsilon if cap.grant.pure else 0
            )
        assert books.tally.curves[dataset][-1][1] == cap.spent
        assert books.tally.datasets[dataset].charges == (40 if dataset == "t" else 20)
    root = checks.sound(of_books(books, "t"))
    assert [checks.text(h) for h in checks.found(root, "h2")] == [
        "About to run dry", "Purses", "Datasets and their caps", "Spending over time", "By user",
        "By mechanism", "Newest charges", "How to read this page",
    ]  # fmt: skip
    listed = {(row[0], row[1]): row for row in rows(root, "By user")}
    assert listed["ann", "t"][2] == listed["bob", "t"][2] == "20"
    shares = [float(row[3].removesuffix(" %")) for row in rows(root, "By user") if row[1] == "t"]
    assert sum(shares) == pytest.approx(100 * caps["t"].spent_rho / caps["t"].grant.rho, abs=1)
    assert [row[0] for row in rows(root, "By mechanism")] == ["Gaussian noise", "Laplace noise"]
    purses = {row[0]: row for row in rows(root, "Purses")}
    assert purses["teama group: bob"][6] == "2026-12-31" and purses["ann"][6] == "no end"
    assert len(rows(root, "Newest charges")) == 25


def test_days_left_are_what_is_left_by_what_was_paid_a_day_lately(later: Later) -> None:
    with Ledger.memory() as ledger:
        ledger.grant("ann", dataset="t", epsilon=2)
        for _ in range(90):
            spent(ledger, "ann", "t", 20_000 if later(1) < "2026-05-01" else 10_000)
        books = read(ledger, None, later(0))
        [balance] = ledger.purses()
    [holding] = books.purses
    a_day = 10**12 // 20_000  # one release of variance 10,000 a day, in the last 30 days
    assert holding.rate == pytest.approx(a_day, rel=1e-9)
    assert holding.days == pytest.approx(balance.left_rho / a_day)
    assert holding.part == balance.left_rho / balance.grant.rho


@pytest.mark.parametrize(
    ("variance", "words"), [(60, "empty"), (3_000, "less than a day"), (2_000_000, "")]
)
def test_what_is_about_to_run_dry_is_listed(later: Later, variance: int, words: str) -> None:
    with Ledger.memory() as ledger:
        ledger.grant("ann", dataset="t", epsilon=1)
        [purse] = ledger.purses()
        variance_ = variance if words != "empty" else -(-(10**12) // (2 * purse.grant.rho))
        for _ in range(1 if words == "empty" else 100):
            spent(ledger, "ann", "t", variance_)
        root = checks.sound(of_books(read(ledger, None, later(0.5)), "t"))
    if not words:
        assert "Nothing: every purse has 10 % or more left" in "".join(root.itertext())
        return
    found = rows(root, "About to run dry")
    assert {row[0] for row in found} == {"ann", "all users together"}


def test_a_first_day_of_a_fifth_of_the_grant_is_no_alarm(later: Later) -> None:
    with Ledger.memory() as ledger:
        ledger.grant("ann", dataset="t", epsilon=1)
        for _ in range(4):
            spent(ledger, "ann", "t", 455)
        root = checks.sound(of_books(read(ledger, None, later(0.1)), "t"))
    assert rows(root, "Purses")[0][4].endswith("82 % of ρ")
    assert "Nothing: every purse has 10 % or more left" in "".join(root.itertext())


def test_a_purse_that_ended_or_was_never_used_says_so(later: Later) -> None:
    with Ledger.memory() as ledger:
        ledger.grant("ann", dataset="t", epsilon=1, until="2026-03-05")
        ledger.grant("bob", dataset="t", epsilon=1)
        spent(ledger, "ann", "t", 5_000)
        books = read(ledger, None, later(90))
    found = {row[0]: row for row in rows(checks.sound(of_books(books, "t")), "Purses")}
    assert found["ann"][4:6] == ["0", "ended"]
    assert found["bob"][5] == "not used of late"


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (0.2, "less than a day"), (1.2, "about 1 day"), (45, "about 45 days"),
        (100, "about 3 months"), (1000, "about 3 years"), (1e9, "more than 100 years"),
    ],
)  # fmt: skip
def test_days_are_told_as_roughly_as_they_are_known(days: float, words: str) -> None:
    assert days_words(days) == words


def test_a_thousand_purses_are_read_in_a_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each for purses, caps and groups, and not once for every purse."""
    with Ledger.memory() as ledger:
        for number in range(100):
            ledger.grant(f"user{number}", dataset="t", epsilon=1)
        ledger.join("user7", "team", dataset="t")
        ledger.grant("team", dataset="t", epsilon=1)
        looks = []
        usual = ledger._book.read
        monkeypatch.setattr(ledger._book, "read", lambda look: looks.append(0) or usual(look))
        books = read(ledger, None)
    assert len(books.purses) == 101 and len(looks) < 10
    [team] = [held for held in books.purses if held.holder == "team"]
    assert team.members == ("user7",)


def test_an_empty_ledger_is_a_page() -> None:
    with Ledger.memory() as ledger:
        page = of_books(read(ledger, None), "t")
    assert "Nobody has a grant." in page
    checks.sound(page)


@settings(max_examples=40, deadline=None)
@given(HOSTILE, HOSTILE, st.text("<>&\"'x", min_size=1, max_size=9))
def test_hostile_names_and_statements_are_text(user: str, statement: str, name: str) -> None:
    user = "".join(c for c in user if c.isprintable()).strip() or "u"
    with Ledger.memory() as ledger:
        try:
            ledger.grant(user, dataset=name, epsilon=1)
        except dpsql.Error:
            user = "<script>"
            ledger.grant(user, dataset=name, epsilon=1)
        spent(ledger, user, name, 4_000, statement)
        spent(ledger, user, name, 4_000, statement)
        root = checks.sound(of_books(read(ledger, None), name))
    assert not {"b", "h4"} & {
        e.tag.rpartition("}")[2] for e in root.iter() if isinstance(e.tag, str)
    }


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DPSQL_DB", "DPSQL_SCHEMA", "DPSQL_LEDGER", "DPSQL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with Ledger.open("t.ledger") as ledger:
        ledger.grant("ann", dataset="t", epsilon=2)
        ledger.grant("ann", dataset="u", epsilon=2)
        spent(ledger, "ann", "t", 900)
        spent(ledger, "ann", "u", 900)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert main(["budget", "report", *words]) == code
    return capsys.readouterr()


def test_the_command_needs_no_data(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not (place / "t.duckdb").exists()
    assert said(capsys, "t.duckdb", "-o", "b.html") == ("", "")
    root = checks.sound((place / "b.html").read_text(encoding="utf-8"))
    assert [row[1] for row in rows(root, "Purses")] == ["t", "u"]
    said(capsys, "t.duckdb", "-o", "b.html", "--dataset", "u")
    root = checks.sound((place / "b.html").read_text(encoding="utf-8"))
    for name in ("Purses", "By user", "Newest charges"):
        assert len(rows(root, name)) == 1
    with Ledger.open("t.ledger") as ledger:
        [left] = {figure(b.left_epsilon / 10**12) for b in ledger.purses()}
    assert rows(root, "Purses")[0][4].startswith(left)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["t.duckdb"], "no place for the page: add -o budget.html"),
        (["t.duckdb", "-o", "t.ledger"], "a database, ledger, key or schema"),
        (["t.duckdb", "-o", "nowhere/b.html"], "cannot write nowhere/b.html: no such file"),
        (["-o", "b.html"], "no database"),
    ],
)
def test_usage(
    place: Path, capsys: pytest.CaptureFixture[str], words: list[str], error: str
) -> None:
    before = (place / "t.ledger").read_bytes()
    out, err = said(capsys, *words, code=2)
    assert out == "" and error in err
    assert (place / "t.ledger").read_bytes() == before and not (place / "b.html").exists()


def test_without_a_ledger_there_is_no_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no ledger" in said(capsys, "none.duckdb", "-o", "b.html", code=4)[1]
    assert not (place / "b.html").exists() and not (place / "none.ledger").exists()


def test_a_ledger_in_postgres_has_a_page(
    address: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(address) as ledger:
        ledger.grant("ann", dataset="t", epsilon=2)
        spent(ledger, "ann", "t", 900)
    assert said(capsys, "t.duckdb", "--ledger", address, "-o", "b.html") == ("", "")
    root = checks.sound((place / "b.html").read_text(encoding="utf-8"))
    assert rows(root, "By user")[0][:3] == ["ann", "t", "1"]
