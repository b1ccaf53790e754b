"""What does a question cost, and what happens when the budget is spent?

Asking for the price is free. A charge is taken before the data is read, and a question that the
purse cannot pay for is not answered. Run it with: python examples/budget.py. It prints

    predicted: standard error 39.5 rows at epsilon 0.1
    1: spent 0.1 of 0.3
    2: spent 0.145 of 0.3
    3: spent 0.179 of 0.3
    4: spent 0.209 of 0.3
    5: spent 0.235 of 0.3
    6: spent 0.259 of 0.3
    7: spent 0.281 of 0.3
    8: refused, nothing was charged
"""

from pathlib import Path

import dpsql

ROOT = Path(__file__).resolve().parent.parent
QUESTION = "SELECT COUNT(*) FROM adult WHERE age < ?"

ledger = dpsql.Ledger.memory()
ledger.grant("alice", dataset="adult", epsilon=0.3)

with dpsql.connect(
    ROOT / "examples/data/adult.parquet",
    schema=ROOT / "schemas/adult.toml",
    user="alice",
    ledger=ledger,
    epsilon=0.1,
) as con:
    plan = con.explain(QUESTION, [30])  # free, and reads no private data
    print(f"predicted: standard error {plan.stderr[0][0]:.1f} rows at epsilon 0.1")
    # Each question is another one: what was asked before is free.
    # Costs do not add up in epsilon: seven questions at 0.1 are 0.281 together.
    for number in range(1, 100):
        try:
            con.execute(QUESTION, [29 + number])
        except dpsql.BudgetExceeded:
            print(f"{number}: refused, nothing was charged")
            break
        purse = con.budget()
        print(f"{number}: spent {purse.spent.epsilon:.3g} of {purse.granted.epsilon:g}")
