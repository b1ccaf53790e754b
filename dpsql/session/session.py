"""Session: one user asking SQL of one database; text in, release out."""

from __future__ import annotations

import functools
import getpass
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dpsql.accounting.books.shelf import is_url, witness
from dpsql.accounting.ledger import Balance, Ledger, Regranted
from dpsql.curator.curator import Curator
from dpsql.curator.engines.duckdb import DuckDBEngine, snapshot_of
from dpsql.curator.keys import unit_key
from dpsql.errors import UsageError
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.found import Answered
from dpsql.planner import Terms
from dpsql.query.bind import Bound, Probe, bind
from dpsql.query.catalogue import Catalogue
from dpsql.query.compile import Compiled, compile_bound
from dpsql.query.grid import Grid
from dpsql.query.parse import Ask, Describe, Explain, First, Largest, Set, Show
from dpsql.release import Budget, Cost, Plan, Release, ScriptPlan
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.asked import check_delta, declared, effective, named, require_private, statement
from dpsql.session.build import Paid, build, require_bound, require_level
from dpsql.session.charge import Calls, Charge
from dpsql.session.comparing import compared
from dpsql.session.explained import explained
from dpsql.session.ours import told
from dpsql.session.params import literals, native, require_all
from dpsql.session.population import population
from dpsql.session.reuse.earlier import REUSE, Earlier, label, unbought
from dpsql.session.reuse.others import reading, taken
from dpsql.session.reuse.wanted import wanted
from dpsql.session.reuse.whole import said_of, whole
from dpsql.session.settings import Settings
from dpsql.session.shown import projection
from dpsql.session.synopses.owned import Learned, Synopses

if TYPE_CHECKING:  # most sessions run no script
    from dpsql.session.scripts.report import Report
    from dpsql.session.scripts.script import Script

_KEPT = 256  # statements whose compiled form is kept


