"""A bad schema file gets all its errors at once, each with its place and what would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.errors import Problem, SchemaError
from dpsql.schema import Dataset, Kind, Neighbours, Source, Unit, loads

BAD = Path(__file__).parent / "bad"

GOOD = """\
dataset = "visits"
neighbours = "add-remove"
unit = {column = "patient_id", max_rows = 4}

[source]
query = "SELECT * FROM a JOIN b USING (id)"

[columns]
sex    = {type = "category", values = ["female", "male"]}
state  = {type = "category", values = ["01", "02", "NO"]}
age    = {type = "integer", min = 0, max = 110}
weight = {type = "number", min = 0, max = 200, step = 5}
income = {type = "number", edges = [0, 10000, 25000.5]}
day    = {type = "date", min = 2025-01-01, max = 2025-12-31, step = "week"}
smoker = {type = "boolean", nullable = true}
hours  = {type = "integer", min = 0, max = 99, source = "hours-per-week"}

[columns."favourite colour"]
type = "category"
values = [3, 1, 2]

[synopses]
main = ["sex", "Age", "smoker"]
"""


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SchemaError) as caught:
        loads(text, "bad.toml")
    return caught.value.problems


def column(fields: str) -> str:
    """A good file but for one column, on line 6."""
    return f"""\
