"""From items to files of records, in this process or several, with the same bytes.

A finished file has a note beside it, ``.NAME.made.json``: a digest of everything its bytes depend
on, and their number. Where the note still fits, the file is left as it is.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from provender.errors import InputError, WorkerDied
from provender.nlp.claiming import work_beside
from provender.nlp.finetuning.encoding import Features, ints
from provender.records.atomic import AtomicFile, told_as_ours, write_json
from provender.records.protobuf import example
from provender.records.tfrecord import frame

LAYOUT = 1
"""Changes whenever the same options and sources give other bytes."""

FIRST_UNIQUE = 1_000_000_000
_UNIQUE = "unique_ids"
_BLOCK = 1 << 20
_WAITING = 2

Tell = Callable[[str, int, int, str], None]
"""Is told a step, how much of it is done, how much there is, and in what unit."""


@dataclass(frozen=True)
class Encoded:
    """What items became.

    Attributes:
        records: features of each record.
        notes: how often something happened that people should know.
    """

    records: list[Features]
    notes: Counter[str] = field(default_factory=Counter)


class Encoder(Protocol):
    """Makes records of items; can be sent to another process.

    Attributes:
        at_once: items that are worth a message to another process.
        unique: whether records are numbered, from `FIRST_UNIQUE`, as ``unique_ids``.
    """

    at_once: int
    unique: bool

    def __call__(self, first: int, items: Sequence[Any]) -> Encoded:
        """The records of items, of which the first is number ``first`` of its file."""
        ...


@dataclass(frozen=True)
class Planned:
    """A file that is to be made.

    Attributes:
        key: what it is for: train, eval, test or ``test_de``.
        path: where it goes.
        source: gives what tells its sources from others, JSON-ready, for the digest.
        items: gives what it is made of.
        total: items there are, about.
        encode: makes records of them.
        reads: the files that it is made of.
        notes: of what is read, once it was: how often something happened that people should know.
    """

    key: str
    path: Path
    source: Callable[[], Any]
    items: Callable[[], Iterable[Any]]
    total: int
    encode: Encoder
    reads: Sequence[Path] = ()
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Output:
    """A file that is there.

    Attributes:
        key: what it is for.
        path: where it is.
        records: in it.
        bytes: of it.
        outcome: ``made``, or ``unchanged`` where it stood already.
        notes: how often something happened that people should know.
    """

    key: str
    path: str
    records: int
    bytes: int
    outcome: str
    notes: Mapping[str, int]


def file_digest(path: Path) -> str:
    """Names what a file holds: 40 hexadecimal characters.

    Raises:
        StoreError: it cannot be read.
    """
    found = hashlib.blake2b(digest_size=20)
    with told_as_ours(path), path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def line_count(paths: Iterable[Path], end: bytes = b"\n") -> int:
    """Lines of files, about; or, with two line ends, what blank lines part."""
    found = 0
    for path in paths:
        with told_as_ours(path), path.open("rb") as file:
            while block := file.read(_BLOCK):
                found += block.count(end)
    return found


def make(planned: Planned, said: Mapping[str, Any], workers: int, tell: Tell) -> Output:
    """Makes a file, unless it stands as it would be made.

    Args:
        planned: what.
        said: what else its bytes depend on, JSON-ready.
        workers: processes.
        tell: is told how far it is.

    Raises:
        InputError: there is nothing to put into it; or see its source.
        DiskFull, StoreError: it cannot be written, or another process is at it.
        WorkerDied: a process was killed.
    """
    note = planned.path.with_name(f".{planned.path.name}.made.json")
    digest = _digest({"layout": LAYOUT, "said": said, "source": planned.source()})
    stands = _standing(planned, note, digest)
    if stands is not None:
        tell(planned.key, stands.records, stands.records, "examples")
        return stands
    with told_as_ours(planned.path.parent):
        planned.path.parent.mkdir(parents=True, exist_ok=True)
    with work_beside(planned.path, digest[:16]) as folder:
        partial = folder / planned.path.name
        count, size, notes = _write(planned, partial, workers, tell)
        # A note about bytes that are about to go must not outlive them.
        with told_as_ours(note):
            note.unlink(missing_ok=True)
        with told_as_ours(planned.path):
            partial.replace(planned.path)
    tell(planned.key, count, count, "examples")
    write_json(note, {"digest": digest, "records": count, "bytes": size, "notes": dict(notes)})
    return Output(planned.key, str(planned.path), count, size, "made", dict(notes))


def _write(planned: Planned, path: Path, workers: int, tell: Tell) -> tuple[int, int, Counter[str]]:
    """Writes the records; gives how many they are, their bytes, and what people should know."""
    count = 0
    notes: Counter[str] = Counter()
    with AtomicFile(path) as file:
        for encoded in _encoded(planned, workers, tell):
            payloads = []
            for features in encoded.records:
                if planned.encode.unique:
                    features[_UNIQUE] = ints([FIRST_UNIQUE + count])
                payloads.append(example(features))
                count += 1
            notes += encoded.notes
            if payloads:
                file.write(b"".join(frame(payloads)))
        if not count:
            raise InputError(
                f"There are no examples for {planned.key}.",
                where=str(planned.path),
                hint="The files or the split are empty, or all examples were skipped.",
                facts={"notes": dict(notes)},
            )
    return count, file.size, notes + planned.notes


def _digest(doc: Any) -> str:
    text = json.dumps(doc, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _standing(planned: Planned, note: Path, digest: str) -> Output | None:
    try:
        doc = json.loads(note.read_bytes())
        size = planned.path.stat().st_size
    except (OSError, ValueError):
        return None
    if doc.get("digest") != digest or doc.get("bytes") != size:
        return None
    return Output(planned.key, str(planned.path), doc["records"], size, "unchanged", doc["notes"])


def _encoded(planned: Planned, workers: int, tell: Tell) -> Iterator[Encoded]:
    """Encoded items, in their order."""
    done = 0
    tell(planned.key, 0, max(planned.total, 1), "items")
    chunks = chunks_of(planned.items(), planned.encode.at_once)
    run = _here(planned.encode, chunks) if workers == 1 else _spread(planned, chunks, workers)
    for count, encoded in run:
        done += count
        # The total may be an estimate, and being done is told once the file is there.
        tell(planned.key, done, max(planned.total, done + 1), "items")
        yield encoded


def chunks_of(items: Iterable[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    """So many items at a time, and the number of the first of them."""
    every = iter(items)
    first = 0
    while chunk := list(islice(every, size)):
        yield first, chunk
        first += len(chunk)


def _here(
    encode: Encoder, chunks: Iterator[tuple[int, list[Any]]]
) -> Iterator[tuple[int, Encoded]]:
    for first, chunk in chunks:
        yield len(chunk), encode(first, chunk)


def _spread(
    planned: Planned, chunks: Iterator[tuple[int, list[Any]]], workers: int
) -> Iterator[tuple[int, Encoded]]:
    waiting: deque[tuple[int, Future[Encoded]]] = deque()
    # A fork of a process in which TensorFlow runs threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _adopt, (planned.encode,))
    try:
        for first, chunk in chunks:
            waiting.append((len(chunk), pool.submit(_run, first, chunk)))
            if len(waiting) > _WAITING * workers:
                count, future = waiting.popleft()
                yield count, future.result()
        while waiting:
            count, future = waiting.popleft()
            yield count, future.result()
    except BrokenProcessPool as error:
        raise WorkerDied(
            "A worker process ended without an answer.",
            where=planned.key,
            hint="If memory was short, use fewer --workers.",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_adopted: list[Encoder] = []


def _adopt(encode: Encoder) -> None:
    _adopted.append(encode)


def _run(first: int, items: list[Any]) -> Encoded:
    return _adopted[-1](first, items)
