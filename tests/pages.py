"""Pages in Markdown as tests read them: their blocks, their tables, and the commands they show.

Of a block, what is run or compared is said by its kind, and by a comment above it:

console   each `$ dpsql ...` is typed, and prints what stands below it but for the numbers
          <!-- part -->     what stands below it are lines of what is printed, in their order;
                            one that ends in ` ...` is the beginning of one
          <!-- refused -->  the command ends with an exit code other than 0
          <!-- demo -->     the first command is run, and its output left to another test
python    a process of its own runs it
ipython   the same, cell by cell
text      what the last block printed, but for the numbers
toml      a file of the name that its first line gives in a comment
sql       a file of the name that its first line gives, without that line
sh, cron, ini       lines for another program: the commands in them are those that there are
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
for cell in sys.argv[1:]:
    shell.run_cell(cell).raise_error()
"""
Shape = Callable[[str], list[str]]


@dataclass(frozen=True)
class Block:
    kind: str
    mark: str  # the comment above it
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page that say of what kind they are."""
    pattern = r"(?:<!-- (?P<mark>[^>]*) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$"
    return [
        Block(found["kind"], found["mark"] or "", found["text"])
        for found in re.finditer(pattern, page, re.DOTALL | re.MULTILINE)
    ]


def rows(page: str, mark: str) -> list[list[str]]:
    """The rows of the table below a comment, without its head."""
    found = re.search(rf"<!-- {mark} -->\n((?:\|.*\n)+)", page)
    assert found, f"the page has no table {mark}"
    lines = found[1].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, on one line, with the output shown."""
    for part in re.split(r"^\$ ", re.sub(r" \\\n +", " ", text), flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run(words: list[str], folder: Path, code: bool = True) -> str:
    """What Python prints with these arguments; it is to end well, or (`code` false) not to."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("DPSQL_")}
    if cache := os.environ.get("DPSQL_CACHE"):
        settings["DPSQL_CACHE"] = cache
    done = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=folder,
        env={**settings, "LOGNAME": "alice", "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.returncode == 0) is code, f"{words}\n{done.stdout}"
    return done.stdout


def typed(command: str, folder: Path, code: bool = True) -> str:
    """The output of a line typed at a shell."""
    program, *words = shlex.split(command)
    assert program == "dpsql", command
    return run(["-m", "dpsql", *words], folder, code)


def follow(page: str, folder: Path, shape: Shape) -> None:
    """Do all that a page shows, from top to bottom, in a folder."""
    printed = ""
    for block in blocks(page):
        match block.kind:
            case "console" if block.mark == "demo":
                typed(block.text.splitlines()[0].removeprefix("$ "), folder)
            case "console":
                for command, output in commands(block.text):
                    printed = typed(command, folder, block.mark != "refused")
                    shown, seen = alike(shape(output)), alike(shape(printed))
                    if block.mark == "part":
                        assert_part(shown, seen)
                    else:
                        assert seen == shown, f"{command}\n{printed}"
            case "python":
                printed = run(["-c", block.text], folder)
            case "ipython":
                run(["-c", NOTEBOOK, *block.text.split("\n\n")], folder)
            case "text":
                assert shape(printed) == shape(block.text), printed
            case "toml":
                name = block.text.splitlines()[0].removeprefix("# ")
                (folder / name).write_text(block.text, encoding="utf-8")
            case "sql":
                first, _, text = block.text.partition("\n")
                (folder / first.removeprefix("-- ")).write_text(text, encoding="utf-8")
            case "sh" | "cron" | "ini":
                assert set(programs(block.text)) <= known(), set(programs(block.text)) - known()
                for command in re.findall(r"\bdpsql ((?:\\\n|[^\n])*)", block.text):
                    assert_known(command.replace("\\\n", " "))
            case kind:
                raise AssertionError(f"a block of {kind} that nobody runs")


def alike(lines: list[str]) -> list[str]:
    """Masked lines with intervals alike: the noise decides whether one is shown by its ends."""
    return [line.replace("[#, #]", "± #") for line in lines]


def assert_part(shown: list[str], printed: list[str]) -> None:
    """That the lines shown, or what is before their ` ...`, are printed, in the same order."""
    rest = iter(line.strip() for line in printed)
    for line in shown:
        begin, cut, _ = line.strip().partition(" ...")
        found = any(seen == begin or (cut and seen.startswith(begin)) for seen in rest)
        assert found, f"{line!r} is not printed there:\n" + "\n".join(printed)


def programs(text: str) -> list[str]:
    """The program and first word of each line of a shell's."""
    return re.findall(r"^(?:make|pip) [\w.-]+", text, re.MULTILINE)


def known() -> set[str]:
    """The commands of the project itself, which other tests run."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return {"pip install"} | {
        f"make {target}" for target in re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE)
    }


def assert_known(arguments: str) -> None:
    """That a command of dpsql, and each of its options, exists."""
    import click

    from dpsql.surfaces.commands import root

    words = shlex.split(arguments.split(" | ")[0].split(" && ")[0].split(" > ")[0])
    command: click.Command = root
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, arguments
        command = found
    options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help", "-h"}
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given <= options, f"dpsql {arguments}: {given - options}"
