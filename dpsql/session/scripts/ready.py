"""A script read, bound and compiled as a whole: what it asks, before anything is paid.

SET and RESET hold for the statements after them, OPTIONS for their own; the settings of the call go
before SET, as everywhere. A script has one price and one plan: they are set above its first
SELECT, or by the call. Whatever is refused is refused here, with its place in the script.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql.errors import Refused, UsageError
from dpsql.query.bind import Probe
from dpsql.query.compile import Compiled
from dpsql.query.expr import Span
from dpsql.query.parse import Ask, Describe, Explain, Set, Show, Statement
from dpsql.release import Release
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.asked import effective, statement
from dpsql.session.build import require_level
from dpsql.session.chart import AUTO, KINDS, NONE, Chart, unsuited
from dpsql.session.explained import explained
from dpsql.session.ours import told
from dpsql.session.outline import outline, plain
from dpsql.session.params import native
from dpsql.session.population import refuse as refuse_population
from dpsql.session.scripts.script import Script, Step
from dpsql.session.settings import NAMES, Settings

if TYPE_CHECKING:
    from dpsql.session.session import Session

_WHOLE = ("epsilon", "rho", "backend", "objective")
_ONE = "a script has one price and one plan"


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A SELECT of a script, to be measured with the others."""

    step: Step
    ask: Ask
    compiled: Compiled
    settings: Settings
    chart: Chart | str = AUTO


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """A statement that costs nothing; `told` answers it. One that is `late` tells what was paid."""

    step: Step
    told: Callable[[], Release]
    late: bool


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A script whose every statement can be answered, and the dataset of its SELECTs."""

    script: Script
    entries: tuple[Query | Free, ...]
    dataset: Dataset | None

    @property
    def queries(self) -> list[Query]:
        return [entry for entry in self.entries if isinstance(entry, Query)]


def ready(
    session: Session,
    script: str | Path | Script,
    params: Mapping[str, Any] | None,
    given: Mapping[str, Any],
) -> Ready:
    """A script ready to be answered. Raises Refused or UsageError, whatever it is that is wrong."""
    if params is not None and not isinstance(params, Mapping):
        raise UsageError(
            "the parameters of a script have names: a mapping, {'year': 2024} for $year"
        )
    found = _Reader(session, _script(script), native(params or {}), given).read()
    _require_one_measure(found)
    return found


def _script(given: str | Path | Script) -> Script:
    """The script that was given: a path of a file, or SQL."""
    match given:
        case Script():
            return given
        case Path():
            return Script.read(given)
        case str() if not given.strip() or any(sign.isspace() for sign in given.strip()):
            named = "\n" not in given and given.rstrip().lower().endswith(".sql")
            return Script.read(Path(given)) if named else Script.of(given)
        case str():
            return Script.read(Path(given))
    raise UsageError(f"a script is SQL or the path of a file, not {type(given).__name__}")


class _Reader:
    """Reads the statements of a script one after the other."""

    def __init__(
        self, session: Session, script: Script, params: dict[str, Any], given: Mapping[str, Any]
    ) -> None:
        self._session, self._script, self._given = session, script, given
        self._params, self._used = params, set[str]()
        self._state = session.settings
        self._first: Query | None = None

    def read(self) -> Ready:
        entries: list[Query | Free] = []
        for step in self._script.steps:
            with self._script.placed(step):
                entry = self._entry(step, statement(step.sql))
            if entry is None:
                continue
            mark = "weight" if step.weight is not None else step.chart.replace("none", "")
            if mark and isinstance(entry, Free):
                name = "weight" if step.weight is not None else "chart"
                raise self._script.refusal(
                    f"a {name} above a statement that is not measured",
                    step.start,
                    step.start + len(step.sql),
                    f"-- {name}: ... directly above a SELECT",
                )
            entries.append(entry)
        unused = [name for name in self._params if name not in self._used]
        if unused:
            listed = ", ".join(f"${name}" for name in sorted(self._used))
            raise UsageError(
                f"{self._script.name} has no parameter {', '.join(unused)}: "
                + (f"its parameters are {listed}" if listed else "leave it out; there is none")
            )
        return Ready(
            self._script,
            tuple(entries),
            None if self._first is None else self._first.compiled.bound.dataset,
        )

    def _entry(self, step: Step, asked: Statement) -> Query | Free | None:
        match asked:
            case Set():
                self._set(asked, step)
                return None
            case Ask():
                return self._ask(step, asked)
            case Explain(ask=ask):
                params, settings = self._values(ask), self._settings()
                return self._free(
                    step, lambda: tell.plan(explained(self._session, ask, params, settings))
                )
            case Show(what=what, span=span) if what in NAMES or what == "all":
                settings = self._settings()
                return self._free(step, lambda: tell.settings(settings, what, step.sql, span))
            case Describe() | Show():
                late = isinstance(asked, Show) and asked.what == "budget"
                return self._free(
                    step, lambda: told(self._session, asked, step.sql, self._given), late
                )

    def _free(self, step: Step, told: Callable[[], Release], late: bool = False) -> Free:
        return Free(step, told, late and self._first is not None)

    def _settings(self) -> Settings:
        return self._state.with_values(self._given)

    # -- SELECT --------------------------------------------------------------------------------

    def _ask(self, step: Step, ask: Ask) -> Query | Free:
        for option in ask.options:
            if option.name in _WHOLE:
                raise ask.text.refusal(
                    f"{option.name} for a single statement: {_ONE}",
                    option.span,
                    f"SET {option.name} = ... above the first SELECT; -- weight: 4 above this one "
                    "for half the noise",
                )
        if ask.first is not None:
            raise ask.text.refusal(
                f"{ask.first.words} in a script: it is bought alone, and tells no values to plan",
                ask.first.span,
                "the statement by itself, with dpsql query (in Python con.execute)",
            )
        session, params = self._session, self._values(ask)
        bound, compiled = session._compile(ask, params)
        settings = effective(ask, self._settings())
        if isinstance(bound, Probe) or compiled is None:
            assert isinstance(bound, Probe)
            probe = bound
            if probe.of:
                return self._free(
                    step,
                    lambda: tell.catalogue(probe, session._catalogue, params, session.user),
                )
            return self._free(step, lambda: tell.probe(probe, session._probe_grid(probe), params))
        require_level(compiled, settings.confidence)
        refuse_population(ask, settings, "a statement of a script")
        query = Query(step, ask, compiled, settings, self._chart(step, compiled))
        self._first = self._first or query
        one, other = self._first.compiled.bound.dataset, compiled.bound.dataset
        if one is not other:
            line = self._script.line(self._first.step)
            raise ask.text.refusal(
                f"a script over two datasets: {one.name} (line {line}) and {other.name}",
                ask.text.find("FROM"),
                "one script for each dataset: each has a purse, and so a price, of its own",
            )
        return query

    def _chart(self, step: Step, compiled: Compiled) -> Chart | str:
        """The chart of a statement: the one it asks for, one that suits the answer, or none.

        Raises Refused for one that does not suit it.
        """
        kind = next((kind for kind in KINDS if kind == step.chart), None)
        if kind is None:
            return AUTO if step.chart != NONE and plain(compiled) else NONE
        shape = outline(compiled, self._session._grid(compiled.bound.dataset))
        wrong = unsuited(shape, kind)
        if wrong is not None:
            reason, hint = wrong
            raise self._script.refusal(
                f"chart: {kind} does not suit this statement: {reason}",
                step.start,
                step.start + len(step.sql),
                hint,
            )
        return Chart(kind, shape.keys, shape.measures)

    def _values(self, ask: Ask) -> dict[str, Any] | None:
        """The parameters of one statement. Raises Refused for one that has no value."""
        for param in ask.params:
            if param.name.isdigit():
                raise ask.text.refusal(
                    "a parameter without a name", param.span, "$name, with --param name=value"
                )
            if param.name not in self._params:
                raise ask.text.refusal(
                    f"there is no value for ${param.name}",
                    param.span or _named(ask, param.name),
                    f"a literal, or --param {param.name}=value; in Python "
                    f"parameters={{'{param.name}': value}}",
                )
        names = dict.fromkeys(param.name for param in ask.params)
        self._used.update(names)
        return {name: self._params[name] for name in names} or None

    # -- SET -----------------------------------------------------------------------------------

    def _set(self, asked: Set, step: Step) -> None:
        name, value = asked.name, asked.value
        if name in _WHOLE and self._first is not None:
            raise _refused(
                f"{name} in the middle of a script: {_ONE}",
                f"SET {name} = ... above the first SELECT; -- weight: 4 above a single statement "
                "for half the noise",
                step,
                asked.span,
            )
        start = self._session.settings
        try:
            if value is not None:
                self._state = self._state.with_values({name: value})
            else:
                kept = self._state
                self._state = kept.reset(name, start)
                if name == "all" and self._first is not None:
                    self._state = self._state.with_values({n: getattr(kept, n) for n in _WHOLE})
        except UsageError as error:
            span = asked.value_span if name in NAMES else asked.span
            raise _refused(
                str(error), "SET confidence = 0.99, RESET confidence", step, span
            ) from None


def _named(ask: Ask, name: str) -> Span | None:
    """Where a parameter stands, which DuckDB 1 does not say."""
    for sign, word in itertools.pairwise(ask.text.tokens):
        if sign.text == "$" and word.text == name and word.start == sign.end:
            return Span(sign.start, word.end)
    return None


def _refused(reason: str, hint: str, step: Step, span: Span | None) -> Refused:
    start, end = (None, None) if span is None else (span.start, span.end)
    return Refused(reason, hint=hint, sql=step.sql, start=start, end=end)


def _require_one_measure(found: Ready) -> None:
    """Refuse an accuracy of some SELECTs and not of others, and one beside weights."""
    script, queries = found.script, found.queries
    if all(query.settings.accuracy is None for query in queries):
        return
    for query in queries:
        step = query.step
        if query.settings.accuracy is None:
            reason = "no accuracy for this statement, and one for others: a script has one price"
            hint = "SET accuracy = 50 above the first SELECT, or none and -- weight: 4 here"
        elif step.weight is not None:
            reason = "a weight and an accuracy: each decides how precise this statement is"
            hint = "the accuracy without -- weight:, or a price (SET epsilon = 1) and weights"
        else:
            continue
        raise script.refusal(reason, step.start, step.start + len(step.sql), hint)
