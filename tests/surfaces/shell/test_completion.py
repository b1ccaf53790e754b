"""What is offered: from the schema and the grammar, where it can stand, as it must be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql import schema
from dpsql.errors import Error
from dpsql.session import Session
from dpsql.surfaces.shell import completion
from dpsql.surfaces.shell.completion import MOST, Vocabulary, offers

COUNT = "SELECT COUNT(*) FROM people WHERE "


def texts(known: Vocabulary, text: str) -> list[str]:
    """The texts offered where `|` is, or at the end."""
    cursor = text.index("|") if "|" in text else len(text)
    return [offer.text for offer in offers(text.replace("|", ""), cursor, known)]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        (COUNT + "sex = '", ["female'", "male'"]),
        (COUNT + "sex = 'F", ["female'"]),
        (COUNT + "sex = 'm", ["male'", "female'"]),  # those that hold it come after
        (COUNT + "sex = '|'", ["female", "male"]),  # the quote is there
        (COUNT + "people.sex <> '", ["female'", "male'"]),
        ("SELECT COUNT(*) FROM people AS p WHERE p.sex != '", ["female'", "male'"]),
        ("SELECT AVG((sex = '|')::INT) FROM people", ["female", "male"]),
        ("SELECT COUNT(*) FILTER (WHERE sex = '|", ["female'", "male'"]),
        (COUNT + "sex IN ('", ["female'", "male'"]),
        (COUNT + "sex NOT IN ('male', '", ["female'", "male'"]),
        (COUNT + "sex IS NOT DISTINCT FROM '", ["female'", "male'"]),
        (COUNT + "sex LIKE 'f", ["female'"]),
        (COUNT + "\"home-town\" = '", ["here'", "there'"]),
        (COUNT + "street = 'rue", ["Rue de l''Église'"]),
        (COUNT + "street = 'Rue de l''é", ["Rue de l''Église'"]),
        (COUNT + "day >= '", ["2025-01-01'", "2025-01-08'"]),
        (COUNT + "day >= DATE '", ["2025-01-01'", "2025-01-08'"]),
        ("SELECT CASE sex WHEN '", ["female'", "male'"]),
        ("SELECT CASE sex WHEN 'male' THEN 1 WHEN '", ["female'", "male'"]),
        (COUNT + "age = '", []),  # no text
        (COUNT + "nothing = '", []),
        (COUNT + "sex = 'male'", []),
        (COUNT + "lower(sex) = '", []),
        ("SET backend = ", ["auto", "gaussian", "laplace", "factorization", "synopsis"]),
        ("SET backend TO 'l", ["laplace'"]),
        ("SET reuse = ", ["on", "off"]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (clamp = ", ["on", "off"]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, b", ["backend"]),
        ("RESET a", ["accuracy", "all"]),
        ("SHOW t", ["tables", "total", "target"]),
        ("DESCRIBE ", ["people"]),
        ("SELECT COUNT(*) FROM ", ["people"]),
        ("SELECT COUNT(*) FROM p", ["people"]),
        ('SELECT COUNT(*) FROM "p', ['people"']),
        ("SELECT p.s| FROM people p", ["sex", "street", "smoker"]),
        ("select s| from people", ["sex", "street", "smoker"]),
        ('SELECT "h', ['home-town"']),
        (COUNT + "hom", ['"home-town"']),
        ("sel", ["select"]),
        ("SEL", ["SELECT"]),
        ("EXPLAIN s", ["select"]),
        ("SELECT sex, COUNT(*) FROM people G", ["GROUP BY"]),
        ("SELECT sex, COUNT(*) FROM people group ", ["BY"]),
        ("SELECT COUNT(*) AS ", []),
        ("SELECT COUNT(*) FROM people LIMIT ", []),
        ("SELECT 1 -- sex = '", []),
        ("SELECT 1 /* sex = '", []),
        ("SELECT 1; SHOW bu", ["budget"]), ("show sy", ["synopses", "synopsis"]),
        (".mode c", ["csv"]),
        (".schema p", ["people"]),
        ("\\d p", ["people"]),
        (".timer ", ["on", "off"]),
        (".explain SELECT COUNT(*) FROM p", ["people"]),
        (".sc", [".schema"]),
        ("\\ti", ["\\timing"]),
        (".nothing x", []),
    ],
)  # fmt: skip
def test_what_is_offered(known: Vocabulary, text: str, offered: list[str]) -> None:
    found = texts(known, text)
    if offered and text.startswith(("select s|", "SELECT p.s|", COUNT + "hom")):
        assert found[: len(offered)] == offered
    else:
        assert found == offered


def test_without_a_quote_values_come_as_literals_and_then_columns(known: Vocabulary) -> None:
    assert texts(known, COUNT + "sex = ")[:3] == ["'female'", "'male'", "sex"]
    assert texts(known, COUNT + "smoker = ")[:3] == ["false", "true", "NULL"]
    assert texts(known, COUNT + "grade IN (3, ")[:3] == ["3", "1", "2"]
    assert texts(known, COUNT + "income >= ")[:2] == ["0", "10000"]  # edges alone are compared with
    assert texts(known, COUNT + "day < ")[:2] == ["DATE '2025-01-01'", "DATE '2025-01-08'"]
    assert texts(known, COUNT + "age BETWEEN 1")[:2] == ["10", "11"]  # 1 is there
    assert texts(known, COUNT + "age BETWEEN 10 AND 11")[:1] == ["110"]


def test_a_name_given_by_as_is_offered_where_it_can_stand(known: Vocabulary) -> None:
    grouped = "SELECT sex, COUNT(*) AS many FROM people GROUP BY sex "
    assert texts(known, grouped + "ORDER BY ")[0] == "many"
    assert texts(known, grouped + "HAVING m")[0] == "many"
    assert "many" not in texts(known, "SELECT COUNT(*) AS many FROM people WHERE ")


@pytest.mark.parametrize(
    "text",
    [
        COUNT + "sex = '", COUNT + "street = '", COUNT + "\"home-town\" = '", COUNT + "sex = '|'",
        COUNT + "grade = ", COUNT + "smoker = ", COUNT + "day < DATE '", COUNT + "income < ",
        COUNT + "street IN ('main', '|')", "SELECT | , COUNT(*) FROM people GROUP BY 1",
        COUNT + "street = 'Rue de l''|",
    ],
)  # fmt: skip
def test_what_is_offered_is_accepted(town: Path, known: Vocabulary, text: str) -> None:
    """Values and columns, put where they are offered, are read as they were meant."""
    cursor = text.index("|") if "|" in text else len(text)
    text = text.replace("|", "")
    wanted = ("value", "BIGINT", "DOUBLE", "DATE", "BOOLEAN", "VARCHAR")
    found = [o for o in offers(text, cursor, known) if o.meta.startswith(wanted)]
    values = [offer for offer in found if offer.meta.startswith("value")]
    found = values or found
    assert found
    with Session(town / "people.duckdb") as session:
        for offer in found:
            sql = text[: cursor - offer.typed] + offer.text + text[cursor:]
            assert session.explain(sql).price.rho > 0, sql


def test_the_data_are_not_looked_at(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is offered does not change when the table, or the ledger, goes away."""
    with Session(town / "people.duckdb") as session:
        known = Vocabulary(session.datasets)
        before = texts(known, COUNT + "sex = '")
        for file in ("people.duckdb", "people.ledger"):
            (town / file).unlink()
        assert texts(known, COUNT + "sex = '") == before == ["female'", "male'"]
        with pytest.raises(Error):
            session.answer("SELECT COUNT(*) FROM people")


def test_of_many_values_some_are_offered_and_all_are_found() -> None:
    values = ", ".join(f'"v{number:05}"' for number in range(20_000))
    text = f"""dataset = "many"
unit = "row"
neighbours = "add-remove"
[source]
table = "many"
[columns]
code = {{type = "category", values = [{values}]}}
wide = {{type = "integer", min = -5, max = 9000000}}
"""
    many = schema.loads(text)
    known = Vocabulary({"many": many})
    where = "SELECT COUNT(*) FROM many WHERE "
    assert len(texts(known, where + "code = '")) == MOST
    assert texts(known, where + "code = 'V1999")[0] == "v19990'"
    assert texts(known, where + "code = 'v19999") == ["v19999'"]
    assert texts(known, where + "code = 'w") == []
    assert texts(known, where + "wide > ")[:2] == ["-5", "9000000"]  # the ends of a range
    assert texts(known, where + "x" * completion.LONGEST) == []
