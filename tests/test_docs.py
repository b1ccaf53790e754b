"""The documentation is true: blocks run, links lead somewhere, the reference is the code's."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import click
import duckdb
import pytest

from docs.generate import PAGES, page
from dpsql import Ledger
from dpsql.surfaces.commands import root
from dpsql.surfaces.magic import options
from tests.pages import ROOT, Shape, assert_known, blocks, commands, follow, rows

DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = {str(path.relative_to(DOCS)): path.read_text("utf-8") for path in DOCS.rglob("*.md")}
FIVE = "## Ask of your own Parquet file"


def folder_of(page: str, folder: Path) -> Path:
    """The folder in which a page's commands are typed, by the comment at its top."""
    found = re.match(r"<!-- folder: (.*) -->\n", page)
    match found[1] if found else "":
        case "adult":
            with duckdb.connect(str(folder / "adult.duckdb")) as made:
                rows = str(ROOT / "examples/data/adult.parquet")
                made.execute("CREATE TABLE adult AS FROM read_parquet($1)", [rows])
            declare(folder, "adult", 2)
        case "titanic" | "titanic, declared" as which:
            shutil.copy(ROOT / "examples/data/titanic.parquet", folder)
            if which != "titanic":
                declare(folder, "titanic", 1)
        case "":
            pass
        case other:
            raise AssertionError(f"no folder is {other}")
    return folder


def declare(folder: Path, dataset: str, epsilon: float) -> None:
    shutil.copy(ROOT / f"schemas/{dataset}.toml", folder)
    with Ledger.open(folder / f"{dataset}.ledger") as ledger:
        ledger.grant("alice", dataset=dataset, epsilon=epsilon)


@pytest.mark.parametrize("name", sorted(name for name, text in TEXTS.items() if blocks(text)))
def test_what_a_page_shows_runs(name: str, tmp_path: Path, shape: Shape) -> None:
    follow(TEXTS[name], folder_of(TEXTS[name], tmp_path), shape)


def test_five_commands_lead_from_the_help_to_an_answer_on_a_file_of_ones_own() -> None:
    section = README.partition(FIVE)[2].partition("\n## ")[0]
    shown, told = (
        [c for b in blocks(text) if b.kind == "console" for c, _ in commands(b.text)]
        for text in (section, TEXTS["start.md"])
    )
    assert FIVE in README and shown == told
    assert [" ".join(command.split()[:3]).partition(" titanic")[0] for command in shown] == [
        "dpsql --help",
        "dpsql schema infer",
        "dpsql schema check",
        "dpsql budget grant",
        "dpsql query",
    ]
    edits = [[b.text for b in blocks(t) if b.kind == "toml"] for t in (section, TEXTS["start.md"])]
    assert edits[0] == edits[1] and len(edits[0]) == 1


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_reference_is_what_the_code_says(name: str) -> None:
    assert TEXTS[name] == page(name), "make docs"


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("analysts.md", "accuracy"),
        ("analysts.md", "shares"),
        ("mechanisms/population.md", "transfer"),
    ],
)
def test_tables_of_figures_are_those_of_the_front_page(name: str, mark: str) -> None:
    assert rows(TEXTS[name], mark) == rows(README, mark)


@pytest.mark.parametrize("name", ["README.md", *TEXTS])
def test_commands_and_options_that_are_named_exist(name: str) -> None:
    text = re.sub(r"^```.*?^```$", "", {**TEXTS, "README.md": README}[name], flags=re.S | re.M)
    for words in re.findall(r"`([^`]+)`", text):
        words = " ".join(words.split()).replace("...", "")
        if re.match(r"dpsql [a-z]", words):
            assert_known(words.removeprefix("dpsql "))
        elif re.match(r"--[a-z]", words):
            assert words.split()[0].partition("=")[0] in every_option() | every_option(options), (
                words
            )


def every_option(command: click.Command = root) -> set[str]:
    found = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            one = command.get_command(context, child)
            assert one is not None
            found |= every_option(one)
    return found | {"--help"}


# -- the site ----------------------------------------------------------------------------------

BUILD = """
import socket
def refuse(*_): raise OSError("the network is not there")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli()
"""


class Links(HTMLParser):
    """What a page of HTML leads to, what it loads, and what can be led to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        if tag == "a" and "href" in found:
            self.leads.append(found["href"])
        else:
            self.loads += [found[name] for name in ("href", "src") if name in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as it is built; not with --quiet, which hides warnings from --strict, too."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_is_built_without_a_warning_and_without_a_network(site: Path) -> None:
    made = {str(path.relative_to(site)) for path in site.rglob("*.html")} - {"404.html"}
    assert made == {name.replace(".md", ".html") for name in TEXTS}
    assert not list(site.rglob("*.py"))


def test_pages_load_nothing_from_elsewhere_and_lead_to_addresses(site: Path) -> None:
    for path in set(site.rglob("*.html")) - {site / "404.html"}:
        links = Links(path.read_text(encoding="utf-8"))
        assert not [load for load in links.loads if urlsplit(load).netloc]
        for lead in links.leads:
            address = urlsplit(lead)
            if address.scheme or address.netloc:
                assert address.scheme == "https" and "." in address.netloc, lead
            elif address.path.endswith(".html"):
                assert (path.parent / address.path).exists(), lead


def test_links_of_the_front_page_lead_to_headings_of_these_pages(site: Path) -> None:
    named = re.findall(r"\]\(docs/([\w/-]+\.md)(?:#([\w-]+))?\)", README)
    assert named
    for name, anchor in named:
        assert name in TEXTS, name
        html = (site / name.replace(".md", ".html")).read_text(encoding="utf-8")
        assert not anchor or f'id="{anchor}"' in html, f"{name}#{anchor}"
    assert len(re.findall(r"\]\(docs/", README)) == len(named)
