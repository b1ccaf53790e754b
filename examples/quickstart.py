"""How many women and men are in the table, and how sure is each count?

Run it with: python examples/quickstart.py. It prints something like

    Female: 10,742, with 95 % confidence 10,695 to 10,789
    Male: 21,803, with 95 % confidence 21,756 to 21,850
    price: epsilon 0.171, left: 1.99 of 2
"""

from pathlib import Path

import dpsql

ROOT = Path(__file__).resolve().parent.parent

# The owner grants alice a budget. Ledger.open("adult.ledger") would keep it in a file.
ledger = dpsql.Ledger.memory()
ledger.grant("alice", dataset="adult", epsilon=2)

# The analyst asks. Noise is drawn once; reading the answer again costs nothing.
with dpsql.connect(
    ROOT / "examples/data/adult.parquet",
    schema=ROOT / "schemas/adult.toml",
    user="alice",
    ledger=ledger,
) as con:
    release = con.execute("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex").release

for (sex, n), low, high in zip(release.rows, release.low, release.high, strict=True):
    print(f"{sex}: {n:,}, with 95 % confidence {low[1]:,.0f} to {high[1]:,.0f}")
left = release.left
print(
    f"price: epsilon {release.price.epsilon:.3g},"
    f" left: {left.left.epsilon:.3g} of {left.granted.epsilon:g}"
)
