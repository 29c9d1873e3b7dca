"""Canonical bytes: how one value becomes a token, and how tokens become a digest.

Every token says its type and, where its length varies, its length, so that no two sequences of
tokens share their joined bytes. An atom (a value without parts) is written out; anything else is
represented by its digest behind ``#``.

    None N   True T   False F   Ellipsis E   NotImplemented U
    int      i<decimal>;             outside 64 bits: I<n>:<two's complement, big endian>
    float    f<8 bytes, IEEE 754>    -0.0 counts as 0.0, and all NaN as one
    complex  c<8 bytes><8 bytes>
    str      s<n>:<UTF-8>            longer than 64 KiB: S<digest>
    bytes    b<n>:<bytes>            longer than 64 KiB: B<digest>
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from typing import Any, Final

DIGEST_SIZE: Final = 20
"""Bytes of a digest: 160 bits, so that collisions stay out of reach for any number of objects."""

LONG: Final = 1 << 16

SEQUENCE: Final = b"("
SET: Final = b"{"
MAPPING: Final = b"<"

_pack = Struct(">d").pack


def digest(data: Any) -> bytes:
    """BLAKE2b of a bytes-like object, `DIGEST_SIZE` bytes."""
    return blake2b(data, digest_size=DIGEST_SIZE).digest()


def reference(value: bytes) -> bytes:
    """The token that stands for a part by its digest."""
    return b"#" + value


def assemble(tag: bytes, mode: bytes, tokens: list[bytes]) -> bytes:
    """The digest of a node from the tokens of its parts.

    Args:
        tag: token naming the type of the node.
        mode: `SEQUENCE` keeps the order, `SET` sorts the tokens, `MAPPING` sorts (key, value)
            pairs, the tokens being key, value, key, value ...
        tokens: one token a part.
    """
    if mode == SET:
        tokens = sorted(tokens)
    elif mode == MAPPING:
        tokens = [k + v for k, v in sorted(zip(tokens[::2], tokens[1::2], strict=True))]
    body = b"".join(tokens)
    return blake2b(b"%b%b%d:%b" % (tag, mode, len(tokens), body), digest_size=DIGEST_SIZE).digest()


def _int(value: int) -> bytes:
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return b"i%d;" % value
    raw = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    return b"I%d:" % len(raw) + raw


def _bits(value: float) -> bytes:
    if value != value:
        return b"\x7f\xf8\0\0\0\0\0\0"
    return _pack(value + 0.0)  # adding 0.0 turns -0.0 into 0.0 and changes nothing else


def _float(value: float) -> bytes:
    return b"f" + _bits(value)


def _complex(value: complex) -> bytes:
    return b"c" + _bits(value.real) + _bits(value.imag)


def _str(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    if len(raw) > LONG:
        return b"S" + digest(raw)
    return b"s%d:%b" % (len(raw), raw)


def _bytes(value: bytes) -> bytes:
    if len(value) > LONG:
        return b"B" + digest(value)
    return b"b%d:%b" % (len(value), value)


ATOMS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: b"N",
    bool: lambda value: b"T" if value else b"F",
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: _bytes,
    type(Ellipsis): lambda _: b"E",
    type(NotImplemented): lambda _: b"U",
}
"""The token maker of each atomic type, by exact type: subclasses are not atoms."""


def atom(value: Any) -> bytes:
    """The token of an atom; `KeyError` for anything else."""
    return ATOMS[type(value)](value)
