"""Releases and plans as text: table, CSV, JSON, Markdown (Parquet is written by `frames`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from dpsql.release import Budget, Candidate, Cost, Plan, Release, Row
from dpsql.surfaces.figures import Style, ceiling, figure, floor, measured, percent, plain, share
from dpsql.surfaces.sheet import bare, costs, numeric, sheet
from dpsql.surfaces.table import table
from dpsql.surfaces.terminal import joined, visible, visible_json

FORMATS = ("table", "csv", "json", "markdown", "parquet")
SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".parquet": "parquet",
    ".txt": "table",
}
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
ROWS_SHOWN = 40  # of a plan; its JSON has them all


def lines(
    release: Release,
    form: str,
    *,
    width: int | None = None,
    drawn: bool = True,
) -> Iterator[str]:
    """The release in a text format, line by line."""
    match form:
        case "csv":
            return csv_lines(release)
        case "json":
            return json_lines(release.to_dict())
        case "markdown":
            return markdown_lines(release)
        case "table":
            return table_lines(release, width=width, drawn=drawn)
        case _:
            raise ValueError(f"not a text format: {form!r}")


def table_lines(release: Release, *, width: int | None = None, drawn: bool = True) -> Iterator[str]:
    """A drawn table of values and half-widths, and below it the price and the notes.

    Where intervals were asked for the bounds are columns of their own and no half-width is shown.
    """
    if bare(release):
        yield from map(visible, release.notes)
        yield joined(summary(release), width)
        return
    if release.columns:
        columns, cells, right = table_grid(release)
        yield from table(columns, cells, right, width=width, drawn=drawn)
    yield joined(summary(release), width)
    yield from (f"note: {visible(note)}" for note in release.notes)


def table_grid(release: Release) -> tuple[list[str], list[list[str]], list[bool]]:
    """Names, cells and alignments of the table: measured cells first in pairs, then padded."""
    names: list[str] = []
    right: list[bool] = []
    made: list[list[str]] = []
    noisy = [index for index, is_noisy in enumerate(release.noisy) if is_noisy]
    for index, name in enumerate(release.columns):
        values = [row[index] for row in release.rows]
        if index not in noisy:
            names.append(name)
            right.append(numeric(release.types[index]))
            cell = partial(_cost, name) if costs(release, index) else _cell
            made.append([_cell(v) if v is None else cell(v) for v in values])
            continue
        low = [line[index] for line in release.low]
        high = [line[index] for line in release.high]
        triples = list(zip(values, low, high, strict=True))
        style = Style.of(triples)
        pairs = [measured(*triple, style) for triple in triples]
        right += [True]
        names.append(name)
        if release.intervals:
            names += [f"{name}_low", f"{name}_high"]
            right += [True, True]
            made.append([value for value, _ in pairs])
            made.append(["NULL" if b is None else floor(b, style.digits) for b in low])
            made.append(["NULL" if b is None else ceiling(b, style.digits) for b in high])
        else:
            widest = max((len(error) for _, error in pairs), default=0)
            made.append([value + _error(error, widest) for value, error in pairs])
    rows = [list(row) for row in zip(*made, strict=True)]
    return [visible(name) for name in names], rows, right


def _error(error: str, size: int) -> str:
    """An error padded so that the signs of a column stand below each other."""
    return " ± " + error[3:].rjust(size - 3) if error.startswith(" ± ") else error.ljust(size)


def _cost(name: str, value: Any) -> str:
    """A cost of a list of ours as `budget show` has it; a delta keeps its own digits."""
    return f"{value:g}" if name == "delta" else figure(value)


def _cell(value: Any) -> str:
    text = plain(value)
    return "NULL" if text is None else visible(text)


def summary(release: Release) -> list[str]:
    """What the answer is and what it cost, in parts."""
    price, left = release.price, release.left
    if price is None:
        return ["free: nothing was charged"]
    parts = [release.backend] if release.backend else []
    if any(release.noisy):
        parts.append(f"{100 * release.confidence:.4g} % intervals")
    if release.reused:
        parts.append("released before")
    parts.append(priced(price, None if left is None else share(price, left)))
    parts += [f"charged {amount}" for amount in less(price, release.charged)]
    if left is not None:
        parts.append(f"ε left {figure(left.left.epsilon)}")
    return parts


def priced(price: Cost, part: float | None) -> str:
    """A price in words."""
    if not price.epsilon:
        return "free"
    words = f"price ε {figure(price.epsilon)} alone"
    return words if part is None else f"{words}, {percent(part)} of the grant"


def less(price: Cost, taken: Cost | None) -> list[str]:
    """What the purse pays, where that is less than the price, as far as figures tell."""
    if taken is None or figure(taken.epsilon) == figure(price.epsilon):
        return []
    if not (taken.rho < price.rho if price.delta else taken.epsilon < price.epsilon):
        return []
    return [f"ε {figure(taken.epsilon)}" if taken.epsilon else "nothing"]


def csv_lines(release: Release) -> Iterator[str]:
    """A header row and the plain values. NULL is an empty field, an empty text is `""`."""
    page = sheet(release)
    yield ",".join(_field(name) for name in page.columns)
    for row in page.rows:
        yield ",".join(_field(plain(value)) for value in row)


def _field(text: str | None) -> str:
    if text is None:
        return ""
    if not text or any(sign in text for sign in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def markdown_lines(release: Release) -> Iterator[str]:
    """A Markdown table of the plain values, numbers to the right."""
    page = sheet(release)
    yield _markdown(page.columns)
    yield "| " + " | ".join("---:" if numeric(kind) else "---" for kind in page.types) + " |"
    for row in page.rows:
        yield _markdown(["NULL" if (text := plain(value)) is None else text for value in row])


def markdown_grid(release: Release) -> Iterator[str]:
    """A Markdown table of values and half-widths, for people to read."""
    columns, cells, right = table_grid(release)
    yield _markdown(columns)
    yield "| " + " | ".join("---:" if right_ else "---" for right_ in right) + " |"
    yield from (_markdown(cell.strip() for cell in row) for row in cells)


def _markdown(texts: Iterable[str]) -> str:
    return "| " + " | ".join(_escaped(text) for text in texts) + " |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    if text.isalnum():
        return text
    for sign, shown in (
        ("\\", "\\\\"),
        ("|", "\\|"),
        ("*", "\\*"),
        ("`", "\\`"),
        ("[", "\\["),
        ("<", "&lt;"),
        ("\r\n", "<br>"),
        ("\n", "<br>"),
    ):
        text = text.replace(sign, shown)
    return visible(text)


def json_lines(fields: dict[str, Any]) -> Iterator[str]:
    """An object in JSON, one row of a grid a line."""
    yield "{"
    for number, (name, value) in enumerate(fields.items(), 1):
        comma = "," if number < len(fields) else ""
        if name in ("rows", "stderr", "low", "high") and value:
            yield f"  {_json(name)}: ["
            for row in value[:-1]:
                yield f"    {_json(row)},"
            yield f"    {_json(value[-1])}"
            yield f"  ]{comma}"
        else:
            yield f"  {_json(name)}: {_json(value)}{comma}"
    yield "}"


def _json(value: Any) -> str:
    return visible_json(_ENCODER.encode(value))


def plan_lines(plan: Plan, *, width: int | None = None, drawn: bool = True) -> Iterator[str]:
    """What a statement would do: the shape of its answer, the candidates, the price."""
    yield f"plan for {plan.dataset}: {plan.backend}" if plan.dataset else f"plan: {plan.backend}"
    yield from plan_grid(plan, width=width, drawn=drawn)
    if any(error is not None for line in plan.stderr for error in line):
        yield "± is the standard error to expect; the values themselves are not computed"
    elif any(candidate.backend == "sparse" for candidate in plan.candidates):
        yield "the groups in the order in which they are asked; their counts are not told"
    else:
        yield "? is not known before: the error of a mean, ratio or spread depends on the answer"
    if plan.candidates:
        yield from _candidates(plan, width, drawn)
    exact = "exact" if plan.sensitivity_exact else "a bound from above"
    yield joined(
        [
            f"sensitivity {figure(plan.sensitivity)} {plan.unit} ({exact})",
            f"{plan.queries:,} linear quer{'y' if plan.queries == 1 else 'ies'}",
            f"{plan.cells:,} cell{'' if plan.cells == 1 else 's'}",
        ],
        width,
    )
    part = None if plan.left is None else share(plan.price, plan.left)
    parts = [priced(plan.price, part)]
    parts += [f"would take {amount}" for amount in less(plan.price, plan.charged)]
    if plan.left is not None:
        parts.append(f"ε left {figure(plan.left.left.epsilon)}")
    if plan.after is not None and plan.after != plan.left:
        parts.append(f"then {figure(plan.after.left.epsilon)}")
    yield joined([*parts, "nothing was charged"], width)
    yield from (f"note: {visible(note)}" for note in plan.notes)


def plan_grid(plan: Plan, *, width: int | None = None, drawn: bool = True) -> Iterator[str]:
    """The table of a plan: group keys, and the error to expect of each value."""
    rows = [
        [_predicted(value, error) for value, error in zip(row, errors, strict=True)]
        for row, errors in zip(plan.rows[:ROWS_SHOWN], plan.stderr[:ROWS_SHOWN], strict=True)
    ]
    noisy = [any(line[i] is not None for line in plan.stderr) for i in range(len(plan.columns))]
    right = [numeric(kind) or noise for kind, noise in zip(plan.types, noisy, strict=True)]
    names = [visible(name) for name in plan.columns]
    yield from table(names, rows, right, width=width, drawn=drawn)
    if len(plan.rows) > ROWS_SHOWN:
        yield f"({len(plan.rows) - ROWS_SHOWN:,} more rows)"


def _predicted(value: Any, error: float | None) -> str:
    if error is not None:
        return f"± {figure(error)}"
    return "?" if value is None else _cell(value)


def _candidates(plan: Plan, width: int | None, drawn: bool) -> Iterator[str]:
    unit = plan.unit if plan.unit == "rows" else "of the largest"
    yield from candidate_table(plan.candidates, plan.left, f"error ({unit})", width, drawn)


def candidate_table(
    candidates: Sequence[Candidate],
    left: Budget | None,
    error: str,
    width: int | None,
    drawn: bool,
) -> Iterator[str]:
    """The candidates of a plan, with how near a strategy's error is to the least of all.

    Prices compare as parts of the grant: alone, one of ε = 0.042 may take as much as one of 0.17.
    """
    bounded = any(candidate.ratio is not None for candidate in candidates)
    rows = [
        [c.backend]
        + ([] if left is None else [percent(share(c.price, left))])
        + [figure(c.price.epsilon), figure(c.rmse)]
        + ["" if c.ratio is None else f"{c.ratio:.3f} x"] * bounded
        for c in candidates
    ]
    of_grant = [] if left is None else ["of the grant"]
    names = ("candidate", *of_grant, "ε alone", error, *["of the least possible"] * bounded)
    yield from table(names, rows, (False, *[True] * (len(names) - 1)), width=width, drawn=drawn)
    for candidate in candidates:
        if candidate.strategies:
            yield f"{candidate.backend} through {candidate.compared}"


def cells_of(rows: Sequence[Row]) -> list[list[str]]:
    """Rows of plain values as cells of a table."""
    return [[_cell(value) for value in row] for row in rows]
