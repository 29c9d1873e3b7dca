"""From text files to output files: runs the pieces, and goes on after an interruption.

What was finished lies in a work folder beside the first output file, named after everything that
the output depends on. A run that finds such a folder leaves out what is in it. Output files get
their names at the very end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from provender.errors import InputError
from provender.nlp.claiming import claimed, folder_beside, sweep
from provender.nlp.pretraining import addresses
from provender.nlp.pretraining.files import Source, matched, parts_of, targets_of
from provender.nlp.pretraining.joining import Joining
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.pooling import Pool
from provender.nlp.pretraining.tokens import Counted
from provender.nlp.pretraining.work import Piece, Sizes, Work

Tell = Callable[[str, int, int, str], None]
"""Is told a step, how much of it is done, how much there is, and in what unit."""

_BYTES_PER_WORKER = 16 << 20
"""Text, times passes."""

LAYOUT = 1
"""Changes whenever the same options and text give other bytes."""


@dataclass(frozen=True)
class Made:
    """What `create` made.

    Attributes:
        outputs: the files, in the order in which they were named.
        records: instances in each of them.
        bytes: of each of them.
        documents: documents of the text.
        sentences: its sentences.
        tokens: its tokens.
    """

    outputs: tuple[str, ...]
    records: tuple[int, ...]
    bytes: tuple[int, ...]
    documents: int
    sentences: int
    tokens: int

    @property
    def has_next_sentences(self) -> bool:
        """Whether there were other documents for random next sentences to come from."""
        return self.documents > 1


def create(
    inputs: str | Sequence[str],
    outputs: str | Sequence[str],
    options: Options,
    *,
    workers: int = 1,
    sizes: Sizes | None = None,
    tell: Tell | None = None,
) -> Made:
    """Makes pretraining data of text files.

    Interrupted, even killed, it goes on where it was when it is called again in the same way, and
    the files are the same to the byte. Neither do they depend on the number of processes.

    Args:
        inputs: files and globs, comma-separated or several; UTF-8, a sentence a line, a blank line
            between documents. Names with ``://`` are addresses that fsspec knows.
        outputs: files, comma-separated or several; instances are dealt to them in turn. Names may be
            addresses, too.
        options: how instances are made.
        workers: processes.
        sizes: of the pieces of work.
        tell: is told how far it is.

    Returns:
        What was made.

    Raises:
        SettingsError: options or names make no sense.
        MissingFiles: a pattern matches no file, or the vocabulary is not there.
        InputError: the text is empty or no UTF-8, or the vocabulary lacks special tokens.
        StoreError: a file cannot be read or written, or another process is at it.
        WorkerDied: a process was killed.
    """
    if addresses.any_address(inputs) or addresses.any_address(outputs):
        check(options)
        return addresses.create_by_copies(
            inputs,
            outputs,
            options,
            workers=workers,
            sizes=sizes,
            tell=tell or _nobody,
            make=create,
        )
    sources = matched(inputs)
    options = options.located()
    check(options)
    targets = targets_of(outputs, sources, options.vocabulary)
    sizes = sizes or Sizes()
    name = digest(sources, targets, options, sizes)
    folder = folder_beside(targets[0], name)
    work = Work(folder, options, len(targets), sizes)
    work.make_folders()
    try:
        with claimed(work.folder):
            with Pool(work, workers) as pool:
                counted = prepare(work, sources, pool, tell or _nobody)
                joining = Joining.open(work.folder, [_growing(each, name) for each in targets])
                _write(work, pool, joining, tell or _nobody)
            joining.publish(targets)
            total = int(work.counts.sum())
            shutil.rmtree(work.folder, ignore_errors=True)
    except InputError:
        # Going on would come to the same end.
        shutil.rmtree(work.folder, ignore_errors=True)
        raise

    def forget(folder: Path, name: str) -> None:
        for each in targets:
            _growing(each, name).unlink(missing_ok=True)

    sweep(targets[0], forget)
    return Made(
        tuple(map(str, targets)),
        tuple(len(range(turn, total, len(targets))) for turn in range(len(targets))),
        tuple(joining.sizes),
        counted.documents,
        counted.sentences,
        counted.tokens,
    )


def _growing(target: Path, name: str) -> Path:
    """Where an output file of a call grows."""
    return target.with_name(f".{target.name}.{name}.partial")


def usual_workers(inputs: str | Sequence[str], options: Options) -> int:
    """Processes that are worth their start: one a CPU, fewer where there is little to do."""
    amount = addresses.text_bytes(inputs) * options.dupe_factor
    return max(1, min(len(os.sched_getaffinity(0)), amount // _BYTES_PER_WORKER))


def check(options: Options) -> None:
    """Refuses a vocabulary that cannot serve, before anything is made.

    Raises:
        MissingFiles: it is not there.
        InputError: it is none, or lacks special tokens.
    """
    recipe = Work(Path(), options, 1).recipe
    _ = recipe.marks, recipe.replacing


def digest(
    sources: Sequence[Source], targets: Sequence[Path], options: Options, sizes: Sizes
) -> str:
    """Names a call by what its output depends on: 16 hexadecimal characters."""
    said = {
        "layout": LAYOUT,
        "sources": [asdict(each) for each in sources],
        "targets": [str(each) for each in targets],
        "options": options.digest(),
        "sizes": asdict(sizes),
        "vocabulary": hashlib.blake2b(options.vocabulary.read_bytes()).hexdigest(),
    }
    text = json.dumps(said, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _nobody(step: str, done: int, total: int, unit: str) -> None:
    """Is told, and says nothing."""


def prepare(work: Work, sources: Sequence[Source], pool: Pool, tell: Tell) -> Counted:
    """Tokenizes the text and plans the instances, as far as that was not done before.

    Args:
        work: where to.
        sources: the text files.
        pool: runs the pieces.
        tell: is told how far it is.

    Returns:
        What the text holds.

    Raises:
        InputError: there is no text, no UTF-8, too little, or one document where that is refused.
    """
    _tokenize(work, sources, pool, tell)
    refuse_single_document(work)
    pieces = [{"step": "plan", "number": each} for each in range(len(work.tasks))]
    _run(pool, "plan", pieces, tell, "parts")
    refuse_too_short(work)
    return work.store.counted


def refuse_single_document(work: Work, where: str = "--input_file") -> None:
    """Refuses text that is one document, where that is asked for.

    Args:
        work: its text is tokenized.
        where: named in the error.

    Raises:
        InputError: it is one document.
    """
    if work.store.counted.documents == 1 and work.options.single_document == "stop":
        raise InputError(
            "The text is one document, so no next sentence can be random.",
            where=where,
            hint="Put blank lines between documents, or go on without random next sentences: "
            "--single_document=continue.",
        )


def refuse_too_short(work: Work, where: str = "--input_file") -> None:
    """Refuses text of which no example can be made.

    Args:
        work: its instances are planned.
        where: named in the error.

    Raises:
        InputError: there is none.
    """
    if not work.counts.any():
        raise InputError(
            "The text is too short for a single example.",
            where=where,
            hint="It needs two tokens at least.",
        )


def _tokenize(work: Work, sources: Sequence[Source], pool: Pool, tell: Tell) -> None:
    if work.is_joined:
        return
    parts = parts_of(sources, work.sizes.part)
    pieces = [
        {"step": "tokenize", "number": number, "part": asdict(part)}
        for number, part in enumerate(parts)
    ]
    weights = [part.stop - part.start for part in parts]
    _run(pool, "tokenize", pieces, tell, "bytes", weights)
    work.join(len(parts))
    shutil.rmtree(work.folder / "parts", ignore_errors=True)


def _run(
    pool: Pool,
    step: str,
    pieces: Sequence[Piece],
    tell: Tell,
    unit: str,
    weights: Sequence[int] | None = None,
) -> None:
    total = sum(weights) if weights else len(pieces)
    done = 0
    tell(step, done, total, unit)
    for number in pool.run(pieces):
        done += weights[number] if weights else 1
        tell(step, done, total, unit)


def _write(work: Work, pool: Pool, joining: Joining, tell: Tell) -> None:
    """Writes the buckets that are missing, and appends each once those before it are there."""
    counts = work.counts
    total, done = int(counts.sum()), int(counts[: joining.bucket].sum())
    tell("write", done, total, "examples")
    pieces = [{"step": "write", "number": each} for each in range(joining.bucket, work.buckets)]
    ready: set[int] = set()
    for number in pool.run(pieces):
        ready.add(number)
        while joining.bucket in ready:
            done += int(counts[joining.bucket])
            joining.append(work.segments(joining.bucket))
            tell("write", done, total, "examples")
