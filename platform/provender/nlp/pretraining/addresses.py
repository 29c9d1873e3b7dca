"""Text and output files that do not lie on this machine: fetched before the work, sent after it.

The work itself reads byte ranges and appends, which object stores cannot do well. Copies lie in a folder
of the scratch folder, named after everything that the output depends on, until all files are sent.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.claiming import claimed
from provender.nlp.pretraining.files import matched, split_names
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.work import Sizes
from provender.records.atomic import AtomicFile, told_as_ours, write_json

if TYPE_CHECKING:
    from provender.data.sources.access import DataFile
    from provender.nlp.pretraining.running import Made, Tell

_BLOCK = 8 << 20
_STALE_SECONDS = 7 * 24 * 3600
_MADE = "made.json"


def is_address(name: str) -> bool:
    """Whether a name is an address, not a path of this machine."""
    return "://" in name and not name.startswith("file://")


def any_address(names: str | Sequence[str]) -> bool:
    """Whether one of several names, comma-separated or not, is an address."""
    return any(map(is_address, split_names(names)))


def text_bytes(inputs: str | Sequence[str]) -> int:
    """Bytes of text files, wherever they lie.

    Raises:
        MissingFiles: a pattern matches no file.
    """
    return sum(each.size for each in _found(inputs))


def text_copies(inputs: str | Sequence[str], scratch: Path, tell: Tell) -> list[str]:
    """Paths of text files; those with addresses are fetched, unless they were and are unchanged.

    Copies lie in the scratch folder until they have not been asked for in a week.

    Args:
        inputs: files and patterns; as addresses such as ``gs://bucket/text/*.txt``, or paths.
        scratch: the scratch folder.
        tell: is told how far it is.

    Raises:
        MissingFiles: a pattern matches no file.
        StoreError: an address cannot be read, or another process fetches the same files.
    """
    found = list(_found(inputs))
    remote = [each.identity() for each in found if each.remote is not None]
    if not remote:
        return [each.path for each in matched(inputs)]
    folder = scratch / "addresses" / f"text-{_short_digest(remote)}"
    with told_as_ours(folder):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    _sweep(folder)
    with claimed(folder):
        return _fetched(found, folder, tell)


@dataclass(frozen=True)
class _Input:
    """A text file: a path of this machine, or what is to be fetched."""

    size: int
    path: str = ""
    remote: DataFile | None = None

    def identity(self) -> list[str | int]:
        if self.remote is None:
            return [self.path, self.size, os.stat(self.path).st_mtime_ns]
        return [self.remote.name, self.size, self.remote.token, self.remote.content]


def _found(inputs: str | Sequence[str]) -> Iterator[_Input]:
    from provender.nlp.paths import matching

    seen: set[str] = set()
    for name in split_names(inputs):
        if is_address(name):
            found = [_Input(each.size, remote=each) for each in matching([name])]
        else:
            local = matched([name.removeprefix("file://")])
            found = [_Input(each.size, each.path) for each in local]
        for each in found:
            key = each.path if each.remote is None else each.remote.url
            if key not in seen:
                seen.add(key)
                yield each


def create_by_copies(
    inputs: str | Sequence[str],
    outputs: str | Sequence[str],
    options: Options,
    *,
    workers: int,
    sizes: Sizes | None,
    tell: Tell,
    make: Callable[..., Made],
) -> Made:
    """Makes pretraining data where text or output files have addresses.

    Interrupted, it goes on from what was fetched, made and sent.

    Args:
        inputs: files and patterns; as addresses such as ``gs://bucket/text/*.txt``, or paths.
        outputs: files; as addresses, or paths.
        options: how instances are made.
        workers: processes.
        sizes: of the pieces of work.
        tell: is told how far it is.
        make: makes files of files, as `provender.nlp.pretraining.create` does.

    Raises:
        SettingsError: an output is named twice, or is an input.
        ProvenderError: as `provender.nlp.pretraining.create`; or an address cannot be read or written.
    """
    from provender.nlp.pretraining.running import Made
    from provender.settings import load_settings

    options = options.located()
    found, targets = list(_found(inputs)), split_names(outputs)
    _check_targets(targets, found)
    folder = Path(load_settings().scratch) / "addresses" / _digest(found, targets, options)
    with told_as_ours(folder):
        for name in ("in", "out"):
            (folder / name).mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    local = [
        folder / "out" / f"{i:05d}-{each.rpartition('/')[2]}" if is_address(each) else Path(each)
        for i, each in enumerate(targets)
    ]
    note = folder / _MADE
    with claimed(folder):
        if note.exists():
            doc = json.loads(note.read_bytes())
            known: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in doc.items()
            }
            made = Made(**known)
        else:
            paths = _fetched(found, folder / "in", tell)
            made = make(
                paths, list(map(str, local)), options, workers=workers, sizes=sizes, tell=tell
            )
            write_json(note, asdict(made))
        for number, (path, target) in enumerate(zip(local, targets, strict=True)):
            tell("send", number, len(targets), "files")
            if is_address(target) and path.exists():
                _send(path, target)
                path.unlink()
        tell("send", len(targets), len(targets), "files")
        shutil.rmtree(folder, ignore_errors=True)
    shown = tuple(
        each if is_address(each) else path for each, path in zip(targets, made.outputs, strict=True)
    )
    return replace(made, outputs=shown)


def _check_targets(targets: Sequence[str], found: Sequence[_Input]) -> None:
    read = {each.remote.url for each in found if each.remote is not None}
    for each in targets:
        wrong = "is named twice" if targets.count(each) > 1 else ""
        if each in read:
            wrong = "is an input file as well"
        if each.endswith("/"):
            wrong = "is a folder; name a file in it"
        if wrong:
            raise SettingsError(f"{each} {wrong}.", where="--output_file")


def _digest(found: Sequence[_Input], targets: Sequence[str], options: Options) -> str:
    from provender.nlp.pretraining.running import LAYOUT

    said = {
        "layout": LAYOUT,
        "inputs": [each.identity() for each in found],
        "targets": list(targets),
        "options": options.digest(),
        "vocabulary": hashlib.blake2b(options.vocabulary.read_bytes()).hexdigest(),
    }
    return _short_digest(said)


def _short_digest(doc: Any) -> str:
    text = json.dumps(doc, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _fetched(found: Sequence[_Input], folder: Path, tell: Tell) -> list[str]:
    """The text files as paths; those that lie elsewhere are copied, unless they were before."""
    total = sum(each.size for each in found if each.remote is not None)
    done, paths = 0, []
    for number, each in enumerate(found):
        if each.remote is None:
            paths.append(each.path)
            continue
        path = folder / f"{number:05d}-{each.remote.stem}"
        if not path.exists():
            for size in _fetch(each.remote, path):
                tell("fetch", done + size, total, "bytes")
        done += each.size
        paths.append(str(path))
    return paths


def _fetch(file: DataFile, path: Path) -> Iterator[int]:
    from provender.data.sources.access import open_reader

    with open_reader(file) as reader, AtomicFile(path) as target:
        while target.size < file.size:
            target.write(reader.read(target.size, min(_BLOCK, file.size - target.size)))
            yield target.size


def _send(path: Path, address: str) -> None:
    from provender.store import Store

    folder, _, name = address.rpartition("/")
    Store.open(folder).put(str(path), name)


def _sweep(folder: Path) -> None:
    """Removes copies of calls that were given up a week ago."""
    for each in folder.parent.iterdir():
        with suppress(OSError):
            if each != folder and time.time() - each.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(each, ignore_errors=True)
