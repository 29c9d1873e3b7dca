"""Texts of others: harmless, visible, cut."""

from __future__ import annotations

import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.ui.text import encodable, plain, shown, told, web_address

ANY = st.text(st.characters(codec=None), max_size=60)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@given(ANY)
def test_shown_is_one_bdi_without_anything_active(text: str) -> None:
    found = str(shown(text))
    assert found.startswith("<bdi>") and found.endswith("</bdi>")
    rest = re.sub(
        r"</?(?:bdi|span)(?: class=\"(?:ctl|note)\")?(?: title=\"[^\"<>]*\")?>", "", found
    )
    assert "<" not in rest and ">" not in rest
    assert not _INVISIBLE.search(found)
    found.encode("utf-8")


@given(ANY)
def test_plain_is_one_line_that_can_be_printed(text: str) -> None:
    found = plain(text)
    assert not _INVISIBLE.search(found) and "\n" not in found
    found.encode("utf-8")


def test_ordinary_text_stays_itself() -> None:
    assert html.unescape(str(shown("naïve 東京 a<b & 'c'"))) == "<bdi>naïve 東京 a<b & 'c'</bdi>"


def test_long_text_is_cut_with_a_note() -> None:
    found = str(shown("x" * (1 << 20)))
    assert len(found) < 300 and "1,048,576 characters" in found


def test_controls_become_visible() -> None:
    assert "U+202E" in shown("a\u202eb") and "\\x1b" in shown("\x1b[31m")
    assert plain("a\x00b") == "a[\\x00]b"


def test_code_in_messages() -> None:
    assert told("run `a<b` now") == "<bdi>run <code>a&lt;b</code> now</bdi>"


@pytest.mark.parametrize(
    ("address", "is_link"),
    [
        ("https://a.example/x?y=1#z", True),
        ("http://a.example", True),
        ("javascript:alert(1)", False),
        (" javascript:alert(1)", False),
        ("JaVaScRiPt://a.example/%0aalert(1)", False),
        ("data:text/html,<script>", False),
        ("//a.example", False),
        ("https://", False),
        ("https://a.example/\u202egpj.exe", False),
        ("http://[::1", False),
        ("https://a.example/ b", False),
        ("", False),
        (None, False),
    ],
)
def test_links_lead_to_the_web_only(address: str | None, is_link: bool) -> None:
    assert (web_address(address) is not None) is is_link


@given(
    st.recursive(
        ANY | st.floats() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
        max_leaves=8,
    )
)
def test_every_document_can_be_written(value: object) -> None:
    json.dumps(encodable(value), allow_nan=False, ensure_ascii=False).encode("utf-8")
