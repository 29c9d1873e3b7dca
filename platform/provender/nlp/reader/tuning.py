"""The options of tf.data that a configuration sets."""

from __future__ import annotations

from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig


def with_options(dataset: Any, params: DataConfig) -> Any:
    """Sets what the configuration sets, and prefetches last.

    Raises:
        SettingsError: tf.data has no such autotune algorithm.
    """
    import tensorflow as tf

    options = tf.data.Options()
    if params.deterministic is not None:
        options.deterministic = params.deterministic
    if params.autotune_algorithm:
        options.autotune.autotune_algorithm = algorithm_of(params.autotune_algorithm)
    if params.ram_budget:
        options.autotune.ram_budget = params.ram_budget << 30
    # The pipeline has shared the data out itself; nobody is to do so again.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # The order of an epoch follows from its number, so there is no generator whose state a
    # checkpoint of an iterator would have to hold.
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return dataset.with_options(options).prefetch(params.prefetch_buffer_size or tf.data.AUTOTUNE)


def algorithm_of(name: str) -> Any:
    """The autotune algorithm of a name.

    Raises:
        SettingsError: tf.data has no such algorithm.
    """
    import tensorflow as tf

    known = {each.name: each for each in tf.data.experimental.AutotuneAlgorithm}
    if name not in known:
        raise SettingsError(
            f"autotune_algorithm is {name!r}.",
            where="autotune_algorithm",
            hint=f"It is one of {', '.join(known)}.",
        )
    return known[name]
