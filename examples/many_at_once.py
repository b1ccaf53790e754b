"""How are many questions asked at once, from asyncio?

A connection belongs to one thread at a time, so each question has its own; all pay into one ledger,
and however many there are, together they never spend more than the grant. The same holds of plain
threads. A question that is cancelled is stopped in its thread, too; what it was charged by then
stays charged. Run it with: python examples/many_at_once.py. It prints something like

    Bachelors: 5,371 ± 56
    Masters: 1,730 ± 56
    Doctorate: 402 ± 56
    3 answers, epsilon left: 1.99 of 2
"""

import asyncio
from pathlib import Path

import dpsql

ROOT = Path(__file__).resolve().parent.parent
COUNT = "SELECT COUNT(*) AS n FROM adult WHERE education = ?"

ledger = dpsql.Ledger.memory()
ledger.grant("alice", dataset="adult", epsilon=2)


def connect() -> dpsql.Connection:
    return dpsql.connect(
        ROOT / "examples/data/adult.parquet",
        schema=ROOT / "schemas/adult.toml",
        user="alice",
        ledger=ledger,
        epsilon=0.15,
    )


async def answer(education: str) -> dpsql.Release:
    """The answer, from a thread of its own; cancelling it stops the statement there."""
    with connect() as con:
        work = asyncio.create_task(asyncio.to_thread(con.execute, COUNT, [education]))
        try:
            return (await asyncio.shield(work)).release
        except asyncio.CancelledError:
            while not work.done():
                con.interrupt()
                await asyncio.wait([work], timeout=0.1)
            work.exception()  # dpsql.Interrupted, or None where the answer was quicker
            raise


async def main() -> None:
    asked = ("Bachelors", "Masters", "Doctorate")
    for education, release in zip(asked, await asyncio.gather(*map(answer, asked)), strict=True):
        half = (release.high[0][0] - release.low[0][0]) / 2
        print(f"{education}: {release.rows[0][0]:,} ± {half:.0f}")
    with connect() as con:
        left = con.budget("adult")
    print(f"3 answers, epsilon left: {left.left.epsilon:.3g} of {left.granted.epsilon:g}")


asyncio.run(main())