dataset = "d"
unit = "row"
[source]
table = "t"
[columns]
c = {{{fields}}}
"""


def test_a_good_file_is_read() -> None:
    dataset = loads(GOOD)
    assert isinstance(dataset, Dataset)
    assert dataset.name == "visits"
    assert dataset.unit == Unit("patient_id", 4)
    assert dataset.source == Source(query="SELECT * FROM a JOIN b USING (id)")
    assert [c.size for c in dataset.columns] == [2, 3, 111, 41, 2, 53, 2, 100, 3]
    assert [c.cells - c.size for c in dataset.columns] == [0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert dataset.column("SMOKER").kind is Kind.BOOLEAN
    assert dataset.column("hours").table_name == "hours-per-week"
    assert dataset.synopses == (("main", ("sex", "Age", "smoker")),)


def test_neighbours_are_add_remove_unless_said() -> None:
    assert loads(column('type = "boolean"')).neighbours is Neighbours.ADD_REMOVE
    replaced = 'neighbours = "replace-one"\n' + column('type = "boolean"')
    assert loads(replaced).neighbours is Neighbours.REPLACE_ONE


def test_all_errors_come_at_once_with_their_lines() -> None:
    found = problems((BAD / "everything.toml").read_text())
    expected = (BAD / "everything.txt").read_text()
    assert "\n".join(map(str, found)) + "\n" == expected


def test_every_problem_has_a_line_and_a_way_out() -> None:
    for problem in problems((BAD / "everything.toml").read_text()):
        assert problem.line is not None
        assert problem.found and problem.fix and problem.file == "bad.toml"


def test_an_empty_file_is_told_all_that_is_missing() -> None:
    assert [problem.key for problem in problems("")] == ["dataset", "unit", "source", "columns"]


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("dataset = ", 1, "invalid value"),
        ("dataset = 'a'\nunit == 3", 2, "invalid value"),
        ("a = 1\n\na = 2", 3, "given twice"),
        ("[a]\nx = 1\n[b]\n[a]\n", 4, "given twice"),
        ("x = [1,\n2\n", 2, "unclosed array"),
        ('x = "a\n', 1, "llegal character"),
    ],
)
def test_a_syntax_error_comes_alone_with_its_line(text: str, line: int, found: str) -> None:
    (problem,) = problems(text)
    assert problem.line == line
    assert found in problem.found


def test_what_python_cannot_read_is_a_problem_of_the_file_too() -> None:
    assert "nested" in problems("x = " + "[" * 9000)[0].found
    (problem,) = problems(column(f'type = "integer", min = 0, max = {"9" * 5000}'))
    assert "not TOML" in problem.found
    (problem,) = problems(
        column('type = "number", min = 0, max = 1e99999999999999999999, step = 1')
    )
    assert problem.found == "Infinity is not a finite number"


@pytest.mark.parametrize(
    ("fields", "key", "found"),
    [
        ('type = "integer", min = 3, max = 3', "max", "a universe of one value says nothing"),
        ('type = "category", values = ["a"]', "values", "a universe of one value says nothing"),
        ('type = "number", min = 0, max = 0, step = 1', "max", "a universe of one value"),
        ('type = "date", min = 2025-01-01, max = 2025-01-06, step = "week"', "max", "one value"),
        ('type = "category", values = [1, 2, 1]', "values", "1 is listed 2 times"),
        ('type = "category", values = [[1], [2]]', "values", "[1] is a list"),
        ('type = "category", values = "a"', "values", "values is text"),
        ('type = "category", values = [9223372036854775808, 1]', "values", "outside BIGINT"),
        ('type = "category", values = ["a\\u0000", "b"]', "values", "SQL cannot hold"),
        ('type = "number", min = 0, max = 9, step = 0', "step", "step 0 is not above 0"),
        ('type = "number", min = 0, max = 9, step = "week"', "step", "step is text"),
        ('type = "number", min = 0, max = 1e9, step = 1', "step", "1,000,000,001 points are more"),
        ('type = "number", min = 0, max = 9', "step", "needs step"),
        ('type = "number", min = true, max = 9, step = 1', "min", "min is a boolean"),
        ('type = "number", min = 0, max = 1e400, step = 1e399', "max", "beyond what a DOUBLE"),
        ('type = "number", min = 0, max = 1e-320, step = 1e-321', "max", "more digits"),
        ('type = "number", edges = [1, nan, 3]', "edges", "NaN is not a finite number"),
        ('type = "number", edges = [0, 1, 1.00000000000000000001]', "edges", "does not lie above"),
        (
            'type = "date", min = 2025-01-01, max = 2025-02-01, step = 7',
            "step",
            "step is an integer",
        ),
        ('type = "integer", min = 0, max = 9, values = [1]', "values", "takes no values"),
        ('type = "integer", min = 0, max = 9, Nullable = true', "Nullable", "unknown key"),
        ("min = 0, max = 9", "type", "there is no type"),
        ("type = 3", "type", "type is 3"),
    ],
)
def test_a_wrong_column_is_refused(fields: str, key: str, found: str) -> None:
    listed = problems(column(fields))
    assert (f"columns.c.{key}", 6) in [(p.key, p.line) for p in listed]
    assert any(found in problem.found for problem in listed)


@pytest.mark.parametrize(
    "fields",
    [
        'type = "category", values = ["only"], nullable = true',
        'type = "integer", min = 3, max = 3, nullable = true',
        'type = "number", min = 0, max = 9.99, step = 5',
        'type = "number", min = 0, max = 9_999_999, step = 1',
        'type = "integer", min = -9223372036854775808, max = -9223372036854775000',
        'type = "category", values = [""], nullable = true',
    ],
)
def test_an_unusual_column_is_not_refused(fields: str) -> None:
    assert loads(column(fields)).columns[0].cells >= 2


@pytest.mark.parametrize(
    ("line", "key", "found"),
    [
        ('unit = "person"', "unit", "unit is 'person'"),
        ("unit = {}", "unit.column", "there is no column"),
        ('unit = {column = "id"}', "unit.max_rows", "there is no max_rows"),
        ('unit = {column = "id", max_rows = 1.5}', "unit.max_rows", "a decimal number"),
        ('unit = {column = "id", max_rows = -1}', "unit.max_rows", "max_rows is -1"),
        ('unit = {column = "", max_rows = 1}', "unit.column", "is empty"),
        ("unit = 3", "unit", "unit is 3"),
    ],
)
def test_a_wrong_unit_is_refused(line: str, key: str, found: str) -> None:
    text = column('type = "boolean"').replace('unit = "row"', line)
    (problem, *_) = problems(text)
    assert (problem.key, problem.line) == (key, 2)
    assert found in problem.found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", "the source names nothing"),
        ('table = ""', "the table is empty"),
        ('table = "a"\nquery = "SELECT 1"', "a query beside a table"),
        ("file = 3", "file is an integer"),
        ('tabel = "a"', "unknown key 'tabel'"),
    ],
)
def test_a_wrong_source_is_refused(line: str, found: str) -> None:
    listed = problems(column('type = "boolean"').replace('table = "t"', line))
    assert any(found in problem.found for problem in listed)


def test_replace_one_is_about_rows() -> None:
    text = column('type = "boolean"').replace('"row"', '{column = "id", max_rows = 2}')
    (problem,) = problems('neighbours = "replace-one"\n' + text)
    assert (problem.key, problem.line) == ("neighbours", 1)


def test_append_only_is_about_rows() -> None:
    text = column('type = "boolean"')
    assert not loads(text).append_only
    assert loads("append_only = true\n" + text).append_only
    person = text.replace('"row"', '{column = "id", max_rows = 2}')
    (problem,) = problems("append_only = true\n" + person)
    assert (problem.key, problem.line) == ("append_only", 1)
    (problem,) = problems("append_only = 1\n" + text)
    assert (problem.key, problem.line) == ("append_only", 1)


def test_a_section_of_the_wrong_shape_is_refused() -> None:
    listed = problems('dataset = "d"\nunit = "row"\nsource = 1\ncolumns = 2\nsynopses = 3')
    assert [problem.key for problem in listed] == ["source", "columns", "synopses"]
    (problem, *_) = problems('dataset = "d"\nunit = "row"\n[source]\ntable = "t"\n[[columns]]\n')
    assert (problem.key, problem.line) == ("columns", 5)


def test_a_mistyped_word_is_answered_with_the_word_that_it_resembles() -> None:
    assert "did you mean nullable" in problems(column('type = "boolean", nulable = true'))[0].fix
    assert "did you mean 'category'" in problems(column('type = "categry"'))[0].fix


def test_a_byte_order_mark_is_no_fault() -> None:
    assert loads("\ufeff" + GOOD) == loads(GOOD)
    assert problems("\ufeff" + column('type = "x"'))[0].line == 6


@pytest.mark.parametrize("name", ['""', r'"a\u0000b"'])
def test_a_name_that_is_none_hides_no_other_problem(name: str) -> None:
    text = f"""dataset = "d"
unit = "row"
source = {{table = "t"}}
[columns]
{name} = {{type = "boolean", wrong = 1}}
age = {{type = "integer", min = 9, max = 2}}
"""
    with pytest.raises(SchemaError) as caught:
        loads(text)
    assert [problem.line for problem in caught.value.problems] == [5, 5, 6]
