"""The laws of the house, where they can be seen from outside: in the source, and in whole sessions.

Order, durability and silence after a failure are in `test_first`; noise in `test_release`; rows and
prices in `test_prices`; neighbours in `test_transcripts`.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
from dpsql.accounting.events import Gaussian, Laplace, from_dict
from dpsql.curator import noise
from dpsql.curator.cells import Cells
from dpsql.curator.curator import Curator, Measurement
from dpsql.curator.engines import DuckDBEngine
from dpsql.curator.sealed import Sealed
from dpsql.query.linear import Workload
from dpsql.session import Session
from tests.privacy.trial import USER, charges, purse, rows, table, watch

ROOT = Path(str(dpsql.__file__)).parent


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Every module of production code."""
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def imported(tree: ast.Module) -> set[str]:
    """The modules that a module names, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module} | {f"{module}.{name.name}" for name in names}
    return found


def words(tree: ast.Module) -> set[str]:
    """Every name that code uses: variables, attributes, arguments, functions; not texts."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word):
                found.add(word)
            case ast.FunctionDef(name=word) | ast.keyword(arg=str(word)):
                found.add(word)
            case ast.alias(name=word):
                found |= set(word.split("."))
    return found


# -- in the source -------------------------------------------------------------------------------


def test_randomness_comes_from_the_operating_system_alone():
    """Law 4: no generator of Python's or NumPy's, no seed, anywhere in production code."""
    asked: dict[str, set[str]] = {}
    for name, tree in sources():
        used = words(tree)
        assert not used & {"seed", "default_rng", "Generator", "RandomState", "getrandbits"}, name
        assert "random" not in used, name
        modules = {module.split(".")[0] for module in imported(tree)}
        assert not modules & {"random", "randomgen", "scipy", "opendp"}, name
        if found := used & {"urandom", "secrets", "uuid", "uuid4", "token_hex"}:
            asked[name] = found
    assert asked == {
        "accounting/books/memory_book.py": {"urandom"},  # names of files and of ledgers
        "accounting/books/postgres_book.py": {"urandom"},
        "accounting/books/sqlite_book.py": {"urandom"},
        "accounting/books/sqlite_file.py": {"urandom"},
        "accounting/seals/secret.py": {"urandom"},  # keys
        "curator/bits.py": {"urandom"},
        "query/distinct.py": {"urandom"},  # sums that tell public columns apart
        "curator/engines/duckdb.py": {"urandom"},  # the name of rows that are read once
        "session/charge.py": {"urandom"},  # the tokens of charges
        "session/session.py": {"urandom"},  # the key of units where there is no file for it
    }


def test_nothing_logs_and_only_surfaces_print():
    """Law 1."""
    for name, tree in sources():
        modules = {module.split(".")[0] for module in imported(tree)}
        assert not modules & {"logging", "syslog", "warnings", "faulthandler", "cProfile"}, name
        if not name.startswith("surfaces/"):
            calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
            assert "print" not in {f.id for f in calls if isinstance(f, ast.Name)}, name
            assert not words(tree) & {"stdout", "__stderr__", "excepthook", "breakpoint"}, name
            assert "sys.stderr" not in ast.unparse(tree), name


def test_true_counts_are_opened_in_few_known_places():
    """Law 1: the curator opens them to add noise and to weigh its cache; engines in their own."""
    found = {}
    for name, tree in sources():
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and "unseal" in ast.unparse(node.func)
        ]
        if calls:
            found[name] = len(calls)
        if not name.startswith("curator/"):
            shown = {"unseal", "Sealed", "_open"} - NAMESAKES.get(name, set())
            assert not words(tree) & shown, name
    assert {n: c for n, c in found.items() if not n.startswith("curator/engines/")} == {
        "curator/cells.py": 1,
        "curator/chooser.py": 4,  # the scores of choices, and what is measured beside them
        "curator/curator.py": 3,
        "curator/gate.py": 2,
        "curator/public.py": 1,  # of tables that their owner declares public
    }


