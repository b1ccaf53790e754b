"""The IPython extension: after %load_ext dpsql, the magics %dpsql and %%dpsql.

A connection is named once and stays; statements stand in cells of their own:

    %dpsql adult.duckdb -u alice

    %%dpsql --epsilon 0.1 --name found
    SELECT sex, COUNT(*) AS n FROM adult WHERE age < $most GROUP BY sex

`$most` is the notebook's variable, as a parameter: a value, never a piece of SQL.
"""

from __future__ import annotations

import re
import shlex
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dpsql.errors import Error, InternalError, MissingExtra, NoGrant, UsageError
from dpsql.release import charged_words
from dpsql.surfaces import faults, statements
from dpsql.surfaces.aim import Aim
from dpsql.surfaces.figures import figure
from dpsql.surfaces.options import chosen, purse_options, setting_options

if TYPE_CHECKING:
    from dpsql.release import Release
    from dpsql.surfaces.dbapi import Connection

_BEGINS = re.compile(  # a statement, on a line that may begin with a database and options
    r"(?:select|from|with|explain|describe|desc|show|set|reset|values|table|insert|update|delete"
    r"|create|drop|alter|copy|pivot|summarize|call|pragma)(?![\w.])|\(|--(?!\w)|/\*",
    re.IGNORECASE,
)
_WORD = re.compile(r"""\s*((?:[^\s'"]|'[^']*'|"[^"]*")+)""")
_RENDER = "_render_traceback_"  # what IPython shows of an exception instead of its stack


