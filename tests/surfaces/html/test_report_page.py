"""`dpsql run -o report.html` and `dpsql.report`: pages that are whole, valid and self-contained."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.release import Budget, Release
from dpsql.session.scripts.report import Report, Section
from dpsql.session.scripts.script import Script, Step
from dpsql.surfaces.cli import main
from dpsql.surfaces.html.report import of_releases, of_report
from tests.surfaces.html import checks
from tests.surfaces.html.test_markup import HOSTILE

Make = Callable[..., Release]
NOW = datetime.datetime(2026, 11, 28, 9, 5, tzinfo=datetime.UTC)
SCHEMA = """
dataset = "t"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 9}
s = {type = "category", values = ["x", "<y> & 'z'"]}
"""
SCRIPT = """\
-- # The *report*
-- About **all** <of> it.
--
-- - a list

-- # By s
-- Both of them.
-- weight: 4
SELECT s, COUNT(*) AS n FROM t GROUP BY s;
-- # Along a
SELECT a, COUNT(*) AS n, AVG(s = 'x') AS share FROM t GROUP BY a ORDER BY a;
-- # Both
SELECT s, a // 5 AS half, COUNT(*) AS n FROM t GROUP BY ALL;
-- # Without
-- chart: none
SELECT s, COUNT(*) AS n FROM t GROUP BY s;
SELECT COUNT(*) AS "<b>n</b>" FROM t WHERE a < 3;
SHOW BUDGET;
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute(
            "CREATE TABLE t AS SELECT i % 10 AS a,"
            " CASE WHEN i % 3 = 0 THEN 'x' ELSE '<y> & ''z''' END AS s FROM range(500) r(i)"
        )
    (tmp_path / "t.toml").write_text(SCHEMA)
    (tmp_path / "r.sql").write_text(SCRIPT, encoding="utf-8")
    with dpsql.Ledger.open(tmp_path / "t.ledger") as ledger:
        ledger.grant("ann", dataset="t", epsilon=2)
    monkeypatch.chdir(tmp_path)
    for name in ("DPSQL_DB", "DPSQL_SCHEMA", "DPSQL_LEDGER", "DPSQL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DPSQL_USER", "ann")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert main(["run", "t.duckdb", "r.sql", *words]) == code
    return capsys.readouterr()


def charges() -> int:
    with dpsql.Ledger.open("t.ledger", create=False) as ledger:
        return sum(entry.kind == "charge" for entry in ledger.log())


def test_a_script_is_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "-o", "x.html") == ("", "")
    page = Path("x.html").read_text(encoding="utf-8")
    root = checks.sound(page)
    assert [checks.text(h) for h in checks.found(root, "h2")] == [
        "By s", "Along a", "Both", "Without", "<b>n</b>",
        "SHOW BUDGET",
        "What it cost", "How to read an interval",
    ]  # fmt: skip
    assert [checks.text(h) for h in checks.found(root, "h1")] == ["The report"]
    [about] = [p for p in checks.found(root, "p") if checks.text(p).startswith("About")]
    assert checks.text(about) == "About all <of> it."
    assert next(map(checks.text, checks.found(root, "li"))) == "a list"
    pictures = [checks.text(e) for e in checks.found(root, "figcaption")]
    assert pictures == ["n by s", "n by a", "share by a", "n by s and half"]
    prices = [p for p in checks.found(root, "p") if p.get("class") == "price"]
    assert sum("By itself this answer would have cost" in checks.text(p) for p in prices) == 5
    assert checks.text(prices[-1]) == "Free: nothing was charged."
    listed = checks.found(checks.found(root, "tbody")[-1], "tr")
    assert len(listed) == 6 and charges() == 1
    [foot] = checks.found(root, "tfoot")
    assert checks.text(foot) == "All togetherfactorization0.581"
    queries = [checks.text(code) for code in checks.found(root, "pre")]
    assert queries[0] == "SELECT s, COUNT(*) AS n FROM t GROUP BY s" and len(queries) == 6