# an attribute of the same name that is no sealed value's
NAMESAKES = {"query/empty.py": {"_open"}}


def test_nothing_of_the_analyst_is_imported_behind_the_wall():
    """Law 1: neither the text nor what is bound to it; a workload is arrays."""
    names = ("axis", "linear", "predicate", "canon", "strategy", "distinct")
    allowed = {f"dpsql.query.{name}" for name in names}
    for name, tree in sources():
        if name.startswith("curator/"):
            found = {m for m in imported(tree) if m.startswith("dpsql.query")}
            assert {".".join(m.split(".")[:3]) for m in found} <= allowed, name


EXACT = ("curator/curator.py", "curator/cells.py", "curator/gate.py", "curator/engines/pack.py",
         "query/linear.py", "query/predicate.py", "domain.py")  # fmt: skip


def test_no_float_between_the_rows_and_the_noise():
    """Law 4: the modules that private sums pass through know no float, quotient or mean."""
    known = dict(sources())
    for name in EXACT:
        tree = known[name]
        floats = {"float", "float64", "float32", "double", "fsum", "mean", "dot", "einsum"}
        assert not words(tree) & floats, name
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.Div)], name
        constants = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        assert not [value for value in constants if isinstance(value, float)], name


# -- what is measured is what is paid for ---------------------------------------------------------

LINEAR = [
    "SELECT COUNT(*) FROM people",
    "SELECT race, COUNT(*) FROM people GROUP BY race",
    "SELECT race, rich, COUNT(*), COUNT(rich) FROM people GROUP BY CUBE (race, rich)",
    "SELECT race, AVG(rich), COUNT(*) FROM people GROUP BY ROLLUP (race)",
    "SELECT SUM(hours), AVG(hours), COUNT(*) FROM people WHERE rich",
    "SELECT SUM(age - 50), COUNT(*) FILTER (WHERE age > 40) FROM people",
    "SELECT STDDEV(age), VAR_POP(age) FROM people WHERE race <> 'Other'",
    "SELECT COUNT(*) FROM people WHERE rich UNION ALL SELECT SUM(hours) FROM people WHERE rich",
    "SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE age > {i})" for i in range(20, 90)) +
    " FROM people",
    "SELECT COUNT(*) FROM people WHERE age > 100",
]  # fmt: skip


def columns_of(workload: Workload) -> np.ndarray:
    """Every column of W: what is measured of a table of one row, for each cell of the domain."""
    grid = workload.domain.grid()
    one = np.ones(1, np.int64)
    found = []
    for cell in range(workload.domain.cells):
        codes = {name: array[cell : cell + 1] for name, array in grid.items()}
        found.append(np.concatenate([b.ravel() for b in workload.matvec(codes, one)]))
    return np.array(found)


@pytest.mark.parametrize(
    ("neighbours", "unit", "most"),
    [
        ("add-remove", '"row"', 1),
        ("replace-one", '"row"', 1),
        ("add-remove", '{column = "pid", max_rows = 3}', 3),
    ],
)
def test_the_event_that_is_charged_is_that_of_the_integers_measured(
    neighbours, unit, most, tmp_path, monkeypatch
):
    """Law 3: D from the columns of the workload that was answered, all of them, by brute force."""
    asked: list[Workload] = []
    noisy = Curator._noisy
    monkeypatch.setattr(
        Curator, "_noisy", lambda *args: asked.append(args[1]) or noisy(*args)
    )  # fmt: skip
    path = table(tmp_path, rows(24), neighbours=neighbours, unit=unit)
    with Session(path, user=USER, ledger=purse()) as session:
        for sql, backend in itertools.product(LINEAR, ["gaussian", "laplace"]):
            plan = session.explain(sql, rho=1e-3, backend=backend)
            session.answer(sql, rho=1e-3, backend=backend)
            paid = from_dict(charges(session.ledger)[-1][4])
            w = np.unique(columns_of(asked[-1]), axis=0)
            if neighbours == "replace-one":
                w = np.concatenate([w, np.zeros_like(w[:1])])
                assert len(w) < 400
                w = (w[:, None] - w[None, :]).reshape(-1, w.shape[1])
            w = w.astype(object)
            squared = max(max((w * w).sum(axis=1)), 1) * most**2
            absolute = max(max(abs(w).sum(axis=1)), 1) * most
            match paid:
                case Gaussian(sensitivity_squared=declared):
                    assert declared >= squared
                    assert declared == squared or not plan.sensitivity_exact
                    assert plan.sensitivity == math.sqrt(declared)
                case Laplace(sensitivity=declared, largest=largest):
                    assert declared >= absolute
                    assert largest >= min(absolute, max(abs(w).max(), 1) * most)


