"""Examples of TFDS builders."""

from __future__ import annotations

from typing import Any

from provender.nlp.config import DataConfig
from provender.nlp.reader.even import Counts
from provender.nlp.reader.mismatch import Places
from provender.nlp.reader.service import DataService
from provender.nlp.reader.sharing import Share, agreed_seed

_UNPREPARED = "mldataset."
"""Begins the names of data sets that TFDS neither downloads nor keeps itself."""


class TfdsSource:
    """One split of a TFDS dataset; TFDS downloads it where it is not there.

    Args:
        name: of the builder, config and version.
        params: the configuration.
        service: whether the workers of a tf.data service read.
    """

    def __init__(self, name: str, params: DataConfig, service: DataService) -> None:
        self._name = name
        self._params = params
        self._served = service.address is not None
        self._sharding = params.sharding and not self._served
        self._builder: Any = None

    def read(self, input_context: Any) -> Any:
        """The examples of one input pipeline."""
        import tensorflow as tf
        import tensorflow_datasets as tfds

        params = self._params
        share = Share.of(input_context, self._sharding)
        split = self._part(share)
        if split is not None:
            return self._load(tfds.ReadConfig(**self._turns(), skip_prefetch=True), split)
        repeats = bool(params.is_training) and not params.cache
        by_record = self._files() < share.count
        context = None
        if share.count > 1 and not by_record:
            context = tf.distribute.InputContext(share.count, share.index)
        # Hosts that shuffle files in different orders would read some twice and some never; workers
        # of a service each read everything, and need different ones.
        agreed = agreed_seed(params.seed, [self._name, params.tfds_split])
        config = tfds.ReadConfig(
            **self._turns(),
            input_context=context,
            shuffle_seed=None if self._served else agreed,
            repeat_filenames=repeats and not by_record,
            assert_cardinality=not repeats,
            skip_prefetch=True,
        )
        data = self._load(config)
        if by_record:
            data = data.shard(share.count, share.index)
            data = data.repeat() if repeats else data
        if repeats:
            data = data.shuffle(params.shuffle_buffer_size, seed=params.seed)
        return data

    def places(self) -> Places:
        """Its name: TFDS decodes its own files."""
        return Places(self._name)

    def _turns(self) -> dict[str, Any]:
        import tensorflow as tf

        return {
            "interleave_cycle_length": self._params.cycle_length or tf.data.AUTOTUNE,
            "interleave_block_length": self._params.block_length,
        }

    def _part(self, share: Share) -> Any:
        """The part of the split that one host evaluates; None where hosts share in other ways."""
        import tensorflow_datasets as tfds

        if self._params.is_training or share.count == 1 or self._examples() is None:
            return None
        return tfds.even_splits(
            self._params.tfds_split, share.count, drop_remainder=self._params.drop_remainder
        )[share.index]

    def _examples(self) -> int | None:
        """Examples of the split; None where that is not known."""
        if self._name.startswith(_UNPREPARED):
            return None
        builder = self._opened()
        builder.download_and_prepare()
        if not builder.info.splits:
            return None
        return int(builder.info.splits[self._params.tfds_split].num_examples)

    def counts(self, input_context: Any) -> Counts | None:
        """See `provender.nlp.reader.sources.Source.counts`."""
        share = Share.of(input_context, self._sharding)
        if self._params.drop_remainder or self._part(share) is None:
            return None
        return Counts.of(self._examples() or 0, share)

    def _load(self, config: Any, split: Any = None) -> Any:
        import tensorflow_datasets as tfds

        params = self._params
        skipped = [each.strip() for each in params.tfds_skip_decoding_feature.split(",")]
        decoders = {name: tfds.decode.SkipDecoding() for name in skipped if name}
        options = {
            "split": params.tfds_split if split is None else split,
            "as_supervised": params.tfds_as_supervised,
            "shuffle_files": bool(params.is_training),
            "decoders": decoders or None,
            "read_config": config,
        }
        if self._name.startswith(_UNPREPARED):
            return tfds.load(self._name, **options)
        builder = self._opened()
        builder.download_and_prepare()
        return builder.as_dataset(**options)

    def _opened(self) -> Any:
        import tensorflow_datasets as tfds

        if self._builder is None:
            folder = {"data_dir": self._params.tfds_data_dir} if self._params.tfds_data_dir else {}
            self._builder = tfds.builder(self._name, **folder)
        return self._builder

    def _files(self) -> int:
        """Files that the split is read from; 1 where that is not known."""
        if self._name.startswith(_UNPREPARED):
            return 1
        builder = self._opened()
        builder.download_and_prepare()
        if not builder.info.splits:
            return 1
        return len(builder.info.splits[self._params.tfds_split].file_instructions)
