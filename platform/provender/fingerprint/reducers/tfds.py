"""Reducers for TensorFlow Datasets: features, infos, configurations and builders by content."""

from __future__ import annotations

from typing import Any

from provender.fingerprint.registry import ship


@ship("tensorflow_datasets.core.features.feature.FeatureConnector")
def feature(obj: Any) -> object:
    """Its JSON description, with label names in order, which that leaves to other files."""
    parts: list[Any] = [obj.to_json()]
    names = getattr(obj, "names", None)
    if isinstance(names, list):
        parts.append(names)
    inner = getattr(obj, "_feature_dict", None)
    if isinstance(inner, dict):
        parts.append({name: feature(value) for name, value in inner.items()})
    nested = getattr(obj, "feature", getattr(obj, "_feature", None))
    if nested is not None and hasattr(nested, "to_json"):
        parts.append(feature(nested))
    return parts


@ship("tensorflow_datasets.core.dataset_info.DatasetInfo")
def info(obj: Any) -> object:
    """What a builder declares: name, version, features, keys, order. Prose does not count."""
    return {
        "name": obj.name,
        "config": obj.config_name,
        "version": str(obj.version),
        "features": obj.features,
        "supervised_keys": obj.supervised_keys,
        "disable_shuffling": obj.disable_shuffling,
        "splits": {
            name: [split.num_examples, list(split.shard_lengths or ())]
            for name, split in (obj.splits or {}).items()
        },
    }


@ship("tensorflow_datasets.core.dataset_builder.BuilderConfig")
def config(obj: Any) -> object:
    """All attributes but the description."""
    return {
        name: str(value) if name == "version" else value
        for name, value in vars(obj).items()
        if name not in ("description", "release_notes", "supported_versions", "tags")
    }


@ship("tensorflow_datasets.core.utils.version.Version")
def version(obj: Any) -> object:
    """Its text."""
    return str(obj)


@ship("tensorflow_datasets.core.dataset_builder.DatasetBuilder")
def builder(obj: Any) -> object:
    """Name, configuration and version; its class counts by itself. Where data lies does not."""
    return [obj.name, obj.builder_config, str(obj.version)]
