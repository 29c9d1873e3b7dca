"""What a dataset's rows were made from, as the catalog knows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.data.dataset import Dataset


def parents_of(catalog: Catalog, datasets: Iterable[Dataset]) -> tuple[str, ...]:
    """Ids of the transforms and versions that datasets were made from.

    Args:
        catalog: where they are recorded.
        datasets: the datasets; what was computed lately is told to the catalog first.

    Returns:
        Ids, for `Session.parents`. A result that the catalog does not know (its record waits for
        another catalog, say) is named by its fingerprint.
    """
    from provender.data.cache import TransformCache

    wanted = list(dict.fromkeys(each for dataset in datasets for each in dataset._lineage))
    if not wanted:
        return ()
    TransformCache.current().send_lineage()
    stages = catalog.find_stages(wanted)
    found = []
    for fingerprint in wanted:
        # A version has the fingerprint of the stage that registered it, and is what people know.
        known = catalog.version_by_fingerprint(fingerprint) or stages.get(fingerprint)
        found.append(known.id if known else fingerprint)
    return tuple(found)