def test_private_sums_and_noise_are_integers(tmp_path, monkeypatch):
    """Law 4."""
    seen: list[Any] = []
    noisy, matvec = Curator._noisy, Workload.matvec

    def measured(curator, *args):
        found = noisy(curator, *args)
        seen.extend(found)
        return found

    def true(workload, codes, counts):
        found = matvec(workload, codes, counts)
        seen.extend([*codes.values(), counts, *found])
        return found

    monkeypatch.setattr(Curator, "_noisy", measured)
    monkeypatch.setattr(Workload, "matvec", true)
    with Session(table(tmp_path, rows(24)), user=USER, ledger=purse()) as session:
        for sql, backend in itertools.product(LINEAR, ["gaussian", "laplace"]):
            session.answer(sql, rho=1e-3, backend=backend)
    assert len(seen) > 60
    assert {array.dtype for array in seen} == {np.dtype(np.int64)}


@pytest.mark.parametrize("power", [53, 55, 60])
def test_sums_beyond_the_digits_of_a_float_are_exact(power, tmp_path, monkeypatch):
    """Law 4: cells of 2^k + 1 rows, whose sums 53 bits cannot hold, nor 64 in the end."""
    counts = np.array([2**power + 1, 2**power + 3, 1], np.int64)
    codes = {"hours": np.array([99, 98, 0]), "race": np.array([0, 0, 3])}
    weights = {"COUNT(*)": (1, 1, 1), "SUM(hours)": (99, 98, 0)}

    def cells(engine, columns):
        return Sealed(Cells({name: codes[name] for name in columns}, counts))

    monkeypatch.setattr(DuckDBEngine, "counts", cells)
    monkeypatch.setattr(noise, "gaussian", lambda law, size: np.zeros(size, np.int64))
    found: list[Measurement] = []
    measure = Curator.measure
    monkeypatch.setattr(
        Curator, "measure", lambda *args: found.append(measure(*args)) or found[-1]
    )  # fmt: skip
    with Session(table(tmp_path, []), user=USER, ledger=purse()) as session:
        for sql, weight in weights.items():
            session.answer(f"SELECT race, {sql} FROM people GROUP BY race", rho=1e-3)
            exact = [w * c for w, c in zip(weight, counts.tolist(), strict=True)]
            (block,) = found[-1].answers
            answers = [int(value) for value in block.ravel()]
            assert answers == [exact[0] + exact[1], 0, 0, exact[2]]


def test_a_plan_promises_what_is_then_charged_and_shown(tmp_path):
    """Law 6: price, candidates' prices and standard errors of EXPLAIN are those of the answer."""
    with Session(table(tmp_path, rows(24)), user=USER, ledger=purse()) as session:
        for sql, backend in itertools.product(LINEAR, ["gaussian", "laplace"]):
            for settings in ({"rho": 1e-3}, {"epsilon": 0.3}, {}):
                plan = session.explain(sql, backend=backend, **settings)
                found = session.answer(sql, backend=backend, **settings)
                assert (plan.backend, plan.price) == (found.backend, found.price)
                assert plan.charged == found.charged
                assert found.charged.rho <= found.price.rho
                assert plan.price in [c.price for c in plan.candidates if c.backend == backend]
                assert (plan.columns, plan.types) == (found.columns, found.types)
                for line, predicted in zip(found.stderr, plan.stderr, strict=True):
                    for error, promise in zip(line, predicted, strict=True):
                        assert promise is None or error == pytest.approx(promise, rel=1e-12)


