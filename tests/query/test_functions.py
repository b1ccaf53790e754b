"""The allow-list against DuckDB's own catalogue: what is allowed is there, steady and of a size."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.query.functions import AGGREGATES, KINDS, REFUSED_FUNCTIONS, SIGNATURES, forms, match

WRITTEN_BY_THE_PARSER = {"nullif", "ifnull", "coalesce", "**", "!~~"}
GROWING = {"repeat", "lpad", "rpad", "range", "generate_series", "format", "printf", "bar", "chr",
           "list_value", "string_split", "regexp_replace", "to_base", "bin", "hex"}  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> dict[str, set[str]]:
    """The stability of every function that DuckDB has, and its type."""
    found: dict[str, set[str]] = {}
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT function_name, function_type, stability FROM duckdb_functions()"
        ).fetchall()
    for name, kind, stability in rows:
        found.setdefault(name.lower(), set()).add(f"{kind} {stability}")
    return found


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_what_is_allowed_is_a_steady_function_of_duckdb(
    name: str, catalogue: dict[str, set[str]]
) -> None:
    if name in WRITTEN_BY_THE_PARSER:
        return
    kinds = catalogue[name]  # a form for a time with a zone, which no value here is, may vary
    assert not any("VOLATILE" in kind for kind in kinds), kinds
    assert any(kind.startswith(("scalar CONSISTENT", "macro")) for kind in kinds), kinds


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_what_is_an_aggregate_is_one_of_duckdb(name: str, catalogue: dict[str, set[str]]) -> None:
    assert any(kind.startswith("aggregate") for kind in catalogue[name])


def test_every_aggregate_of_duckdb_is_answered_refused_by_name_or_unknown(
    catalogue: dict[str, set[str]],
) -> None:
    for name, kinds in catalogue.items():
        if any(kind.startswith("aggregate") for kind in kinds):
            assert name not in SIGNATURES or any("scalar" in kind for kind in kinds), name
    known = set(SIGNATURES) & (set(AGGREGATES) | set(REFUSED_FUNCTIONS))
    assert known == set()


def test_nothing_that_makes_values_of_a_size_that_it_is_told_is_allowed() -> None:
    assert not GROWING & set(SIGNATURES)


def test_nothing_that_is_volatile_is_allowed(catalogue: dict[str, set[str]]) -> None:
    volatile = {name for name, kinds in catalogue.items() if any("VOLATILE" in k for k in kinds)}
    assert {"random", "nextval", "uuid"} <= volatile
    assert not volatile & set(SIGNATURES)


@pytest.mark.parametrize(
    ("args", "kinds", "fits"),
    [
        ("nn", ("number", "number"), True), ("nn", ("number",), False), ("n", ("text",), False),
        ("nn?", ("number",), True), ("nn?", ("number", "number"), True), ("nn?", (), False),
        ("tt*", ("text",) * 5, True), ("tt*", ("text",), True), ("tt*", ("text", "number"), False),
        ("aa", ("date", "date"), True), ("aa", ("date", "text"), False),
        ("aa", ("null", "date"), True),
        ("n", ("null",), True), ("", (), True), ("", ("number",), False),
    ],
)  # fmt: skip
def test_arguments_fit_a_form(args: str, kinds: tuple[str, ...], fits: bool) -> None:
    assert match(args, kinds) is fits


def test_forms_are_told_in_words() -> None:
    assert forms("round") == "(number[, number])"
    assert forms("concat") == "(text[, text, ...])"
    assert forms("greatest") == "(values of one kind[, values of one kind, ...])"
    assert set(KINDS) == set("tnbdia")
