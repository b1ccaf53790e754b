"""Releases as text: nothing is lost, nothing is added."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.errors import UsageError
from dpsql.release import Candidate, Cost, Plan, Release
from dpsql.surfaces.formats import lines, markdown_grid, plan_lines
from dpsql.surfaces.sheet import distinct, sheet
from tests.surfaces.conftest import released

Make = Callable[..., Release]


def text(made: Release, form: str, **options: object) -> str:
    return "\n".join(lines(made, form, **options))


def test_a_table_ends_with_the_price(release: Make) -> None:
    assert text(release(), "table").splitlines()[-1] == (
        "gaussian · 95 % intervals · price ε 0.171 alone, 1.0 % of the grant · ε left 1.95"
    )


def test_what_the_purse_paid_is_told_where_it_is_less_than_the_price(release: Make) -> None:
    made = release()
    assert made.price is not None
    for part, words in ((0.25, "charged ε 0.0428"), (0.0, "charged nothing")):
        paid = Cost(made.price.rho * part, made.price.epsilon * part, made.price.delta)
        assert text(dataclasses.replace(made, charged=paid), "table").splitlines()[-1] == (
            "gaussian · 95 % intervals · price ε 0.171 alone, 1.0 % of the grant"
            f" · {words} · ε left 1.95"
        )


def test_half_widths_stand_below_each_other(release: Make) -> None:
    made = release(
        rows=(("a", 1), ("b", 20000)),
        low=((None, -8.0), (None, 19000.0)),
        high=((None, 10.0), (None, 21000.0)),
    )
    first, second = text(made, "table").splitlines()[3:5]
    assert first == "│ a   │      1 ±     9 │"
    assert second == "│ b   │ 20,000 ± 1,000 │"


def test_a_key_has_no_thousands_separators(release: Make) -> None:
    made = release(("year", "n"), ("BIGINT", "BIGINT"), ((2013, 5000),))
    assert "│ 2013 │ 5,000 ± 47 │" in text(made, "table")


def test_with_intervals_the_bounds_are_columns(release: Make) -> None:
    made = release(intervals=True)
    assert "│ Female │ 10,771 │ 10,724 │ 10,818 │" in text(made, "table")
    assert text(made, "csv").splitlines()[:2] == [
        "sex,n,n_low,n_high",
        "Female,10771,10724.0,10818.0",
    ]
    page = sheet(made)
    assert page.columns == ("sex", "n", "n_low", "n_high")
    assert page.types == ("VARCHAR", "BIGINT", "DOUBLE", "DOUBLE")
    assert page.rows[0] == ("Female", 10771, 10724.0, 10818.0)


def test_columns_of_intervals_do_not_depend_on_the_rows(release: Make) -> None:
    made = release(rows=(), intervals=True)
    assert sheet(made).columns == ("sex", "n", "n_low", "n_high")


def test_notes_follow_the_price(release: Make) -> None:
    made = release(rows=(("a", None),), notes=("n is NULL: its denominator may be 0",))
    shown = text(made, "table").splitlines()
    assert "│ a   │ NULL │" in shown
    assert shown[-1] == "note: n is NULL: its denominator may be 0"


def test_a_free_answer_says_so(release: Make) -> None:
    made = release(half=(None, None), price=None, charged=None, backend="")
    assert text(made, "table").splitlines()[-1] == "free: nothing was charged"


def test_csv_keeps_every_text_and_tells_null_from_empty(release: Make) -> None:
    hard = ('say "hi"', "a,b", "line\nbreak", "", None, " pad ", "né")
    made = release(rows=tuple((value, 1) for value in hard))
    shown = text(made, "csv")
    read = list(csv.reader(io.StringIO(shown)))
    assert [row[0] for row in read[1:]] == ["" if value is None else value for value in hard]
    assert '"",1' in shown.splitlines() and ",1" in shown.splitlines()


def test_json_is_the_whole_release(release: Make) -> None:
    made = release(notes=("é",))
    assert Release.from_dict(json.loads(text(made, "json"))) == made
    assert json.loads(text(made, "json")) == made.to_dict()
    empty = release(rows=())
    assert Release.from_dict(json.loads(text(empty, "json"))) == empty


WHOLE = released().to_dict()


@pytest.mark.parametrize(
    "fields",
    [
        {}, [], None, 5, "x", {"types": 5}, {**WHOLE, "rows": [[1]]}, {**WHOLE, "columns": []},
        {**WHOLE, "price": {"rho": -1, "epsilon": 0, "delta": 0}}, {**WHOLE, "left": {"user": ""}},
        {**WHOLE, "types": ["DATE", "BIGINT"]}, {**WHOLE, "types": ["DECIMAL(3,1)", "BIGINT"]},
        {**WHOLE, "low": [["x", "y"]]}, *({k: WHOLE[k] for k in WHOLE if k != j} for j in WHOLE
                                          if j not in ("noisy", "intervals")),
    ],
)  # fmt: skip
def test_what_is_no_release_is_said_to_be_none(fields: Any) -> None:
    with pytest.raises(UsageError, match="this is no release: "):
        Release.from_dict(fields)


def test_markdown_escapes_what_it_would_read(release: Make) -> None:
    made = release(rows=(("a|b<c>\n", 1234),), columns=("s|x", "n"))
    assert text(made, "markdown") == ("| s\\|x | n |\n| --- | ---: |\n| a\\|b&lt;c><br> | 1234 |")
    made = release(rows=(("*a* `b` [c](d)", 1234),), columns=("s", "n"))
    assert text(made, "markdown").endswith("\n| \\*a\\* \\`b\\` \\[c](d) | 1234 |")


def test_markdown_for_people_has_no_blanks_that_only_align(release: Make) -> None:
    made = release(rows=(("a", 10_771), ("b", None)))
    assert list(markdown_grid(made))[2:] == ["| a | 10,771 ± 47 |", "| b | NULL |"]


def test_duplicate_names_stay_in_text_and_are_numbered_in_frames(release: Make) -> None:
    made = release(("n", "N"), ("BIGINT", "BIGINT"), ((1, 2),), (1.0, 1.0))
    assert text(made, "csv").splitlines()[0] == "n,N"
    assert distinct(("n", "N", "n_1", "n")) == ("n", "N_1", "n_1_1", "n_2")


def test_a_narrow_terminal_breaks_the_price_between_its_parts(release: Make) -> None:
    shown = text(release(), "table", width=40).splitlines()
    assert all(len(line) <= 43 for line in shown)
    assert shown[-2:] == ["price ε 0.171 alone, 1.0 % of the grant", "ε left 1.95"]


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "json"])
def test_many_rows_pass(release: Make, form: str) -> None:
    rows = tuple((f"k{i}", i) for i in range(20_000))
    assert sum(1 for _ in lines(release(rows=rows), form)) > 20_000


def plan() -> Plan:
    cost = Cost(0.0008, 0.171, 1e-6)
    return Plan(
        columns=("sex", "n"),
        types=("VARCHAR", "BIGINT"),
        rows=(("Female", None), ("Male", None)),
        stderr=((None, 24.2), (None, 24.2)),
        backend="gaussian",
        price=cost,
        candidates=(Candidate("gaussian", cost, 24.2), Candidate("laplace", cost, 30.1)),
        sensitivity=1.0,
        sensitivity_exact=True,
        cells=2,
        queries=2,
        left=None,
        dataset="adult",
    )


def test_a_plan_says_what_it_would_cost_and_how_far_off_it_would_be() -> None:
    shown = "\n".join(plan_lines(plan()))
    assert "│ Female │ ± 24.2 │" in shown
    assert "sensitivity 1.00 rows (exact) · 2 linear queries · 2 cells" in shown
    assert shown.endswith("price ε 0.171 alone · nothing was charged")


def test_a_plan_says_what_it_would_take_after_what_was_asked_before() -> None:
    shown = "\n".join(plan_lines(dataclasses.replace(plan(), charged=Cost(0.0, 0.0, 1e-6))))
    assert shown.endswith("price ε 0.171 alone · would take nothing · nothing was charged")
