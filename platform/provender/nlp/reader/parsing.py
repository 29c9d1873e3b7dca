"""The functions between a record and a batch, and whether they can work on whole batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provender.errors import SettingsError
from provender.nlp.reader.mismatch import Places, decoded

Dataset = Any
Function = Callable[..., Any]

_CHUNK = 64
"""Records decoded together where what follows has to see single examples."""


def undecoded(record: Any) -> Any:
    """The `decoder_fn` of a reader whose later functions take records as they were read.

    `features` then serve `InputReader.decode`. It is known to the reader, which spares itself a map
    over single records.
    """
    return record


@dataclass(frozen=True)
class Parsing:
    """The functions of an `InputReader`; see there for each.

    Attributes:
        decoded: whether the source gives decoded examples (TFDS), so that `features` have
            nothing to do.
        places: where the records are from, for messages.
    """

    decoder_fn: Function | None = None
    features: Mapping[str, Any] | None = None
    sample_fn: Function | None = None
    parser_fn: Function | None = None
    batch_parser_fn: Function | None = None
    filter_fn: Function | None = None
    transform_and_batch_fn: Function | None = None
    postprocess_fn: Function | None = None
    pack_fn: Function | None = None
    decoded: bool = False
    places: Sequence[Places] = ()

    def __post_init__(self) -> None:
        if self.features is not None and self.decoder_fn not in (None, undecoded):
            raise SettingsError(
                "Both features and a decoder_fn are given, and each says how records are decoded.",
                where="features",
                hint="Leave out one of the two.",
            )
        if self.batch_parser_fn is None or self.in_batches or self.in_chunks:
            return
        if self.parser_fn is None or self.features is None:
            missing = "features" if self.features is None else "parser_fn"
            raise SettingsError(
                f"batch_parser_fn is given, but examples are parsed one by one here and there is "
                f"no {missing}.",
                where=missing,
                hint="Give features, and a parser_fn that does to one example what "
                "batch_parser_fn does to a batch.",
            )

    @property
    def in_batches(self) -> bool:
        """Whether whole batches can be parsed: nothing has to see a single example before."""
        return self._parses_batches and not (
            self.sample_fn or self.filter_fn or self.transform_and_batch_fn
        )

    @property
    def in_chunks(self) -> bool:
        """Whether records can be decoded and parsed some at a time, and taken apart again."""
        return self._parses_batches and self.sample_fn is None and self._plain

    @property
    def _plain(self) -> bool:
        """Whether every feature has one shape: batches of others are not those of tf.data."""
        import tensorflow as tf

        return not self.decoded and all(
            isinstance(each, tf.io.FixedLenFeature) for each in self._declared.values()
        )

    @property
    def _parses_batches(self) -> bool:
        if self.features is None or self.decoder_fn is not None:
            return False
        return self.parser_fn is None or self.batch_parser_fn is not None

    @property
    def _declared(self) -> dict[str, Any]:
        return dict(self.features or {})

    def batch(self, records: Any) -> Any:
        """Decodes and parses a batch of records."""
        examples = records if self.decoded else self.examples(records)
        return self.batch_parser_fn(examples) if self.batch_parser_fn else examples

    def examples(self, records: Any) -> Any:
        """Decodes a batch of records, or a single one, as the features say."""
        import tensorflow as tf

        # Nothing in it is for AutoGraph to rewrite, and looking for it takes a second.
        plain = tf.autograph.experimental.do_not_convert(decoded)
        return plain(records, self._declared, self.places)

    def chunked(self, data: Dataset) -> Dataset:
        """Decodes and parses records some at a time; gives single examples."""
        return _by_chunks(data, self.batch)

    def decode(self, data: Dataset) -> Dataset:
        """Decodes records, where they are not decoded yet; gives single examples."""
        import tensorflow as tf

        if self.decoder_fn is undecoded:
            return data
        if self.decoder_fn is not None:
            return data.map(self.decoder_fn, num_parallel_calls=tf.data.AUTOTUNE)
        if self.features is None or self.decoded:
            return data
        if self._plain:
            return _by_chunks(data, self.examples)
        return data.map(self.examples, num_parallel_calls=tf.data.AUTOTUNE)

    def parse(self, data: Dataset) -> Dataset:
        """Parses decoded examples one by one."""
        import tensorflow as tf

        if self.parser_fn is None:
            return data
        return data.map(self.parser_fn, num_parallel_calls=tf.data.AUTOTUNE)


def _by_chunks(data: Dataset, work: Function) -> Dataset:
    """What a function makes of many records at once, one by one."""
    import tensorflow as tf

    return data.batch(_CHUNK).map(work, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