class Session:
    """One user's questions to one database, paid from their purses in a ledger.

    `database` is a .duckdb, .parquet or .csv file; `schema` one or several TOML files or folders
    (default: the file beside the database); `ledger` a file (default: beside the database), an
    address `postgresql://...`, or an open Ledger. Raises SourceError, SchemaError or UsageError.
    Threads may share a session.
    """

    def __init__(
        self,
        database: str | Path,
        *,
        schema: str | Path | Sequence[str | Path] | None = None,
        user: str | None = None,
        ledger: str | Path | Ledger | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.database = Path(database)
        self.datasets = declared(self.database, schema)
        if user is not None and not user.strip():
            raise UsageError("the user is empty: give a name, or none for your login name")
        self.user = user or os.environ.get("DPSQL_USER") or getpass.getuser()
        self.settings = self.start = Settings().with_values(settings or {})
        self._given = ledger
        self._ledger: Ledger | None = ledger if isinstance(ledger, Ledger) else None
        self._curators: dict[str, Curator] = {}
        self._engines: dict[str, DuckDBEngine] = {}
        self._grids: dict[str, Grid] = {}
        self._compiled: OrderedDict[Any, tuple[Bound | Probe, Compiled | None]] = OrderedDict()
        self._key = os.urandom(32)  # where there is no file for one
        self._lock = threading.RLock()
        self._balances: dict[str, Balance] = {}  # after the last answer on each dataset
        self._calls, self._stops = Calls(), 0
        self._earlier = Earlier(self.user)
        self._learned = Learned()

    # -- the parts -----------------------------------------------------------------------------

    @property
    def ledger_place(self) -> Path | str:
        """Where the ledger is kept when none was given open: a file, or an address."""
        if self._given is None or isinstance(self._given, Ledger):
            return self.database.with_suffix(".ledger")
        return str(self._given) if is_url(self._given) else Path(self._given)

    @property
    def ledger(self) -> Ledger:
        """The ledger. Raises NoGrant when its file does not exist: no grant, no answer."""
        if (known := self._ledger) is not None:
            return known
        with self._lock:
            if self._ledger is None:
                path = self.ledger_place
                if isinstance(path, Path) and not path.exists():
                    raise tell.no_ledger(self.database, self.user, path, self._given is not None)
                beside = witness(self.database, path)
                self._ledger = Ledger.open(path, create=False, witness=beside)
            return self._ledger

    def _curator(self, dataset: Dataset) -> Curator:
        with self._lock:
            if dataset.name not in self._curators:
                key = self._unit_key(dataset, make=True)
                engine = DuckDBEngine(self.database, dataset, unit_key=key)
                self._engines[dataset.name] = engine
                self._curators[dataset.name] = Curator(engine, self.ledger, self.user)
            return self._curators[dataset.name]

    def _unit_key(self, dataset: Dataset, *, make: bool) -> bytes | None:
        """The key that ranks the rows of units; None where there are none, or no key as yet."""
        if dataset.unit.column is None:
            return None
        if isinstance(self._given, Ledger):
            return self._key
        return unit_key(self._key_path) if make or self._key_path.exists() else None

    @property
    def _key_path(self) -> Path:
        """Where the unit's key stands: beside the ledger, or beside the data of a distant one."""
        place = self.ledger_place
        path = place if isinstance(place, Path) else self.database.with_suffix(".ledger")
        return path.with_name(path.name + ".key")

    def _grid(self, dataset: Dataset) -> Grid:
        if dataset.name not in self._grids:
            self._grids[dataset.name] = Grid(dataset)
        return self._grids[dataset.name]

    @functools.cached_property
    def _catalogue(self) -> Catalogue:
        return Catalogue(self.datasets.values())

    # -- what people call ----------------------------------------------------------------------

    def answer(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None, **settings: Any
    ) -> Release:
        """The answer to one statement. A SELECT is charged; SET, SHOW, DESCRIBE, EXPLAIN are free.

        `params` fill `?` and `$name`; keywords are settings for this statement alone, and OPTIONS
        in its text goes before them. Raises Refused, UsageError, SourceError or BudgetError; only
        after a charge can SourceError or InternalError mean that something was paid, and then
        they say so (see `last_charge`).
        """
        self._begin()
        chosen, params = self.settings.with_values(settings), native(params)
        asked = statement(sql)
        match asked:
            case Ask(first=First() | Largest()):
                return compared.answered(self, asked, params, chosen)
            case Ask():
                return self._ask(asked, params, chosen)
            case Explain(ask=ask):
                return tell.plan(explained(self, ask, params, chosen))
            case Describe() | Show() | Set():
                return told(self, asked, sql, settings)

    def explain(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None, **settings: Any
    ) -> Plan:
        """What a SELECT would do and cost; free, and reads no private data."""
        chosen, params = self.settings.with_values(settings), native(params)
        asked = statement(sql)
        if isinstance(asked, Explain):
            asked = asked.ask
        if not isinstance(asked, Ask):
            raise UsageError("only a SELECT has a plan")
        return explained(self, asked, params, chosen)

    def run(
        self, script: str | Path | Script, params: Mapping[str, Any] | None = None, **settings: Any
    ) -> list[Release]:
        """The answers to a script, planned together and paid by one charge; SET gives none.

        `script` is SQL, or the path of a file of it. `params` fill `$name` wherever it stands.
        Settings are as in `answer`; the price is the whole script's, a tenth of the grant unless
        it is said. All statements are answered, or none is and nothing is charged. Raises as
        `answer` does, with the place in the script.
        """
        return list(self.report(script, params, **settings).releases)

    def report(
        self, script: str | Path | Script, params: Mapping[str, Any] | None = None, **settings: Any
    ) -> Report:
        """As `run`, with the titles of the script, and what all of it cost."""
        from dpsql.session.scripts.ready import ready
        from dpsql.session.scripts.report import answered

        self._begin()
        return answered(self, ready(self, script, params, settings))

    def explain_script(
        self, script: str | Path | Script, params: Mapping[str, Any] | None = None, **settings: Any
    ) -> ScriptPlan:
        """What `run` would do and cost; free, and reads no private data."""
        from dpsql.session.scripts.foretold import foretold
        from dpsql.session.scripts.ready import ready

        return foretold(self, ready(self, script, params, settings))

    def budget(self, dataset: str | None = None) -> Budget:
        """What this user was granted, spent and has left. Raises NoGrant."""
        return tell.budget(self.ledger.balance(self.user, named(self.datasets, dataset).name))

    @property
    def synopses(self) -> Synopses:
        """Synopses, made and asked here; anew each time, for a session is in no cycle."""
        return Synopses(self)

    @property
    def last_charge(self) -> Cost | None:
        """What the last `answer` of this thread paid, as a Cost, or None for nothing."""
        return self._calls.paid

    def interrupt(self) -> None:
        """Stop a running statement from another thread; what was charged stays charged.

        One that is still being planned stops before it is charged.
        """
        self._stops += 1
        for engine in list(self._engines.values()):
            engine.interrupt()
        for grid in list(self._grids.values()):
            grid.empty.interrupt()

    def _begin(self) -> None:
        self._calls.paid, self._calls.stops = None, self._stops

    def go_on(self) -> None:
        """Raises KeyboardInterrupt if `interrupt` came since this thread's call began."""
        if self._calls.stops != self._stops:
            raise KeyboardInterrupt

    def close(self) -> None:
        """Close the database and, unless it was given open, the ledger."""
        with self._lock:
            for engine in self._engines.values():
                engine.close()
            self._engines.clear()
            self._curators.clear()
            if self._ledger is not None and not isinstance(self._given, Ledger):
                self._ledger.close()
                self._ledger = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- SELECT --------------------------------------------------------------------------------

    def _ask(self, ask: Ask, params: Any, chosen: Settings) -> Release:
        bound, compiled = self._compile(ask, params)
        settings = effective(ask, chosen)
        if isinstance(bound, Probe) and bound.of:
            return tell.catalogue(bound, self._catalogue, params, self.user)
        if isinstance(bound, Probe):
            return tell.probe(bound, self._probe_grid(bound), params)
        assert compiled is not None
        require_level(compiled, settings.confidence)
        known = self._balances.pop(bound.dataset.name, None)
        if known is not None and settings.backend != "synopsis":  # whose answers tell what is left
            try:
                return self._measure(ask, bound, compiled, settings, known)
            except Regranted:  # since the last answer
                pass
        balance = self.ledger.balance(self.user, bound.dataset.name)
        return self._measure(ask, bound, compiled, settings, balance)

    def _measure(
        self, ask: Ask, bound: Bound, compiled: Compiled, settings: Settings, balance: Balance,
        earlier: int = 0,
    ) -> Release:  # fmt: skip
        terms = Terms.of(balance.grant)
        check_delta(ask, terms.delta)
        drawn = population(self, ask, compiled, settings)
        if settings.backend == "synopsis" or (self._learned.verified and drawn is None):
            from dpsql.session.synopses.spared import answer

            if (release := answer(self, ask, compiled, settings, balance)) is not None:
                return release
        dataset, grid = bound.dataset, self._grid(bound.dataset)
        project = projection([compiled.workload], settings)

        def built(answered: Answered, paid: Paid) -> Release:
            shown = project.shown([answered])[0] if project else None
            return build(compiled, grid, answered, settings, paid, shown, drawn)

        archive = self._archive(dataset) if settings.reuse and drawn is None else None
        plan = wanted(compiled, dataset, settings, terms, archive)
        require_bound(drawn, compiled, plan.choice.noises(compiled.workload), settings.confidence)
        found, rest = plan.found, plan.rest
        if rest is None:
            assert found is not None
            nothing, notes = tell.nothing(terms), unbought(archive, compiled.workload, found)
            left = tell.budget(self.ledger.balance(self.user, dataset.name))
            paid = Paid(REUSE, nothing, nothing, left, True, (*notes, *plan.notes))
            return built(found.answered(), paid)
        curator = self._curator(dataset)
        text = ask.text.sql.strip()
        charge = Charge(self.ledger, balance, earlier)
        read = reading(self.ledger, self._earlier, archive, dataset, compiled, plan, balance)
        if read is None:
            plan = whole(plan, compiled, dataset, settings.whole, archive, self.ledger, balance)
            rest = plan.rest or rest
        failure: BaseException
        try:
            self.go_on()
            if archive is not None and read is not None:
                receipt, said, paid = taken(self.ledger, archive, read, charge, text, balance)
                self._balances[dataset.name] = receipt.after
                return built(said, paid)
            asked = plan.measured(rest, compiled.workload)
            measured = curator.measure(
                asked, rest.noise, text, charge.take, balance.grant, charge.token
            )
            self._balances[dataset.name] = measured.receipt.after
            if archive is not None and measured.snapshot != archive.name[2]:
                archive, found = self._archive(dataset, measured.snapshot), None
            drawn = drawn and drawn.of(measured.snapshot)
            answered, others, told = said_of(archive, found, compiled, measured, plan)
            paid = Paid(
                label(rest, others),
                rest.price,
                tell.price(measured.receipt.charged, terms),
                tell.budget(measured.receipt.after),
                others > 0,
                tuple(told),
            )
            return built(answered, paid)
        except Regranted:
            raise
        except BaseException as error:
            failure = charge.failure(error)
        finally:
            self._calls.paid = charge.total
        raise failure  # out here, so that it does not carry what it was made from

    def _archive(self, dataset: Dataset, snapshot: str | None = None) -> Archive:
        """The earlier releases of a snapshot, which is the present one unless it is given.

        The data may have changed before they were measured, or a unit's key was made for that.
        """
        snapshot = self._snapshot(dataset) if snapshot is None else snapshot
        return self._earlier.archive(self.ledger, dataset.name, snapshot)

    def _snapshot(self, dataset: Dataset, *, look: bool = False) -> str:
        """The state of the data now; reads no row."""
        if engine := self._engines.get(dataset.name):
            return engine.snapshot()
        key = self._unit_key(dataset, make=False)
        return snapshot_of(self.database, dataset, key, look=look)

    def _compile(self, ask: Ask, params: Any) -> tuple[Bound | Probe, Compiled | None]:
        values, key = literals(params)
        with self._lock:
            known = (ask.sql, key)
            found = self._compiled.get(known)
            if found is None:
                require_all(ask.params, values, ask.text.refusal)
                bound = bind(ask, self.datasets, values)
                compiled = None
                if isinstance(bound, Bound):
                    require_private(ask, bound.dataset)
                    compiled = compile_bound(bound, self._grid(bound.dataset), params or ())
                self._compiled[known] = found = bound, compiled
                if len(self._compiled) > _KEPT:
                    self._compiled.popitem(last=False)
            else:
                self._compiled.move_to_end(known)
            return found

    def called(self, name: str) -> Dataset | None:
        """The dataset of a name, whatever the case of its letters."""
        alike = (d for n, d in self.datasets.items() if n.lower() == name.lower())
        return self.datasets.get(name) or next(alike, None)

    def _probe_grid(self, probe: Probe) -> Grid:
        return self._grid(probe.dataset or next(iter(self.datasets.values())))
