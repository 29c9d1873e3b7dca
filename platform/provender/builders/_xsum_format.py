"""The article archive of XSum: one tar.gz of small text files, read as a stream.

The published extraction scripts write each article as ``xsum-extracts-from-downloads/<id>.data``::

    [XSUM]URL[XSUM]
    http://...

    [XSUM]INTRODUCTION[XSUM]
    One sentence: the summary.

    [XSUM]RESTBODY[XSUM]
    The rest of the article,
    on any number of lines.

Split at ``[XSUM]`` that gives seven segments: nothing, ``URL``, the address, ``INTRODUCTION``,
the summary, ``RESTBODY``, the document.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike

from provender.errors import ArchiveError, ExampleError, ManualFilesMissing

ARCHIVE_NAME = "xsum-extracts-from-downloads.tar.gz"
FOLDER = "xsum-extracts-from-downloads"
SUFFIX = ".data"

_DELIMITER = "[XSUM]"
_FIELDS = ("URL", "INTRODUCTION", "RESTBODY")
_EXPECTED = " ".join(f"{_DELIMITER}{field}{_DELIMITER}" for field in _FIELDS)
_SUMMARY_SEGMENT, _DOCUMENT_SEGMENT = 4, 6
# Any `[MARK]FIELD[MARK]`, so that an archive in another dialect can be described by what it has.
_ANY_HEADER = re.compile(r"(\[[^\[\]\s]{1,20}\])[^\[\]\n]{1,40}\1")

# Sharing buttons that the extraction scripts took for text. Whole lines, newline included: an
# unfinished last line is kept, as it is by the builder in the TFDS catalog.
REMOVED_LINES = frozenset(
    {
        "Share this with\n",
        "Email\n",
        "Facebook\n",
        "Messenger\n",
        "Twitter\n",
        "Pinterest\n",
        "WhatsApp\n",
        "Linkedin\n",
        "LinkedIn\n",
        "Copy this link\n",
        "These are external links and will open in a new window\n",
    }
)

_SAMPLE_ARTICLES = 5
_SAMPLE_STRANGERS = 50
_DRAIN_BYTES = 1 << 20
_REPACK_HINT = f"pack the folder {FOLDER}/ that the XSum extraction scripts wrote: tar czf {ARCHIVE_NAME} {FOLDER}"
_COPY_HINT = "copy or pack the archive again; it was probably cut while it was transferred"


def parse_article(text: str) -> tuple[str, str]:
    """Cuts one article file into its document and its summary.

    Line ends of any kind are read as newlines; blank lines and `REMOVED_LINES` are dropped, what
    is left is split at the delimiter.

    Args:
        text: the decoded content of one ``.data`` file.

    Returns:
        ``(document, summary)``, both stripped.

    Raises:
        ExampleError: the fields URL, INTRODUCTION and RESTBODY are not there in this order.
    """
    lines = io.StringIO(text, newline=None)
    kept = "".join(line for line in lines if line not in REMOVED_LINES and line.strip())
    segments = kept.split(_DELIMITER)
    # Positions alone would take the title for the summary in an archive with one field more.
    if len(segments) <= _DOCUMENT_SEGMENT or tuple(segments[1:6:2]) != _FIELDS:
        found = " ".join(header.group(0) for header in _ANY_HEADER.finditer(text[:20_000]))
        message = f"the article has {found or 'no fields'} where {_EXPECTED} was expected"
        raise ExampleError(message, hint=_REPACK_HINT)
    return segments[_DOCUMENT_SEGMENT].strip(), segments[_SUMMARY_SEGMENT].strip()


def decode_article(name: str, content: bytes) -> tuple[str, str]:
    """`parse_article` on the bytes of the archive member ``name``, which errors then name.

    Raises:
        ExampleError: not UTF-8, or not the three fields.
    """
    try:
        return parse_article(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        message = f"the article is not UTF-8 text: {error}"
        raise ExampleError(message, where=name) from error
    except ExampleError as error:
        raise ExampleError(error.message, where=name, hint=error.hint) from error


def article_id(member_name: str) -> str | None:
    """The id that a member's path stands for, or None for anything but an article.

    ``./`` and doubled slashes do not count, so an archive packed as ``tar czf x.tar.gz ./folder``
    reads the same.
    """
    path = posixpath.normpath(member_name)
    if not path.startswith(FOLDER + "/") or not path.endswith(SUFFIX):
        return None
    return path[len(FOLDER) + 1 : -len(SUFFIX)]


def iter_articles(
    archive: str | PathLike[str], wanted: Callable[[str], bool]
) -> Iterator[tuple[str, str, bytes]]:
    """Streams the articles of an archive in one pass; nothing is extracted to disk.

    Memory is bounded by the largest wanted member. The gzip trailer is checked at the end, so an
    archive that lost its tail is never taken for a small one.

    Args:
        archive: path of the tar.gz, local or anything else that `tfds.core.Path` opens.
        wanted: says of an article id whether its content is to be read.

    Yields:
        ``(id, member name, content)`` in archive order.

    Raises:
        ManualFilesMissing: there is no such file.
        ArchiveError: not a gzip-compressed tar, damaged or cut, or a wanted article is a link.
    """
    with _opened(archive) as members:
        for tar, member in members:
            key = article_id(member.name)
            if key is None or member.isdir() or not wanted(key):
                continue
            yield key, member.name, _content(tar, member, archive)


def archive_problems(archive: str | PathLike[str]) -> list[str]:
    """Looks at an archive before any work is done with it.

    The fields of the first few articles are checked and the rest is decompressed once, which
    tells a cut or damaged file from a whole one.

    Args:
        archive: path of the tar.gz.

    Returns:
        One sentence a problem; empty when the archive can be used.
    """
    try:
        articles, strangers, faults = _sample(archive)
    except (ArchiveError, ManualFilesMissing) as error:
        return [f"{error.message} ({error.where}): {error.hint}."]
    except OSError as error:
        return [f"{archive} cannot be read: {error}."]
    if faults:
        return [
            f"{len(faults)} of the first {articles} articles of {archive} cannot be used. "
            f"{faults[0].where}: {faults[0].message}: {_REPACK_HINT}."
        ]
    if articles:
        return []
    if not strangers:
        return [f"{archive} holds no files: {_REPACK_HINT}."]
    shown = "; ".join(f"{name} with {fields}" for name, fields in strangers[:3])
    return [
        f"{archive} has no {FOLDER}/<id>{SUFFIX} with {_EXPECTED}; it starts with {shown}: "
        f"{_REPACK_HINT}."
    ]


def _sample(
    archive: str | PathLike[str],
) -> tuple[int, list[tuple[str, str]], list[ExampleError]]:
    """Articles seen, ``(name, fields)`` of other files seen before, and faults of the articles."""
    articles = 0
    strangers: list[tuple[str, str]] = []
    faults: list[ExampleError] = []
    with _opened(archive) as members:
        for tar, member in members:
            # macOS' tar adds a `._name` with the attributes of each file.
            if not member.isfile() or posixpath.basename(member.name).startswith("._"):
                continue
            content = _content(tar, member, archive)
            if article_id(member.name) is None:
                strangers.append((member.name, _fields_of(content)))
            else:
                articles += 1
                try:
                    decode_article(member.name, content)
                except ExampleError as error:
                    faults.append(error)
            if articles == _SAMPLE_ARTICLES or len(strangers) == _SAMPLE_STRANGERS:
                break
    return articles, strangers, faults


def _fields_of(content: bytes) -> str:
    start = content[:20_000].decode("utf-8", errors="replace")
    return " ".join(header.group(0) for header in _ANY_HEADER.finditer(start)) or "no fields"


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: str | PathLike[str]) -> bytes:
    # A link cannot be followed in a stream, and passing over it would lose an article silently.
    if not member.isfile():
        message = f"the member {member.name} is a link or a device, not a file"
        raise ArchiveError(
            message, where=str(archive), hint="pack again with tar --dereference --hard-dereference"
        )
    stored = tar.extractfile(member)
    assert stored is not None
    return stored.read()


@contextmanager
def _opened(
    archive: str | PathLike[str],
) -> Iterator[Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]]:
    """The members of a tar.gz as a stream; faults of the file become `ArchiveError`.

    On leaving without an error the rest is read to its end, so that gzip checks its trailer.
    """
    import tensorflow_datasets as tfds

    where = str(archive)
    try:
        with tfds.core.Path(archive).open("rb") as raw, gzip.GzipFile(fileobj=raw) as unpacked:
            with tarfile.open(fileobj=unpacked, mode="r|") as tar:
                yield _members(tar)
            while unpacked.read(_DRAIN_BYTES):
                pass
    except FileNotFoundError as error:
        message = "the archive of articles is missing"
        raise ManualFilesMissing(message, where=where, hint=_REPACK_HINT) from error
    except gzip.BadGzipFile as error:
        message = f"the archive is not gzip-compressed, or damaged: {error}"
        raise ArchiveError(message, where=where, hint=_REPACK_HINT) from error
    except (EOFError, zlib.error) as error:
        message = f"the archive is cut or damaged: {error}"
        raise ArchiveError(message, where=where, hint=_COPY_HINT) from error
    except tarfile.TarError as error:
        message = f"the archive holds no readable tar: {error}"
        raise ArchiveError(message, where=where, hint=_REPACK_HINT) from error


def _members(tar: tarfile.TarFile) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    while (member := tar.next()) is not None:
        yield tar, member
        # TarFile remembers every header it has seen: hundreds of megabytes for the whole of XSum.
        tar.members.clear()  # type: ignore[attr-defined]
