"""Encodes one part of a split into runs, and goes on where an earlier attempt stopped.

Every part replays the whole generator and encodes only its own chunks, because many builders number
examples as they go. A chunk is 512 consecutive examples; chunk ``c`` belongs to part
``c % parts``. An example is encoded before the generator goes on: builders may yield an open file
or a buffer that they reuse.
"""

from __future__ import annotations

import json
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import xxhash

from provender.errors import BuilderError, DamageError, ExampleError, ProvenderError, StoreError
from provender.records.atomic import told_as_ours, write_json
from provender.records.keys import KeyHasher
from provender.records.runfile import (
    SUFFIXES,
    ChunkDigest,
    Run,
    RunBuffer,
    Summarize,
    keys_literal,
    verify_run,
)
from provender.records.tfrecord import OVERHEAD, frame_joined

Progress = Callable[[int, int], None]

# protobuf cannot serialize more, and no reader could parse it.
MAX_EXAMPLE_BYTES = (1 << 31) - 1
# A run's index must stay small even if the examples are tiny.
_MAX_RUN_RECORDS = 1 << 18
# A batch passes through several hands; in the second-level cache each of them is twice as fast.
_BATCH_BYTES = 256 << 10
_REPORT_SECONDS = 0.1
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class PartResult:
    """What one part wrote.

    Attributes:
        part: its number, from 0.
        parts: how many there are.
        examples: examples in this part.
        payload_bytes: their serialized size, without framing.
        generated: examples that the generator yielded, over all parts.
        runs: the runs, in generation order.
    """

    part: int
    parts: int
    examples: int
    payload_bytes: int
    generated: int
    runs: tuple[Run, ...]

    @property
    def chunks(self) -> tuple[ChunkDigest, ...]:
        """The content digests of this part's chunks, in order."""
        return tuple(chunk for run in self.runs for chunk in run.chunks)

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {
            "part": self.part,
            "parts": self.parts,
            "examples": self.examples,
            "payload_bytes": self.payload_bytes,
            "generated": self.generated,
            "runs": [run.to_json() for run in self.runs],
        }

    @classmethod
    def from_json(cls, doc: dict[str, Any]) -> PartResult:
        """Reads what `to_json` wrote."""
        return cls(**{**doc, "runs": tuple(map(Run.from_json, doc["runs"]))})


def split_digest(results: Sequence[PartResult]) -> str:
    """The content digest of a split: its keys and examples in generation order, as hex.

    It does not depend on the number of parts or on the size of the runs.

    Args:
        results: all parts, in any order.

    Raises:
        BuilderError: parts are missing, or do not agree on what the generator yielded.
    """
    check_parts(results)
    state = xxhash.xxh3_128()
    for chunk in sorted((c for r in results for c in r.chunks), key=lambda c: c.number):
        state.update(f"{chunk.number} {chunk.examples} {chunk.digest}\n".encode())
    return state.hexdigest()


def check_parts(results: Sequence[PartResult]) -> None:
    """Checks that ``results`` are all parts of one split.

    Raises:
        BuilderError: a part is missing or given twice, or the generator did not yield the same
            number of examples each time it was replayed.
    """
    parts = {result.parts for result in results}
    numbers = sorted(result.part for result in results)
    if len(parts) != 1 or numbers != list(range(next(iter(parts)))):
        raise BuilderError(
            f"These are not all parts of one split: {numbers} of {sorted(parts)}.",
            facts={"parts": numbers},
        )
    generated = {result.generated for result in results}
    chunks = sorted(c.number for r in results for c in r.chunks)
    total = sum(result.examples for result in results)
    if len(generated) != 1 or total != results[0].generated or chunks != list(range(len(chunks))):
        raise BuilderError(
            "The generator did not yield the same examples each time: "
            f"{sorted(generated)} examples seen, {total} encoded.",
            hint="make _generate_examples deterministic, or build with one part",
            facts={"generated": sorted(generated), "encoded": total},
        )