# -- no text of the analyst behind the wall ------------------------------------------------------

NEEDLES = ("zqx", "7919", "31337", "0.0625", " like ", "upper", "case when age", "between 23")
ODD = [
    "SELECT COUNT(*) AS zqx FROM people WHERE race LIKE '%zqx%'",
    'SELECT COUNT(*) AS "zqx alias; DROP" FROM people AS zqx WHERE zqx.age * 7919 > 31337',
    "SELECT upper(race) AS zqxkey, COUNT(*) /* zqx */ FROM people GROUP BY 1 -- zqx",
    "SELECT CASE WHEN age BETWEEN 23 AND 31 THEN 'zqx''; --' ELSE '' END AS k, AVG(rich) "
    "FROM people GROUP BY k HAVING COUNT(*) > 7919 ORDER BY k LIMIT 7919",
    "WITH zqxcte AS (SELECT age + 7919 AS zqxage FROM people WHERE rich) "
    "SELECT SUM(zqxage) * 0.0625 FROM zqxcte WHERE zqxage <> 31337",
    "SELECT STDDEV(CASE WHEN age > 50 THEN 31337 END) FROM people WHERE hours // 7 = 3",
    "SELECT COUNT(*) FROM people WHERE hours + ? > ? AND NOT contains(race, ?)",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.0625) COUNT(*) AS zqx FROM people",
    "EXPLAIN SELECT COUNT(*) FROM people WHERE age * 7919 = 31337 + 7919",
    "SELECT race AS zqx, COUNT(*) FROM people WHERE age + 7 <> 31337 GROUP BY 1 FIRST 1 ABOVE 7919",
    "SELECT race AS zqx, COUNT(*) FROM people WHERE age + 7 <> 31337 GROUP BY 1 LARGEST 1",
]


@pytest.mark.parametrize("unit", ['"row"', '{column = "pid", max_rows = 2}'])
def test_no_text_of_the_analyst_reaches_the_private_database(unit, tmp_path, monkeypatch):
    """Law 1: literals, aliases, comments, functions, parameters. All that runs there is ours."""
    spy = watch(monkeypatch)
    with Session(table(tmp_path, rows(60), unit=unit), user=USER, ledger=purse()) as session:
        for sql in ODD:
            params = [7919, 31337, "zqx"] if "?" in sql else None
            assert session.answer(sql, params, **{} if "OPTIONS" in sql else {"rho": 1.0}).columns
        assert spy.kinds("charge", "rows", "noise").count("charge") == 10
    texts = "\n".join(spy.texts()).lower().replace(str(tmp_path).lower(), "")
    assert "group by" in texts
    for needle in NEEDLES:
        assert needle not in texts, needle


def test_what_runs_on_the_private_database_depends_on_the_columns_alone(tmp_path, monkeypatch):
    path = table(tmp_path, rows(60))
    ran = []
    for sql in (
        "SELECT COUNT(*) FROM people WHERE age > 30 AND race = 'White'",
        "SELECT race, SUM(age * age), AVG(age) FROM people GROUP BY race HAVING COUNT(*) > 7",
        "SELECT COUNT(*) FROM people WHERE race LIKE 'zqx%' OR NOT age % 7 = 3",
    ):
        spy = watch(monkeypatch)
        with Session(path, user=USER, ledger=purse()) as session:
            session.answer(sql, rho=1.0)
        ran.append([text for text in spy.texts() if not text.startswith("SET ")])
    assert ran[0] == ran[1] == ran[2]
