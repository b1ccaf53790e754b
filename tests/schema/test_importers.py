"""Declarations of other systems become drafts."""

from __future__ import annotations

import sys

import pytest

from dpsql.errors import MissingExtra, SchemaError
from dpsql.schema import Unit, from_mbi, from_smartnoise, loads

METADATA = """\
Database:
  PUMS:
    PUMS:
      rows: 1000
      max_ids: 3
      age: {type: int, lower: 0, upper: 100}
      sex: {type: string, cardinality: 2}
      income: {type: float, lower: 0.5, upper: 1e5}
      married: {type: boolean, nullable: false}
      seen: {type: datetime}
      pid: {type: int, private_id: True}
    other:
      row_privacy: true
      age: {type: int, lower: 0.0, upper: 100.0, missing_value: 0}
engine: pandas
"""


def test_smartnoise_metadata_become_drafts() -> None:
    (name, text), (other, second) = from_smartnoise(METADATA)
    assert (name, other) == ("PUMS", "other")
    dataset = loads(text)
    assert dataset.unit == Unit("pid", 3)
    assert [column.name for column in dataset.columns] == ["age", "married"]
    assert (dataset.column("age").size, dataset.column("age").nullable) == (101, True)
    assert '# sex = {type = "category", values = [...]' in text
    assert '# income = {type = "number", min = 0.5, max = 100000, step = ...' in text
    assert '# seen = {type = "date", min = ..., max = ...' in text
    assert loads(second).unit == Unit()
    assert loads(second).column("age").nullable is False


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: [", "not YAML"),
        ("[1, 2]", "not SmartNoise metadata"),
        ("", "not SmartNoise metadata"),
        ("engine: pandas", "there are no tables"),
        ("a: 1", "there are no tables"),
        ("a: {b: {c: 1}}", "there is no table"),
        ("a: {b: {c: {NO: {type: int}}}}", "YAML reads the name of a column as False"),
        ("a: {b: {c: {x: {type: blob}}}}", "no type that is known"),
        ("a: {b: {c: {max_ids: 0, x: {type: int, private_id: true}}}}", "max_ids is 0"),
    ],
)
def test_what_is_no_metadata_is_refused(text: str, found: str) -> None:
    with pytest.raises(SchemaError, match=found):
        from_smartnoise(text)


def test_without_pyyaml_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtra, match="pip install pyyaml"):
        from_smartnoise(METADATA)


def test_an_mbi_domain_becomes_a_draft() -> None:
    text = from_mbi('{"age": 85, "sex": 2, "always": 1}', "adult")
    dataset = loads(text)
    assert dataset.name == "adult"
    assert [(c.name, c.size, c.minimum) for c in dataset.columns] == [("age", 85, 0), ("sex", 2, 0)]
    assert "# always = " in text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "not JSON"),
        ("[]", "not an mbi domain"),
        ("{}", "not an mbi domain"),
        ('{"a": 0}', "0 is no number of values"),
        ('{"a": "x"}', "'x' is no number of values"),
        ('{"a": true}', "True is no number of values"),
    ],
)
def test_what_is_no_domain_is_refused(text: str, found: str) -> None:
    with pytest.raises(SchemaError, match=found):
        from_mbi(text, "d")
