"""URLs as they may be shown, and as they may be kept.

A URL can hold secrets in three places: the userinfo (``https://user:password@host``), query
parameters (``?token=...``) and the fragment. `mask_url` is for messages: every secret becomes
``***``. `public_url` is for records, state files and lookup keys: it must not hold secrets either,
but two URLs that name two files must stay two keys, so an ambiguous value becomes a short digest of
itself. Only the parameters of the known presigning schemes, which never name a file, vanish.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

_SECRET_NAME = re.compile(
    r"token|secret|passw|pwd|signature|credential|auth|api[-_]?key|access[-_]?key|session|jwt|policy"
    r"|^(key|sig|code|sas|pass)$|[-_]key([-_]|$)|[-_]sig$",
    re.IGNORECASE,
)
# AWS SigV4 and V2, Google Cloud Storage V4 and V2, CloudFront, Azure SAS. A bare `Signature` or
# `sig` is dropped only together with the parameter that marks its scheme.
_PRESIGNED_PREFIX = ("x-amz-", "x-goog-")
_PRESIGNED_SCHEMES: tuple[tuple[str, frozenset[str]], ...] = (
    ("awsaccesskeyid", frozenset({"awsaccesskeyid", "signature", "expires"})),
    ("googleaccessid", frozenset({"googleaccessid", "signature", "expires"})),
    ("key-pair-id", frozenset({"key-pair-id", "signature", "expires", "policy"})),
    (
        "sig",
        frozenset({"sig", "se", "st", "sp", "sv", "sr", "spr", "skoid", "sktid", "skt", "ske"}),
    ),
)
_UNSAFE = re.compile(r"[\x00-\x1f/\\]")
_FILENAME_BYTES = 200
UNNAMED = "download"


def scheme_of(url: str) -> str:
    """The lower-case scheme of a URL; ``file`` for a plain path."""
    head, sep, _ = url.partition("://")
    return head.lower() if sep and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", head) else "file"


def split_userinfo(url: str) -> tuple[str, tuple[str, str] | None]:
    """Takes the userinfo out of a URL.

    Returns:
        The URL without it, and ``(user, password)`` percent-decoded, or None where there was none.
    """
    head, sep, rest = url.partition("://")
    if not sep:
        return url, None
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    userinfo, at, host = authority.rpartition("@")
    if not at:
        return url, None
    user, _, password = userinfo.partition(":")
    return f"{head}://{host}{rest[len(authority) :]}", (unquote(user), unquote(password))


def mask_url(url: str) -> str:
    """The URL for messages: no userinfo, and ``***`` for each value that may be a secret."""
    return _rewrite(url, lambda _value: "***")


def public_url(url: str) -> str:
    """The URL for records, state files and keys: free of secrets, and still one per file.

    Presigned URLs lose their signature, so that signing one file anew does not make it another
    file; any other value that may be a secret becomes ``***`` and 12 hex digits of its SHA-256.
    """
    return _rewrite(_drop_presigning(url), _digest_value)


def _digest_value(value: str) -> str:
    if re.fullmatch(r"\*\*\*[0-9a-f]{12}", value):
        return value
    return f"***{hashlib.sha256(value.encode()).hexdigest()[:12]}"


def _rewrite(url: str, secret: Callable[[str], str]) -> str:
    if scheme_of(url) == "file":
        return url
    clean, _ = split_userinfo(url)
    head, hash_, fragment = clean.partition("#")
    base, query_mark, query = head.partition("?")
    text = base
    if query_mark:
        text += "?" + _rewrite_pairs(query, secret)
    if hash_:
        text += "#" + _rewrite_pairs(fragment, secret)
    return text


def _rewrite_pairs(query: str, secret: Callable[[str], str]) -> str:
    def one(pair: str) -> str:
        name, equals, value = pair.partition("=")
        return f"{name}={secret(value)}" if equals and is_secret_name(unquote(name)) else pair

    return "&".join(one(pair) for pair in query.split("&"))


def is_secret_name(name: str) -> bool:
    """Whether a query parameter of this name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def _drop_presigning(url: str) -> str:
    head, hash_, fragment = url.partition("#")
    base, mark, query = head.partition("?")
    if not mark or scheme_of(url) == "file":
        return url
    pairs = query.split("&")
    names = {unquote(pair.partition("=")[0]).lower() for pair in pairs}
    dropped: set[str] = {n for n in names if n.startswith(_PRESIGNED_PREFIX)}
    for mark_name, members in _PRESIGNED_SCHEMES:
        if mark_name in names and (mark_name != "sig" or {"se", "sv"} <= names):
            dropped |= members
    kept = [p for p in pairs if unquote(p.partition("=")[0]).lower() not in dropped]
    return base + (f"?{'&'.join(kept)}" if kept else "") + (hash_ + fragment)