@click.command("%dpsql", options_metavar="[OPTIONS]", epilog="SQL follows, or stands in the cell.")
@click.argument("words", nargs=-1, metavar="[DB]")
@purse_options
@setting_options
@click.option("--name", metavar="NAME", help="Keep the release in a variable of this name, too.")
@click.option("--close", is_flag=True, help="Close the connection.")
@click.pass_context
def options(context: click.Context, /, **given: Any) -> dict[str, Any]:
    """Ask SQL of a private table, and show the release.

    DB is a .duckdb, .parquet or .csv file (or DPSQL_DB names it); it stays for what follows, as do
    options on a line without a statement. $name in SQL stands for the variable, as a value.
    """
    typed = [
        name
        for name in given
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    return {**given, "typed": typed}


def load_ipython_extension(shell: Any) -> None:
    """What %load_ext dpsql calls."""
    try:
        from IPython.core.magic import no_var_expand
    except ImportError:
        raise MissingExtra("this needs IPython: pip install 'dpsql[notebook]'") from None

    magic = Magic(shell)

    def dpsql(line: str, cell: str | None = None) -> Any:
        return magic.run(line, cell)

    dpsql.__doc__ = options.get_help(click.Context(options))
    no_var_expand(dpsql)  # a dollar in SQL is a parameter
    shell.register_magic_function(dpsql, "line_cell", "dpsql")
    _loaded[shell] = magic


def unload_ipython_extension(shell: Any) -> None:
    """What %unload_ext dpsql calls: all connections are closed."""
    if magic := _loaded.pop(shell, None):
        magic.close()
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("dpsql", None)


class Magic:
    """The connections of one notebook, of which one is asked."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._opened: dict[tuple[Any, ...], Connection] = {}
        self._asked: Connection | None = None
        self._begun = False  # whether this run has asked a statement

    def run(self, line: str, cell: str | None) -> Any:
        """What the magic gives: a release, or None where there is none, or several are shown.

        An error is raised with its own words instead of its stack; one that is not ours by its
        type alone, for its words may quote values.
        """
        self._begun = False
        try:
            return self._run(line, cell)
        except (Error, KeyboardInterrupt) as error:
            failure: BaseException = error
        except Exception as error:
            failure = InternalError(f"{type(error).__name__}; this is a fault of dpsql")
        aim = None if self._asked is None else Aim.of(self._asked.session)
        shown = faults.text(failure, None, None, aim)
        if isinstance(failure, KeyboardInterrupt):
            shown = f"interrupted: {self._charged(failure)}"
        setattr(failure, _RENDER, lambda: shown.splitlines())
        raise failure

    def _charged(self, stop: KeyboardInterrupt) -> str:
        """What a statement that was stopped had charged: told with the stop, or else last."""
        told = "\n".join(getattr(stop, "__notes__", ()))
        asked = self._asked if self._begun else None
        return told or charged_words(None if asked is None else asked.session.last_charge)

    def close(self) -> None:
        """Close all connections."""
        for con in self._opened.values():
            con.close()
        self._opened.clear()
        self._asked = None

    def _run(self, line: str, cell: str | None) -> Any:
        words, sql = divided(line)
        given = self._options(words)
        if given is None:  # help was shown
            return None
        if given["close"]:
            return self._close(given, sql, cell)
        name = given["name"]
        if name is not None and not name.isidentifier():
            raise UsageError(f"--name is a name of a variable, not {name!r}")
        con = self._connection(given)
        done, left = statements.split(f"{sql}\n{cell or ''}")
        asked = [text.strip() for text in (*done, left) if not statements.blank(text)]
        settings = chosen(given)
        if not asked:
            self._settle(con, settings, name)
            return None
        found: list[Release] = []
        for one in asked:
            values = self._values(one)
            self._begun = True
            found.append(con.execute(one, values, **settings).release)
            if len(asked) > 1:
                self._display(found[-1])
        answer = found[0] if len(asked) == 1 else tuple(found)
        if name is not None:
            self._shell.push({name: answer})
        return answer if len(asked) == 1 else None

    def _options(self, words: str) -> dict[str, Any] | None:
        """The options of a line; a variable of the notebook may stand in it as {name}."""
        try:
            parts = shlex.split(self._shell.var_expand(words))
        except ValueError as error:
            raise UsageError(f"the line cannot be read: {str(error).lower()}") from None
        try:
            given = options.main(parts, prog_name="%dpsql", standalone_mode=False)
        except click.ClickException as error:
            raise UsageError(error.format_message()) from None
        return given if isinstance(given, dict) else None

    def _close(self, given: Mapping[str, Any], sql: str, cell: str | None) -> None:
        if given["words"] or not statements.blank(sql + (cell or "")):
            raise UsageError("--close stands alone: it closes the connection that is asked")
        if self._asked is not None:
            self._opened = {key: con for key, con in self._opened.items() if con is not self._asked}
            self._asked.close()
            self._asked = None

    def _connection(self, given: Mapping[str, Any]) -> Connection:
        """The connection that a line names, else the one that was asked before."""
        from dpsql.surfaces.dbapi import connect

        words, purse = given["words"], ("schemas", "user", "ledger")
        if len(words) > 1:
            raise UsageError(f"unexpected argument {words[1]!r}: give DB alone, then SQL")
        if self._asked is not None and not words and not {*purse} & {*given["typed"]}:
            return self._asked
        before = None if self._asked is None else self._asked.session.database
        database = words[0] if words else before
        key = (str(database), *(given[name] for name in purse))
        if key not in self._opened:
            schemas, user, ledger = (given[name] for name in purse)
            self._opened[key] = connect(database, list(schemas) or None, user, ledger)
        self._asked = self._opened[key]
        return self._asked

    def _settle(self, con: Connection, settings: Mapping[str, Any], name: str | None) -> None:
        """Keep settings for what follows, and say who asks of what and what is left."""
        if name is not None:
            raise UsageError("--name needs a statement, whose release it keeps")
        session = con.session
        session.settings = session.start = session.settings.with_values(settings)
        for dataset in session.datasets:
            try:
                purse = con.budget(dataset)
                left, granted = figure(purse.left.epsilon), figure(purse.granted.epsilon)
                words = f"ε left {left} of {granted}"
            except NoGrant:
                words = "no grant"
            click.echo(f"{session.user}@{dataset}  {words}")

    def _values(self, sql: str) -> dict[str, Any] | None:
        """The variables that a statement names. Raises Refused for one that is not there."""
        from dpsql.query.parse import Ask, Explain
        from dpsql.session.asked import statement

        match statement(sql):
            case (Ask() as ask) | Explain(ask=ask):
                space, named = self._shell.user_ns, [p for p in ask.params if not p.name.isdigit()]
            case _:
                return None
        for param in named:
            if param.name not in space:
                reason = f"there is no variable {param.name}"
                raise ask.text.refusal(reason, param.span, f"{param.name} = ... in a cell before")
        return {param.name: space[param.name] for param in named} or None

    def _display(self, release: Release) -> None:
        from IPython.display import display

        display(release)


_loaded: weakref.WeakKeyDictionary[Any, Magic] = weakref.WeakKeyDictionary()


def divided(line: str) -> tuple[str, str]:
    """A line's database and options, and the statement after them."""
    takes = {
        name
        for option in options.params
        if isinstance(option, click.Option) and not option.is_flag
        for name in option.opts
    }
    position, value = 0, False
    while found := _WORD.match(line, position):
        word = found[1]
        if value:
            value = False
        elif _BEGINS.match(word):
            break
        else:
            value = word in takes
        position = found.end()
    else:
        return line.strip(), ""
    return line[:position], line[position:].lstrip()
