"""Seeds of shuffles and draws, given or drawn once."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from provender.data.stream.node import Run


class Seed:
    """A seed. Without one given, one is drawn here and stays with the stream.

    Processes that share the work of one pass cannot each draw their own: there, a seed that was
    not given follows from what is read and how (`Run.shared`), the same on every one.

    Args:
        given: the seed, or None.
    """

    def __init__(self, given: int | None) -> None:
        self.given = given
        self.drawn = secrets.randbits(48) if given is None else None

    def used(self, run: Run) -> int:
        """The number for one pass."""
        if self.given is not None:
            return self.given
        if run.shared is not None:
            return run.shared
        chosen = run.seeds.get(self, self.drawn)
        assert chosen is not None
        return chosen

    def parameters(self) -> Any:
        """What counts for a fingerprint."""
        return "drawn" if self.given is None else self.given


def seed_of(seed: Any, generator: Any) -> Seed:
    """The seed of the arguments that `shuffle` takes.

    Args:
        seed: a whole number, a numpy integer or None.
        generator: a `numpy.random.Generator`, whose state then is the seed.

    Raises:
        ValueError: both are given, or the seed is no whole number.
    """
    if generator is not None:
        if seed is not None:
            raise ValueError("Give shuffle a seed or a generator, not both.")
        state = repr(generator.bit_generator.state).encode()
        return Seed(int.from_bytes(hashlib.blake2b(state, digest_size=6).digest(), "little"))
    if seed is None:
        return Seed(None)
    import operator

    try:
        return Seed(operator.index(seed))
    except TypeError:
        raise ValueError(f"A seed is a whole number, not {seed!r}.") from None
