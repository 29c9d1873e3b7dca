"""A web page where a file was asked for: a login, a licence, a quota or an error, sent as success."""

from __future__ import annotations

from provender.builders.download.checksums import Checksum
from provender.builders.download.source import Opened, Permanent
from provender.builders.download.urls import url_filename

# Suffixes of formats whose files never begin with HTML markup.
_NEVER_HTML = (
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".tbz2", ".tb2", ".xz", ".txz", ".7z", ".rar", ".zst"),
    *(".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".npy", ".npz", ".mat", ".pkl", ".h5", ".hdf5"),
    *(".parquet", ".arrow", ".feather", ".avro", ".tfrecord", ".tfrecords", ".sqlite", ".db"),
    *(".jpg", ".jpeg", ".png", ".gif", ".wav", ".mp3", ".flac", ".ogg", ".mp4", ".avi", ".pdf"),
)  # fmt: skip
_MARKUP = (b"<!doctype html", b"<html", b"<head", b"<!-- html")
_HTML_TYPES = ("text/html", "application/xhtml+xml")


def refuse_html(url: str, opened: Opened, head: bytes, expected: Checksum | None) -> None:
    """Refuses a web page that stands in for a file.

    Args:
        url: whose suffix tells what was asked for.
        opened: the answer; its content type counts as evidence, as does its size.
        head: the first bytes of the content.
        expected: the registered checksum, where there is one: another size betrays the page even
            where the URL has no telling suffix.

    Raises:
        Permanent: this is a page, with what to do about it.
    """
    if not looks_like_html(head):
        return
    if expected is not None and opened.size is not None and opened.size == expected.size:
        return
    asked_for_data = url_filename(url).lower().endswith(_NEVER_HTML)
    is_page = opened.content_type in _HTML_TYPES
    if asked_for_data or (expected is not None and is_page):
        size = "" if opened.size is None else f" of {opened.size:,} bytes"
        raise Permanent(
            f"the server sent a web page{size} instead of the file",
            hint="Open the URL in a browser: a login, a licence or a quota may stand before the "
            "file. Then place the file in manual_dir under its registered name, or add a mirror.",
        )


def looks_like_html(head: bytes) -> bool:
    """Whether content begins with HTML markup, after white space and a byte order mark."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:20].lower().startswith(_MARKUP)
