"""What a configuration must not say, found before anything is opened."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig

_SOURCES = ("input_path", "tfds_name", "version")
_LEAST = {
    "global_batch_size": 0,
    "shuffle_buffer_size": 1,
    "cycle_length": 1,
    "block_length": 1,
    "ram_budget": 1,
    "prefetch_buffer_size": 0,
}


def check_params(
    params: DataConfig, *, has_combine_fn: bool, has_pack_fn: bool, transforms: bool
) -> None:
    """Refuses configurations that contradict themselves.

    Args:
        params: the configuration.
        has_combine_fn: whether the caller combines the sources of a mixture itself.
        has_pack_fn: whether it can pack examples.
        transforms: whether it makes the batches itself, and so may pack or not.

    Raises:
        SettingsError: naming the option, what it holds and what would do.
    """
    for name, least in _LEAST.items():
        value = getattr(params, name)
        if value is not None and value < least:
            raise SettingsError(
                f"{name} is {value}.", where=name, hint=f"It is a whole number of {least} or more."
            )
    _check_sources(params)
    _check_mixture(params, has_combine_fn)
    _check_rest(params)
    if params.packing is not None and not has_pack_fn and not transforms:
        raise SettingsError(
            "packing is set, and nothing here says how these examples are packed.",
            where="packing",
            hint="Leave it out, or use a loader that packs (docs/nlp-dynamic.md).",
        )


def _check_sources(params: DataConfig) -> None:
    given = [name for name in _SOURCES if getattr(params, name)]
    if len(given) > 1:
        shown = " and ".join(f"{name} {getattr(params, name)!r}" for name in given)
        raise SettingsError(
            f"At most one of {', '.join(_SOURCES)} can be specified, got {shown}.",
            where=given[-1],
            hint="Empty the others.",
        )
    if not given:
        raise SettingsError(
            f"None of {', '.join(_SOURCES)} is specified, so there is nothing to read.",
            where="input_path",
            hint="Name files, a TFDS dataset or a published version.",
        )
    if given != ["input_path"] and not params.tfds_split:
        name = given[0]
        raise SettingsError(
            f"{name} is {getattr(params, name)!r}, but tfds_split is not specified.",
            where="tfds_split",
            hint='Name a split, such as tfds_split: "train".',
        )


def _check_mixture(params: DataConfig, has_combine_fn: bool) -> None:
    source = next(each for name in _SOURCES if (each := getattr(params, name)))
    if isinstance(source, Mapping):
        # A global order knows how many records there are, and keeps to that.
        if not (has_combine_fn or params.weights or params.global_shuffle):
            raise SettingsError(
                f"A combine_fn is required if sources are named ({', '.join(source)}): nothing "
                "says how often each is read.",
                where="weights",
                hint=f"Set weights: {{{', '.join(f'{name}: 1' for name in source)}}}.",
            )
        if params.weights:
            check_weights(params.weights, source)
    elif params.weights:
        raise SettingsError(
            "weights are given, but there is one source without a name.",
            where="weights",
            hint="Name the sources: input_path: {wiki: ..., books: ...}.",
        )


def check_weights(weights: Mapping[str, float], sources: Mapping[str, Any]) -> None:
    """Refuses weights that do not belong to the sources, one each.

    Raises:
        SettingsError: naming the sources without a weight, or the weights without a source.
    """
    missing = [name for name in sources if name not in weights]
    extra = [name for name in weights if name not in sources]
    if missing or extra:
        near = [difflib.get_close_matches(name, list(sources), 1) for name in extra]
        hints = [
            f"{name!r} may mean {found[0]!r}."
            for name, found in zip(extra, near, strict=True)
            if found
        ]
        parts = [f"no weight for {', '.join(missing)}"] if missing else []
        parts += [f"no source for {', '.join(extra)}"] if extra else []
        raise SettingsError(
            f"{len(weights)} weights for {len(sources)} sources: there is {' and '.join(parts)}.",
            where="weights",
            hint=" ".join(hints) or f"Give one weight to each of {', '.join(sources)}.",
        )
    wrong = {name: value for name, value in weights.items() if not 0 <= value < float("inf")}
    if wrong or not any(weights.values()):
        raise SettingsError(
            f"weights are {dict(weights)!r}.",
            where="weights",
            hint="A weight is a number of 0 or more, and at least one is above 0.",
        )


def _check_rest(params: DataConfig) -> None:
    if params.version_route not in ("auto", "cache", "stream", "native"):
        raise SettingsError(
            f"version_route is {params.version_route!r}.",
            where="version_route",
            hint="It is 'auto', 'cache', 'stream' or 'native'.",
        )
    if params.autotune_algorithm:
        from provender.nlp.reader.tuning import algorithm_of

        algorithm_of(params.autotune_algorithm)
    shared = params.enable_shared_tf_data_service_between_parallel_trainers
    if params.apply_tf_data_service_before_batching and not shared:
        raise SettingsError(
            "apply_tf_data_service_before_batching is for a shared service only.",
            where="apply_tf_data_service_before_batching",
            hint="Set enable_shared_tf_data_service_between_parallel_trainers, too, or leave "
            "both out.",
        )
