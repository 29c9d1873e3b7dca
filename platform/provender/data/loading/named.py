"""What was found under a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provender.catalog import VersionRecord
    from provender.data.dataset import DatasetInfo
    from provender.data.sources.base import Source


@dataclass(frozen=True)
class Named:
    """What a name stands for.

    Attributes:
        name: to be shown.
        sources: split name -> source.
        version: the published version that it is, if it is one.
        exact: slices that leave a split are refused, as TFDS does; else they end where it does.
    """

    name: str
    sources: Mapping[str, Source]
    version: VersionRecord | None = None
    exact: bool = False

    @property
    def lineage(self) -> tuple[str, ...]:
        """Fingerprints of the published versions that are read."""
        return (self.version.fingerprint,) if self.version is not None else ()

    def info(self) -> DatasetInfo:
        """What is known beside the rows."""
        from provender.data.dataset import DatasetInfo

        if self.version is None:
            return DatasetInfo()
        version = self.version
        told = version.info.get("dataset_info", {})
        return DatasetInfo(
            description=str(told.get("description", "")),
            citation=str(told.get("citation", "")),
            homepage=str(next(iter(told.get("location", {}).get("urls", [])), "")),
            dataset_name=version.dataset,
            builder_name=version.dataset,
            config_name=version.config or None,
            version=version.version,
            splits={each.name: {"num_examples": each.examples} for each in version.splits},
            dataset_size=version.bytes,
        )
