"""Who earns more than 50,000, by schooling? One statement with many groups.

Every group that the schema allows is a row, in the data or not, and the noise of a group does not
grow with the number of groups. Run it with: python examples/group_by.py. It prints something like

    16 groups, noise of one count: 22.4 rows
    Bachelors        5,379 people, share 0.418
    Masters          1,767 people, share 0.562
    Doctorate          365 people, share 0.757
    16 kinds of schooling by 16 levels: 256 groups, noise of one count: 22.4 rows
"""

from pathlib import Path

import dpsql

ROOT = Path(__file__).resolve().parent.parent

ledger = dpsql.Ledger.memory()
ledger.grant("alice", dataset="adult", epsilon=2)

with dpsql.connect(
    ROOT / "examples/data/adult.parquet",
    schema=ROOT / "schemas/adult.toml",
    user="alice",
    ledger=ledger,
    rho=0.001,
) as con:
    release = con.execute(
        "SELECT education, COUNT(*) AS n, AVG((income = '>50K')::INT) AS rich"
        " FROM adult GROUP BY education"
    ).release
    counts = con.execute("SELECT education, COUNT(*) FROM adult GROUP BY education").release
    crossed = con.execute(
        "SELECT education, education_num, COUNT(*) AS n FROM adult GROUP BY ALL"
    ).release

print(f"{len(counts.rows)} groups, noise of one count: {counts.stderr[0][1]:.1f} rows")
found = {education: (n, rich) for education, n, rich in release.rows}
for education in ("Bachelors", "Masters", "Doctorate"):
    n, rich = found[education]
    print(f"{education:15} {n:>6,} people, share {rich:.3f}")
print(
    f"16 kinds of schooling by 16 levels: {len(crossed.rows)} groups,"
    f" noise of one count: {crossed.stderr[0][2]:.1f} rows"
)
