"""Charts show the values and intervals that were released, at the places where they belong."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.release import Release
from dpsql.session.chart import AUTO, Chart, Shape, chosen
from dpsql.surfaces.html.charts import drawn
from dpsql.surfaces.html.plot import Mark, extent
from tests.surfaces.html import checks

Make = Callable[..., Release]
PAGE = "<!doctype html><html lang=en><head><title>t</title></head><body>{}</body></html>"


def picture(release: Release, chart: Chart | str = AUTO) -> Element:
    made = drawn(release, chart, "x")
    assert made is not None
    return checks.parsed(PAGE.format(made))


def part(words: str | None) -> float:
    assert words is not None and words.endswith("%")
    return float(words[:-1]) / 100


def classed(root: Element, name: str, kind: str) -> list[Element]:
    return [e for e in checks.found(root, f"svg:{name}") if kind in (e.get("class") or "").split()]


def test_bars_end_at_values_and_error_bars_at_the_ends_of_intervals(release: Make) -> None:
    root = picture(release(half=(None, 4700.0)))
    lines = classed(root, "text", "x")
    marks = {checks.text(line): part(line.get("x")) for line in lines}
    assert marks["0"] == 0 and marks["30 k"] == 1

    def at(value: float) -> float:
        return value / 30_000

    widths = [part(bar.get("width")) for bar in classed(root, "rect", "b")]
    assert widths == pytest.approx([at(10_771), at(21_790)], abs=1e-4)
    spans = [
        (part(line.get("x1")), part(line.get("x2")))
        for line in classed(root, "line", "e")
        if line.get("x1") != line.get("x2")
    ]
    wanted = [(at(value - 4_700), at(value + 4_700)) for value in (10_771, 21_790)]
    assert spans == [pytest.approx(pair, abs=1e-4) for pair in wanted]
    caps = [line for line in classed(root, "line", "e") if line.get("x1") == line.get("x2")]
    assert len(caps) == 4
    [description] = checks.found(root, "svg:desc")
    assert checks.text(description) == (
        "Bars of n by sex, with 95 % intervals: Female 10,771 ± 4,700; Male 21,790 ± 4,700."
    )


def test_a_line_runs_through_values_within_a_band(release: Make) -> None:
    rows = tuple((year, value) for year, value in zip(range(2001, 2005), (10, 40, 20, 30)))  # noqa: B905
    root = picture(release(("year", "n"), ("INTEGER", "BIGINT"), rows, (None, 5.0)))
    [line] = classed(root, "polyline", "l")
    [band] = classed(root, "polygon", "band")
    scale = 50  # the axis ends there
    places = [tuple(map(int, pair.split(","))) for pair in (line.get("points") or "").split()]
    assert places == [(round(1000 * at / 3), round(1000 * (1 - v / scale)))
                      for at, v in enumerate((10, 40, 20, 30))]  # fmt: skip
    around = [tuple(map(int, pair.split(","))) for pair in (band.get("points") or "").split()]
    assert [y for _, y in around[:4]] == [
        round(1000 * (1 - (v + 5) / scale)) for v in (10, 40, 20, 30)
    ]
    assert [y for _, y in around[4:]] == [
        round(1000 * (1 - (v - 5) / scale)) for v in (30, 20, 40, 10)
    ]
    assert "2001" in [checks.text(e) for e in classed(root, "text", "x")], "years have no comma"


def test_a_value_that_is_withheld_breaks_a_line_and_leaves_a_bar_out(release: Make) -> None:
    rows: Any = ((1, 0.5), (2, 0.6), (3, None), (4, 0.7), (5, 0.5))
    given_ = release(("a", "share"), ("INTEGER", "DOUBLE"), rows, (None, 0.1))
    assert len(classed(picture(given_), "polyline", "l")) == 2
    root = picture(given_, Chart("bar", (0,), (1,)))
    assert len(classed(root, "rect", "b")) == 4
    assert "no value" in [checks.text(e) for e in checks.found(root, "svg:text")]


def test_a_heat_map_is_darker_where_more_is_and_dashed_where_0_is_possible(release: Make) -> None:
    rows: Any = (("a", "x", 700), ("a", "y", 10), ("b", "x", 100), ("b", "y", None))
    given_ = release(("k", "l", "n"), ("VARCHAR", "VARCHAR", "BIGINT"), rows, (None, None, 20.0))
    root = picture(given_)
    cells = [c for c in checks.found(root, "svg:rect") if re.match("h", c.get("class") or "")]
    assert [cell.get("class") for cell in cells] == ["h6", "hu", "h0", "hn"]
    assert [checks.text(cell) for cell in cells] == [
        "a, x: 700", "a, y: 10", "b, x: 100", "b, y: no value",
    ]  # fmt: skip
    [key] = [e for e in checks.found(root, "ul") if e.get("class") == "key"]
    assert checks.text(key) == "100  700the interval holds 0"


def test_lines_beside_each_other_have_a_legend(release: Make) -> None:
    day = datetime.date(2025, 1, 1)
    rows = tuple(
        (day + datetime.timedelta(days=30 * at), kind, 100 * at) for at in range(4) for kind in "ab"
    )
    given_ = release(("day", "kind", "n"), ("DATE", "VARCHAR", "BIGINT"), rows, (None, None, 9.0))
    assert chosen(Shape.of(given_)) == Chart("heat", (0, 1), (2,))
    root = picture(given_, Chart("line", (0, 1), (2,)))
    assert [e.get("class") for e in classed(root, "polyline", "l")] == ["l s0", "l s1"]
    [key] = [e for e in checks.found(root, "ul") if e.get("class") == "key"]
    assert [checks.text(item) for item in key] == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "types", "rows", "half", "kind"),
    [
        (("k", "n"), ("VARCHAR", "BIGINT"), (("a", 1), ("b", 2)), (None, 1.0), "bar"),
        (("k", "n"), ("BOOLEAN", "BIGINT"), ((True, 1), (False, 2)), (None, 1.0), "bar"),
        (("k", "n"), ("INTEGER", "BIGINT"), ((1, 1), (2, 2)), (None, 1.0), "line"),
        (("k", "n"), ("INTEGER", "BIGINT"), ((1, 1), (None, 2)), (None, 1.0), "bar"),
        (("k", "n"), ("DATE", "BIGINT"),
         ((datetime.date(2025, 1, 1), 1), (datetime.date(2025, 2, 1), 2)), (None, 1.0), "line"),
        (("k", "l", "n"), ("VARCHAR", "INTEGER", "BIGINT"), (("a", 1, 1), ("b", 2, 2)),
         (None, None, 1.0), "heat"),
        (("n",), ("BIGINT",), ((1,),), (1.0,), ""),
        (("k", "n"), ("VARCHAR", "BIGINT"), (("a", 1), ("a", 2)), (None, 1.0), ""),
        (("k", "n"), ("VARCHAR", "BIGINT"), tuple((f"{i}", i) for i in range(41)), (None, 1.0), ""),
        (("k", "l", "m", "n"), ("VARCHAR",) * 3 + ("BIGINT",), (("a", "b", "c", 1),) * 1,
         (None, None, None, 1.0), ""),
        (("k", "v"), ("VARCHAR", "VARCHAR"), (("a", "b"), ("c", "d")), (None, None), ""),
    ],
)  # fmt: skip
def test_the_shape_of_an_answer_chooses_its_chart(
    release: Make, columns: Any, types: Any, rows: Any, half: Any, kind: str
) -> None:
    found = chosen(Shape.of(release(columns, types, rows, half)))
    assert (found.kind if found else "") == kind


@given(st.lists(st.tuples(
    st.one_of(st.none(), st.floats(allow_nan=False), st.integers(-(10**30), 10**30)),
    st.one_of(st.none(), st.floats(allow_nan=False)),
    st.one_of(st.none(), st.floats(allow_nan=False)),
), min_size=2, max_size=6), st.sampled_from(["bar", "line", "heat"]))  # fmt: skip
def test_any_values_make_a_valid_picture(cells: list[Any], kind: Any) -> None:
    rows = tuple((at, f"k{at}", value) for at, (value, _, _) in enumerate(cells))
    given_ = Release(
        ("a", "k", "v"), ("INTEGER", "VARCHAR", "DOUBLE"), rows,
        tuple((None, None, None) for _ in rows),
        tuple((None, None, low) for _, low, _ in cells),
        tuple((None, None, high) for _, _, high in cells),
        0.95, "gaussian", None, None, None, noisy=(False, False, True),
    )  # fmt: skip
    keys = {"bar": (1,), "line": (0,), "heat": (0, 1)}[kind]
    made = drawn(given_, Chart(kind, keys, (2,)), "x")
    assert made is not None
    root = checks.parsed(PAGE.format(made))
    for element in root.iter():
        for value in element.attrib.values():
            assert not re.search(r"\b(nan|inf)\b", value)


def test_a_very_wide_interval_does_not_make_the_values_small() -> None:
    low, high = extent([Mark(0.5, -1e9, math.inf), Mark(0.4, 0.3, 0.5)], zero=True)
    assert -1.0 <= low < 0 and 0.5 <= high <= 1.5


def test_no_rows_make_no_chart(release: Make) -> None:
    nothing = replace(release(), rows=(), stderr=(), low=(), high=())
    assert drawn(nothing, AUTO, "x") is None
    assert drawn(nothing, Chart("bar", (0,), (1,)), "x") is None
    assert drawn(release(), "none", "x") is None
