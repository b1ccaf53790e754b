"""The command `dpsql`: runs a command and turns whatever happens into a message and an exit code.

0 answered, 1 SQL refused, 2 usage or schema, 3 data source, 4 budget, 70 internal, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from dpsql.surfaces.commands import Run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `dpsql` with the arguments (those of the process by default); gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from dpsql.surfaces import terminal

        terminal.prepare()
        code = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        code = 0  # whoever read the output has left; what was asked is done
        _abandon(sys.stdout)
    except OSError:
        code = 2  # standard output is full or gone
        _abandon(sys.stdout)
    except KeyboardInterrupt:
        code = 130
    return code


def _run(given: list[str]) -> int:
    import click

    from dpsql.errors import UsageError
    from dpsql.surfaces.commands import Run, root

    run = Run()
    try:
        with _listening(run), root.make_context("dpsql", given, obj=run) as context:
            root.invoke(context)
        return run.code
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        return _report(KeyboardInterrupt(), given, run)
    except click.ClickException as error:
        if not _json(given):
            error.show(sys.stderr)
            return 2
        return _report(UsageError(error.format_message()), given, run)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        return _report(KeyboardInterrupt() if run.interrupted else error, given, run)


@contextmanager
def _listening(run: Run) -> Iterator[None]:
    """Remember Ctrl-C in `run`: a library may turn the KeyboardInterrupt into an error."""

    def press(number: int, frame: FrameType | None) -> None:
        run.interrupted = True
        if run.holding:
            return
        signal.default_int_handler(number, frame)

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _report(error: BaseException, given: list[str], run: Run) -> int:
    """Say what happened; the exit code holds even where nobody can read it."""
    from dpsql.surfaces import faults

    try:
        charged = run.charged()
        faults.report(error, as_json=_json(given), charged=charged, owner=run.owner)
        sys.stderr.flush()
    except OSError:
        _abandon(sys.stderr)
    return faults.code(error)


def _json(given: list[str]) -> bool:
    """Whether the arguments ask for JSON, even where they are otherwise wrong."""
    before = given[: given.index("--")] if "--" in given else given
    return "--format=json" in before or ("--format", "json") in pairwise(before)


def _abandon(stream: TextIO) -> None:
    """Send what a stream still holds nowhere, so that closing it cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
