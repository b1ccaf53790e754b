"""Which groups are large? FIRST n ABOVE number finds them, and tells no count.

It pays for the groups that it finds, not for those that it passes over. Run it with:
python examples/above.py. It prints something like

    sparse, price epsilon 0.0592
    at 95 %, of all groups together: one that is found has 2,393 rows or more
    one that is passed over has 3,469 at most
    Bachelors
    HS-grad
    Some-college
"""

from pathlib import Path

import dpsql

ROOT = Path(__file__).resolve().parent.parent

ledger = dpsql.Ledger.memory()
ledger.grant("alice", dataset="adult", epsilon=1)

with dpsql.connect(
    ROOT / "examples/data/adult.parquet",
    schema=ROOT / "schemas/adult.toml",
    user="alice",
    ledger=ledger,
) as con:
    release = con.execute(
        "SELECT education, COUNT(*) AS n FROM adult GROUP BY education FIRST 3 ABOVE 3000",
        epsilon=0.1,
    ).release

print(f"{release.backend}, price epsilon {release.price.epsilon:.3g}")
print("\n".join(release.notes[0].split(", and ")))
for education, _ in release.rows:
    print(education)
