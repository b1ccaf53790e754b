"""Which setting holds: OPTIONS, the call, SET, the session's start, the defaults; by every door."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.errors import Refused, UsageError
from dpsql.session.settings import NAMES, Settings
from dpsql.surfaces.cli import main

SCHEMA = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 9}
b = {type = "boolean"}
"""
SQL = "SELECT COUNT(*) AS n FROM t"
GUESSED = itertools.cycle(f"SELECT COUNT(*) AS n FROM t WHERE a > {n} AND b" for n in range(9))
RUNNING = f"SELECT {', '.join(f'COUNT_IF(a <= {n}) AS n{n}' for n in range(9))} FROM t"

# of each setting: four values that a release tells apart, and how it tells them
VALUES: dict[str, tuple[Any, Any, Any, Any]] = {
    "epsilon": (0.1, 0.2, 0.3, 0.4),
    "rho": (0.001, 0.002, 0.003, 0.004),
    "accuracy": (10.0, 20.0, 30.0, 40.0),
    "confidence": (0.9, 0.8, 0.7, 0.6),
    "backend": ("laplace", "gaussian", "laplace", "gaussian"),
    "objective": ("largest", "total", "largest", "total"),
    "intervals": (True, False, True, False),
    "clamp": (True, False, True, False),
    "postprocess": ("projection", "none", "projection", "none"),
    "total": (100, 110, 120, 130),
    "whole": ("on", "off", "on", "off"),
    "target": ("population", "sample", "population", "sample"),
    "strict": (False, True, False, True),
    "reuse": (True, False, True, False),
}
BESIDE: dict[str, dict[str, Any]] = {  # needed with it
    "total": {"postprocess": "projection"},
    "strict": {"backend": "synopsis", "reuse": True},
}


def told(name: str, fields: dict[str, Any]) -> Any:
    """The value of a setting, as a release shows it."""
    match name:
        case "epsilon" | "rho":
            return pytest.approx(fields["price"][name], rel=1e-3)
        case "accuracy":
            return (fields["high"][0][0] - fields["low"][0][0]) / 2
        case "reuse":
            return fields["reused"]
        case "objective":
            errors = fields["stderr"][0]
            return "largest" if max(errors) < 1.02 * min(errors) else "total"
        case "strict":
            return not any("not verified" in note for note in fields["notes"])
        case "clamp":
            return any("clamp" in note for note in fields["notes"])
        case "postprocess":
            return "projection" if any(name in note for note in fields["notes"]) else "none"
        case "total":
            [number] = {int(n) for note in fields["notes"] for n in re.findall(r"(\d+) rows", note)}
            return number
        case "target":
            return "population" if any(name in note for note in fields["notes"]) else "sample"
        case "whole":
            return "on" if any("whole = on needs reuse" in n for n in fields["notes"]) else "off"
        case _:
            return fields[name]


def text(value: Any) -> str:
    return (
        {True: "on", False: "off"}.get(value, str(value))
        if isinstance(value, bool)
        else (f"'{value}'" if isinstance(value, str) else str(value))
    )


def about(name: str) -> str:
    """A statement that a setting makes a difference to; what was verified once stays so."""
    return RUNNING if name == "objective" else next(GUESSED) if name == "strict" else SQL