class RunWriter:
    """Writes one part of a split as runs.

    Args:
        directory: where the runs go; made if missing. One split of one build only.
        part: this part, from 0.
        parts: how many there are.
        hasher: the split's key hasher.
        encode: from example to serialized bytes, see `provender.records.compile_encoder`.
        chunk: consecutive examples that stay together.
        flush_bytes: bytes of framed records that are kept in memory and written as one run.
        max_examples: stop after so many examples of the split, over all parts.
        summarize: makes a file beside each run of the run's records.
    """

    def __init__(
        self,
        directory: str | Path,
        part: int,
        parts: int,
        *,
        hasher: KeyHasher,
        encode: Callable[[Any], bytes],
        chunk: int = 512,
        flush_bytes: int = 64 << 20,
        max_examples: int | None = None,
        summarize: Summarize | None = None,
    ) -> None:
        if not 0 <= part < parts or chunk < 1 or flush_bytes < 1:
            raise BuilderError(
                f"Part {part} of {parts} with chunks of {chunk} and runs of {flush_bytes} bytes "
                "makes no sense.",
                hint="give 0 <= part < parts, chunk >= 1 and flush_bytes >= 1",
            )
        self.directory = Path(directory)
        self.part = part
        self.parts = parts
        self._hasher = hasher
        self._encode = encode
        self._chunk = chunk
        self._flush_bytes = flush_bytes
        self._max_examples = max_examples
        self._summarize = summarize
        self._stem = f"part-{part:05d}-of-{parts:05d}"
        self._identity = {
            "format": _FORMAT,
            "salt": hasher.salt,
            "in_order": hasher.in_order,
            "chunk": chunk,
            "max_examples": max_examples,
        }

    def write_part(
        self, examples: Iterable[tuple[Any, Any]], on_progress: Progress | None = None
    ) -> PartResult:
        """Encodes this part's chunks of ``examples`` and writes them as runs.

        Runs of an earlier attempt that was stopped are kept, and their chunks not encoded again; a
        finished part is returned as it is, without touching ``examples``. Runs that no longer hold
        what was written, and those of another salt, chunk size or limit, are replaced.

        Args:
            examples: the whole split's ``(key, example)`` pairs, always in the same order.
            on_progress: called with the examples and payload bytes of this part so far, at most
                ten times a second and once at the end.

        Raises:
            BuilderError: the generator raised, or yielded something else than pairs; ``facts``
                hold ``position``, ``last_key`` and ``traceback``.
            ExampleError: an example cannot be encoded; ``facts`` hold ``position`` and ``key``.
            DiskFull, StoreError: a run cannot be written.
        """
        with told_as_ours(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        finished = self._finished()
        if finished is not None:
            if on_progress:
                on_progress(finished.examples, finished.payload_bytes)
            return finished
        job = _Job(self, self._earlier_runs(), on_progress)
        generated = job.run(examples)
        result = PartResult(
            self.part, self.parts, job.examples, job.payload_bytes, generated, tuple(job.runs)
        )
        write_json(self._manifest, {"identity": self._identity, "result": result.to_json()})
        return result

    @property
    def _manifest(self) -> Path:
        return self.directory / f"{self._stem}.json"

    def _finished(self) -> PartResult | None:
        doc = _read_json(self._manifest)
        if doc is None or doc.get("identity") != self._identity:
            return None
        result = PartResult.from_json(doc["result"])
        try:
            for run in result.runs:
                verify_run(self.directory, run)
        except DamageError:
            self._manifest.unlink()
            return None
        return result

    def _earlier_runs(self) -> list[Run]:
        """The whole runs of an earlier attempt, up to the last one that ends with a chunk."""
        started = self.directory / f"{self._stem}.started.json"
        runs: list[Run] = []
        if _read_json(started) == self._identity:
            while doc := _read_json(self.directory / f"{self.run_name(len(runs))}.json"):
                run = Run.from_json(doc)
                try:
                    verify_run(self.directory, run)
                except DamageError:
                    break
                runs.append(run)
            while runs and not runs[-1].complete:
                runs.pop()
        kept = {run.name for run in runs}
        for path in self.directory.iterdir():
            ours = path.name.startswith(f"{self._stem}.run-")
            if ours and (path.stem not in kept or path.suffix not in SUFFIXES):
                path.unlink()
        write_json(started, self._identity)
        return runs

    def run_name(self, number: int) -> str:
        """The stem of a run's files."""
        return f"{self._stem}.run-{number:04d}"


class _Job:
    """One attempt at a part: the state that changes while it runs."""

    def __init__(self, writer: RunWriter, runs: list[Run], on_progress: Progress | None) -> None:
        self._writer = writer
        self.runs = runs
        self.examples = sum(run.examples for run in runs)
        self.payload_bytes = sum(run.payload_bytes for run in runs)
        self._last_done = runs[-1].chunks[-1].number if runs else -1
        self._buffer = RunBuffer(writer._flush_bytes)
        self._chunks: list[ChunkDigest] = []
        self._batch = 1
        self._last_key: Any = None
        self._on_progress = on_progress
        self._reported = 0.0

    def run(self, examples: Iterable[tuple[Any, Any]]) -> int:
        """Goes through the generator once; returns how many examples it yielded."""
        writer = self._writer
        size = writer._chunk
        position = 0
        source = self._open(examples)
        try:
            for number in range(1 << 62):
                if number % writer.parts != writer.part or number <= self._last_done:
                    count = self._skip(source, size, position)
                else:
                    count = self._encode_chunk(source, number, position)
                position += count
                if count < size:
                    break
        except ProvenderError as error:
            if not isinstance(error, StoreError):
                # What was encoded before the fault is kept for the next attempt.
                self._buffer.drop_unmarked()
                self._flush(complete=True)
            raise
        finally:
            close = getattr(examples, "close", None)
            if close is not None:
                close()
        self._flush(complete=True)
        self._report(force=True)
        return position

    def _open(self, examples: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        try:
            return islice(iter(examples), self._writer._max_examples)
        except Exception as error:
            raise self._generator_fault(error, 0) from error

    def _skip(self, source: Iterator[tuple[Any, Any]], count: int, position: int) -> int:
        """Moves on by at most ``count`` examples without encoding; returns by how many."""
        last: deque[tuple[int, Any]] = deque(maxlen=1)
        fault: Exception | None = None
        try:
            last.extend(enumerate(islice(source, count), 1))
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            fault = error
        done = 0
        if last:
            done, item = last[0]
            self._last_key = item[0] if isinstance(item, tuple) and item else None
        if fault is not None:
            if isinstance(fault, ProvenderError):
                raise fault
            raise self._generator_fault(fault, position + done) from fault
        return done

    def _encode_chunk(self, source: Iterator[tuple[Any, Any]], number: int, first: int) -> int:
        """Encodes one chunk into the buffer; returns how many examples it has."""
        size = self._writer._chunk
        of_keys, of_records = xxhash.xxh3_128(), xxhash.xxh3_128()
        count = chunk_bytes = 0
        while count < size:
            wanted = min(self._batch, size - count)
            started = time.monotonic()
            keys, payloads = self._pull(source, wanted, first + count)
            if keys:
                digests = self._writer._hasher.digests(keys, first + count)
                framed, sizes = frame_joined(payloads)
                if max(sizes) > MAX_EXAMPLE_BYTES:
                    self._too_large(keys, sizes, first + count)
                of_keys.update(digests)
                of_records.update(framed)
                self._store(framed, sizes, digests, first + count, keys)
                chunk_bytes += len(framed)
                count += len(keys)
                self._adapt(len(framed), time.monotonic() - started)
                self._report()
            if len(keys) < wanted:
                break
        if count:
            content = xxhash.xxh3_128_hexdigest(of_keys.digest() + of_records.digest())
            self._chunks.append(ChunkDigest(number, count, content))
            self._buffer.mark()
            if (
                self._buffer.used + chunk_bytes > self._writer._flush_bytes
                or self._buffer.records + size > _MAX_RUN_RECORDS
            ):
                self._flush(complete=True)
        return count

    def _pull(
        self, source: Iterator[tuple[Any, Any]], wanted: int, first: int
    ) -> tuple[list[Any], list[bytes]]:
        """Takes and encodes at most ``wanted`` examples."""
        keys: list[Any] = []
        payloads: list[bytes] = []
        add_key, add_payload, encode = keys.append, payloads.append, self._writer._encode
        try:
            for key, example in islice(source, wanted):
                add_key(key)
                add_payload(encode(example))
        except Exception as error:
            if len(payloads) > 0:
                self._last_key = keys[len(payloads) - 1]
            position = first + len(payloads)
            if len(keys) > len(payloads):
                raise _example_fault(error, keys[-1], position) from error
            if isinstance(error, ProvenderError):
                raise
            raise self._generator_fault(error, position) from error
        if keys:
            self._last_key = keys[-1]
        return keys, payloads

    def _store(
        self, framed: bytes, sizes: list[int], digests: bytes, first: int, keys: list[Any]
    ) -> None:
        buffer = self._buffer
        if buffer.records and buffer.used + len(framed) > self._writer._flush_bytes:
            # Only where one chunk is larger than a run; the run then ends inside the chunk.
            self._flush(complete=False)
        buffer.add(framed, sizes, digests, first, keys_literal(keys))
        self.examples += len(sizes)
        self.payload_bytes += len(framed) - OVERHEAD * len(sizes)

    def _flush(self, complete: bool) -> None:
        """Writes the buffer as the next run."""
        buffer = self._buffer
        if buffer.records:
            name = self._writer.run_name(len(self.runs))
            chunks = tuple(self._chunks)
            writer = self._writer
            self.runs.append(
                buffer.write(writer.directory, name, chunks, complete, writer._summarize)
            )
            self._chunks.clear()
            buffer.clear(self._writer._flush_bytes)

    def _adapt(self, size: int, seconds: float) -> None:
        """Batches grow while they are cheap, so that memory and reports keep pace with any example."""
        if size > _BATCH_BYTES or seconds > _REPORT_SECONDS:
            self._batch = max(1, self._batch // 2)
        else:
            self._batch = min(self._writer._chunk, self._batch * 2)

    def _report(self, force: bool = False) -> None:
        if self._on_progress is None:
            return
        now = time.monotonic()
        if force or now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._on_progress(self.examples, self.payload_bytes)

    def _too_large(self, keys: list[Any], sizes: list[int], first: int) -> None:
        place = next(i for i, size in enumerate(sizes) if size > MAX_EXAMPLE_BYTES)
        raise ExampleError(
            f"Example {keys[place]!r} has {sizes[place]:,} bytes; "
            f"one example can hold at most {MAX_EXAMPLE_BYTES:,}.",
            where=f"example {first + place}, key {keys[place]!r}",
            hint="yield smaller examples, or store the large value as a file and yield its path",
            facts={
                "position": first + place,
                "key": _shown(keys[place]),
                "bytes": sizes[place],
            },
        )

    def _generator_fault(self, error: Exception, position: int) -> BuilderError:
        trace = error.__traceback__
        ours = (
            trace is not None
            and trace.tb_next is None
            and isinstance(error, (TypeError, ValueError))
        )
        what = (
            f"_generate_examples did not yield a (key, example) pair: {error}"
            if ours
            else f"_generate_examples raised {type(error).__name__}: {error}"
        )
        last = "none yet" if position == 0 else _shown(self._last_key)
        return BuilderError(
            what,
            where=f"example {position}; last good key: {last}",
            hint="fix the builder and run again; finished pieces are kept while its code is the same",
            facts={
                "position": position,
                "last_key": None if position == 0 else _shown(self._last_key),
                "traceback": "".join(traceback.format_exception(error)),
            },
        )


def _example_fault(error: Exception, key: Any, position: int) -> BuilderError:
    where = f"example {position}, key {_shown(key)}"
    facts = {"position": position, "key": _shown(key)}
    if isinstance(error, ExampleError):
        inner = f", {error.where}" if error.where else ""
        return ExampleError(
            error.message, where=where + inner, hint=error.hint, facts={**error.facts, **facts}
        )
    return ExampleError(
        f"The example cannot be encoded: {type(error).__name__}: {error}",
        where=where,
        hint="make _generate_examples yield what the features declare",
        facts={**facts, "traceback": "".join(traceback.format_exception(error))},
    )


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 200 else text[:199] + "…"


def _read_json(path: Path) -> Any:
    """The document, or None where there is none or it was cut off."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise StoreError(f"{path.name}: {error.strerror}.", where=str(path)) from error
