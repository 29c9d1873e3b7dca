"""Fingerprints side by side with `datasets.fingerprint.Hasher`: CPU time of one hash, warm.

    python benchmarks/fingerprint.py [--rounds 7]

Both hashers see the same live objects in one process, alternating, so that load on the machine
hits both alike. Medians over the rounds; a ratio above 1 means that Provender is faster. What the
two compute differs: Provender follows imported helpers and installed versions, the other does not.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

K = 3
FACTOR = 2.5
VOCABULARY = {f"token{i}": i for i in range(30_000)}
ARRAY = np.arange(1 << 20, dtype="float64")


def simple(x: dict) -> dict:
    y = x["a"] + 1
    return {"b": y * 2}


def constant(x: int) -> int:
    return x + K


def chain_four(x: float) -> float:
    return chain_three(x) + 1


def chain_three(x: float) -> float:
    return chain_two(x) * 2


def chain_two(x: float) -> float:
    return chain_one(x) - K


def chain_one(x: float) -> float:
    return x * FACTOR


def uses_numpy(x: Any) -> Any:
    return np.where(np.asarray(x) > K, np.sqrt(x), 0)


def looks_up(x: str) -> int:
    return VOCABULARY[x]


def adds_array(x: Any) -> Any:
    return x + ARRAY


def make_closure(n: int) -> Callable[[int], int]:
    def inner(x: int) -> int:
        return x + n

    return inner


class Scaler:
    def __init__(self, k: int) -> None:
        self.k = k

    def run(self, x: int) -> int:
        return x * self.k


SUBJECTS: dict[str, Any] = {
    "simple function": simple,
    "function with a constant": constant,
    "chain of four": chain_four,
    "function using numpy": uses_numpy,
    "closure": make_closure(4),
    "partial": functools.partial(simple, {"a": 1}),
    "bound method": Scaler(3).run,
    "dict of 30,000": VOCABULARY,
    "function with that dict": looks_up,
    "8 MB array": ARRAY,
    "function with that array": adds_array,
}


def cpu(call: Callable[[Any], Any], subject: Any, seconds: float = 0.05) -> float:
    """CPU milliseconds of one call, from as many as fit into about ``seconds``."""
    start = time.process_time()
    call(subject)
    once = max(time.process_time() - start, 1e-6)
    count = max(1, int(seconds / once))
    start = time.process_time()
    for _ in range(count):
        call(subject)
    return (time.process_time() - start) / count * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds

    from datasets.fingerprint import Hasher as Theirs

    from provender.fingerprint import Hasher as Ours

    print(f"{'CPU ms a hash, median':28} {'Provender':>10} {'datasets':>10} {'ratio':>7}")
    for name, subject in SUBJECTS.items():
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(cpu(Ours.hash, subject))
            theirs.append(cpu(Theirs.hash, subject))
        mine, other = statistics.median(ours), statistics.median(theirs)
        print(f"{name:28} {mine:10.4f} {other:10.4f} {other / mine:7.1f}")


if __name__ == "__main__":
    main()
