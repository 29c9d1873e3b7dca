"""The public face: hash, tree, explain, walk, combine."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from provender.fingerprint.caller import users_level
from provender.fingerprint.encoding import DIGEST_SIZE, MAPPING, assemble, atom, digest
from provender.fingerprint.graph import Walker, describe
from provender.fingerprint.outline import outline
from provender.fingerprint.registry import UnhashableError
from provender.fingerprint.tree import Change, Tree, explain


@dataclass(frozen=True)
class Walk:
    """What a walk found.

    Attributes:
        tree: the named digests.
        files: absolute paths of the user's source files whose code was visited.
        distributions: name -> version of the installed packages that were met.
    """

    tree: Tree
    files: frozenset[str]
    distributions: Mapping[str, str]


class Hasher:
    """Fingerprints of live objects, by content.

    User code counts by its normalised syntax and everything it refers to; installed packages by
    distribution and version; data by typed canonical bytes. See docs/fingerprints.md.
    """

    @classmethod
    def hash(cls, obj: Any) -> str:
        """The fingerprint: BLAKE2b, 160 bits, 40 hexadecimal characters.

        Raises:
            UnhashableError: it reaches something without content; the path to it is named.
        """
        return hexadecimal(Walker().token(_subject(obj)))

    @classmethod
    def tree(cls, obj: Any, name: str = "") -> Tree:
        """The fingerprint with its named parts; its root digest equals `hash` of the object.

        Args:
            obj: any object.
            name: name of the root.

        Raises:
            UnhashableError: as `hash`.
        """
        return cls.walk(obj, name).tree

    @classmethod
    def walk(cls, obj: Any, name: str = "") -> Walk:
        """As `tree`, with the user's files and the distributions that were met."""
        walker = Walker(keep=True)
        name = name or describe(obj)
        subject = _subject(obj)
        token = walker.token(subject, name)
        return finished(walker, subject, token, name)

    @classmethod
    def explain(cls, old: Any, new: Any) -> list[Change]:
        """Why two fingerprints differ, one change a line; empty when they do not.

        Args:
            old: a `Tree` kept from earlier, or a live object.
            new: likewise.
        """
        return explain(
            old if isinstance(old, Tree) else cls.tree(old),
            new if isinstance(new, Tree) else cls.tree(new),
        )


def _subject(obj: Any) -> Any:
    """A function written in a class body (``T.run``) together with the class that it works on."""
    if type(obj) is not FunctionType or "." not in obj.__qualname__:
        return obj
    owner: Any = obj.__globals__
    for part in obj.__qualname__.split(".")[:-1]:
        owner = owner.get(part) if isinstance(owner, dict) else getattr(owner, part, None)
    if not isinstance(owner, type):
        return obj
    # A static method is handed no class: it works on what it names, as any function does.
    written = vars(owner).get(obj.__qualname__.rpartition(".")[2])
    return obj if isinstance(written, staticmethod) else ("method of", owner, obj)


def hexadecimal(token: bytes) -> str:
    """The digest of a token as text."""
    return token[1:].hex() if token[:1] == b"#" else digest(token).hex()


def finished(walker: Walker, obj: Any, token: bytes, name: str) -> Walk:
    """The result of a walk that was made with ``keep=True``."""
    files = frozenset(os.path.abspath(path) for path in walker.files)
    return Walk(outline(walker, obj, token, name), files, dict(walker.distributions))


def combine(name: str, parts: Mapping[str, Any]) -> Tree:
    """One fingerprint from named parts; their order does not count.

    Args:
        name: what the whole is, e.g. the name of a stage; enters the digest.
        parts: name -> a `Tree`, which is embedded, or any other object, which is hashed.

    Raises:
        UnhashableError: as `Hasher.hash`.
    """
    children = []
    tokens: list[bytes] = []
    for key in sorted(parts):
        part = parts[key]
        tree = replace(part, name=key) if isinstance(part, Tree) else Hasher.tree(part, key)
        children.append(tree)
        tokens += (atom(key), atom(tree.digest))
    own = assemble(atom(f"combine {name}"), MAPPING, tokens)
    return Tree(name, "parts", own.hex(), None, tuple(children))


def user_files(*objects: Any) -> frozenset[str]:
    """Absolute paths of the user's source files that count in the fingerprints of objects."""
    return frozenset().union(*(Hasher.walk(obj).files for obj in objects))


_warned: set[str] = set()


def hash_or_random(obj: Any, name: str = "") -> tuple[str, str | None]:
    """The fingerprint, or a random one for what cannot be fingerprinted.

    The random digest comes from the operating system, never from the generators that training
    code seeds. `warnings.warn` is called once in a process for each culprit, at the line outside
    of Provender that led here.

    Args:
        obj: any object.
        name: what to call it in the path to the culprit, e.g. the argument it was given as; by
            default its own name.

    Returns:
        The digest, and None; or a random digest, and the text that names the path to the culprit,
        each time, so that the caller knows the digest will not come again.
    """
    try:
        return hexadecimal(Walker().token(_subject(obj), name)), None
    except UnhashableError as e:
        text = f"{e.message}; its results are recomputed each time and never reused"
        if text not in _warned:
            _warned.add(text)
            warnings.warn(text, stacklevel=users_level())
        return secrets.token_hex(DIGEST_SIZE), text
