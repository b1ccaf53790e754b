"""`dpsql budget verify`: was the ledger changed by anything but dpsql?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from dpsql.surfaces.budget_options import place_of
from dpsql.surfaces.options import database, ledger_option
from dpsql.surfaces.run import Run

BROKEN = 4


@click.command()
@click.argument("words", nargs=-1, metavar="DB")
@click.option(
    "--accept",
    metavar="REASON",
    help="Take the ledger as it stands, and write the reason into its log.",
)
@ledger_option
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.pass_obj
def verify(
    run: Run, /, words: tuple[str, ...], accept: str | None, ledger: Path | str | None, form: str
) -> None:
    """Check that nobody changed the ledger: its log, its grants and sums, its newest entries.

    Each entry of the log is linked to the one before with a key (LEDGER.seal), every purse is
    recomputed from the log, and an anchor outside the ledger (LEDGER.anchor) knows how far it
    had come. Edited, deleted or forged entries, a raised grant, a changed user, a truncated log
    and an older copy put back are found, and the exit code is then 4. A ledger whose newest part
    is wrong answers nothing.

    It cannot see that ledger and anchor were both put back from one older copy, nor what whoever
    has the key forges: keep the key and the folder to the owner's account, and copies of the
    ledger elsewhere.

    When the newest copy is lost, restore an older one, subtract what may have been spent since
    from the grants, and go on with --accept.

    \b
    dpsql budget verify adult.duckdb
    dpsql budget verify adult.duckdb --accept "restored the copy of Monday, grants lowered"
    """
    run.owner = True
    from dpsql.accounting.books.shelf import witness
    from dpsql.accounting.seals import verify as verifying
    from dpsql.surfaces.output import write_lines
    from dpsql.surfaces.terminal import visible

    db, _ = database(words, 0, "DB")
    place = place_of(db, ledger)
    beside = witness(db, place)
    if accept is None:
        verdict = verifying.verify(place, witness=beside)
        run.code = BROKEN if verdict.problems else 0
    else:
        verdict = verifying.accept(place, accept, witness=beside)
    if form == "json":
        fields = {
            "ledger": verdict.ledger,
            "sound": not verdict.problems,
            "accepted": accept is not None,
            "entries": verdict.entries,
            "purses": verdict.purses,
            "anchor": verdict.anchor,
            "problems": list(verdict.problems),
        }
        write_lines([json.dumps(fields, indent=2)], sys.stdout)
        return
    size = f"{verdict.ledger}: {verdict.entries:,} entries, {verdict.purses:,} purses"
    seen = "no anchor" if verdict.anchor is None else f"anchor at entry {verdict.anchor:,}"
    lines = [f"{size}, {seen}", *(f"  {visible(problem)}" for problem in verdict.problems)]
    if accept is not None:
        lines.append("taken as it stands; the log says so")
    else:
        lines.append("broken" if verdict.problems else "sound: the log, the purses and the anchor")
    write_lines(lines, sys.stdout)
