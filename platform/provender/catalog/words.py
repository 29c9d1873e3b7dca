"""What can be searched for: a version's words, cut the same way on every database.

The databases' own tokenizers disagree (one cuts ``wmt14_translate`` in two, the other keeps a
whole host name), so words are cut here and the databases only store them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

FIELDS = ("name", "alias", "tag", "feature", "split", "licence", "job", "url", "description")
"""Where words can stand, most telling first."""

STRONG = frozenset({"name", "alias", "tag"})
"""Fields whose words are indexed a second time, marked: what people call things must be found
even where its words are so common elsewhere that a search has to stop counting."""

MARK = "="
"""Begins a marked word; it is part of no other."""

_LONGEST_WORD = 64
_LONGEST_TEXT = 20_000
_MOST = 500
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def words_of(text: str) -> list[str]:
    """The words of a text: lower case, without accents, in order, none twice.

    ``pixelValues`` gives ``pixelvalues``, ``pixel`` and ``values``. Words are cut off after 64
    characters, texts after 20,000.
    """
    found: dict[str, None] = {}
    for whole in _WORD.findall(_plain(text[:_LONGEST_TEXT])):
        found[whole.lower()[:_LONGEST_WORD]] = None
        parts = _HUMP.findall(whole) if whole.isascii() else ()
        if len(parts) > 1 and not whole.isupper():
            for part in parts:
                # A lone letter or digit finds nothing anybody looks for.
                if len(part) > 1:
                    found[part.lower()[:_LONGEST_WORD]] = None
    return list(found)


def _plain(text: str) -> str:
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text)
    joined = "".join(each for each in apart if not unicodedata.combining(each))
    # Half of a surrogate pair cannot be stored.
    return joined.encode("utf-8", "ignore").decode("utf-8")


def indexed(field: str, text: str) -> str:
    """What the database indexes for a text: its words, and marked ones for `STRONG` fields."""
    words = words_of(text)
    return " ".join(words + [MARK + each for each in words] if field in STRONG else words)


def storable(text: str) -> str:
    """The text without what a database cannot hold: NUL, and half of a surrogate pair."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode("utf-8")


def part(field: str, text: str) -> dict[str, str] | None:
    """The columns of a searchable text, or None where there is no word in it."""
    # What no database stores parts words, as every other sign does.
    text = storable(text.replace("\0", " "))[:_LONGEST_TEXT]
    words = indexed(field, text)
    if not words:
        return None
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return {"field": field, "digest": digest, "text": text, "words": words}


def texts_of(
    features: Mapping[str, Any], info: Mapping[str, Any], splits: Iterable[str]
) -> dict[str, list[str]]:
    """What a version says of itself, by field.

    Args:
        features: features.json as a document.
        info: what was registered beside it; TFDS's own document is under ``dataset_info``.
        splits: split names.
    """
    about = info.get("dataset_info")
    about = about if isinstance(about, Mapping) else info
    return {
        "description": [text for text in (_text(about.get("description")),) if text],
        "licence": [text for text in (licence_of(info),) if text],
        "url": homepages_of(info)[:_MOST],
        "feature": list(feature_names(features))[:_MOST],
        "split": list(splits)[:_MOST],
    }


def description_of(info: Mapping[str, Any]) -> str:
    """A version's description; empty where there is none."""
    about = info.get("dataset_info")
    return _text((about if isinstance(about, Mapping) else info).get("description"))


def licence_of(info: Mapping[str, Any]) -> str:
    """A version's licence, as TFDS keeps it (``redistributionInfo``); empty where there is none."""
    about = info.get("dataset_info")
    about = about if isinstance(about, Mapping) else info
    terms = about.get("redistributionInfo")
    if isinstance(terms, Mapping):
        return _text(terms.get("license"))
    return _text(about.get("license"))


def homepages_of(info: Mapping[str, Any]) -> list[str]:
    """The addresses that a version names as its home."""
    about = info.get("dataset_info")
    about = about if isinstance(about, Mapping) else info
    place = about.get("location")
    urls = place.get("urls") if isinstance(place, Mapping) else None
    return [each for each in urls if isinstance(each, str)] if isinstance(urls, list) else []


def feature_names(features: Mapping[str, Any]) -> Iterator[str]:
    """Names of features, nested ones as ``outer/inner``, from TFDS's features.json.

    A document of another form gives its own keys.
    """
    if "featuresDict" not in features and "pythonClassName" not in features:
        yield from map(str, features)
        return
    # A stack of its own: documents from outside may be nested deeper than Python recurses.
    stack: list[tuple[str, Mapping[str, Any]]] = [("", features)]
    while stack:
        prefix, doc = stack.pop()
        inner = doc.get("sequence")
        if isinstance(inner, Mapping) and isinstance(inner.get("feature"), Mapping):
            stack.append((prefix, inner["feature"]))
        known = doc.get("featuresDict")
        named = known.get("features") if isinstance(known, Mapping) else None
        below = []
        for name, about in named.items() if isinstance(named, Mapping) else ():
            path = f"{prefix}/{name}" if prefix else str(name)
            yield path
            if isinstance(about, Mapping):
                below.append((path, about))
        stack += reversed(below)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
