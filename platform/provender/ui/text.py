"""Texts that others wrote, made harmless to look at.

Names, reasons and examples come from anywhere. HTML escaping (jinja2's autoescape) keeps them from
being markup; this module keeps them from doing anything else: a right-to-left override cannot turn
the rest of a line around, control characters become visible, a megabyte is cut with a note, and
only ``http:`` and ``https:`` addresses become links.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup, escape

NAME = 120
"""Characters of a name that are shown."""
PROSE = 2_000
"""Characters of a running text that are shown."""

# Explicit formatting characters of the bidirectional algorithm (UAX #9, section 2).
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SUSPECT = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_FENCED = re.compile(r"`([^`\n]{1,400})`")


def plain(value: Any, limit: int = NAME) -> str:
    """A text for an attribute, a title or a drawing: one line, cut, nothing invisible in it.

    Args:
        value: anything; texts as they are, the rest as JSON.
        limit: characters at most; what is cut is said in brackets.
    """
    text = _as_text(value)
    cut, note = _cut(text, limit)
    return _SUSPECT.sub(_visible, re.sub(r"\s+", " ", cut)) + (f"… ({note})" if note else "")


def shown(value: Any, limit: int = NAME) -> Markup:
    """A text as HTML: isolated from the direction of what stands around it, cut with a note.

    Args:
        value: anything; texts as they are, the rest as JSON.
        limit: characters at most.
    """
    text = _as_text(value)
    cut, note = _cut(text, limit)
    parts: list[str] = []
    at = 0
    for found in _SUSPECT.finditer(cut):
        parts += [escape(cut[at : found.start()]), _marked(found[0])]
        at = found.end()
    parts.append(escape(cut[at:]))
    tail = Markup('<span class="note">… ({})</span>').format(note) if note else Markup("")
    return Markup("<bdi>{}</bdi>{}").format(Markup("").join(parts), tail)


def prose(value: Any, limit: int = PROSE) -> Markup:
    """`shown` for running text: more of it."""
    return shown(value, limit)


def told(value: Any, limit: int = PROSE) -> Markup:
    """A message as HTML, what stands in it between backticks as code."""
    return Markup(_FENCED.sub(r"<code>\1</code>", str(shown(value, limit))))  # noqa: S704 - escaped


def web_address(value: Any) -> str | None:
    """The address, if it is one that a link may lead to; ``javascript:`` and the like are not."""
    text = str(value or "").strip()
    if len(text) > PROSE or _SUSPECT.search(text) or re.search(r"\s", text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme in ("http", "https") and parts.hostname else None


def encodable(value: Any) -> Any:
    """A document in which every text can be written as UTF-8 and every number as JSON.

    Lone surrogates, which JSON in a catalog may hold, become U+FFFD; NaN and infinities texts.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") if _has_surrogate(value) else value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {encodable(str(key)): encodable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(each) for each in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, limit: int) -> tuple[str, str]:
    """The text's beginning, and a note of its length where that is not all."""
    if len(text) <= limit:
        return text, ""
    return text[:limit], f"{len(text):,} characters"


def _visible(found: re.Match[str]) -> str:
    return f"[{_picture(found[0])}]"


def _picture(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x20 or code == 0x7F else f"U+{code:04X}"


def _marked(char: str) -> Markup:
    name = "bidi control" if char in _BIDI else unicodedata.name(char, "control character").lower()
    return Markup('<span class="ctl" title="{}">{}</span>').format(name, _picture(char))
