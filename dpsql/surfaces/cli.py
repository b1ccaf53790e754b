"""The command `dpsql`: runs a command and turns whatever happens into a message and an exit code.

0 answered, 1 SQL refused, 2 usage or schema, 3 data source, 4 budget, 70 internal, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TextIO

from dpsql.surfaces.run import Run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `dpsql` with the arguments (those of the process by default); gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    alone = arguments is None  # the process is this run's, and ends with it
    if alone:  # idle threads of NumPy's spin for 2^20 ticks, not 2^26 or more, before they sleep
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
    run, code = Run(alone=alone), 0
    with run.listening():
        try:
            code = _run(given, run)
            sys.stdout.flush()
        except BrokenPipeError:
            _abandon(sys.stdout)  # whoever read the output has left; what was asked is done
        except OSError:
            _abandon(sys.stdout)  # it is full or gone
            code = code or 2
    if alone:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said; the process ends
        gc.freeze()  # and its memory with it: nothing is searched for cycles
    return code


def _run(given: list[str], run: Run) -> int:
    import click

    from dpsql.errors import UsageError
    from dpsql.surfaces import terminal
    from dpsql.surfaces.commands import root

    terminal.prepare()
    try:
        if terminal.closed(sys.stdout) and not _to_file(given):
            raise UsageError("standard output is closed: there is nowhere to print, so nothing ran")
        with run.open(), root.make_context("dpsql", given, obj=run) as context:
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


def _report(error: BaseException, given: list[str], run: Run) -> int:
    """Say what happened; the exit code holds even where nobody can read it."""
    from dpsql.surfaces import faults

    try:
        charged = run.charged()
        as_json = _json(given) if run.as_json is None else run.as_json
        faults.report(error, as_json=as_json, charged=charged, owner=run.owner, aim=run.aim)
        sys.stderr.flush()
    except OSError:
        _abandon(sys.stderr)
    return faults.code(error)


def _json(given: list[str]) -> bool:
    """Whether the arguments ask for JSON, even where they are otherwise wrong."""
    before = given[: given.index("--")] if "--" in given else given
    return "--format=json" in before or ("--format", "json") in pairwise(before)


def _to_file(given: list[str]) -> bool:
    """Whether the arguments ask for a file to be written instead of standard output."""
    return any(word[:2] == "-o" or word.partition("=")[0] == "--output" for word in given)


def _abandon(stream: TextIO) -> None:
    """Send what a stream still holds nowhere, so that closing it cannot fail."""
    from dpsql.surfaces import terminal

    if terminal.closed(stream):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