def scrub(text: str, url: str) -> str:
    """Removes a URL's secrets from a text that another library wrote about it."""
    masked = text.replace(url, mask_url(url))
    bare, userinfo = split_userinfo(url)
    masked = masked.replace(bare, mask_url(bare))
    secrets = [userinfo[1]] if userinfo and userinfo[1] else []
    query = bare.partition("?")[2]
    for pair in re.split(r"[&#]", query):
        name, _, value = pair.partition("=")
        if is_secret_name(unquote(name)) and len(value) >= 4:
            secrets += [value, unquote(value)]
    for secret in secrets:
        masked = masked.replace(secret, "***")
    return masked


def url_filename(url: str) -> str:
    """The last path component of a URL as a file name; empty where the path ends in a slash."""
    if scheme_of(url) == "file":
        return Path(local_path(url)).name
    rest = split_userinfo(url)[0].partition("://")[2]
    if scheme_of(url) in ("http", "https"):
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    _, slash, path = rest.partition("/")
    name = path.rpartition("/")[2] if slash else ""
    return unquote(name) if scheme_of(url) in ("http", "https", "ftp") else name


def safe_filename(name: str) -> str:
    """A name that is exactly one path component, whatever a server or a URL said.

    Separators and control characters become ``_``; leading dots go, so that no name is hidden or
    ``..``; long names keep their end, where the extension is.
    """
    # A half of a surrogate pair can stand in a str and in no file name.
    whole = name.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    clean = re.sub(r"^[\s.]+", "", _UNSAFE.sub("_", whole)).rstrip()
    raw = clean.encode()
    if len(raw) > _FILENAME_BYTES:
        tag = hashlib.sha256(raw).hexdigest()[:12]
        clean = f"{tag}-{raw[-(_FILENAME_BYTES - 13) :].decode('utf-8', 'ignore')}"
    return clean or UNNAMED


def local_path(url: str) -> str:
    """The path that a ``file:`` URL or a plain path names.

    People write paths unescaped into ``file://`` URLs as often as they escape them, so a file of
    the literal name wins over the percent-decoded reading.
    """
    if "://" not in url or scheme_of(url) != "file":
        return str(Path(url).expanduser())
    rest = url.partition("://")[2]
    path = rest if rest.startswith("/") else "/" + rest.partition("/")[2]
    return path if Path(path).exists() else unquote(path)


def mirror_candidates(url: str, mirrors: Mapping[str, str | Sequence[str]]) -> list[str]:
    """Where a URL's bytes may be had, in the order to try: mirrors first, the URL itself last.

    Args:
        url: the URL as the builder wrote it.
        mirrors: URL prefix to its replacement or replacements. Longer prefixes are tried first.
    """
    found: list[str] = []
    for prefix in sorted(mirrors, key=len, reverse=True):
        if url.startswith(prefix):
            replacements = mirrors[prefix]
            listed: Iterable[str] = (
                [replacements] if isinstance(replacements, str) else replacements
            )
            found += [replacement + url[len(prefix) :] for replacement in listed]
    return [*dict.fromkeys(found), url] if url not in found else list(dict.fromkeys(found))
