"""What every page must be: valid HTML that a screen reader can read, and that loads nothing."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from xml.etree.ElementTree import Element

import html5lib

_XHTML = "{http://www.w3.org/1999/xhtml}"
_SVG = "{http://www.w3.org/2000/svg}"
_LOADING = {"src", "srcset", "data", "poster", "action", "formaction", "background", "ping"}


def parsed(page: str) -> Element:
    """The document; raises ParseError for whatever HTML does not allow."""
    root: Element = html5lib.HTMLParser(strict=True).parse(page)
    return root


def text(element: Element) -> str:
    """All text of an element."""
    return "".join(element.itertext())


def found(root: Element, name: str) -> list[Element]:
    """The elements of HTML, or of SVG as `svg:name`."""
    space = _SVG if name.startswith("svg:") else _XHTML
    return list(root.iter(space + name.removeprefix("svg:")))


def sound(page: str) -> Element:
    """The document, after all checks."""
    root = parsed(page)
    assert page.startswith("<!doctype html>\n") and root.get("lang") == "en"
    elements = [element for element in root.iter() if isinstance(element.tag, str)]
    _nothing_is_loaded(elements)
    _names(elements)
    _headings(root)
    _tables(root)
    _pictures(root)
    [title] = found(root, "title")
    assert text(title).strip()
    assert found(root, "main") and found(root, "header") and found(root, "footer")
    return root


def _nothing_is_loaded(elements: list[Element]) -> None:
    for element in elements:
        name = element.tag.rpartition("}")[2]
        assert name not in {"script", "iframe", "object", "embed", "link", "base", "img", "form"}
        for attribute, value in element.items():
            assert not attribute.startswith("on") and attribute not in _LOADING, attribute
            if attribute.endswith("href"):
                assert name == "a" and re.match(r"#|https?://|mailto:", value), value
            assert attribute not in ("style", "fill", "stroke", "filter") or "url(" not in value
    [style] = [e for e in elements if e.tag == f"{_XHTML}style"]
    rules = text(style)
    assert "url(" not in rules and "@import" not in rules
    assert rules.count("{") == rules.count("}")
    policies = [e.get("content") or "" for e in elements if e.get("http-equiv")]
    assert any("default-src 'none'" in policy for policy in policies)


def _names(elements: list[Element]) -> None:
    counted = Counter(element.get("id") for element in elements if element.get("id") is not None)
    assert not [name for name, times in counted.items() if times > 1]
    for element in elements:
        for attribute in ("aria-labelledby", "aria-describedby"):
            for name in (element.get(attribute) or "").split():
                assert name in counted, name
        if (element.get("href") or "").startswith("#"):
            assert (element.get("href") or "")[1:] in counted
        if element.get("role") == "region":
            assert element.get("aria-label")


def _headings(root: Element) -> None:
    levels = [
        int(element.tag[-1])
        for element in root.iter()
        if isinstance(element.tag, str) and re.fullmatch(re.escape(_XHTML) + "h[1-6]", element.tag)
    ]
    assert levels[0] == 1 and levels.count(1) == 1
    for before, after in itertools.pairwise(levels):
        assert after <= before + 1, levels


def _tables(root: Element) -> None:
    for table in found(root, "table"):
        [caption] = found(table, "caption")
        assert text(caption).strip()
        [top], [body] = found(table, "thead"), found(table, "tbody")
        assert found(top, "th") and not found(top, "td")
        assert all(head.get("scope") == "col" for head in found(top, "th"))
        assert all(head.get("scope") == "row" for head in found(body, "th"))
        widths = {len(list(row)) for row in found(table, "tr")}
        assert len(widths) == 1, "every row has a cell for every column"


def _pictures(root: Element) -> None:
    for picture in found(root, "svg:svg"):
        if "plot" not in (picture.get("class") or ""):
            continue
        assert picture.get("role") == "img"
        [title] = [e for e in picture if e.tag == f"{_SVG}title"]
        [description] = [e for e in picture if e.tag == f"{_SVG}desc"]
        assert picture.get("aria-labelledby") == title.get("id") and text(title)
        assert picture.get("aria-describedby") == description.get("id") and text(description)
