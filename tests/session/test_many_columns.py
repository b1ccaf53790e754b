"""A synopsis of 79 columns, a universe of 10^79 cells."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.session import Session

COLUMNS = [f"c{j}" for j in range(79)]  # more than an array has axes
ALL = " AND ".join(f"{name} < 5" for name in COLUMNS[:30])


@pytest.mark.parametrize("step", ["tables", "exponential"])
def test_it_is_made_asked_and_exported(tmp_path: Path, step: str) -> None:
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as made:
        listed = ", ".join(f"(i * {2 * j + 3}) % 10 AS {c}" for j, c in enumerate(COLUMNS))
        made.execute(f"CREATE TABLE wide AS SELECT {listed} FROM range(2000) r(i)")
    declared = "\n".join(f'{name} = {{type = "integer", min = 0, max = 9}}' for name in COLUMNS)
    path.with_suffix(".toml").write_text(
        f'dataset = "wide"\nunit = "row"\n[source]\ntable = "wide"\n[columns]\n{declared}\n'
    )
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="wide", epsilon=100.0)
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
        session.synopses.create("all", COLUMNS, method="pmw", ways=1, rho=3.0, step=step)
        for where in ("c0 < 5 AND c70 > 3", "c1 = c2", "c0 + c1 + c2 > 9"):
            told = session.answer(f"SELECT COUNT(*) FROM wide WHERE {where}", backend="synopsis")
            assert told.backend == "synopsis"
        sql = f"SELECT COUNT(*) FROM wide WHERE {ALL}"
        plan = session.explain(sql, backend="synopsis", rho=0.01)
        bought = session.answer(sql, backend="synopsis", rho=0.01)
        assert plan.charged == bought.charged and "more cells" in bought.notes[0]
        assert len(session.synopses.export("all", 50).rows) == 50
