"""From text files to the files of each pass."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from provender.errors import InputError, SettingsError, WorkerDied
from provender.nlp.claiming import claimed, folder_beside, sweep
from provender.nlp.pretraining.counter import philox
from provender.nlp.pretraining.files import Part, Source, matched, parts_of
from provender.nlp.pretraining.running import Tell
from provender.nlp.pretraining.tokens import TokenStore, join_parts, tokenize_part
from provender.nlp.xlnet_data.options import Options
from provender.nlp.xlnet_data.pieces import Marks, XLNetPieces, marks_of, word_starts
from provender.nlp.xlnet_data.rows import Records, rows_of, step_count
from provender.nlp.xlnet_data.stream import write_stream
from provender.records.atomic import AtomicFile, told_as_ours, write_json
from provender.records.tfrecord import frame

LAYOUT = 1
"""Changes whenever the same options and text give other bytes."""

_PART = 4 << 20
_BYTES_PER_WORKER = 16 << 20


@dataclass(frozen=True)
class Output:
    """A file that is there.

    Attributes:
        path: where it is.
        records: in it.
        bytes: of it.
        outcome: ``made``, or ``unchanged`` where it stood already.
    """

    path: str
    records: int
    bytes: int
    outcome: str


@dataclass(frozen=True)
class Made:
    """What `create` made.

    Attributes:
        outputs: a file for each pass.
        info_path: JSON with what training must know; None if another task writes it.
        sources: text files that were read.
    """

    outputs: tuple[Output, ...]
    info_path: str | None
    sources: tuple[str, ...]


def create(
    inputs: str | Sequence[str],
    options: Options,
    *,
    workers: int | None = None,
    tell: Tell | None = None,
) -> Made:
    """Makes XLNet pretraining data of text files.

    Files that stand already, made of the same text with the same model and options, are left alone.
    Interrupted, it goes on from the text that is tokenized and the passes that are finished.

    Args:
        inputs: files and globs, comma-separated or several; UTF-8, a sentence a line, a blank line
            between documents. The end of a file ends a document, too.
        options: how records are made.
        workers: processes that tokenize; by default one a CPU, fewer for little text.
        tell: is told how far it is.

    Raises:
        SettingsError: options make no sense, or there are more tasks than files.
        MissingFiles: a pattern matches no file, or the model is not there.
        InputError: the text is too short or no UTF-8, or the model lacks pieces.
        StoreError: a file cannot be read or written, or another process is at it.
        WorkerDied: a process was killed.
    """
    every = matched(inputs)
    sources = every[options.task_id or 0 :: options.num_tasks or 1]
    if not sources:
        raise SettingsError(
            f"There are {len(every)} files for {options.num_tasks} tasks.",
            where="--num_tasks",
            hint="Use as many tasks as files, at most.",
        )
    pieces = XLNetPieces(Path(options.sp_model_file), options.do_lower_case)
    marks = marks_of(pieces.vocabulary, eod=options.use_eod_token)
    folder = Path(os.path.abspath(options.save_dir or ""))
    with told_as_ours(folder):
        folder.mkdir(parents=True, exist_ok=True)
    digest = _digest(sources, options)
    work = folder_beside(folder / options.file(0).name, digest[:16])
    with told_as_ours(work):
        (work / "parts").mkdir(parents=True, exist_ok=True)
    run = _Run(options, sources, pieces, marks, work, digest, tell or _nobody)
    try:
        with claimed(work):
            outputs = run.passes(workers or _usual_workers(sources))
    except InputError:
        # Going on would come to the same end.
        shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)
    sweep(folder / options.file(0).name)
    info = None
    if not options.task_id:
        info = folder / f"{options.name}.json"
        write_json(info, _info(options, len(pieces.vocabulary), marks))
    return Made(
        tuple(outputs), None if info is None else str(info), tuple(each.path for each in sources)
    )


def _nobody(step: str, done: int, total: int, unit: str) -> None:
    """Is told, and says nothing."""


def usual_workers(inputs: str | Sequence[str]) -> int:
    """Processes that are worth their start: one a CPU, fewer where there is little to do."""
    return _usual_workers(matched(inputs))


def _usual_workers(sources: Sequence[Source]) -> int:
    amount = sum(each.size for each in sources)
    return max(1, min(len(os.sched_getaffinity(0)), amount // _BYTES_PER_WORKER))


def _digest(sources: Sequence[Source], options: Options) -> str:
    said = {
        "layout": LAYOUT,
        "sources": [asdict(each) for each in sources],
        "options": options.meaning(),
        "model": hashlib.blake2b(Path(options.sp_model_file).read_bytes()).hexdigest(),
    }
    text = json.dumps(said, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _info(options: Options, vocabulary: int, marks: Marks) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "per_host_batch_size": options.per_host_batch_size,
        "num_cores_per_host": options.num_cores_per_host,
        "seq_length": options.seq_length,
        "reuse_length": options.reuse_length,
        "do_lower_case": options.do_lower_case,
        "bi_data": options.bi_data,
        "use_eod_token": options.use_eod_token,
        "segment_cls_id": marks.cls,
        "segment_sep_id": marks.sep,
    }


@dataclass(frozen=True)
class _Run:
    """One call; see `create`."""

    options: Options
    sources: Sequence[Source]
    pieces: XLNetPieces
    marks: Marks
    work: Path
    digest: str
    tell: Tell

    def passes(self, workers: int) -> list[Output]:
        """The file of each pass."""
        found = [self._standing(each) for each in range(self.options.num_passes)]
        missing = [number for number, each in enumerate(found) if each is None]
        if missing:
            self._tokenize(workers)
        for number in missing:
            found[number] = self._pass(number)
        return [each for each in found if each is not None]

    def _note(self, number: int) -> Path:
        path = self.options.file(number)
        return path.with_name(f".{path.name}.made.json")

    def _standing(self, number: int) -> Output | None:
        path = self.options.file(number)
        try:
            doc = json.loads(self._note(number).read_bytes())
            size = path.stat().st_size
        except (OSError, ValueError):
            return None
        if doc.get("digest") != self.digest or doc.get("bytes") != size:
            return None
        return Output(str(path), doc["records"], size, "unchanged")

    def _parts(self) -> list[tuple[Part, Path]]:
        parts = parts_of(self.sources, _PART)
        return [(part, self.work / "parts" / f"{i:06d}") for i, part in enumerate(parts)]

    def _tokenize(self, workers: int) -> None:
        parts = self._parts()
        missing = [(part, path) for part, path in parts if not path.exists()]
        total = sum(part.stop - part.start for part, _ in parts)
        done = total - sum(part.stop - part.start for part, _ in missing)
        self.tell("tokenize", done, total, "bytes")
        model = (os.path.abspath(self.options.sp_model_file), self.options.do_lower_case)
        if workers == 1 or len(missing) < 2:
            for part, path in missing:
                _tokenize(model, part, path)
                done += part.stop - part.start
                self.tell("tokenize", done, total, "bytes")
            return
        # A fork of a process that runs threads may hang.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(workers, len(missing)), context)
        try:
            futures = {pool.submit(_tokenize, model, *each): each[0] for each in missing}
            for each in as_completed(futures):
                each.result()
                done += futures[each].stop - futures[each].start
                self.tell("tokenize", done, total, "bytes")
        except BrokenProcessPool as error:
            raise WorkerDied(
                "A worker process ended without an answer.",
                hint="If memory was short, use fewer --workers. The same command goes on from "
                "what is done.",
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)

    def _pass(self, number: int) -> Output:
        options = self.options
        # Passes of different tasks differ, too.
        overall = (options.task_id or 0) * options.num_passes + number
        parts = self._parts()
        order = file_order(len(self.sources), overall, options.random_seed)
        paths = [path for i in order for part, path in parts if part.path == self.sources[i].path]
        join_parts(paths, self.work / "store")
        stream = write_stream(TokenStore(self.work / "store"), self.work, self.marks.eod)
        rows = rows_of(stream, options)
        records = Records(options, self.marks, word_starts(self.pieces.vocabulary), overall)
        steps = step_count(rows[0], options)
        path = options.file(number)
        name = f"write {number + 1}" if options.num_passes > 1 else "write"
        total = steps * len(rows)
        self._note(number).unlink(missing_ok=True)
        # What a killed process leaves goes with the work folder.
        partial = self.work / path.name
        with AtomicFile(partial) as file:
            for step in range(steps):
                self.tell(name, step * len(rows), total, "examples")
                file.write(b"".join(frame(list(records.of_step(rows, step)))))
        with told_as_ours(path):
            partial.replace(path)
        self.tell(name, total, total, "examples")
        note = {"digest": self.digest, "records": total, "bytes": file.size}
        write_json(self._note(number), note)
        return Output(str(path), total, file.size, "made")


def file_order(count: int, number: int, seed: int) -> list[int]:
    """The order of files in a pass.

    Args:
        count: files.
        number: of the pass, among those of all tasks.
        seed: of all choices.
    """
    zeros = np.zeros(count, np.uint64)
    counter = [np.arange(count, dtype=np.uint64), zeros, zeros + np.uint64(number), zeros + 1]
    found: list[int] = np.argsort(philox(counter, seed)[0], kind="stable").tolist()
    return found


@lru_cache(2)
def _pieces(model: str, lower: bool) -> XLNetPieces:
    return XLNetPieces(Path(model), lower)


def _tokenize(model: tuple[str, bool], part: Part, target: Path) -> None:
    tokenize_part(Path(part.path), part.start, part.stop, _pieces(*model), target)
