"""A program that writes one part slowly enough to be killed: DIRECTORY PART PARTS PAUSE."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from provender.errors import ProvenderError
from provender.records import KeyHasher, RunWriter


def examples(pause: float = 0.0) -> Iterator[tuple[str, bytes]]:
    for i in range(4000):
        if pause and i % 100 == 0:
            time.sleep(pause)
        yield f"key {i}", b"%d " % i * 50


def main() -> None:
    directory, part, parts, pause = sys.argv[1:]
    encoded = 0

    def encode(value: bytes) -> bytes:
        nonlocal encoded
        encoded += 1
        return value

    writer = RunWriter(
        directory,
        int(part),
        int(parts),
        hasher=KeyHasher("train"),
        encode=encode,
        chunk=64,
        flush_bytes=40_000,
    )
    try:
        writer.write_part(examples(float(pause)))
    except ProvenderError as error:
        print(type(error).__name__, error)
        sys.exit(error.exit_code)
    print(encoded)


if __name__ == "__main__":
    main()
