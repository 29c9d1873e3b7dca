"""Several sources read as one, in the proportion of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from provender.nlp.config import DataConfig

Combine = Callable[[Mapping[str, Any]], Any]


def combiner(params: DataConfig) -> Combine | None:
    """What mixes the sources of a configuration; None without weights.

    With ``deterministic_mixing`` the source of the k-th example is a function of k alone
    (`provender.nlp.order.mixing`), so that every stretch of the mixture keeps to the weights. Else
    sources are drawn at random, by ``seed``.
    """
    if not params.weights:
        return None
    weights = params.weights

    def combine(datasets: Mapping[str, Any]) -> Any:
        import tensorflow as tf

        names = list(datasets)
        values = [float(weights[name]) for name in names]
        parts = [datasets[name] for name in names]
        if params.deterministic_mixing:
            return tf.data.Dataset.choose_from_datasets(
                parts, _turns(values, names), params.stop_on_empty_dataset
            )
        return tf.data.Dataset.sample_from_datasets(
            parts,
            values,
            seed=_drawing_seed(params),
            stop_on_empty_dataset=params.stop_on_empty_dataset,
        )

    return combine


def _turns(weights: list[float], names: list[str]) -> Any:
    """The endless sequence of the sources' numbers."""
    import numpy as np
    import tensorflow as tf

    from provender.nlp.order.mixing import Proportions, shares_of

    proportions = Proportions(shares_of(weights, names))
    cycle, _ = proportions.at(np.arange(proportions.cycle, dtype=np.int64))
    return tf.data.Dataset.from_tensor_slices(tf.constant(cycle, tf.int64)).repeat()


def _drawing_seed(params: DataConfig) -> int:
    # Without a seed each run draws another mixture; with one, tf.data needs it at both places.
    import random

    return params.seed if params.seed is not None else random.SystemRandom().getrandbits(31)
