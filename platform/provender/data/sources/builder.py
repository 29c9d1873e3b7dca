"""A builder that was never prepared, run as a stream."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.data.sources.base import (
    Chunk,
    DerivedSource,
    Position,
    Source,
    check_columns,
    check_shards,
    close,
)
from provender.data.sources.generator import growing, rows_from
from provender.data.sources.identity import identity_of
from provender.errors import BuilderError, ProvenderError, SplitError

if TYPE_CHECKING:
    from provender.builders.capture import Call
    from provender.data.features import Features
    from provender.stages.site import Site, Workplace


class BuilderProgram:
    """A builder's `_split_generators`, run once in a process over streaming downloads.

    Args:
        site: the builder, and where its downloads go when they have to be files.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self._lock = threading.RLock()
        self._made: tuple[int, Workplace, dict[str, Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"site": self.site.to_json()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from provender.stages.site import Site

        self.__init__(Site.from_json(state["site"]))  # type: ignore[misc]

    def _run(self) -> tuple[Workplace, dict[str, Any]]:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), *self._planned())
            return self._made[1], self._made[2]

    def _planned(self) -> tuple[Workplace, dict[str, Any]]:
        from provender.builders.capture import capture
        from provender.builders.load import GENERATOR, SHARDS
        from provender.data.sources.builder_downloads import StreamingDownloads
        from provender.stages.site import Workplace

        work = Workplace(self.site)
        kind = work.loaded.kind
        downloads = StreamingDownloads(work.download_manager(recorded={}, online=True))
        builder = work.loaded.builder
        if kind == GENERATOR:
            return work, dict(capture(builder, downloads))
        if kind == SHARDS:
            return work, dict(builder._shard_iterators_per_split(downloads))
        raise BuilderError(
            f"{self.site.dataset} writes its files itself, so it cannot be streamed unprepared.",
            where=self.site.spec.source,
            hint=f"`provender build {self.site.dataset}` first, then load the version.",
        )

    @property
    def builder(self) -> Any:
        """The instance."""
        return self._run()[0].loaded.builder

    @property
    def name(self) -> str:
        """Dataset name."""
        return self.site.dataset

    @property
    def splits(self) -> list[str]:
        """Names of the splits, in order."""
        return list(self._run()[1])

    def split(self, name: str) -> Any:
        """What gives a split's examples: a `Call`, a list of functions, or an iterable.

        Raises:
            SplitError: there is no such split.
        """
        calls = self._run()[1]
        if name not in calls:
            raise SplitError(
                f"{self.name} has no split {name!r}.",
                where=self.name,
                hint=f"It has: {', '.join(calls)}.",
                facts={"splits": list(calls)},
            )
        return calls[name]

    def replay(self, split: str) -> Any:
        """The pairs of a split whose generator cannot be called by itself."""
        from provender.builders.capture import examples_of
        from provender.data.sources.builder_downloads import StreamingDownloads

        work, _ = self._run()
        downloads = StreamingDownloads(work.download_manager(recorded={}, online=True))
        return examples_of(work.afresh().builder, downloads, split)


