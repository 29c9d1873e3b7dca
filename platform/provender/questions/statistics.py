"""Statistics of a version as typed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provender.questions.rows import Rows

if TYPE_CHECKING:
    from provender.catalog import Catalog

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FeatureStats:
    """What one feature holds in one split.

    Attributes:
        feature: its name; nested names are joined by ``/``.
        kind: ``text``, ``bytes``, ``image``, ``label``, ``int``, ``float`` or ``bool``.
        examples: examples of the split.
        missing: examples without a value.
        empty: examples whose value has no length.
        distinct: number of different values, an estimate where there are many; None where unknown.
        minimum: smallest number; None for what is no number, as are the next three.
        maximum: largest number.
        mean: mean of the numbers.
        std: their standard deviation.
        mean_bytes: mean size of a text, or of bytes; None for others.
        mean_length: mean number of values an example, for sequences; None for others.
        document: everything that was computed: quantiles, frequent values, histograms.
    """

    split: str
    feature: str
    kind: str
    examples: int
    missing: int
    empty: int
    distinct: int | None
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    mean_bytes: float | None
    mean_length: float | None
    document: Document


def statistics_of(catalog: Catalog, version_id: str) -> Rows[FeatureStats]:
    """The statistics of a version, split by split and feature by feature.

    Args:
        catalog: where they are kept.
        version_id: the version.

    Returns:
        Rows; none for a split whose statistics were not computed.
    """
    return Rows(
        [
            _row(split, feature, about)
            for split, document in catalog.statistics(version_id).items()
            for feature, about in (document.get("features") or {}).items()
        ],
        FeatureStats,
    )


def _row(split: str, feature: str, about: Document) -> FeatureStats:
    def inner(group: str, name: str) -> float | None:
        value = (about.get(group) or {}).get(name)
        # What JSON cannot say (nan, inf) is kept as text.
        return None if value is None else float(value)

    distinct = (about.get("distinct") or {}).get("count")
    return FeatureStats(
        split=split,
        feature=feature,
        kind=str(about.get("kind") or ""),
        examples=int(about.get("examples") or 0),
        missing=int(about.get("missing") or 0),
        empty=int(about.get("empty") or 0),
        distinct=None if distinct is None else int(distinct),
        minimum=inner("numbers", "min"),
        maximum=inner("numbers", "max"),
        mean=inner("numbers", "mean"),
        std=inner("numbers", "std"),
        mean_bytes=inner("bytes", "mean"),
        mean_length=inner("length", "mean"),
        document=about,
    )
