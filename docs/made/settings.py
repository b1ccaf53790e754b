"""The settings, the variables of the environment and the exit codes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from docs.made.markdown import code, marked, table
from dpsql.session.settings import EXAMPLES, Settings, show
from dpsql.surfaces.query import query


def settings() -> Iterator[str]:
    spelt = {p.name: " / ".join((*p.opts, *p.secondary_opts)) for p in query.params}
    yield "# Settings"
    yield ""
    yield "The same names in SQL (`SET epsilon = 0.1`), as keywords in Python (`epsilon=0.1`) and"
    yield "as options of the command (`--epsilon 0.1`). The one nearest to the statement holds:"
    yield ""
    yield "1. `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) ...`, in its text;"
    yield "2. keywords of `execute`, or options of `dpsql query`, `explain` and `run`;"
    yield "3. `SET`;"
    yield "4. what the session started with: keywords of `connect`, options of `dpsql shell`;"
    yield "5. the defaults. `RESET name`, or `RESET ALL`, returns to 4."
    yield ""
    yield "Of `epsilon`, `rho` and `accuracy` the one given last replaces the others."
    yield ""
    meanings = {}
    for line in marked("settings")[2:-1]:
        name, _, meaning = [cell.strip() for cell in line.strip("|").split("|", 2)]
        meanings[name.strip("`")] = meaning
    yield from table(
        ("name", "default", "in SQL", "as an option", "meaning"),
        (
            (
                code(field.name),
                show(field.default),
                code(f"SET {field.name} = {EXAMPLES[field.name]}"),
                code(spelt[field.name]),
                meanings[field.name],
            )
            for field in dataclasses.fields(Settings)
        ),
    )
    yield "`SHOW ALL` lists all settings as they are, free."
    yield ""
    yield "## The environment"
    yield ""
    yield from table(
        ("variable", "what"),
        [
            ("`DPSQL_DB`", "the database, where a command or `connect` is not given one"),
            ("`DPSQL_SCHEMA`", "its schema files or folders, joined as in `PATH`"),
            ("`DPSQL_LEDGER`", "its ledger: a file, or `postgresql://user@host/database`"),
            ("`DPSQL_USER`", "who asks"),
            ("`DPSQL_CACHE`", "the folder of strategies; it holds no data. Else `~/.cache/dpsql`"),
            ("`DPSQL_HISTORY`", "the file of what was typed in the shell; empty keeps nothing"),
            ("`DPSQL_DEBUG`", "1: errors come with their stack; for owners' commands with their "
             "message, too, which may quote data"),
        ],
    )  # fmt: skip
    yield "## Exit codes"
    yield ""
    yield from marked("exit codes")