def test_tables_have_the_released_values_and_intervals(release: Make) -> None:
    rows: Any = (("a", 10_771, 0.5), ("b", 9, None))
    made = release(("k", "n", "share"), ("VARCHAR", "BIGINT", "DOUBLE"), rows, (None, 47.0, 0.25))
    root = checks.sound(of_releases([made], now=NOW))
    cells = [[checks.text(c) for c in row] for row in checks.found(root, "tr")]
    assert cells == [
        ["k", "n", "share"],
        ["a", "10,771 ± 47", "0.50 ± 0.25"],
        ["b", "9 ± 47", "NULL"],
    ]
    apart = of_releases([replace(made, intervals=True)], now=NOW)
    cells = [[checks.text(c) for c in r] for r in checks.found(checks.sound(apart), "tr")]
    assert cells[0] == ["k", "n", "n_low", "n_high", "share", "share_low", "share_high"]
    assert cells[1] == ["a", "10,771", "10,724", "10,818", "0.50", "0.25", "0.75"]
    [reading] = [p for p in checks.found(root, "p") if checks.text(p).startswith("Every number")]
    assert (
        "10,771 ± 47 says that the number in the table lies between 10,724 and 10,818, with 95 %"
        in (checks.text(reading))
    )


def test_an_answer_that_was_free_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "-o", "x.html", "--reuse") == ("", "")
    assert said(capsys, "-o", "x.html", "--reuse") == ("", "") and charges() == 1
    page = Path("x.html").read_text(encoding="utf-8")
    assert page.count("nswered from") == page.count("Answered from earlier releases") == 5
    assert "all from earlier releases" in page and "0.0 %" not in page and "by itself" not in page


def test_forty_answers_are_a_small_page_that_is_soon_made(release: Make) -> None:
    """Of the time that answers take, a page adds a part of a second: 2 s would be the most."""
    rows: Any = tuple((f"some key {at}", at * 100, at / 7) for at in range(60))
    wide = release(("k", "n", "x"), ("VARCHAR", "BIGINT", "DOUBLE"), rows, (None, 47.0, 0.25))
    lines: Any = tuple((at, at * 100) for at in range(100))
    long = release(("k", "n"), ("BIGINT", "BIGINT"), lines, (None, 47.0))
    begun = time.process_time()
    page = of_releases([wide, long] * 20, now=NOW)
    assert time.process_time() - begun < 2
    assert len(page.encode()) < 1_000_000
    assert len(checks.found(checks.sound(page), "section")) >= 40


def test_half_widths_of_different_lengths_are_aligned_by_blanks(release: Make) -> None:
    """By such as wide as a digit, and not by the words for them."""
    rows: Any = (("a", 500, 9_500.0), ("b", 70, None))
    made = release(("k", "n", "s"), ("VARCHAR", "BIGINT", "DOUBLE"), rows, (None, 47.0, 1_250.0))
    spread = replace(made, low=((None, 480, 8_000.0), (None, -1_300, None)),
                     high=((None, 520, 11_000.0), (None, 1_400, None)))  # fmt: skip
    page = of_releases([spread], now=NOW)
    checks.sound(page)
    assert "\\u" not in page and " ± \u2007\u2007\u200720" in page


def test_a_long_table_shows_its_beginning(release: Make) -> None:
    made = release(rows=tuple((f"k{at}", at) for at in range(5_000)))
    page = of_releases([made], now=NOW)
    root = checks.sound(page)
    assert len(checks.found(root, "tr")) == 101
    assert "5,000 rows, 95 % intervals; the first 100 are shown" in page
    assert len(page) < 60_000


def test_the_page_of_releases_has_their_prices(release: Make, tmp_path: Path) -> None:
    free = replace(release(), price=None, charged=None, left=None)
    dpsql.report([release(), free], tmp_path / "a.html", title="Mine")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    root = checks.sound(page)
    assert [checks.text(e) for e in checks.found(root, "title")] == ["Mine"]
    prices = [checks.text(p) for p in checks.found(root, "p") if p.get("class") == "price"]
    assert prices[0].startswith("gaussian · 95 % intervals · price ε 0.171 alone")
    assert prices[1] == "free: nothing was charged"
    dpsql.report(release(), str(tmp_path / "b.html"))
    assert "Private answers" in (tmp_path / "b.html").read_text(encoding="utf-8")
    checks.sound(of_releases([], now=NOW))
    with pytest.raises(dpsql.UsageError, match="made of releases"):
        dpsql.report(["SELECT 1"], tmp_path / "c.html")
    with pytest.raises(dpsql.UsageError, match="cannot write"):
        dpsql.report(release(), tmp_path / "nowhere" / "c.html")


def test_python_writes_the_page_of_a_script(tmp_path: Path) -> None:
    with dpsql.connect("t.duckdb", user="ann") as con:
        dpsql.report(con.session.report("r.sql"), tmp_path / "p.html")
        dpsql.report(con.run("r.sql"), tmp_path / "q.html")
    titled = checks.sound((tmp_path / "p.html").read_text(encoding="utf-8"))
    plain = checks.sound((tmp_path / "q.html").read_text(encoding="utf-8"))
    assert checks.text(checks.found(titled, "h2")[0]) == "By s"
    assert checks.text(checks.found(plain, "h2")[0]) == "n by s"


