"""Random statements over random tables: every accepted one has DuckDB's own answer.

The differences are those of the design: groups that only the domain has, and 0 for a sum of
nothing. DuckDB's value comes from the same text (see `grammar.py`); nothing of it passes here.
"""

from __future__ import annotations

from random import Random

import duckdb
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dpsql.errors import Refused
from dpsql.query.bind import Probe
from dpsql.query.grid import Grid
from tests.query.exact import answer, compiled, counted
from tests.query.grammar import Made, Statements, asked, expected
from tests.query.same import extra, same_row
from tests.query.tables import Table, quoted, sql_literal, table

STATEMENTS = 8  # over each table


class Judge:
    """DuckDB with the rows of one table, and our grid of it."""

    def __init__(self, made: Table) -> None:
        self.table, self.grid = made, Grid(made.dataset)
        self.counts = counted(made.dataset, made.rows)
        self.duckdb = duckdb.connect()
        name = quoted(made.dataset.name)
        self.duckdb.execute(f"CREATE TABLE {name} ({made.fields})")
        if made.rows:
            listed = ", ".join(f"({', '.join(map(sql_literal, row))})" for row in made.rows)
            self.duckdb.execute(f"INSERT INTO {name} VALUES {listed}")

    def close(self) -> None:
        self.duckdb.close()

    def check(self, made: Made) -> str:
        """How a statement fared: refused, probe, incomparable, or equal. Fails when it differs."""
        sql = asked(made.sql)
        try:
            if isinstance(compiled(sql, self.table.dataset, self.grid), Probe):
                return "probe"
        except Refused:
            return "refused"
        found = answer(sql, self.table.dataset, self.grid, self.counts)
        true = self.duckdb.execute(expected(made.sql)).fetchall()
        counting = self.duckdb.execute(expected(made.groups)).fetchone()
        assert counting is not None
        complete = counting[0] == found.compiled.rows  # DuckDB lists every group, too
        if made.picked and not complete:
            return "incomparable"
        if complete and made.ordered:
            assert len(found.rows) == len(true), (sql, found.rows, true)
            pairs = zip(found.rows, true, strict=True)
            assert all(same_row(a, b) for a, b in pairs), (sql, found.rows, true)
            return "equal"
        beside = extra(found.rows, true, ordered=made.ordered)
        assert beside is not None, (sql, found.rows, true)
        assert not (complete and beside), (sql, found.rows, true)
        return "equal"


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.integers(0, 2**48))
def test_every_accepted_statement_has_duckdbs_answer(seed: int) -> None:
    rng = Random(seed)
    judge = Judge(table(rng))
    try:
        statements = Statements(rng, judge.table)
        for _ in range(STATEMENTS):
            judge.check(statements.statement())
    finally:
        judge.close()


def test_most_of_the_grammar_is_answered_and_compared() -> None:
    rng = Random(20251128)
    fared: list[str] = []
    for _ in range(12):
        judge = Judge(table(rng))
        statements = Statements(rng, judge.table)
        fared += [judge.check(statements.statement()) for _ in range(10)]
        judge.close()
    assert fared.count("equal") > 0.6 * len(fared), fared