def optioned(name: str, value: Any) -> str:
    return about(name).replace(
        "SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({name} = {text(value)})"
    )


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Path]:
    named = getattr(request.node, "callspec", None)
    # about a population little can be said from few rows, or at a large grant
    many = named is not None and named.params.get("name") == "target"
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute(
            f"CREATE TABLE t AS SELECT 1 AS a, true AS b FROM range({10**6 if many else 100})"
        )
    (tmp_path / "t.toml").write_text(SCHEMA)
    with dpsql.Ledger.open(tmp_path / "t.ledger") as ledger:
        ledger.grant("ann", dataset="t", epsilon=0.05 if many else 1000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_USER", "ann")
    with dpsql.connect("t.duckdb", reuse=True) as con:
        con.execute(SQL)  # which reuse finds
        if named is not None and named.params.get("name") == "strict":
            con.synopses.create("both", ["a", "b"], method="pmw", rho=1, ways=1)
    yield tmp_path


def flags(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]


def test_every_setting_is_tried() -> None:
    assert set(VALUES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_nearest_to_the_statement_wins_in_python(name: str, place: Path) -> None:
    start, set_, call, options = VALUES[name]
    with dpsql.connect("t.duckdb", **{name: start}, **BESIDE.get(name, {})) as con:

        def shown(sql: str, **settings: Any) -> Any:
            return con.execute(sql, **settings).release.to_dict()

        assert start == told(name, shown(about(name)))
        con.execute(f"SET {name} = {text(set_)}")
        assert set_ == told(name, shown(about(name)))
        assert call == told(name, shown(about(name), **{name: call}))
        assert options == told(name, shown(optioned(name, options), **{name: call}))
        assert set_ == told(name, shown(about(name))), "what one call says does not stay"
        con.execute(f"RESET {name}")
        assert start == told(name, shown(about(name)))
        assert options == told(name, shown(optioned(name, options)))


@pytest.mark.parametrize("name", NAMES)
def test_the_nearest_to_the_statement_wins_on_the_command_line(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start, set_, call, options = VALUES[name]

    beside = [word for pair in BESIDE.get(name, {}).items() for word in flags(*pair)]

    def query(sql: str, *words: str) -> Any:
        assert main(["query", "t.duckdb", sql, "--format", "json", *words, *beside]) == 0
        return json.loads(capsys.readouterr().out)

    assert call == told(name, query(about(name), *flags(name, call)))
    assert options == told(name, query(optioned(name, options), *flags(name, call)))
    (place / "asked.sql").write_text(
        f"{about(name)}; SET {name} = {text(set_)}; {about(name)}; {optioned(name, options)}; "
        f"RESET {name}; {about(name)};"
    )
    with open(place / "asked.sql") as asked:
        found = shell(asked.read(), ["--format", "json", *flags(name, start), *beside], capsys)
    seen = [told(name, fields) for fields in found if fields["price"]]
    assert seen == [start, set_, options, start]


def shell(sql: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The answers of a shell to statements piped in."""
    import io
    import sys

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sql.encode())))
        assert main(["shell", "t.duckdb", *words]) == 0
    left, found = capsys.readouterr().out, []
    while left.strip():
        fields, end = json.JSONDecoder().raw_decode(left.lstrip())
        found.append(fields)
        left = left.lstrip()[end:]
    return found


def test_explain_has_the_same_rule(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = optioned("epsilon", 0.4)
    assert main(["explain", "t.duckdb", sql, "--epsilon", "0.3", "--format", "json"]) == 0
    by_command = json.loads(capsys.readouterr().out)["price"]
    with dpsql.connect("t.duckdb") as con:
        assert con.explain(sql, epsilon=0.3).price.to_dict() == by_command
    assert by_command["epsilon"] == pytest.approx(0.4, rel=1e-3)


@pytest.mark.parametrize("near", ["epsilon", "rho"])
def test_a_price_replaces_one_in_the_other_unit(near: str, place: Path) -> None:
    far = "rho" if near == "epsilon" else "epsilon"
    with dpsql.connect("t.duckdb", **{far: 0.05}) as con:
        for asked in (
            lambda: con.execute(SQL, **{near: 0.01}),
            lambda: con.execute(optioned(near, 0.01), **{far: 0.02}),
        ):
            price = asked().release.to_dict()["price"]
            assert price[near] == pytest.approx(0.01, rel=1e-2)
        con.execute(f"SET {near} = 0.01")
        assert con.session.settings == Settings(**{near: 0.01})
        con.execute(f"RESET {near}")
        assert con.session.settings == Settings(**{far: 0.05})


@pytest.mark.parametrize(
    ("options", "reason", "marked"),
    [
        ("epsilon = 1, epsilon = 1", "epsilon is given twice in OPTIONS", "epsilon = 1"),
        ("epsilon = 1, EPSILON = 2", "epsilon is given twice in OPTIONS", "EPSILON = 2"),
        ("clamp = on, rho = 1, clamp = off", "clamp is given twice in OPTIONS", "clamp = off"),
        ("delta = 1e-6, delta = 1e-6", "delta is given twice in OPTIONS", "delta = 1e-6"),
        ("epsilon = 1, rho = 1", "epsilon and rho each decide", "rho = 1"),
        ("epsilon = x", "epsilon is a number", "epsilon = x"),
        ("postprocess = clip", "postprocess is none or projection", "postprocess = clip"),
        ("total = 0.5", "total is a whole number", "total = 0.5"),
        ("target = rows", "target is sample or population", "target = rows"),
        ("total = 0", "total is a whole number", "total = 0"),
        ("epsilon = 1, colour = 2", "there is no setting 'colour'", "colour = 2"),
        ("delta = 0.5", "delta is the grant's", "delta = 0.5"),
        ("strict = perhaps", "strict is on or off", "strict = perhaps"),
    ],
)
def test_a_wrong_option_is_refused_at_its_place(
    options: str, reason: str, marked: str, place: Path
) -> None:
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) COUNT(*) FROM t"
    with dpsql.connect("t.duckdb") as con:
        for ask in (con.execute, con.explain):
            with pytest.raises(Refused) as caught:
                ask(sql)
            assert caught.value.reason.startswith(reason)
            start = sql.rindex(marked)
            assert (caught.value.start, caught.value.end) == (start, start + len(marked))


@pytest.mark.parametrize("given", [{"colour": 1}, {"epsilon": "x"}, {"epsilon": 1, "rho": 1}])
def test_a_wrong_argument_of_a_call_is_named_for_every_statement(
    given: dict[str, Any], place: Path
) -> None:
    with dpsql.connect("t.duckdb") as con:
        for sql in (SQL, "SHOW TABLES", "SELECT 1", f"EXPLAIN {SQL}", "SET clamp = on"):
            with pytest.raises(UsageError, match=r"setting|number|each decide"):
                con.execute(sql, **given)


def test_show_tells_what_holds_for_its_call(place: Path) -> None:
    with dpsql.connect("t.duckdb") as con:
        assert con.execute("SHOW epsilon", epsilon=0.5).fetchall() == [("epsilon", "0.5")]
        assert con.execute("SHOW epsilon").fetchall() == [("epsilon", "unset")]


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        ("SET threads = 1", "threads"), ("RESET threads", "threads"), ("SET epsilon = 0", "0"),
        ("SET epsilon = -1", "-1"), ("SET backend TO 'pmw'", "'pmw'"), ("SHOW nosuch", "nosuch"),
        ("SET SESSION clamp = 7", "7"), ("SET reuse = maybe", "maybe"), ("SET whole = 2", "2"),
    ],
)  # fmt: skip
def test_a_setting_that_is_refused_is_marked(place: Path, sql: str, marked: str) -> None:
    with dpsql.connect("t.duckdb") as con, pytest.raises(Refused) as caught:
        con.execute(sql)
    assert sql[caught.value.start : caught.value.end] == marked


@pytest.mark.parametrize("value", ["-1", "+0", "0", "1e99", "-0.5"])
def test_options_give_the_range_that_set_gives(place: Path, value: str) -> None:
    with dpsql.connect("t.duckdb") as con:
        with pytest.raises(Refused, match="epsilon is a number from 1e-12") as caught:
            con.execute(
                f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {value}) COUNT(*) FROM t"
            )
        with pytest.raises(Refused) as by_set:
            con.execute(f"SET epsilon = {value}")
    assert caught.value.reason == by_set.value.reason
