"""The tree of commands, each loaded when it is used."""

from __future__ import annotations

import importlib
from typing import Any

import click

_COMMANDS = {
    "demo": "demo:demo",
    "query": "query:query",
    "explain": "query:explain",
    "run": "run_cmd:run_script",
    "shell": "shell.command:shell",
    "schema": "schema_cmd:schema",
    "synopsis": "synopsis_cmd:synopsis",
    "budget": "budget_cmd:budget",
}

_HELP = """Ask SQL of a private table, and get answers with noise, an interval and a price.

The owner of a DuckDB, Parquet or CSV file declares its columns in a schema and grants each
user a budget. The analyst then asks SQL. Each answer hides any one person (or row) behind
noise, and takes its price from the budget; when the budget is spent, nothing more is answered.

\b
Start here:
  dpsql demo                        the whole story on real data
\b
The owner:
  dpsql schema infer visits.duckdb -o visits.toml      draft a schema, then edit it
  dpsql schema check visits.duckdb                     does the data fit it?
  dpsql budget grant visits.duckdb alice --epsilon 2   let alice ask
\b
The analyst:
  dpsql schema show visits.duckdb                      what can be asked
  dpsql explain visits.duckdb "SELECT COUNT(*) FROM visits"    price and error, free
  dpsql query visits.duckdb "SELECT COUNT(*) FROM visits" -u alice
  dpsql run visits.duckdb report.sql -o report.html -u alice   a whole report, at one price
  dpsql shell visits.duckdb -u alice

The schema (visits.toml) and the ledger (visits.ledger) stand beside the database unless -s
and --ledger say otherwise. DPSQL_DB, DPSQL_SCHEMA, DPSQL_LEDGER and DPSQL_USER set defaults.

This protects a co-operating analyst: who can read the file can read the data. Separation comes
from the operating system.

\b
Exit codes: 0 answered, 1 SQL refused, 2 usage or schema, 3 data source, 4 budget,
70 internal error, 130 interrupted. Errors go to standard error, as JSON with --format json.
DPSQL_DEBUG=1 adds the stack of an error, and for owners' commands its message, which may
quote data.
"""


class Root(click.Group):
    """A group that imports a command when it is named."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[name].split(":")
        command: Any = getattr(importlib.import_module(f"dpsql.surfaces.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = words[0]
        if name not in _COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, _COMMANDS, 1, 0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            context.fail(f"No such command {name!r}.{hint}")
        return click.Group.resolve_command(self, context, words)


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"dpsql {version('dpsql')}")
        context.exit()


root = Root(
    "dpsql",
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Show the version and exit.",
        )
    ],
)
