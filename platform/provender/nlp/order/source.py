"""Files and versions, read in one global order through `tf.data`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from provender.errors import SettingsError
from provender.nlp.order.checkpoint import trackable
from provender.nlp.order.files import RecordBlocks, RecordFile
from provender.nlp.order.indexing import offsets_of
from provender.nlp.order.mixing import shares_of
from provender.nlp.order.plan import GlobalOrder, HostSlice, SourceFacts, one_pass
from provender.nlp.order.report import OrderReport
from provender.nlp.order.state import InputState, Step
from provender.store.paths import split_scheme

if TYPE_CHECKING:
    from provender.settings import Settings
    from provender.training.shard_cache import HeldShard

_BLOCK = 1024
_BLOCK_BYTES = 4 << 20
_AHEAD = 2
"""Blocks that are read at a time, so that the disk works while the one before is handed over."""

_FOR_EVER = 1 << 50


@dataclass(frozen=True)
class Input:
    """One source of a global order: files, or a published version.

    Attributes:
        files: uncompressed TFRecord files at any fsspec address, in order; remote ones are kept in
            the shard cache.
        version: a reference of a published version, instead of files.
        split: a split expression of it.
    """

    files: Sequence[str | Path] = ()
    version: str = ""
    split: str = ""

    def __post_init__(self) -> None:
        if bool(self.files) == bool(self.version):
            raise SettingsError(
                "A source of a global order is either files or a version.",
                where="Input",
                hint="Give one of files=[...] and version='name:1.0.0', split='train'.",
            )


def indexed_source(
    inputs: Input | Mapping[str, Input],
    *,
    global_batch_size: int,
    seed: int | None = None,
    shuffle: bool = True,
    repeat: bool = True,
    weights: Mapping[str, float] | None = None,
    stop_on_empty: bool = True,
    drop_remainder: bool = True,
    settings: Settings | None = None,
) -> IndexedSource:
    """Opens files and versions for reading in one global order.

    Args:
        inputs: one source, or a mixture of them by name.
        global_batch_size: examples of a step on all hosts.
        seed: of the order. None means the same order as 0: hosts could not agree on a random one.
        shuffle: whether records are permuted in each epoch; else sources keep their file order.
        repeat: whether sources begin anew where they end; else one pass is made.
        weights: of a mixture by name; they need not sum to 1. None: by numbers of records.
        stop_on_empty: end one pass of a mixture where a source has no more.
        drop_remainder: leave out a last step of one pass that is not full.
        settings: the project's settings; by default as provender.toml and the environment say.

    Raises:
        SettingsError: no records, compressed files, weights that do not fit the sources.
        MissingFiles, UnknownReference, DamageError: files or versions that cannot be read.
    """
    from provender.settings import load_settings

    settings = settings or load_settings()
    named = inputs if isinstance(inputs, Mapping) else {"": inputs}
    files = {name: tuple(_files(each, settings)) for name, each in named.items()}
    facts = [_facts(name, each) for name, each in files.items()]
    if weights is None:
        weights = {each.name: each.records for each in facts}
    elif set(weights) != set(named):
        raise SettingsError(
            f"Weights are given for {', '.join(map(repr, weights))}, "
            f"the sources are {', '.join(map(repr, named))}.",
            where="weights",
            hint="Give one weight for each source.",
        )
    shares = shares_of([weights[each.name] for each in facts], [each.name for each in facts])
    order_seed = (seed or 0) if shuffle else None
    state = InputState(facts, shares, order_seed, global_batch_size)
    fixed = None
    if not repeat:
        phases = one_pass([each.records for each in facts], shares, stop_on_empty)
        fixed = GlobalOrder(facts, phases, order_seed)
    return IndexedSource(
        [RecordBlocks(each) for each in files.values()], state, fixed, drop_remainder
    )


def _files(wanted: Input, settings: Settings) -> list[RecordFile]:
    if wanted.version:
        return _version_files(wanted, settings)
    return [_plain_file(str(each), settings.home) for each in wanted.files]


def _plain_file(address: str, home: Path) -> RecordFile:
    scheme, rest = split_scheme(address)
    held = None
    if scheme != "file" or "::" in address:
        from provender.nlp.order.remote import local_copy

        held = local_copy(address, home)
    path = held.path if held else Path(rest)
    offsets = offsets_of(path, home)
    name = address.rpartition("/")[2]
    return RecordFile(name, 0, len(offsets) - 1, partial(_given, path, offsets, held))


def _given(path: Path, offsets: np.ndarray, held: HeldShard | None) -> tuple[Path, np.ndarray]:
    del held  # is only to live as long as what may ask for the file
    return path, offsets


def _version_files(wanted: Input, settings: Settings) -> list[RecordFile]:
    from provender.nlp.order.versions import version_files

    if not wanted.split:
        raise SettingsError(
            f"Which split of {wanted.version} is to be read is not said.",
            where="tfds_split",
            hint="Give a split expression such as 'train'.",
        )
    return version_files(wanted.version, wanted.split, settings)


def _facts(name: str, files: Sequence[RecordFile]) -> SourceFacts:
    # Names and counts: paths differ between machines, and contents would have to be read.
    text = "\n".join(f"{each.name}\0{each.start}\0{each.stop}" for each in files)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return SourceFacts(name, sum(map(len, files)), digest)


class IndexedSource:
    """Serialized records in one global order; see `indexed_source`.

    Attributes:
        state: where the training is.
        uneven: what the pipeline behind does that makes a step take another number of records than
            the global batch has, so that the place does not follow from the step.
    """

    def __init__(
        self,
        blocks: Sequence[RecordBlocks],
        state: InputState,
        fixed: GlobalOrder | None,
        drop_remainder: bool,
    ) -> None:
        self._blocks = tuple(blocks)
        self._fixed = fixed
        self._drop_remainder = drop_remainder
        self._begun: list[GlobalOrder] = []
        self.state = state
        self.uneven: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[RecordFile, ...]:
        """All files, in order, source by source."""
        return tuple(file for each in self._blocks for file in each.files)

    def input_state(self, step: Step = None) -> Any:
        """The state of the training, for `tf.train.Checkpoint` and as JSON.

        Args:
            step: what counts the steps, see `InputState.follow`; None where the training loop
                calls ``advance()`` after each step.

        Returns:
            A `tf.train.experimental.PythonState` with the methods of `InputState`.

        Raises:
            SettingsError: one pass without repetition has no state; or the place does not follow
                from the step.
        """
        if self.uneven:
            raise SettingsError(
                f"With {', '.join(self.uneven)} a step does not take global_batch_size records, so "
                "the place in the order does not follow from the step.",
                where=self.uneven[0],
                hint="Save the iterator itself: tf.train.Checkpoint(iterator=iterator).",
            )
        if self._fixed is not None:
            raise SettingsError(
                "A single pass over the data begins at its beginning and has no state to save.",
                where="is_training",
                hint="Set is_training to true.",
            )
        if step is not None:
            self.state.follow(step)
        return trackable(self.state)

    def report(self) -> OrderReport:
        """What the training has read of which source up to its step."""
        return self.state.report()

    def records_at(self, order: GlobalOrder, places: np.ndarray) -> list[bytes]:
        """Serialized records at places of an order."""
        sources, numbers = order.at(places)
        found: list[bytes] = [b""] * len(places)
        for source in np.unique(sources).tolist():
            mine = np.flatnonzero(sources == source)
            payloads = self._blocks[source].read(numbers[mine])
            for place, payload in zip(mine.tolist(), payloads, strict=True):
                found[place] = payload
        return found

    def dataset(self, index: int = 0, hosts: int = 1) -> Any:
        """The records of one host.

        Python reads them, in the process that iterates: on the trainer's own machine, a TPU VM
        included, but not inside workers of the tf.data service or of a remote TensorFlow server.

        Args:
            index: this host.
            hosts: how many there are; the global batch must be a multiple.

        Returns:
            A `tf.data.Dataset` of scalar strings. An iterator begins at the place of the input
            state at that moment. Of every step each host has its part of the global batch.

        Raises:
            SettingsError: the batch cannot be shared by so many hosts.
        """
        import tensorflow as tf

        piece = self.slice_of(index, hosts)
        size = self._block_size()

        def begin() -> tuple[Any, Any]:
            return tuple(map(np.int64, self._begin()))  # type: ignore[return-value]

        def read(start: Any, order: Any, block: Any) -> Any:
            own = self._slice(piece, int(start))
            places = own.places(int(block) * size, int(block + 1) * size)
            return np.array(self.records_at(self._order(int(order)), places), object)

        def blocks(start: Any, order: Any) -> Any:
            def fetch(block: Any) -> Any:
                records = tf.numpy_function(read, [start, order, block], tf.string)
                return tf.ensure_shape(records, [None])

            count = _FOR_EVER if piece.stop is None else -(-len(piece) // size)
            return tf.data.Dataset.range(count).map(
                fetch, num_parallel_calls=_AHEAD, deterministic=True
            )

        def begun(_: Any) -> Any:
            start, order = tf.numpy_function(begin, [], [tf.int64, tf.int64])
            return tf.ensure_shape(start, []), tf.ensure_shape(order, [])

        dataset = tf.data.Dataset.from_tensors(0).map(begun).flat_map(blocks)
        count = tf.data.INFINITE_CARDINALITY if piece.stop is None else len(piece)
        dataset = dataset.unbatch().apply(tf.data.experimental.assert_cardinality(count))
        settings = tf.data.Options()
        settings.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.OFF
        )
        # Functions that read are pure: what they give follows from their arguments.
        settings.experimental_external_state_policy = (
            tf.data.experimental.ExternalStatePolicy.IGNORE
        )
        return dataset.with_options(settings)

    def slice_of(self, index: int, hosts: int) -> HostSlice:
        """The places of one host, from the first step on; see `dataset`."""
        return HostSlice(
            index, hosts, self.state.batch, 0, self._end(), drop_remainder=self._drop_remainder
        )

    def _end(self) -> int | None:
        return None if self._fixed is None else self._fixed.stop

    def _slice(self, piece: HostSlice, start: int) -> HostSlice:
        return replace(piece, start=start)

    def _begin(self) -> tuple[int, int]:
        """The first place of an iterator and the number of its order."""
        if self._fixed is not None:
            return 0, -1
        start, order = self.state.snapshot()
        if not self._begun or self._begun[-1] is not order:
            self._begun.append(order)
        return start, len(self._begun) - 1

    def _order(self, number: int) -> GlobalOrder:
        return self._begun[number] if self._fixed is None else self._fixed

    def _block_size(self) -> int:
        """Records of a block: so many that they make a few megabytes."""
        first = next(file for blocks in self._blocks for file in blocks.files if len(file))
        _, offsets = first.found()
        mean = max(int(offsets[-1]) // (len(offsets) - 1), 1)
        return max(16, min(_BLOCK, _BLOCK_BYTES // mean))

    def close(self) -> None:
        """Closes the files; reading again opens them again."""
        for each in self._blocks:
            each.close()
