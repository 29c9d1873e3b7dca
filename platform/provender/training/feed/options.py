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
        for name, (least, optional) in _NUMBERS.items():
            _check_number(name, getattr(self, name), least, optional)
        for name in _SWITCHES:
            if getattr(self, name) not in (True, False):
                raise SettingsError(
                    f"{name} is {getattr(self, name)!r}.", hint="It is True or False."
                )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                *most, last = map(repr, choices)
                raise SettingsError(
                    f"{name} is {getattr(self, name)!r}.",
                    hint=f"It is {', '.join(most)} or {last}.",
                )
        if self.columns is not None and (isinstance(self.columns, str) or not self.columns):
            raise SettingsError(
                f"columns is {self.columns!r}.",
                hint="Give a list of features, or None for all of them.",
            )
        if self.preprocess is not None and not callable(self.preprocess):
            raise SettingsError(
                f"preprocess is {self.preprocess!r}.", hint="It is a function of one example."
            )
        if self.start and self.seed is None and (self.shuffle or self.shuffle_files):
            raise SettingsError(
                "start means nothing in an order that is drawn anew.",
                hint="Give the seed that the job began with.",
            )


_AUTOTUNE = -1
"""`tf.data.AUTOTUNE`, which stands for None where tf.data may choose."""

_NUMBERS: Mapping[str, tuple[int, bool]] = {
    "batch_size": (1, True),
    "shuffle": (1, True),
    "seed": (-(1 << 63), True),
    "epoch": (0, False),
    "start": (0, False),
    "repeat": (1, True),
    "cycle_length": (1, False),
    "block_length": (1, False),
    "index": (0, False),
    "count": (1, False),
    "parallel_calls": (1, True),
    "prefetch": (0, True),
}
"""Numbers: the least that each may be, and whether it may be None."""

_SWITCHES = (
    "drop_remainder",
    "as_supervised",
    "pad",
    "shuffle_files",
    "reshuffle",
    "deterministic",
)

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "remainder": ("drop", "pad", "keep"),
    "route": ("auto", "cache", "stream", "native"),
}


def _check_number(name: str, value: Any, least: int, optional: bool) -> None:
    """Refuses what is no whole number, True and False among it, and what is out of range."""
    if value is None and optional:
        return
    if value == _AUTOTUNE and name in ("parallel_calls", "prefetch"):
        return
    bad = isinstance(value, bool) or not hasattr(value, "__index__")
    if bad or not least <= value < 1 << 63:
        kind = "a whole number" if least < 0 else f"a number of at least {least}"
        raise SettingsError(
            f"{name} is {value!r}.", hint=f"{name} is {kind}" + (", or None." if optional else ".")
        )
