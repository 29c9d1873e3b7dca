"""The assets of a dataset, and what OpenLineage calls them.

``provender://digits`` has an event for each version. ``provender://digits/@changes`` has one for each
split of it that changed, or for each piece of time of a dataset that is cut by time; the split or
piece is the event's partition key. They are two since Airflow hands an event with a key to none but
DAGs that run by key, and an event without one to none but the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provender.orchestration.airflow.names import CHANGES, SCHEME, asset_uri, changes_name

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow.sdk import Asset
    from openlineage.client.event_v2 import Dataset


def create_asset(*, dataset: str, extra: dict[str, Any] | None = None) -> Asset:
    """The asset that a dataset's DAG announces its versions by.

    Args:
        dataset: name in the registry, which is also how its DAG is named.
        extra: kept with the asset.
    """
    from airflow.sdk import Asset

    return Asset(name=dataset, uri=asset_uri(dataset), group="provender", extra=extra or {})


def changes_asset(dataset: str) -> Asset:
    """The asset whose events name what changed, one split or piece of time each.

    Args:
        dataset: name in the registry.
    """
    from airflow.sdk import Asset

    name = changes_name(dataset)
    return Asset(name=name, uri=asset_uri(name), group="provender")


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """The normal form of an asset's URI: ``provender://name`` or ``provender://name/config``.

    Raises:
        ValueError: it names no dataset.
    """
    if not uri.netloc or uri.query:
        raise ValueError(f"{SCHEME}:// is followed by the name of a dataset, not {uri.geturl()!r}.")
    return uri._replace(path="" if uri.path == "/" else uri.path)


def to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:
    """What OpenLineage calls a dataset that is known by its asset alone."""
    from openlineage.client.event_v2 import Dataset

    name = asset.uri.removeprefix(f"{SCHEME}://").rstrip("/").removesuffix(f"/{CHANGES}")
    return Dataset(namespace=SCHEME, name=name)
