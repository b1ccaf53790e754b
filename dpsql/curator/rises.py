"""What the curator would charge, by public values and the purses; free, and reads no row."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.accounting.events import AboveThreshold, Gaussian, Rounds, Selection
from dpsql.accounting.footprints.footprint import Footprint
from dpsql.accounting.ledger import Ledger, Rise
from dpsql.accounting.purse import Price
from dpsql.curator.footprint import footprint, touched
from dpsql.curator.quote import GaussianNoise, Noise, quote
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy
from dpsql.schema import Dataset


def rise(
    ledger: Ledger,
    user: str,
    dataset: Dataset,
    snapshot: str,
    asked: Workload | Strategy,
    noise: Noise,
) -> Rise:
    """What `measure` would take from the purses of `user` on this snapshot; free, reads no row.

    Raises NoGrant.
    """
    return ledger.rise(
        user,
        dataset.name,
        quote(asked, dataset, noise),
        footprint=footprint_of(asked, dataset, noise),
        snapshot=people_of(dataset, snapshot),
        people=people(dataset),
    )


def told_rise(
    ledger: Ledger,
    user: str,
    dataset: Dataset,
    snapshot: str,
    event: AboveThreshold | Selection,
    listed: Workload,
) -> Rise:
    """What `gate` or `select` would take for listed queries; free, reads no row. Raises NoGrant."""
    return ledger.rise(
        user,
        dataset.name,
        event,
        footprint=touched(listed, dataset, Price.of(event)),
        snapshot=people_of(dataset, snapshot),
        people=people(dataset),
    )


def read_rise(
    ledger: Ledger,
    user: str,
    dataset: Dataset,
    snapshot: str,
    seqs: Sequence[int],
    event: AboveThreshold | None = None,
) -> Rise:
    """What reading the releases of some entries would take, and then a gate for anything.

    Raises NoGrant, and LedgerError where there is no such release.
    """
    then = []
    if event is not None:
        told = Footprint.constant(Price.of(event))
        then = [(event, told, people_of(dataset, snapshot))]
    return ledger.reads.rise(user, dataset.name, *seqs, then=then)


def counted_rise(
    ledger: Ledger,
    user: str,
    dataset: Dataset,
    snapshot: str,
    event: AboveThreshold | Selection,
    listed: Workload,
    noise: GaussianNoise,
    most: Gaussian,
) -> Rise:
    """What `gate` or `select` would take for listed queries, and then `measure` of those that it
    found, at most: as for all of them, or as if what they cost, `most`, concerned everybody.

    Raises NoGrant.
    """
    price = Price.of(most)
    all_of = quote(listed, dataset, noise), footprint_of(listed, dataset, noise)
    found = [
        ledger.rise(
            user,
            dataset.name,
            event,
            footprint=touched(listed, dataset, Price.of(event)),
            snapshot=people_of(dataset, snapshot),
            people=people(dataset),
            then=(counts,),
        )
        for counts in (all_of, (most, Footprint.constant(price)))
    ]
    return min(found, key=lambda rise: rise.after.spent_rho)


def rounds_rise(ledger: Ledger, user: str, dataset: Dataset, snapshot: str, event: Rounds) -> Rise:
    """What `rounds` would take; free, reads no row. Raises NoGrant."""
    return ledger.rise(
        user,
        dataset.name,
        event,
        footprint=Footprint.constant(Price.of(event)),
        snapshot=people_of(dataset, snapshot),
        people=people(dataset),
    )


def footprint_of(asked: Workload | Strategy, dataset: Dataset, noise: Noise) -> Footprint:
    if isinstance(asked, Workload):
        return footprint(asked, dataset, noise)
    from dpsql.curator import mixed

    assert isinstance(noise, GaussianNoise)  # `quote` refused others
    return mixed.footprint(asked, dataset, noise.variance)


def people_of(dataset: Dataset, snapshot: str) -> str:
    """What releases must share for their losses to be those of the same people.

    Where rows are only added, a row keeps its cell in every later state of the table.
    """
    return f"append-only {dataset.digest}" if dataset.append_only else snapshot


def people(dataset: Dataset) -> str:
    """Whose losses the ledger adds up. Another bound on their rows makes them no other people."""
    unit = dataset.unit.column
    each = "each row" if unit is None else f"all rows of each {unit}"
    return f"{each} ({dataset.neighbours.value})"
