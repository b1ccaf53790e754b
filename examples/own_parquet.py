"""How do I ask of a Parquet file of my own? Declare its columns, grant, ask.

The values in the schema come from what you know about the columns, never from the data: a domain
read off the data would tell what is in it. Run it with: python examples/own_parquet.py. It prints
something like

    shop  visits with a purchase
    north 0.496 ± 0.005
    south 0.300 ± 0.006
    west  0.102 ± 0.007
"""

import tempfile
from pathlib import Path

import duckdb

import dpsql

SCHEMA = """
dataset = "visits"            # the name in FROM
neighbours = "add-remove"     # an answer hides whether any one row is in the table
unit = "row"

[source]
file = "visits.parquet"       # beside this schema

[columns]
shop = {type = "category", values = ["north", "south", "west"]}
minutes = {type = "integer", min = 0, max = 240}
bought = {type = "boolean", nullable = true}
"""

# A table to ask of: 30,000 visits.
MAKE = """
COPY (
    SELECT ['north', 'south', 'west'][1 + i % 3] AS shop, (i * 7919) % 200 AS minutes,
           (i * 104729) % 100 < [50, 30, 10][1 + i % 3] AS bought
    FROM range(30000) r(i)
) TO '{file}' (FORMAT parquet)
"""

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    visits = folder / "visits.parquet"
    duckdb.execute(MAKE.format(file=visits))

    # The owner: a schema and a grant. Both files stand beside the data and are found there.
    (folder / "visits.toml").write_text(SCHEMA)
    with dpsql.Ledger.open(folder / "visits.ledger") as ledger:
        ledger.grant("alice", dataset="visits", epsilon=1)

    # The analyst: a share, its interval, and the price that was asked for.
    with dpsql.connect(visits, user="alice") as con:
        release = con.execute(
            "SELECT shop, AVG(bought) AS share FROM visits GROUP BY shop", epsilon=0.1
        ).release

print("shop  visits with a purchase")
for (shop, share), low, high in zip(release.rows, release.low, release.high, strict=True):
    print(f"{shop:5} {share:.3f} ± {max(high[1] - share, share - low[1]):.3f}")