class BuilderSource(DerivedSource):
    """A split of an unprepared builder: what its generator yields, in the order it yields it.

    Examples are encoded and read back as a published version's are, so the rows are the same;
    a version's are in the order of their keys' hashes. Lists of files among the generator's
    arguments are shards, one element each.

    Args:
        program: the builder.
        split: name of the split.
    """

    def __init__(self, program: BuilderProgram, split: str) -> None:
        self._program = program
        self._split = split
        self._shards: list[int] | None = None
        self._names: tuple[str, ...] | None = None
        self._identity: str | None = None
        self._reader: Any = None
        self._encode: Any = None
        program.split(split)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_reader": None, "_encode": None}

    # ------------------------------------------------------------------ what it is

    def _examples(self) -> Any:
        if self._reader is None:
            from provender.data.examples import ExampleReader
            from provender.records import check_features, compile_encoder

            features = self._program.builder.info.features
            check_features(features)
            self._encode = compile_encoder(features)
            reader = ExampleReader(*_described(features))
            self._reader = reader if self._names is None else reader.columns(list(self._names))
        return self._reader

    @property
    def features(self) -> Features:
        found: Features = self._examples().features
        return found

    def _identify(self) -> str:
        if self._identity is None:
            from provender.fingerprint import hash_or_random

            cls, call = type(self._program.builder), self._program.split(self._split)
            spec = self._program.site.spec
            parts = (cls, spec.config, spec.version, dict(spec.kwargs), self._split, _parts(call))
            self._identity, self.unhashable = hash_or_random(parts)
        return identity_of("builder 1", self._identity, self._shards, self._names)

    @property
    def _all_shards(self) -> int:
        call = self._program.split(self._split)
        if isinstance(call, (list, tuple)):
            return len(call)
        return _list_length(call)

    @property
    def num_shards(self) -> int:
        return self._all_shards if self._shards is None else len(self._shards)

    def shard_name(self, shard: int) -> str:
        return f"{self._program.name}, split {self._split!r}, shard {self._number(shard)}"

    def _number(self, shard: int) -> int:
        return shard if self._shards is None else self._shards[shard]

    # ------------------------------------------------------------------ what is made of it

    def select_shards(self, shards: Sequence[int]) -> Source:
        chosen = [self._number(each) for each in check_shards(shards, self.num_shards)]
        return self._derived(_shards=chosen)

    def columns(self, names: Sequence[str]) -> Source:
        reader = self._examples()
        check_columns(names, list(reader.features))
        return self._derived(_names=tuple(names), _reader=reader.columns(list(names)))

    # ------------------------------------------------------------------ reading

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        check_shards([shard], self.num_shards)
        reader = self._examples()
        first = int(position["row"]) if position is not None else row
        pairs = iter(self._pairs(self._number(shard)))
        try:
            payloads = self._payloads(rows_from(pairs, first), first, shard)
            for at, records in growing(payloads, first):
                following = at + len(records)
                yield Chunk(at, len(records), {"row": following}, reader.table(records))
        finally:
            close(pairs)

    def _payloads(self, pairs: Iterator[Any], first: int, shard: int) -> Iterator[bytes]:
        number = first
        try:
            for pair in pairs:
                key, example = _pair(pair, self._program.name)
                yield self._encoded(key, example)
                number += 1
        except ProvenderError:
            raise
        except Exception as error:
            raise BuilderError(
                f"The builder broke at example {number}: {type(error).__name__}: {error}",
                where=self.shard_name(shard),
                facts={"example": number},
            ) from error

    def _encoded(self, key: Any, example: Any) -> bytes:
        try:
            payload: bytes = self._encode(example)
        except ProvenderError as error:
            error.where = f"{error.where or ''} key {key!r}".strip()
            raise
        return payload

    def _pairs(self, shard: int) -> Any:
        call = self._program.split(self._split)
        if isinstance(call, (list, tuple)):
            return call[shard]()
        if getattr(call, "function", None) is None:
            return self._program.replay(self._split)
        from provender.builders.capture import run

        return run(self._program.builder, _one_element(call, shard))

    def __repr__(self) -> str:
        return (
            f"BuilderSource({self._program.name!r}, {self._split!r}, num_shards={self.num_shards})"
        )


def _pair(pair: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise BuilderError(
            f"_generate_examples yielded {type(pair).__name__}, not (key, example).",
            where=name,
            hint="Yield a key that no other example has, and the example.",
        )
    return pair


def _parts(call: Any) -> Any:
    if isinstance(call, (list, tuple)):
        return list(call)
    return (call.function, list(call.args), dict(call.kwargs))


def _lists(call: Call) -> list[list[Any]]:
    """The list arguments that are shards: those whose elements can be files or numbers of parts.

    Lists of plain words (names of labels, languages) are parameters.
    """
    values = [*call.args, *call.kwargs.values()]
    return [each for each in values if isinstance(each, list) and each and all(map(_is_part, each))]


def _is_part(value: Any) -> bool:
    if isinstance(value, str):
        return "/" in value
    return (
        isinstance(value, (int, os.PathLike))
        or hasattr(value, "__fspath__")
        or hasattr(value, "__iter__")
    )


def _list_length(call: Call) -> int:
    if getattr(call, "function", None) is None:
        return 1
    lengths = {len(each) for each in _lists(call)}
    return lengths.pop() if len(lengths) == 1 else 1


def _one_element(call: Call, shard: int) -> Call:
    from dataclasses import replace

    if _list_length(call) == 1:
        return call
    chosen = {id(each) for each in _lists(call)}

    def cut(value: Any) -> Any:
        return [value[shard]] if id(value) in chosen else value

    kwargs = {name: cut(value) for name, value in call.kwargs.items()}
    return replace(call, args=tuple(map(cut, call.args)), kwargs=kwargs)


def _described(features: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The documents that TFDS would write beside the shards: features.json and names of labels."""
    with tempfile.TemporaryDirectory(prefix="provender-features-") as folder:
        features.save_config(folder)
        home = Path(folder)
        labels = {
            path.name.removesuffix(".labels.txt"): [
                line.strip() for line in path.read_text("utf-8").split("\n") if line
            ]
            for path in home.glob("*.labels.txt")
        }
        document: dict[str, Any] = json.loads((home / "features.json").read_text("utf-8"))
    return document, labels
