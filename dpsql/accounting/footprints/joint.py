"""Joint: what a purse has spent, as the largest loss of a person over all of its releases.

The sum of the footprints of one snapshot is a layer. It is kept in tables over the sets of columns
that releases touch, and its maximum is exact while they, and what is joined to find it, have few
enough cells (`tables`); then a bound by shares (`shares`) takes over. Layers of different snapshots
add, constants add, and what is charged is the rise of the total. The total charged is stored and
never falls, so it does not depend on who recomputes the maximum, or when.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpsql.accounting.footprints.footprint import Factor, Footprint, Loss, OtherVersion
from dpsql.accounting.purse import LIMIT, NOTHING, Price

if TYPE_CHECKING:
    from dpsql.accounting.footprints.shares import Shares
    from dpsql.accounting.footprints.tables import Tables

VERSION = 2
LAYERS = 4  # snapshots that are kept apart; the maximum of an older one is final
STEPS = 2  # of improvement of shares, where they decide
BATCH = 256  # footprints after which the state is written down
WORK = 1 << 26  # or table entries that have been touched
WAITING = 512  # factors that are not shared out while the tables do without


class Layer:
    """The releases of one snapshot in one currency; `bound` is what anybody lost by them.

    While factors wait there are no shares yet; afterwards none means that they are of no use.
    """

    def __init__(self, pairs: bool, tables: Tables | None, shares: Shares | None) -> None:
        self.pairs = pairs
        self.prices = 0  # the sum of the prices of the worst pairs
        self.high = 0  # the largest sum of the factors over the cells, or a bound on it
        self.tables, self.shares = tables, shares
        self.waiting: dict[Factor, int] | None = {}  # how often each came; then none waits any more

    @classmethod
    def new(cls, pairs: bool) -> Layer:
        from dpsql.accounting.footprints.tables import Tables

        return cls(pairs, Tables(), None)

    def copy(self) -> Layer:
        other = Layer(
            self.pairs, self.tables and self.tables.copy(), self.shares and self.shares.copy()
        )
        other.prices, other.high = self.prices, self.high
        other.waiting = None if self.waiting is None else dict(self.waiting)
        return other

    def add(self, loss: Loss) -> int:
        """Add a loss without its constant; how many entries of tables that touched, about."""
        before, work = self.high, sum(len(factor.table) for factor in loss.factors)
        written = self.tables.work if self.tables is not None else 0
        top = sum(factor.largest for factor in loss.factors)
        if before + top > LIMIT:  # sums might leave 64 bits
            self.tables = None
        for factor in loss.factors:
            self._add(factor)
        if self.tables is None and self.shares is None:
            self.high = before + top
        self.high = min(self.high, before + top if self.pairs else before + min(top, loss.most))
        self.prices += loss.most
        return work + (0 if self.tables is None else self.tables.work - written)

    def _add(self, factor: Factor) -> None:
        if self.tables is not None and not self.tables.add(factor):
            self.tables = None
        if self.waiting is not None:
            if self.tables is not None and len(self.waiting) < WAITING:
                self.waiting[factor] = self.waiting.get(factor, 0) + 1
                self.high = self.tables.high
                return
            self._share_out()
        if self.shares is not None and not self.shares.holds(factor):
            self.shares = None
        if self.shares is not None:
            self.shares.high = self.high
            self.shares.add(factor, 0 if self.tables is not None else STEPS)
            self.high = self.shares.high
        if self.tables is not None:
            self.high = self.tables.high

    def _share_out(self) -> None:
        """Share out what was only in the tables so far, in the order in which it first came."""
        from dpsql.accounting.footprints.shares import Shares

        waiting, self.waiting, self.shares = self.waiting or {}, None, Shares()
        for factor, times in waiting.items():
            if self.shares is None or factor.largest * times > LIMIT:
                self.shares = None
                return
            whole = Factor(factor.axes, tuple(times * loss for loss in factor.table))
            if not self.shares.holds(whole):
                self.shares = None
                return
            self.shares.add(whole, 0)
        if self.shares is not None:
            self.shares.high = min(self.shares.high, self.high)

    @property
    def bound(self) -> int:
        return min(self.prices, 2 * self.high) if self.pairs else self.high

    @property
    def exact(self) -> bool:
        """Whether `bound` is the largest loss of the footprints, not only a bound on it."""
        if self.bound == 0 or (self.pairs and self.prices == 0):
            return True
        if self.pairs:
            return False
        if self.tables is not None:
            return self.high == self.tables.high
        return self.shares is not None and self.shares.exact and self.high == self.shares.high

    def to_tree(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "prices": self.prices,
            "high": self.high,
            "tables": self.tables and self.tables.to_tree(),
            "shares": self.shares and self.shares.to_tree(),
            "waiting": None
            if self.waiting is None
            else [[*factor.to_list(), times] for factor, times in self.waiting.items()],
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Layer:
        from dpsql.accounting.footprints.shares import Shares
        from dpsql.accounting.footprints.tables import Tables

        found = cls(
            tree["pairs"],
            tree["tables"] and Tables.from_tree(tree["tables"]),
            tree["shares"] and Shares.from_tree(tree["shares"]),
        )
        found.prices, found.high = tree["prices"], tree["high"]
        found.waiting = None
        if tree["waiting"] is not None:
            found.waiting = {Factor.from_list(kept[:2]): kept[2] for kept in tree["waiting"]}
        return found


class Total:
    """One currency: a constant, and layers, of which the oldest become constant."""

    def __init__(self) -> None:
        self.constant = 0
        self.layers: OrderedDict[str, Layer] = OrderedDict()

    def copy(self) -> Total:
        other = Total()
        other.constant = self.constant
        other.layers = OrderedDict((name, layer.copy()) for name, layer in self.layers.items())
        return other

    def add(self, loss: Loss, snapshot: str) -> int:
        self.constant += loss.constant
        if not loss.factors:
            self.constant += loss.most
            return 0
        name = f"{'pairs' if loss.pairs else 'cells'} {snapshot}"
        layer = self.layers.get(name)
        if layer is None:
            layer = self.layers[name] = Layer.new(loss.pairs)
        self.layers.move_to_end(name)
        if len(self.layers) > LAYERS:
            self.constant += self.layers.popitem(last=False)[1].bound
        return layer.add(loss)

    @property
    def bound(self) -> int:
        return self.constant + sum(layer.bound for layer in self.layers.values())

    @property
    def exact(self) -> bool:
        return all(layer.exact for layer in self.layers.values())

    def to_tree(self) -> dict[str, Any]:
        layers: list[Any] = [[name, layer.to_tree()] for name, layer in self.layers.items()]
        return {"constant": self.constant, "layers": layers}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Total:
        found = cls()
        found.constant = tree["constant"]
        found.layers.update((name, Layer.from_tree(layer)) for name, layer in tree["layers"])
        return found


class Joint:
    """The state of one purse after its charges up to entry `seq` of the ledger.

    `spent` is what the ledger has stored; `known` a bound on the largest loss, at most that.
    """

    def __init__(self) -> None:
        self.seq = 0
        self.spent = NOTHING
        self.known = NOTHING
        self.rho = Total()
        self.epsilon: Total | None = Total()
        self.count = self.work = 0  # since the state was written down

    def copy(self) -> Joint:
        other = Joint()
        other.__dict__.update(self.__dict__)
        other.rho, other.epsilon = self.rho.copy(), self.epsilon and self.epsilon.copy()
        return other

    def pay(
        self, spent: Price, price: Price, footprint: Footprint, snapshot: str, seq: int
    ) -> Price:
        """What the purse that had `spent` has spent after a release, entry `seq` of the ledger.

        `price` is what the release costs alone. What was spent without a footprint, which is not
        known here, is a constant.
        """
        if not spent.rho + price.rho <= LIMIT:  # which is refused, whatever the footprint
            return spent + price
        self._catch_up(spent)
        self.work += self.rho.add(footprint.rho, snapshot)
        rho = min(self.rho.bound, self.known.rho + price.rho)
        epsilon = None
        if self.epsilon is not None and self.known.epsilon is not None:
            loss, alone = footprint.epsilon, price.epsilon
            if loss is None and alone is not None:
                loss = Loss(alone)
            if loss is None or alone is None or not (spent.epsilon or 0) + alone <= LIMIT:
                self.epsilon = None
            else:
                self.work += self.epsilon.add(loss, snapshot)
                epsilon = min(self.epsilon.bound, self.known.epsilon + alone)
        self.known = Price(rho, epsilon)
        self.spent = Price(
            max(spent.rho, rho),
            None if epsilon is None or spent.epsilon is None else max(spent.epsilon, epsilon),
        )
        self.count += 1
        self.seq = seq
        return self.spent

    def _catch_up(self, spent: Price) -> None:
        missing = max(0, spent.rho - self.spent.rho)
        self.rho.constant += missing
        epsilon = None
        if self.epsilon is not None and None not in (spent.epsilon, self.spent.epsilon):
            assert spent.epsilon is not None and self.spent.epsilon is not None
            assert self.known.epsilon is not None
            more = max(0, spent.epsilon - self.spent.epsilon)
            self.epsilon.constant += more
            epsilon = self.known.epsilon + more
        else:
            self.epsilon = None
        self.known = Price(self.known.rho + missing, epsilon)

    def settle(self, spent: Price) -> None:
        """Take the ledger's word for what is spent: a bound that another process proved."""
        rho = min(self.known.rho, spent.rho)
        epsilon = None
        if self.epsilon is not None and None not in (self.known.epsilon, spent.epsilon):
            epsilon = min(self.known.epsilon or 0, spent.epsilon or 0)
        self.known, self.spent = Price(rho, epsilon), spent

    @property
    def exact(self) -> bool:
        """Whether what is spent is the largest loss itself, not only a bound on it."""
        exact = self.rho.exact and self.spent.rho == self.known.rho == self.rho.bound
        if self.epsilon is None or self.spent.epsilon is None:
            return exact
        same = self.spent.epsilon == self.known.epsilon == self.epsilon.bound
        return exact and self.epsilon.exact and same

    @property
    def due(self) -> bool:
        """Whether it is time to write the state down."""
        return self.count >= BATCH or self.work >= WORK

    def to_bytes(self) -> bytes:
        from dpsql.accounting.kept.pack import pack

        return pack(
            {
                "version": VERSION,
                "seq": self.seq,
                "spent": [self.spent.rho, self.spent.epsilon],
                "known": [self.known.rho, self.known.epsilon],
                "rho": self.rho.to_tree(),
                "epsilon": self.epsilon and self.epsilon.to_tree(),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Joint:
        """The state that `to_bytes` wrote. Raises ValueError for anything else, or OtherVersion."""
        from dpsql.accounting.kept.pack import unpack

        tree = unpack(data)
        found = cls()
        try:
            if tree["version"] != VERSION:
                raise OtherVersion(f"a state of version {tree['version']}, not {VERSION}")
            found.seq = tree["seq"]
            found.spent, found.known = Price(*tree["spent"]), Price(*tree["known"])
            found.rho = Total.from_tree(tree["rho"])
            found.epsilon = tree["epsilon"] and Total.from_tree(tree["epsilon"])
        except (KeyError, TypeError, IndexError):
            raise ValueError("not the state of a purse") from None
        return found


def largest(footprints: Iterable[Footprint]) -> Price:
    """The largest loss of all footprints together, on one snapshot."""
    joint = Joint()
    for seq, footprint in enumerate(footprints, 1):
        epsilon = footprint.epsilon
        price = Price(footprint.rho.largest, None if epsilon is None else epsilon.largest)
        joint.pay(joint.spent, price, footprint, "", seq)
    return joint.spent
