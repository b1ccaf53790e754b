"""Texts are shown as they are, whatever they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.surfaces.html.markup import Html, el, join, text
from dpsql.surfaces.html.prose import inline, prose
from dpsql.surfaces.terminal import visible
from tests.surfaces.html import checks

HOSTILE = st.one_of(
    st.text(max_size=60),
    st.text("<>&\"'`*_[]()#-/!=abc \n\t\x00\u202e\ufdd0\U0001fffe\ud800", max_size=60),
    st.sampled_from([
        "<script>alert(1)</script>", "</style><script>x</script>", "<!--", "]]>", "&lt;b&gt;",
        "[x](javascript:alert(1))", "[x](https://a.b/\"onclick=alert(1))", "**[a](https://x.y)**",
        "\"onload=\"x", "</title>", "<svg onload=x>", "`<b>`", "# <h1>", "- <li>", "1. <b>",
    ]),
)  # fmt: skip
PAGE = "<!doctype html><html lang=en><head><title>t</title></head><body>{}</body></html>"


@given(HOSTILE)
def test_a_text_reads_as_it_was_but_for_signs_that_hide(given_: str) -> None:
    root = checks.parsed(PAGE.format(el("p", given_, title=given_)))
    [made] = checks.found(root, "p")
    assert len(made) == 0, "no element comes of a text"
    shown = checks.text(made)
    assert shown == made.get("title")
    plain = "".join(
        c for c in given_ if ord(c) & 0xFFFE != 0xFFFE and not "\ufdd0" <= c <= "\ufdef"
    )
    if plain == given_:
        assert shown == visible(given_)
    assert not any("\ufdd0" <= c <= "\ufdef" or ord(c) & 0xFFFE == 0xFFFE for c in shown)


@given(HOSTILE)
def test_prose_makes_only_what_it_may(given_: str) -> None:
    root = checks.parsed(PAGE.format(prose(given_, 2) + el("p", inline(given_))))
    [body] = checks.found(root, "body")
    for element in body.iter():
        name = element.tag.rpartition("}")[2]
        assert name in {"body", "p", "ul", "ol", "li", "h2", "strong", "em", "code", "a"}
        assert set(element.keys()) <= ({"href"} if name == "a" else set())
        assert name != "a" or element.get("href", "").startswith(("https://", "http://", "mailto:"))


@pytest.mark.parametrize(
    ("given_", "made"),
    [
        ("a\nb", "<p>a b</p>"),
        ("a\n\nb", "<p>a</p><p>b</p>"),
        ("- a\n  b\n- c", "<ul><li>a b</li><li>c</li></ul>"),
        ("1. a\n2) b", "<ol><li>a</li><li>b</li></ol>"),
        ("so:\n- a", "<p>so:</p><ul><li>a</li></ul>"),
        ("## A\nb", "<h3>A</h3><p>b</p>"),
        ("**a** *b* _c_", "<p><strong>a</strong> <em>b</em> <em>c</em></p>"),
        ("`d*e*`", "<p><code>d*e*</code></p>"),
        ("over_50k and 2 * 3 * 4", "<p>over_50k and 2 * 3 * 4</p>"),
        ("[a *b*](https://x/?a&b)", '<p><a href="https://x/?a&amp;b">a <em>b</em></a></p>'),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>"),
        ("[a](ftp://x)", "<p>[a](ftp://x)</p>"),
        ("a < b & c", "<p>a &lt; b &amp; c</p>"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_little_of_markdown(given_: str, made: str) -> None:
    assert prose(given_, 3) == made


def test_elements_are_spelt_once() -> None:
    assert el("p", "a", None, ["b", Html("<br>")], class_="x", hidden=True, id=None) == (
        '<p class="x" hidden>ab<br></p>'
    )
    assert el("line", x1=0.5, x2=3) == '<line x1="0.5" x2="3"/>'
    assert el("meta", name="a", http_equiv="b") == '<meta name="a" http-equiv="b">'
    assert text("a\nb", keep="\n") == "a\nb" and text("a\nb") == "a\\nb"
    assert join(["<", Html("<")]) == "&lt;<"
