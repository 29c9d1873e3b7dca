"""The answer to "what differs": plain frozen values, JSON-ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from provender.statistics.drifting import Drift


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """A feature that is not the same on both sides.

    Attributes:
        name: names from the root, joined by ``/``.
        change: ``added``, ``removed`` or ``changed``.
        before, after: its type in short; None where it is not there.
    """

    name: str
    change: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class SplitChange:
    """A split on both sides.

    Attributes:
        change: ``added``, ``removed``, ``changed`` or ``same``: judged by the shards' content.
        examples, bytes, shards: numbers before and after; 0 where the split is not there.
        equal_shards: shards of one content on both sides.
    """

    name: str
    change: str
    examples: tuple[int, int]
    bytes: tuple[int, int]
    shards: tuple[int, int]
    equal_shards: int


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A part of dataset_info.json that is not the same on both sides; None where it is missing."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of a stage's fingerprint that differs: code, configuration, a download.

    Attributes:
        stages: the stages it is a part of.
        text: one line for people.
        change: the same as data: ``path``, ``kind``, ``old``, ``new``.
    """

    stages: tuple[str, ...]
    text: str
    change: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SplitExamples:
    """How the examples of one split differ.

    Attributes:
        split: its name.
        added, removed: examples that only the second, or only the first version has.
        changed: examples with one key and other content; 0 where no key is known.
        same: examples that are equal on both sides.
        repeated: examples beyond the first of their key, before and after; counted among the
            shards that were read.
        fields: feature -> changed examples in which it differs.
        added_samples, removed_samples: some of those examples, decoded, in file order.
        changed_samples: some of those: ``key``, and ``fields``: name -> (before, after).
    """

    split: str
    added: int
    removed: int
    changed: int
    same: int
    repeated: tuple[int, int] = (0, 0)
    fields: Mapping[str, int] = field(default_factory=dict)
    added_samples: tuple[Mapping[str, Any], ...] = ()
    removed_samples: tuple[Mapping[str, Any], ...] = ()
    changed_samples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ExampleDiff:
    """How the examples differ.

    Attributes:
        key: the feature that examples were matched by; None where by their whole content.
        compared: the features that were compared: those that both versions have.
        splits: one entry a split.
    """

    key: str | None
    compared: tuple[str, ...]
    splits: tuple[SplitExamples, ...]

    def count(self, what: str) -> int:
        """``added``, ``removed``, ``changed`` or ``same`` over all splits."""
        return sum(getattr(each, what) for each in self.splits)


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """What differs between two versions.

    Attributes:
        a, b: their names, the first one before the second.
        a_id, b_id: their ids.
        features: features that are not the same.
        splits: all splits.
        metadata: what else is described otherwise.
        drift: how far each feature moved, where both sides have statistics.
        causes: what made the difference, as the fingerprints tell.
        notes: what could not be compared, and why.
        examples: how the examples differ, where that was asked for.
    """

    a: str
    b: str
    a_id: str
    b_id: str
    features: tuple[FeatureChange, ...]
    splits: tuple[SplitChange, ...]
    metadata: tuple[MetadataChange, ...]
    drift: tuple[Drift, ...]
    causes: tuple[Cause, ...]
    notes: tuple[str, ...] = ()
    examples: ExampleDiff | None = None

    @property
    def same(self) -> bool:
        """Whether both hold the same examples with the same features under the same description."""
        contents = all(each.change == "same" for each in self.splits)
        return contents and not self.features and not self.metadata

    def to_json(self) -> dict[str, Any]:
        """Everything, JSON-ready."""
        return {"same": self.same, **asdict(self)}
