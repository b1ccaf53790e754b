"""How do I protect people who have several rows each? Declare a unit.

The schema of covid_tests says unit = {column = "subject_id", max_rows = 20}: an answer hides all
rows of any one subject. At most 20 rows of each are counted, and the noise is 20 times that of a
table with one row a person. Run it with: python examples/people_with_many_rows.py. It prints
something like

    all rows of a subject hidden: 14,541 negative tests, standard error 91
    one row hidden, a subject is not: 14,348 negative tests, standard error 4.5
"""

import dataclasses
import tempfile
from pathlib import Path

import dpsql
from dpsql.schema import Unit, dumps, load

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "examples/data/covid_tests.parquet"
QUESTION = "SELECT COUNT(*) AS n FROM covid_tests WHERE result = 'negative'"


def ask(schema: Path, folder: Path) -> str:
    """The answer under a schema, with a ledger of its own."""
    path = folder / f"{schema.stem}.ledger"  # the key that picks rows is made beside it
    with dpsql.Ledger.open(path) as ledger:
        ledger.grant("alice", dataset="covid_tests", epsilon=5)
    with dpsql.connect(DATA, schema=schema, user="alice", ledger=path, epsilon=1) as con:
        release = con.execute(QUESTION).release
    return f"{release.rows[0][0]:,} negative tests, standard error {release.stderr[0][0]:.2g}"


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    print("all rows of a subject hidden:", ask(ROOT / "schemas/covid_tests.toml", folder))

    # The same table declared without a unit. This protects a row, not a subject.
    declared = load(ROOT / "schemas/covid_tests.toml")
    rows = folder / "rows.toml"
    rows.write_text(dumps(dataclasses.replace(declared, unit=Unit(None, 1))))
    print("one row hidden, a subject is not:", ask(rows, folder))
