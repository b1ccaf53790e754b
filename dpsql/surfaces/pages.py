"""A report and its plan as text, Markdown and JSON, and as a folder of tables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpsql.release import Budget, Cost, ScriptPlan
from dpsql.surfaces.figures import figure, percent, share
from dpsql.surfaces.formats import (
    candidate_table,
    json_lines,
    less,
    markdown_grid,
    plan_grid,
    table_grid,
)
from dpsql.surfaces.sheet import bare
from dpsql.surfaces.table import table
from dpsql.surfaces.terminal import cut, joined, visible

if TYPE_CHECKING:
    from dpsql.session.scripts.report import Report, Section
    from dpsql.session.scripts.script import Step

_CAPTION = 78  # columns of a statement that has no title
_SLUG = 40  # characters of a title in the name of a file


def lines(report: Report, form: str, *, width: int | None, drawn: bool) -> Iterator[str]:
    """A report in a text format, line by line."""
    match form:
        case "json":
            return _json(report)
        case "markdown":
            return _markdown(report)
        case "html":
            from dpsql.surfaces.html.page import lines as lines_of
            from dpsql.surfaces.html.report import of_report

            return iter(lines_of(of_report(report)))
        case "table":
            return _table(report, width, drawn)
        case _:
            raise ValueError(f"not a text format of a report: {form!r}")


def caption(step: Step) -> str:
    """The title of a statement, else the beginning of its text."""
    return cut(visible(step.caption), _CAPTION, "...")


def summary(report: Report) -> list[str]:
    """What all of it cost, in parts."""
    if report.price is None:
        return ["free: nothing was charged"]
    bought = [s.release for s in report.sections if s.release.price == report.price]
    paid = [report.backend, *_priced(report.price, report.charged, report.left, len(bought))]
    reused = sum(s.release.reused and s.release.price != report.price for s in report.sections)
    if reused and report.price.epsilon:
        paid.append(f"{reused} of earlier releases, free")
    if report.left is not None:
        paid.append(f"ε left {figure(report.left.left.epsilon)}")
    return paid


def _priced(price: Cost, charged: Cost | None, left: Budget | None, statements: int) -> list[str]:
    if not price.epsilon:
        return ["nothing was charged"]
    together = f"{statements} statements together" if statements > 1 else "the statement"
    words = f"price ε {figure(price.epsilon)} for {together}"
    if left is not None:
        words += f", {percent(share(price, left))} of the grant"
    return [words, *(f"charged {amount}" for amount in less(price, charged))]


def notes_of(section: Section) -> list[str]:
    """The notes of one answer; that it was paid with others is said once, below."""
    from dpsql.session.scripts.report import TOGETHER

    return [visible(n) for n in section.release.notes if not n.startswith(TOGETHER)]


def _table(report: Report, width: int | None, drawn: bool) -> Iterator[str]:
    if report.script.title:
        yield visible(report.script.title)
    yield from (visible(line) for line in report.script.description.splitlines())
    levels = _levels(report)
    for number, section in enumerate(report.sections, 1):
        if number > 1 or report.script.title or report.script.description:
            yield ""
        yield f"{number}. {caption(section.step)}"
        yield from (visible(line) for line in section.step.description.splitlines())
        if section.release.columns and not bare(section.release):
            names, cells, right = table_grid(section.release)
            yield from table(names, cells, right, width=width, drawn=drawn)
        if len(levels) > 1 and any(section.release.noisy):
            yield _level(section.release.confidence)
        yield from (f"note: {note}" for note in notes_of(section))
    yield ""
    yield joined(_whole(report, levels), width)


def _levels(report: Report) -> set[float]:
    """The levels of the intervals; where there are several, each answer says its own."""
    return {s.release.confidence for s in report.sections if any(s.release.noisy)}


def _level(confidence: float) -> str:
    return f"{100 * confidence:.4g} % intervals"


def _whole(report: Report, levels: set[float]) -> list[str]:
    """What all of it cost, after its backend with the level that all intervals have."""
    backend, *cost = summary(report)
    return [backend, *(_level(level) for level in levels if len(levels) == 1), *cost]


def _markdown(report: Report) -> Iterator[str]:
    if report.script.title:
        yield from (f"# {_prose(report.script.title)}", "")
    if report.script.description:
        yield from (_prose(report.script.description), "")
    levels = _levels(report)
    for section in report.sections:
        yield from (f"## {_prose(caption(section.step))}", "")
        if section.step.description:
            yield from (_prose(section.step.description), "")
        yield from markdown_grid(section.release)
        yield ""
        if len(levels) > 1 and any(section.release.noisy):
            yield from (_level(section.release.confidence), "")
        for note in notes_of(section):
            yield from (f"*{_prose(note)}*", "")
    yield _prose(joined(_whole(report, levels), None))


def _prose(text: str) -> str:
    """Text that Markdown shows as it is, but for its own emphasis; a line stays a line."""
    return "  \n".join(visible(line).replace("<", "&lt;") for line in text.split("\n"))


def _json(report: Report) -> Iterator[str]:
    """The releases, each with what its statement says of it, and what all of them cost."""
    script = report.script
    fields: dict[str, Any] = {
        "script": script.name,
        "title": script.title,
        "description": script.description,
        "backend": report.backend,
        "price": report.price and report.price.to_dict(),
        "charged": report.charged and report.charged.to_dict(),
        "left": report.left and report.left.to_dict(),
        "releases": None,
    }
    head = list(json_lines(fields))
    yield from head[:-2]
    yield '  "releases": ['
    for number, section in enumerate(report.sections, 1):
        step = section.step
        told = {
            "title": step.title, "description": step.description, "chart": step.chart,
            "weight": step.weight, "line": script.line(step), "sql": step.sql,
            "alone": section.alone and section.alone.to_dict(),
        }  # fmt: skip
        listed = list(json_lines({**told, **section.release.to_dict()}))
        listed[-1] += "," if number < len(report.sections) else ""
        yield from (f"    {line}" for line in listed)
    yield "  ]"
    yield "}"


def names(report: Report, suffix: str) -> list[str]:
    """A name for the file of each answer: its number, and its title in plain letters."""
    digits = max(2, len(str(len(report.sections))))
    return [
        "-".join(part for part in (f"{number:0{digits}}", _slug(section.step.title)) if part)
        + suffix
        for number, section in enumerate(report.sections, 1)
    ]


def _slug(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_SLUG].strip("-")


# -- plans -------------------------------------------------------------------------------------


def plan_lines(plan: ScriptPlan, *, width: int | None, drawn: bool) -> Iterator[str]:
    """What a script would do: the error of each answer, and the price of all of them."""
    for number, (title, found) in enumerate(zip(plan.titles, plan.plans, strict=True), 1):
        yield f"{number}. {cut(visible(title), _CAPTION, '...')}"
        yield from plan_grid(found, width=width, drawn=drawn)
        yield from (f"note: {visible(note)}" for note in found.notes)
        yield ""
    yield "± is the standard error to expect; the values themselves are not computed"
    if plan.candidates:
        heading = "mean error (of the largest)"
        yield from candidate_table(plan.candidates, plan.left, heading, width, drawn)
    parts = [plan.backend]
    if plan.price.epsilon:
        bought = sum(found.backend != "reuse" for found in plan.plans)
        parts += _priced(plan.price, plan.charged, plan.left, bought)
    if plan.left is not None and plan.after is not None:
        parts.append(f"ε left {figure(plan.left.left.epsilon)}")
        if plan.price.epsilon:
            parts.append(f"then {figure(plan.after.left.epsilon)}")
    yield joined([*(p.replace("charged", "would take") for p in parts), "nothing was charged"],
                 width)  # fmt: skip
    yield from (f"note: {visible(note)}" for note in plan.notes)
