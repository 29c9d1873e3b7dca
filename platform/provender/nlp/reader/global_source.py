"""Records in one global order, by number; see `provender.nlp.order`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.reader.consumption import note_reading
from provender.nlp.reader.epochs import records_of
from provender.nlp.reader.even import Counts
from provender.nlp.reader.mismatch import Places

if TYPE_CHECKING:
    from provender.nlp.order import IndexedSource
    from provender.settings import Settings


class GlobalSource:
    """Everything that a configuration names, mixtures included, as one source.

    Args:
        params: the configuration.
        settings: of the project.
        has_functions: name -> whether the caller gave that function to the reader; some make no
            sense here.

    Raises:
        SettingsError: something that excludes reading by number.
    """

    def __init__(
        self, params: DataConfig, settings: Settings | None, has_functions: Mapping[str, bool]
    ) -> None:
        from provender.nlp.order import indexed_source

        _refuse(params, has_functions)
        self._params = params
        self._settings = settings
        train = bool(params.is_training)
        self.indexed: IndexedSource = indexed_source(
            _inputs(params),
            global_batch_size=params.global_batch_size,
            seed=params.seed,
            shuffle=train,
            repeat=train and not params.cache,
            weights=params.weights,
            stop_on_empty=params.stop_on_empty_dataset,
            drop_remainder=params.drop_remainder,
            settings=settings,
        )

    def read(self, input_context: Any) -> Any:
        """The records of one input pipeline."""
        index, count = 0, 1
        if input_context is not None:
            index, count = input_context.input_pipeline_id, input_context.num_input_pipelines
        if count > 1 and not self._params.sharding:
            raise SettingsError(
                "global_shuffle gives each host its part of every step, and sharding is off.",
                where="sharding",
                hint="Leave sharding on.",
            )
        version = self._params.version
        for reference in version.values() if isinstance(version, Mapping) else [version]:
            if reference:
                note_reading(reference, self._params.tfds_split, index, count, self._settings)
        return self.indexed.dataset(index, count)

    def counts(self, input_context: Any) -> Counts | None:
        """See `provender.nlp.reader.sources.Source.counts`."""
        hosts = input_context.num_input_pipelines if input_context is not None else 1
        if self._params.is_training or self._params.drop_remainder or hosts == 1:
            return None
        found = [len(self.indexed.slice_of(each, hosts)) for each in range(hosts)]
        return Counts(found[input_context.input_pipeline_id], max(found))

    def places(self) -> Places:
        """The files, as they are found on this machine."""
        import numpy as np
        import tensorflow as tf

        files = self.indexed.files

        def path_of(number: int) -> bytes:
            return str(files[number].found()[0]).encode()

        def located(number: Any) -> Any:
            return tf.ensure_shape(tf.numpy_function(path_of, [number], tf.string), [])

        return Places(
            str(self._params.version or self._params.input_path),
            np.arange(len(files)),
            lambda path: records_of(path, ""),
            lambda numbers: numbers.map(located),
        )


def _inputs(params: DataConfig) -> Any:
    from provender.nlp.order import Input
    from provender.nlp.paths import match_files

    def one(value: Any) -> Input:
        if params.version:
            return Input(version=value, split=params.tfds_split)
        return Input(files=match_files(value))

    given: Any = params.version or params.input_path
    if isinstance(given, Mapping):
        return {name: one(value) for name, value in given.items()}
    return one(given)


def _refuse(params: DataConfig, has_functions: Mapping[str, bool]) -> None:
    because = {
        "tfds_name": "reads records by number, which TFDS builders cannot do",
        "enable_tf_data_service": "reads in this process, not in the workers of a service",
    }
    for name, reason in because.items():
        if getattr(params, name):
            raise SettingsError(
                f"global_shuffle {reason}, and {name} is set.", where=name, hint=f"Unset {name}."
            )
    for name, given in has_functions.items():
        if given:
            raise SettingsError(
                f"global_shuffle reads and combines plain TFRecord files itself, so a {name} has "
                "no place.",
                where=name,
                hint=f"Leave out {name}, or global_shuffle.",
            )
    if params.is_training and params.cache:
        raise SettingsError(
            "cache holds one epoch in the order of the first, and global_shuffle draws a new "
            "order for each.",
            where="cache",
            hint="Set one of the two.",
        )
    if params.deterministic is False:
        raise SettingsError(
            "global_shuffle fixes the order, and deterministic is false, which lets timing change it.",
            where="deterministic",
            hint="Leave out one of the two.",
        )
    if params.global_batch_size < 1:
        raise SettingsError(
            f"global_batch_size is {params.global_batch_size}, and global_shuffle counts steps.",
            where="global_batch_size",
            hint="Set the number of examples of a step, over all replicas.",
        )