texts = st.lists(HOSTILE, min_size=8, max_size=8)


@settings(max_examples=30, deadline=None)
@given(texts, st.sampled_from(["VARCHAR", "BIGINT"]))
def test_hostile_text_is_text_wherever_it_stands(listed: list[str], kind: str) -> None:
    title, about, head, described, name, key, note, backend = listed
    keys: Any = (key, "b") if kind == "VARCHAR" else (1, 2)
    made = Release(
        (name, "n"), (kind, "BIGINT"), tuple((k, 5) for k in keys),
        ((None, 1.0),) * 2, ((None, 3.0),) * 2, ((None, 7.0),) * 2, 0.95, backend,
        None, None, None, notes=(note,), noisy=(False, True),
    )  # fmt: skip
    step = Step(f"SELECT '{name}'", 0, head, described)
    script = Script(name, "", (step,), title, about)
    pages = [
        of_report(Report(script, (Section(step, made, None, "auto"),)), NOW),
        of_releases([made], title, NOW),
    ]
    for page in pages:
        root = checks.sound(page)
        allowed = {
            "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section",
            "h1", "h2", "h3", "p", "ul", "ol", "li", "strong", "em", "code", "a", "div", "figure",
            "figcaption", "svg", "desc", "line", "text", "rect", "circle", "polyline", "polygon",
            "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "details", "summary",
            "pre",
        }  # fmt: skip
        names = {e.tag.rpartition("}")[2] for e in root.iter() if isinstance(e.tag, str)}
        assert names <= allowed, names - allowed


def test_a_hostile_user_name_stays_in_its_budget(release: Make) -> None:
    left = release().left
    assert left is not None
    made = replace(
        release(), left=Budget(left.granted, left.spent, left.left, "<script>", "</title>")
    )
    checks.sound(of_releases([made], now=NOW))


def test_what_the_page_takes_not_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(made: object) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            raise OSError(28, "No space left on device")

        return write

    monkeypatch.setattr("dpsql.surfaces.output.text_writer", fails)
    out, err = said(capsys, "-o", "x.html", code=2)
    assert "no space left on device; the answers follow" in err and "1. By s" in out
    assert not Path("x.html").exists() and charges() == 1


def test_a_chart_that_does_not_suit_is_told_with_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("r.sql").write_text(
        "-- # A\nSELECT COUNT(*) FROM t;\n-- chart: heat\nSELECT COUNT(*) FROM t"
    )
    out, err = said(capsys, "-o", "x.html", code=1)
    assert out == "" and err.startswith("r.sql:4:1: refused: chart: heat does not suit")
    assert "nothing was charged" in err and charges() == 0 and not Path("x.html").exists()


def test_html_may_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "--format", "html")
    checks.sound(out)


def test_titles_and_texts_are_in_every_form_that_has_room(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = said(capsys, "--format", "markdown")[0]
    assert page.startswith("# The *report*\n\nAbout **all** &lt;of> it.")
    assert "\n- a list\n" in page and "\n## By s\n\nBoth of them.\n" in page
    fields = json.loads(said(capsys, "--format", "json")[0])
    assert (
        fields["title"] == "The *report*"
        and fields["releases"][0]["description"] == "Both of them."
    )
    assert [found["chart"] for found in fields["releases"]] == ["", "", "", "none", "", ""]
    assert fields["releases"][0]["alone"]["epsilon"] > 0 and fields["releases"][5]["alone"] is None
    said(capsys, "-o", "x.zip", "--format", "parquet")
    with zipfile.ZipFile("x.zip") as packed:
        assert packed.namelist() == [
            "01-by-s.parquet", "02-along-a.parquet", "03-both.parquet", "04-without.parquet",
            "05.parquet", "06.parquet",
        ]  # fmt: skip


def test_pages_are_loaded_only_when_used() -> None:
    code = (
        "import sys, dpsql\nfrom dpsql.surfaces.cli import main\nmain(['--help'])\n"
        "con = dpsql.connect('t.duckdb', user='ann')\ncon.run('r.sql')\n"
        "assert not any(name.startswith('dpsql.surfaces.html') for name in sys.modules)\n"
        "dpsql.report\nassert 'dpsql.surfaces.html.report' in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_nothing_in_the_code_of_pages_names_another_place() -> None:
    folder = Path(dpsql.__file__).parent / "surfaces/html"
    for path in folder.glob("*.py"):
        named = re.findall(r"https?://\w[\w.]*", path.read_text(encoding="utf-8"))
        assert not named, path
