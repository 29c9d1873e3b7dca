"""The order of a split: one 16-byte digest per example key, equal to TFDS's order.

TFDS sorts the examples of a split by ``md5(split name + key)``, read as a 128-bit integer. The
big-endian digest bytes sort like that integer, so they are all that is kept here. With
``disable_shuffling`` TFDS sorts by the key itself where the key is an int, and by the position in
the generator elsewhere; those numbers are stored as 16 order-preserving bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from provender.errors import BuilderError

DIGEST_BYTES = 16

# Half of the 128-bit range is added to a number so that negative numbers sort before positive ones.
_MIDDLE = 1 << 127


def _plain_md5() -> Callable[[bytes], Any]:
    """CPython's own md5: half the cost of OpenSSL's on short input, and allowed under FIPS."""
    try:
        from _md5 import md5  # type: ignore[import-not-found]
    except ImportError:
        return lambda data: hashlib.md5(data, usedforsecurity=False)
    else:
        return md5


_md5 = _plain_md5()


class KeyHasher:
    """Turns example keys into digests that sort in TFDS's order.

    Args:
        salt: the split name.
        in_order: True for builders with ``disable_shuffling`` (or ``nondeterministic_order``).
    """

    def __init__(self, salt: str, in_order: bool = False) -> None:
        # TFDS normalizes paths in salts as it does in keys.
        self.salt = salt.replace("\\", "/")
        self.in_order = in_order
        self._salt_bytes = self.salt.encode("utf-8")

    def __repr__(self) -> str:
        return f"KeyHasher({self.salt!r}, in_order={self.in_order})"

    def digest(self, key: Any, index: int) -> bytes:
        """The 16-byte sort key of one example.

        Args:
            key: what the generator yielded: str, int, bytes, or an array of one of them.
            index: position in the generator, counted over all parts from 0.

        Raises:
            BuilderError: a key of a type that TFDS refuses, or an int beyond 127 bits.
        """
        if self.in_order:
            return _order_bytes(key if isinstance(key, int) else index, index)
        return bytes(_md5(self._salt_bytes + _key_bytes(key, index)).digest())

    def place(self, digest: bytes) -> int:
        """The number that TFDS sorts by, from a sort key that `digest` made."""
        number = int.from_bytes(digest, "big")
        return number - _MIDDLE if self.in_order else number

    def digests(self, keys: Sequence[Any], first_index: int) -> bytes:
        """The digests of consecutive examples, joined: ``len(keys) * 16`` bytes.

        Args:
            keys: keys of consecutive examples.
            first_index: generator position of the first one.

        Raises:
            BuilderError: as `digest`.
        """
        if not self.in_order:
            md5 = _md5
            kinds = set(map(type, keys))
            if kinds == {int}:
                salt = self.salt
                return b"".join([md5(f"{salt}{key}".encode()).digest() for key in keys])
            if kinds == {str} and "\\" not in "".join(keys):
                salt = self.salt
                try:
                    return b"".join([md5((salt + key).encode()).digest() for key in keys])
                except UnicodeEncodeError:
                    pass  # the loop below names the key
        elif (joined := _joined_order_bytes(keys, first_index)) is not None:
            return joined
        return b"".join([self.digest(key, first_index + i) for i, key in enumerate(keys)])


def _key_bytes(key: Any, index: int) -> bytes:
    """The bytes that TFDS hashes for a key (so that ``1`` and ``"1"`` are one key, as there)."""
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        try:
            return key.replace("\\", "/").encode("utf-8")
        except UnicodeEncodeError as error:
            message = f"Key {key!r} cannot be written as UTF-8: {error.reason}."
            raise _key_error(message, key, index) from error
    if isinstance(key, int):
        return str(key).encode("ascii")
    inner = _only_element(key)
    if inner is not None:
        return _key_bytes(inner, index)
    message = f"Key {key!r} is a {type(key).__name__}; a key must be a str, an int or bytes."
    raise _key_error(message, key, index)


def _only_element(key: Any) -> Any:
    """The Python value of a one-element numpy array, else None."""
    if isinstance(key, np.ndarray) and key.size == 1:
        return key.item()
    return None


def _joined_order_bytes(keys: Sequence[Any], first_index: int) -> bytes | None:
    """`_order_bytes` of a batch, or None where a number does not fit 64 bits."""
    numbers = [key if isinstance(key, int) else i for i, key in enumerate(keys, first_index)]
    try:
        values = np.array(numbers, np.int64)
    except OverflowError:
        return None
    halves = np.empty((len(values), 2), ">u8")
    middle = _MIDDLE >> 64
    halves[:, 0] = np.where(values < 0, np.uint64(middle - 1), np.uint64(middle))
    halves[:, 1] = values.view(np.uint64)
    return halves.tobytes()


def _order_bytes(number: int, index: int) -> bytes:
    try:
        return (int(number) + _MIDDLE).to_bytes(DIGEST_BYTES, "big")
    except OverflowError as error:
        message = f"Key {number} is too large to order examples by: it needs more than 127 bits."
        raise _key_error(message, number, index) from error


def _key_error(message: str, key: Any, index: int) -> BuilderError:
    return BuilderError(
        message,
        where=f"example {index}",
        hint="yield (key, example) with a str, int or bytes key from _generate_examples",
        facts={"key": repr(key)[:200], "position": index},
    )
