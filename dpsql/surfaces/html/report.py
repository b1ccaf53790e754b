"""A report as a page: answers with text, chart, table and price, and what all of it cost."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsql.errors import UsageError
from dpsql.release import Cost, Release
from dpsql.session.chart import AUTO, Chart
from dpsql.session.scripts.report import Report, Section
from dpsql.surfaces.figures import Style, ceiling, figure, floor, measured, percent, share
from dpsql.surfaces.formats import summary as release_summary
from dpsql.surfaces.html.charts import drawn
from dpsql.surfaces.html.markup import Content, Html, el, text
from dpsql.surfaces.html.page import made_by, page, tiles, write
from dpsql.surfaces.html.prose import inline, prose
from dpsql.surfaces.html.tables import ROWS, boxed, grid, of_release
from dpsql.surfaces.kept import writable
from dpsql.surfaces.pages import caption, notes_of
from dpsql.surfaces.pages import summary as report_summary

_LONGEST = 90  # characters of a heading that is made of column names


def report(
    given: Report | Release | Iterable[Release], path: str | os.PathLike[str], *, title: str = ""
) -> None:
    """Write answers to one HTML file, which needs nothing from elsewhere.

    `con.session.report("report.sql")` has the titles and texts of its script; releases, of
    `con.run` or of several statements, are shown without. A file that is there is replaced if it
    is a page, too. Raises UsageError where the file cannot be written.
    """
    place = Path(path)
    _replaceable(place)
    if isinstance(given, Report):
        made = of_report(given)
    else:
        made = of_releases([given] if isinstance(given, Release) else list(given), title)
    write(made, place)


def _replaceable(path: Path) -> None:
    """Raise UsageError for a file that is no page: whose data it may be is not known here."""
    writable(path)
    if path.is_file():
        with open(path, "rb") as file:
            begun = file.read(9).lower()
        if begun not in (b"", b"<!doctype"):
            raise UsageError(
                f"cannot write {path}: what is there is no page; remove it, or give another name"
            )


def of_report(given: Report, now: datetime.datetime | None = None) -> Html:
    """The page of a script."""
    script = given.script
    title = script.title.strip() or script.name.strip() or "Report"
    shown = [_Shown.of(number, section) for number, section in enumerate(given.sections, 1)]
    header = [el("h1", inline(title)), prose(script.description, 2), _tiles(given)]
    main = [*(_section(each) for each in shown), _cost(given, shown), _reading(shown)]
    return page(title, header, main, made_by(now or _now(), f" from {script.name}"))


def of_releases(
    given: Sequence[Release], title: str = "", now: datetime.datetime | None = None
) -> Html:
    """The page of answers that have no script. Raises UsageError for what is none."""
    if not all(isinstance(release, Release) for release in given):
        raise UsageError("a report is made of releases: con.run(...), or cur.release")
    title = title.strip() or "Private answers"
    shown = [_Shown.by_itself(number, release) for number, release in enumerate(given, 1)]
    main = [*(_section(each) for each in shown), _reading(shown)]
    return page(title, el("h1", title), main, made_by(now or _now(), ""))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True, slots=True)
class _Shown:
    """An answer, and what is said of it; `name` begins the ids of its elements."""

    name: str
    release: Release
    title: str
    price: str
    notes: Sequence[str]
    chart: Chart | str = AUTO
    description: str = ""
    sql: str = ""
    alone: Cost | None = None

    @classmethod
    def of(cls, number: int, section: Section) -> _Shown:
        release, step = section.release, section.step
        title = step.title or (_heading(release) if any(release.noisy) else caption(step))
        return cls(
            f"a{number}", release, title, _price(section),
            notes_of(section), section.chart, step.description, step.sql, section.alone,
        )  # fmt: skip

    @classmethod
    def by_itself(cls, number: int, release: Release) -> _Shown:
        price = " · ".join(release_summary(release))
        return cls(f"a{number}", release, _heading(release), price, release.notes)


def _heading(release: Release) -> str:
    """What stands above an answer without a title: its columns."""
    noisy = release.noisy or (False,) * len(release.columns)
    if not any(noisy):
        made = ", ".join(release.columns) or "No columns"
    else:
        pairs = list(zip(release.columns, noisy, strict=True))
        made = ", ".join(name for name, is_noisy in pairs if is_noisy)
        keys = [name for name, is_noisy in pairs if not is_noisy]
        made += f" by {', '.join(keys)}" if keys else ""
    return made if len(made) <= _LONGEST else made[: _LONGEST - 1] + "…"


_FREE = "Answered from earlier releases: nothing was charged."
_AGAIN = "answered from "  # a note that says the same


def _price(section: Section) -> str:
    release, alone = section.release, section.alone
    if release.price is None:
        return "Free: nothing was charged."
    if not release.price.epsilon:
        return _FREE
    if alone is None:
        return "Paid together with the others."
    if alone == release.price:
        return f"Price: ε {figure(alone.epsilon)}."
    return f"By itself this answer would have cost ε {figure(alone.epsilon)}."


def _section(shown: _Shown) -> Html:
    release = shown.release
    heading = f"{shown.name}-h"
    rows = len(release.rows)
    level = f", {100 * release.confidence:.4g} % intervals" if any(release.noisy) else ""
    count = f"{rows:,} row{'' if rows == 1 else 's'}{level}"
    if rows > ROWS:
        count += f"; the first {ROWS:,} are shown"
    table = None
    if release.columns:
        table = boxed(of_release(release, count), f"{shown.title}, table")
    free = shown.price == _FREE
    notes = [el("li", note) for note in shown.notes if not (free and note.startswith(_AGAIN))]
    return el(
        "section",
        el("h2", inline(shown.title), id=heading),
        prose(shown.description, 3),
        drawn(release, shown.chart, shown.name),
        table,
        el("p", shown.price, class_="price"),
        el("ul", notes, class_="notes") if notes else None,
        _sql(shown.sql),
        aria_labelledby=heading,
    )


def _sql(sql: str) -> Html | None:
    if not sql:
        return None
    code = el("code", text(sql.replace("\r\n", "\n"), keep="\n\t"))
    return el("details", el("summary", "SQL"), el("pre", code))


# -- costs -------------------------------------------------------------------------------------


def _tiles(given: Report) -> Html | None:
    price, left = given.price, given.left
    if price is None:
        return None
    count = sum(section.release.price is not None for section in given.sections)
    listed = [("Answers", f"{count:,}", "planned and paid together" if count > 1 else "")]
    if price.epsilon:
        part = "" if left is None else f"{percent(share(price, left))} of the grant"
        listed.append(("Price", f"ε {figure(price.epsilon)}", part))
    else:
        listed.append(("Price", "nothing", "all from earlier releases"))
    if left is not None:
        granted = f"of ε {figure(left.granted.epsilon)} granted"
        listed.append(("Left", f"ε {figure(left.left.epsilon)}", granted))
    levels = {s.release.confidence for s in given.sections if any(s.release.noisy)}
    if len(levels) == 1:
        listed.append(("Intervals", f"{100 * levels.pop():.4g} %", "confidence of each"))
    return tiles(listed)


def _cost(given: Report, shown: Sequence[_Shown]) -> Html | None:
    if given.price is None:
        return None
    several = sum(each.release.price is not None for each in shown) > 1
    table = _prices(given, shown) if several and given.price.epsilon else None
    return el(
        "section",
        el("h2", "What it cost", id="cost-h"),
        el("p", _together(given)),
        None if table is None else boxed(table, "Prices"),
        aria_labelledby="cost-h",
    )


def _prices(given: Report, shown: Sequence[_Shown]) -> Html:
    assert given.price is not None
    rows: list[list[Content]] = []
    for each in shown:
        if each.release.price is None:
            alone, backend = "free", ""
        else:
            alone = figure(each.alone.epsilon) if each.alone else ""
            alone = alone if each.release.price.epsilon else "0"
            backend = each.release.backend
        link = el("a", inline(_plain(each.title)), href=f"#{each.name}-h")
        rows.append([link, backend, alone])
    foot = ["All together", given.backend, figure(given.price.epsilon)]
    names = ("Answer", "answered by", "ε by itself")
    caption = "The price of each answer by itself, with the noise that it has here, and of all"
    return grid(caption, names, rows, (False, False, True), foot=foot)


def _together(given: Report) -> str:
    parts = report_summary(given)[1:] if given.backend else report_summary(given)
    said = "; ".join(parts)
    delta = f" (at δ {given.price.delta:g})" if given.price and given.price.delta else ""
    return f"{said[:1].upper()}{said[1:]}{delta}."


def _plain(title: str) -> str:
    """A title without links, for it is one."""
    return title.replace("](", "] (")


# -- how to read -------------------------------------------------------------------------------


def _reading(shown: Sequence[_Shown]) -> Html | None:
    found = next(_examples(shown), None)
    if found is None:
        return None
    value, low, high, level = found
    return el(
        "section",
        el("h2", "How to read an interval", id="reading-h"),
        el(
            "p",
            "Every number here has noise in it, so that no answer tells much about any one person."
            " How much noise is known: ",
            el("strong", value),
            f" says that the number in the table lies between {low} and {high}, with {level}"
            " confidence. Where the two sides differ, both ends are written, as in [0.21, 0.28]."
            " Lines over bars and bands around lines are these intervals. Each holds for its own"
            " number; of many, a few are missed. Counts below 0 and sums that do not quite agree"
            " are noise, not mistakes.",
        ),
        el(
            "p",
            "ε is what answers may tell about one person, at most: the smaller, the less. What is"
            " granted is spent once; answers that are read again cost nothing.",
        ),
        aria_labelledby="reading-h",
    )


def _examples(shown: Sequence[_Shown]) -> Iterator[tuple[str, str, str, str]]:
    """Values with a symmetric interval, its ends, and its level."""
    for each in shown:
        release = each.release
        for at, noisy in enumerate(release.noisy):
            triples = [
                (row[at], low[at], high[at])
                for row, low, high in zip(release.rows, release.low, release.high, strict=True)
            ]
            style = Style.of(triples) if noisy else None
            for value, low, high in triples:
                if style is None or value is None or low is None or high is None:
                    continue
                words = "".join(measured(value, low, high, style))
                if " ± " in words:
                    level = f"{100 * release.confidence:.4g} %"
                    ends = floor(low, style.digits), ceiling(high, style.digits)
                    yield words, *ends, level
