"""The magics in a notebook that is executed: %dpsql of ours, and jupysql's %sql by the dialect."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import nbclient
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import KernelManager
from traitlets.config import Config

import dpsql
from dpsql.surfaces import dbapi, magic

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = """
dataset = "{name}"
neighbours = "add-remove"
unit = "row"
[source]
{source}
[columns]
sex = {{type = "category", values = ["f", "m"]}}
age = {{type = "integer", min = 0, max = 9}}
"""
SLOW = "SELECT sex, age FROM town, range(4_000_000) r(i) WHERE hash(age * i) = 1"  # takes minutes
GROUPED = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
ANSWER = (("f", 167), ("m", 333))


def made(folder: Path) -> Path:
    """500 people, 167 of them `f`, 50 of each age; ann has a purse."""
    with duckdb.connect(str(folder / "town.duckdb")) as town:
        town.execute(
            "CREATE TABLE town AS SELECT CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex,"
            " i * 7 % 10 AS age FROM range(500) r(i)"
        )
    (folder / "town.toml").write_text(SCHEMA.format(name="town", source='table = "town"'))
    with dpsql.Ledger.open(folder / "town.ledger") as ledger:
        ledger.grant("ann", dataset="town", epsilon=1e4)
    return folder / "town.duckdb"


# -- in a kernel -------------------------------------------------------------------------------

CELLS = {
    "load": "%load_ext dpsql",
    "connect": "%dpsql town.duckdb -u ann --rho 100",
    "cell": f"%%dpsql --rho 150 --name found\n{GROUPED};",
    "kept": "found.rows, found.price.rho",
    "variable": (
        'most, who = 3, "f"\nyoung = %dpsql SELECT COUNT(*) FROM town WHERE age < $most'
        " AND sex = $who\nyoung.rows[0][0]"
    ),
    "several": "%%dpsql\nSELECT COUNT(*) FROM town;\n-- and\nSELECT AVG(age) FROM town;",
    "refused": "%dpsql SELECT MIN(age) FROM town",
    "again": f"%%dpsql\n{GROUPED}",
    "no variable": "%dpsql SELECT COUNT(*) FROM town WHERE age < $least",
    "no option": "%dpsql --epsilon much",
    "nobody": "%dpsql -u bob SELECT COUNT(*) FROM town",
    "jupysql": (
        "from sqlalchemy.dialects import registry  # where dpsql is not installed\n"
        'registry.register("dpsql", "dpsql.surfaces.dialect", "Dialect")\n%load_ext sql'
    ),
    "jupysql connect": "%sql dpsql:///town.duckdb?user=ann&rho=100",
    "jupysql cell": f"%%sql\n{GROUPED}",
    "jupysql frame": "list(_.DataFrame().itertuples(index=False, name=None))",
    "jupysql into": "age = 3\n%sql few << SELECT COUNT(*) AS n FROM town WHERE age = {{age}}",
    "jupysql kept": "list(few.dict().items())",
    "jupysql tables": "%sqlcmd tables",
    "jupysql columns": "%sqlcmd columns -t town",
    "jupysql refused": "%sql SELECT MIN(age) FROM town",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each cell put out."""
    folder = tmp_path_factory.mktemp("notebook")
    made(folder)
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
    book = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(
        book, timeout=60, kernel_name="python3", allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    client.execute(env=environment(folder))
    return {name: cell.outputs for name, cell in zip(CELLS, book.cells, strict=True)}


def environment(folder: Path) -> dict[str, str]:
    """Of a kernel that finds dpsql, and nothing of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if "DPSQL" not in name}
    home = {"HOME": str(folder), "IPYTHONDIR": str(folder), "PLOOMBER_STATS_ENABLED": "false"}
    return {**kept, **home, "PYTHONPATH": str(ROOT)}


def value(outputs: list[Any]) -> Any:
    """What the last output says in plain text, read back."""
    return eval(outputs[-1].data["text/plain"])  # noqa: S307 -- of a notebook of ours


def test_a_release_is_shown_richly_and_kept(outputs: dict[str, list[Any]]) -> None:
    assert outputs["load"] == []
    assert outputs["connect"][0].text == "ann@town  ε left 10,000 of 10,000\n"
    [shown] = outputs["cell"]
    assert shown.output_type == "execute_result"
    assert "<svg" in shown.data["text/html"] and "333 ± 0" in shown.data["text/html"]
    assert "333 ± 0" in shown.data["text/plain"]
    rows, rho = value(outputs["kept"])
    assert rows == ANSWER and rho == pytest.approx(150, rel=1e-3)


def test_a_variable_is_a_parameter(outputs: dict[str, list[Any]]) -> None:
    true = sum(i * 7 % 10 < 3 and i % 3 == 0 for i in range(500))
    assert value(outputs["variable"]) == true, "a value, not its letters in the text"


def test_every_statement_of_a_cell_is_answered(outputs: dict[str, list[Any]]) -> None:
    first, second = outputs["several"]
    assert "500 ± 0" in first.data["text/plain"]
    # 4.5, but for noise of a hundredth at most, but once in 10^20
    assert any(mean in second.data["text/plain"] for mean in ("4.5", "4.49", "4.48"))


def test_an_error_is_ours_and_fails_the_cell(outputs: dict[str, list[Any]]) -> None:
    [error] = outputs["refused"]
    assert (error.output_type, error.ename) == ("error", "Refused")
    assert error.traceback == [
        "refused: MIN reveals one person's value",
        "  SELECT MIN(age) FROM town",
        "         ^^^^^^^^",
        "write instead: a quantile by counts, e.g. SELECT age, COUNT(*) FROM ... GROUP BY age",
        "nothing was charged",
    ]
    assert "333 ± 0" in outputs["again"][0].data["text/plain"], "the connection goes on"
    for name, words in (
        ("no variable", "refused: there is no variable least"),
        ("no option", "usage error: Invalid value for '--epsilon': 'much'"),
        ("nobody", "budget error: bob has no grant on town"),
    ):
        [error] = outputs[name]
        assert error.output_type == "error" and error.traceback[0].startswith(words)


def test_jupysql_works_by_the_dialect(outputs: dict[str, list[Any]]) -> None:
    assert not [o for name in ("jupysql", "jupysql connect") for o in outputs[name] if "text" in o]
    assert "333" in outputs["jupysql cell"][-1].data["text/html"]
    assert value(outputs["jupysql frame"]) == list(ANSWER)
    assert value(outputs["jupysql kept"]) == [("n", (50,))]
    assert "town" in outputs["jupysql tables"][-1].data["text/plain"]
    assert "BIGINT" in outputs["jupysql columns"][-1].data["text/plain"]
    assert "refused: MIN reveals one person's value" in outputs["jupysql refused"][-1].text


def test_the_stop_button_says_what_was_charged(tmp_path: Path) -> None:
    made(tmp_path)
    slow = tmp_path / "slow.toml"
    slow.write_text(SCHEMA.format(name="slow", source=f'query = "{SLOW}"'))
    with dpsql.Ledger.open(tmp_path / "town.ledger") as ledger:
        ledger.grant("ann", dataset="slow", epsilon=1)
    kernel = KernelManager(kernel_name="python3")
    kernel.start_kernel(cwd=str(tmp_path), env=environment(tmp_path))
    client = kernel.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        for text in ("%load_ext dpsql", "%dpsql town.duckdb -u ann SELECT COUNT(*) FROM town"):
            client.execute_interactive(text, timeout=60, output_hook=lambda _: None)
        client.execute("%dpsql -s slow.toml -u ann SELECT COUNT(*) FROM slow")
        time.sleep(1.5)
        kernel.interrupt_kernel()
        said: dict[str, Any] = {}
        while said.get("msg_type") != "error":
            said = client.get_iopub_msg(timeout=30)
        assert said["content"]["ename"] == "KeyboardInterrupt"
        assert said["content"]["traceback"] == ["interrupted: nothing was charged"]
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


# -- without one -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words", "sql"),
    [
        ("", "", ""),
        ("adult.duckdb -u alice", "adult.duckdb -u alice", ""),
        ("a.duckdb --rho 1 SELECT 'it''s'", "a.duckdb --rho 1", "SELECT 'it''s'"),
        ("--name select select(1)", "--name select", "select(1)"),
        ("'my data.duckdb' --intervals (SELECT 1)", "'my data.duckdb' --intervals", "(SELECT 1)"),
        ("with.duckdb", "with.duckdb", ""),
        ("select_all.csv -u ann", "select_all.csv -u ann", ""),
        ("--name=x FROM t", "--name=x", "FROM t"),
        ("-- nothing", "", "-- nothing"),
        ("/* a */ SELECT 1", "", "/* a */ SELECT 1"),
    ],
)
def test_a_line_is_divided_where_sql_begins(line: str, words: str, sql: str) -> None:
    assert magic.divided(line) == (words, sql)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """IPython in this process, in a folder with a town."""
    made(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for name in [name for name in os.environ if name.startswith("DPSQL_")]:
        monkeypatch.delenv(name)
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    found.run_line_magic("load_ext", "dpsql")
    yield found
    found.run_line_magic("unload_ext", "dpsql")
    InteractiveShell.clear_instance()


def test_what_is_not_said_comes_from_the_environment(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(dpsql.UsageError, match="set DPSQL_DB"):
        shell.run_line_magic("dpsql", "SELECT COUNT(*) FROM town")
    monkeypatch.setenv("DPSQL_DB", "town.duckdb")
    monkeypatch.setenv("DPSQL_USER", "ann")
    release = shell.run_line_magic("dpsql", "--rho 100 SELECT COUNT(*) FROM town")
    assert release.rows == ((500,),) and release.left.user == "ann"


def test_a_line_may_hold_the_notebook_s_variables(shell: InteractiveShell) -> None:
    shell.push({"file": "town.duckdb", "who": "ann"})
    assert shell.run_line_magic("dpsql", "{file} -u {who} SELECT 1").rows == ((1,),)


def test_settings_of_a_line_without_a_statement_stay(shell: InteractiveShell) -> None:
    shell.run_line_magic("dpsql", "town.duckdb -u ann --confidence 0.9")
    assert shell.run_line_magic("dpsql", "SELECT COUNT(*) FROM town").confidence == 0.9
    sql = "--confidence 0.8 SELECT COUNT(*) FROM town"
    assert shell.run_line_magic("dpsql", sql).confidence == 0.8
    assert shell.run_line_magic("dpsql", "SELECT COUNT(*) FROM town").confidence == 0.9


@pytest.mark.parametrize(
    ("line", "cell", "words"),
    [
        ("town.duckdb more.duckdb -u ann", None, "unexpected argument 'more.duckdb'"),
        ("town.duckdb -u ann --name 4x SELECT 1", None, "--name is a name of a variable"),
        ("town.duckdb -u ann --name x", None, "--name needs a statement"),
        ("town.duckdb -u 'ann", None, "no closing quotation"),
        ("--colour red", "SELECT 1", "No such option: --colour|No such option '--colour'"),
        ("--close", "SELECT 1", "--close stands alone"),
        ("none.duckdb", "SELECT 1", "there is no database none.duckdb"),
        (".", "SELECT 1", ". is a folder: name a .duckdb, .parquet or .csv file in it"),
    ],
)
def test_a_wrong_line_is_named(
    shell: InteractiveShell, line: str, cell: str | None, words: str
) -> None:
    with pytest.raises(dpsql.Error, match=words):
        loaded(shell).run(line, cell)


def loaded(shell: InteractiveShell) -> magic.Magic:
    return magic._loaded[shell]


def test_connections_are_kept_and_closed(shell: InteractiveShell) -> None:
    ours = loaded(shell)
    shell.run_line_magic("dpsql", "town.duckdb -u ann SELECT 1")
    first = ours._asked
    shell.run_line_magic("dpsql", "-u bob SELECT 1")
    second = ours._asked
    assert first is not None and second is not None and second.session.user == "bob"
    shell.run_line_magic("dpsql", "town.duckdb -u ann SELECT 1")
    assert ours._asked is first, "the same words, the same connection"
    shell.run_line_magic("dpsql", "--close")
    assert first._session is None and second._session is not None and ours._asked is None
    shell.run_line_magic("reload_ext", "dpsql")
    assert second._session is None and loaded(shell) is not ours


def test_a_fault_and_an_interruption_show_no_stack(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run_line_magic("dpsql", "town.duckdb -u ann SELECT 1")
    stopped = KeyboardInterrupt()
    stopped.add_note("nothing was charged")
    for error, kind, words in (
        (ValueError("secret 7"), dpsql.InternalError, "internal error: ValueError; this is a"),
        (stopped, KeyboardInterrupt, "interrupted: nothing was charged"),
    ):

        def fail(*given: Any, error: BaseException = error, **settings: Any) -> None:
            raise error

        monkeypatch.setattr(dbapi.Connection, "execute", fail)
        with pytest.raises(kind) as caught:
            shell.run_line_magic("dpsql", "SELECT 1")
        shown = "\n".join(caught.value._render_traceback_())
        assert shown.startswith(words) and "secret" not in shown
        assert caught.value.__context__ is None


def test_help_lists_the_settings(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_line_magic("dpsql", "--help") is None
    assert "--epsilon FLOAT" in capsys.readouterr().out
    assert "--epsilon FLOAT" in (shell.find_line_magic("dpsql").__doc__ or "")
