"""How a version is read as `tf.data`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from provender.errors import SettingsError
from provender.training.feed.plan import Remainder

Route = Literal["auto", "cache", "stream", "native"]


@dataclass(frozen=True)
class FeedOptions:
    """Everything that shapes a pipeline, apart from the version and the split.

    Attributes:
        batch_size: examples a batch; None gives single examples.
        drop_remainder: whether a last, smaller batch is left out (static shapes need it).
        as_supervised: ``(input, target)`` pairs, as the builder's ``supervised_keys`` say.
        columns: top-level features to parse; None means all.
        decoders: TFDS decoders by feature, ``tfds.decode.PartialDecoding`` too.
        pad: dense, zero-padded batches where the default is `tf.RaggedTensor`.
        shuffle: a buffer size, or None for file order.
        shuffle_files: whether files are read in a shuffled order.
        seed: of both shuffles; None draws one.
        epoch: number of the first pass; the order of a pass is a function of seed and number.
        start: examples of this pipeline that were consumed before, over all passes; reading goes on
            behind them. For what holds no checkpoint of an iterator, as `tf.distribute` does.
        reshuffle: whether each pass has another order.
        repeat: passes; None repeats for ever.
        cycle_length: files read in turns; 1 keeps file order. TFDS's default is 16.
        block_length: consecutive examples of each file when files are read in turns.
        index: number of this pipeline among ``count``.
        count: pipelines that share the data.
        remainder: what becomes of examples that do not divide evenly among pipelines.
        preprocess: applied to each example before batches are made.
        parallel_calls: batches parsed at once; None lets tf.data choose.
        prefetch: batches prepared ahead; None lets tf.data choose.
        deterministic: whether the order may not depend on timing.
        route: how remote files are reached, see `provender.training.feed.routes`.
    """

    batch_size: int | None = None
    drop_remainder: bool = False
    as_supervised: bool = False
    columns: Sequence[str] | None = None
    decoders: Any = None
    pad: bool = False
    shuffle: int | None = None
    shuffle_files: bool = False
    seed: int | None = None
    epoch: int = 0
    start: int = 0
    reshuffle: bool = True
    repeat: int | None = 1
    cycle_length: int = 1
    block_length: int = 16
    index: int = 0
    count: int = 1
    remainder: Remainder = "drop"
    preprocess: Callable[[Any], Any] | None = None
    parallel_calls: int | None = None
    prefetch: int | None = 2
    deterministic: bool = True
    route: Route = "auto"

    def __post_init__(self) -> None:
        positive: Mapping[str, int | None] = {
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "repeat": self.repeat,
            "cycle_length": self.cycle_length,
            "block_length": self.block_length,
            "count": self.count,
            "parallel_calls": self.parallel_calls,
        }
        for name, value in positive.items():
            if value is not None and value < 1:
                raise SettingsError(
                    f"{name} is {value}.", hint=f"{name} is a number of at least 1, or None."
                )
        if self.start < 0:
            raise SettingsError(f"start is {self.start}.", hint="It counts examples from 0.")
        if self.start and self.seed is None and (self.shuffle or self.shuffle_files):
            raise SettingsError(
                "start means nothing in an order that is drawn anew.",
                hint="Give the seed that the job began with.",
            )
        if self.remainder not in ("drop", "pad", "keep"):
            raise SettingsError(
                f"remainder is {self.remainder!r}.", hint="It is 'drop', 'pad' or 'keep'."
            )
        if self.route not in ("auto", "cache", "stream", "native"):
            raise SettingsError(
                f"route is {self.route!r}.",
                hint="It is 'auto', 'cache', 'stream' or 'native'.",
            )
