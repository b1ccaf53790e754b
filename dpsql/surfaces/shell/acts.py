"""What the shell's own commands do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import NoGrant, UsageError
from dpsql.surfaces.shell import dots

if TYPE_CHECKING:
    from dpsql.surfaces.shell.room import Room


def act(room: Room, dot: dots.Dot, argument: str) -> None:
    """Do what a command says. Raises UsageError."""
    _ACTS[dot.name](room, argument)


def _help(room: Room, argument: str) -> None:
    from dpsql.surfaces import terminal

    room.say(dots.help_lines(argument, terminal.width(sys.stdout)))


def _schema(room: Room, argument: str) -> None:
    from dpsql.surfaces import terminal
    from dpsql.surfaces.declared import dataset_lines

    width, drawn = _paper(room)
    named = room.session.datasets.values()
    found = [d for d in named if argument.casefold() in ("", d.name.casefold())]
    if not found and argument:
        listed = ", ".join(terminal.visible(name) for name in room.session.datasets)
        raise UsageError(f"there is no dataset {argument!r}: {listed}")
    room.outlet.write(
        line for dataset in found for line in dataset_lines(dataset, width=width, drawn=drawn)
    )


def _budget(room: Room, argument: str) -> None:
    from dpsql.surfaces import terminal
    from dpsql.surfaces.purses import purse_lines

    width, _ = _paper(room)
    bar = terminal.is_terminal(sys.stdout) and not room.outlet.file
    named = [argument] if argument else list(room.session.datasets)
    lines: list[str] = []
    for dataset in named:
        try:
            lines += purse_lines(room.session.budget(dataset), bar=bar, width=width)
        except NoGrant:
            if len(named) == 1:
                raise
            lines.append(terminal.visible(f"{room.session.user} has no grant on {dataset}"))
    room.outlet.write(lines)


def _explain(room: Room, argument: str) -> None:
    from dpsql.surfaces.formats import json_lines, plan_lines
    from dpsql.surfaces.progress import Progress

    sql = argument or room.last_sql
    if not sql:
        raise UsageError("which statement? .explain SELECT ...")
    with Progress("planning"):
        plan = room.session.explain(sql)
    width, drawn = _paper(room)
    as_json = room.form == "json"
    made = json_lines(plan.to_dict()) if as_json else plan_lines(plan, width=width, drawn=drawn)
    room.outlet.write(made)


def _chart(room: Room, argument: str) -> None:
    from dpsql.surfaces.shell.chart import chart_lines

    if room.last is None:
        raise UsageError("there is no answer to draw yet")
    width, drawn = _paper(room)
    room.outlet.write(chart_lines(room.last, argument, width=width, drawn=drawn))


def _settings(room: Room, argument: str) -> None:
    from dpsql.session.settings import check
    from dpsql.surfaces.table import table

    width, drawn = _paper(room)
    if argument:
        check(argument.lower())
    shown, start = room.session.settings.shown(), room.session.start.shown()
    rows = [
        [name, value, "" if value == start[name] else f"at first {start[name]}"]
        for name, value in shown.items()
        if argument.lower() in ("", name)
    ]
    changed = any(row[2] for row in rows)
    names = ("setting", "value", "changed")
    size = 3 if changed else 2
    made = list(
        table(names[:size], [row[:size] for row in rows], (False,) * size, width=width, drawn=drawn)
    )
    if not argument:
        outlet = room.outlet
        own = {
            ".mode": room.form,
            ".output": outlet.file or "the screen",
            ".log": outlet.log or "off",
            ".timer": _switched(room.timing),
            ".pager": _switched(outlet.paging),
            ".ask": _switched(room.asking),
        }
        made += [f"{name} {value}" for name, value in own.items()]
        made.append("SET name = value changes a setting, RESET name or RESET ALL takes it back")
    room.outlet.write(made)


def _mode(room: Room, argument: str) -> None:
    if argument not in dots.MODES:
        raise UsageError(f"no mode {argument!r}: choose one of {', '.join(dots.MODES)}")
    room.form, room.run.as_json = argument, argument == "json"


def _output(room: Room, argument: str) -> None:
    if not argument:
        room.outlet.to_screen()
        return
    path = _writable(room, argument)
    room.outlet.to_file(path)
    room.say([f"answers go to {path}; .output alone shows them again"])


def _log(room: Room, argument: str) -> None:
    if not argument:
        _paid(room)
    elif argument == "off":
        room.outlet.stop_log()
    else:
        path = _writable(room, argument)
        room.outlet.log_to(path)
        room.say([f"statements and answers are added to {path}; .log off ends it"])


def _writable(room: Room, argument: str) -> Path:
    """The file that a command names. Raises UsageError for one that must stay as it is."""
    from dpsql.surfaces.aim import Aim
    from dpsql.surfaces.kept import writable

    path = Path(argument).expanduser()
    writable(path, room.run.aim or Aim.of(room.session))
    return path


def _paid(room: Room) -> None:
    """What the user's own statements were charged. Those of others stay theirs."""
    from dpsql.surfaces import audit
    from dpsql.surfaces.table import table

    user = room.session.user
    entries = [
        entry
        for entry in room.session.ledger.log(user)
        if entry.user == user and entry.dataset in room.session.datasets and entry.kind == "charge"
    ]
    if not entries:
        room.outlet.write(["nothing was charged yet"])
        return
    width, drawn = _paper(room)
    rows = []
    for entry in entries:
        number, when, _, dataset, _, _, statement = audit.row(entry)
        rows.append([number, when[:16], dataset, audit.took(entry), audit.by(entry), statement])
    names = ("#", "when (UTC)", "dataset", "took", "by", "statement")
    right, whole = (True, *(False,) * 5), (True, True, True, True, False, False)
    room.outlet.write(table(names, rows, right, width=width, drawn=drawn, whole=whole))


def _timer(room: Room, argument: str) -> None:
    room.timing = _switch(room, ".timer", argument, room.timing)


def _pager(room: Room, argument: str) -> None:
    room.outlet.paging = _switch(room, ".pager", argument, room.outlet.paging)


def _ask(room: Room, argument: str) -> None:
    room.asking = _switch(room, ".ask", argument, room.asking)


def _switch(room: Room, name: str, argument: str, now: bool) -> bool:
    """What a switch is set to; without an argument it is turned, and said."""
    if not argument:
        room.say([f"{name} {_switched(not now)}"])
        return not now
    if argument.lower() not in dots.SWITCH:
        raise UsageError(f"{name} is on or off, not {argument!r}")
    return argument.lower() == "on"


def _switched(on: bool) -> str:
    return "on" if on else "off"


def _paper(room: Room) -> tuple[int | None, bool]:
    """Width, and whether boxes can be drawn, where answers go."""
    from dpsql.surfaces import terminal

    if room.outlet.file:
        return None, True
    return terminal.width(sys.stdout), terminal.draws(sys.stdout)


_ACTS: Mapping[str, Callable[[Room, str], None]] = {
    ".help": _help,
    ".schema": _schema,
    ".budget": _budget,
    ".explain": _explain,
    ".chart": _chart,
    ".settings": _settings,
    ".mode": _mode,
    ".output": _output,
    ".log": _log,
    ".timer": _timer,
    ".pager": _pager,
    ".ask": _ask,
}
