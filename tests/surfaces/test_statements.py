"""Only a semicolon outside texts, names and comments ends a statement."""

from __future__ import annotations

import pytest

from dpsql.surfaces.statements import blank, split


@pytest.mark.parametrize(
    ("text", "done", "left"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1"], " SELECT 2"),
        ("SELECT ';'; ", ["SELECT ';'"], " "),
        ("SELECT 'it''s;'; x", ["SELECT 'it''s;'"], " x"),
        ('SELECT ";""" ;', ['SELECT ";""" '], ""),
        ("-- a; b\nSELECT 1;", ["-- a; b\nSELECT 1"], ""),
        ("/* ; /* ; */ ; */ SELECT 1;", ["/* ; /* ; */ ; */ SELECT 1"], ""),
        ("SELECT $$;$$;", ["SELECT $$;$$"], ""),
        ("SELECT $a$ ; $$ ; $a$;", ["SELECT $a$ ; $$ ; $a$"], ""),
        ("SELECT $1;", ["SELECT $1"], ""),
        (r"SELECT E'it\'s;' ;", [r"SELECT E'it\'s;' "], ""),
        (r"SELECT '\'; SELECT '\';", [r"SELECT '\'", r" SELECT '\'"], ""),
        ("SELECT 'open ; ", [], "SELECT 'open ; "),
        ("SELECT /* open ; ", [], "SELECT /* open ; "),
        (";;  ;", [], ""),
    ],
)
def test_statements_end_at_semicolons(text: str, done: list[str], left: str) -> None:
    assert split(text) == (done, left)


def test_spaces_and_comments_are_blank() -> None:
    assert blank("  -- x\n /* y /* z */ */ \t")
    assert not blank("-- x\nSELECT")
    assert not blank("/* y */ 1")
