"""Can I have pure differential privacy, with no delta? Yes: grant delta = 0.

Such a purse is paid in epsilon, by simple addition, and answered with Laplace noise. Run it with:
python examples/pure_laplace.py. It prints something like

    laplace noise, price epsilon 0.1 at delta 0
    people under 30: 9,697 ± 30
    left: 0.9 of 1
"""

from pathlib import Path

import dpsql

ROOT = Path(__file__).resolve().parent.parent

ledger = dpsql.Ledger.memory()
ledger.grant("alice", dataset="adult", epsilon=1, delta=0)

with dpsql.connect(
    ROOT / "examples/data/adult.parquet",
    schema=ROOT / "schemas/adult.toml",
    user="alice",
    ledger=ledger,
) as con:
    release = con.execute("SELECT COUNT(*) FROM adult WHERE age < 30", epsilon=0.1).release
    purse = con.budget()

count, low, high = release.rows[0][0], release.low[0][0], release.high[0][0]
print(f"{release.backend} noise, price epsilon {release.price.epsilon:g} at delta 0")
print(f"people under 30: {count:,} ± {(high - low) / 2:.0f}")
print(f"left: {purse.left.epsilon:g} of {purse.granted.epsilon:g}")
