"""What is known about a dataset beside its rows."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.data.features import Features


@dataclass
class DatasetInfo:
    """Facts about a dataset, kept beside it through transforms and on disk.

    None of them enters a fingerprint: they say where rows come from, not what they are.

    Attributes:
        description, citation, homepage, license: texts for people.
        features: the columns and their types.
        builder_name, dataset_name, config_name, version: of the published dataset or the builder.
        splits: split name -> facts about it, e.g. ``num_examples``.
        supervised_keys: what the builder calls input and target.
        download_checksums: URL -> checksum of what it was built from.
        download_size, dataset_size, size_in_bytes: in bytes, where known.
    """

    description: str = ""
    citation: str = ""
    homepage: str = ""
    license: str = ""
    features: Features | None = None
    builder_name: str | None = None
    dataset_name: str | None = None
    config_name: str | None = None
    version: str | None = None
    splits: dict[str, Any] | None = None
    supervised_keys: Any = None
    download_checksums: dict[str, Any] | None = field(default=None, repr=False)
    download_size: int | None = None
    dataset_size: int | None = None
    size_in_bytes: int | None = None

    def copy(self) -> DatasetInfo:
        """A copy that can be changed alone."""
        return copy.copy(self)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; features as their own JSON."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        features = known.pop("features")
        doc = {name: value for name, value in known.items() if value not in (None, "")}
        if features is not None:
            doc["features"] = features.to_dict()
        return doc

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> DatasetInfo:
        """The facts that `to_dict` wrote; names it does not know are passed over."""
        from provender.data.features import Features

        names = {each.name for each in fields(cls)}
        known = {name: value for name, value in doc.items() if name in names}
        if known.get("features") is not None:
            known["features"] = Features.from_dict(known["features"])
        return cls(**known)

    @classmethod
    def merged(cls, infos: Iterable[DatasetInfo]) -> DatasetInfo:
        """What several datasets have in common; different texts follow one another."""
        infos = [each.copy() for each in infos]
        first = infos[0]
        if all(_plain(each) == _plain(first) for each in infos[1:]):
            return first

        def joined(name: str) -> str:
            texts = dict.fromkeys(getattr(each, name) for each in infos)
            return "\n\n".join(text for text in texts if text).strip()

        return cls(
            description=joined("description"),
            citation=joined("citation"),
            homepage=joined("homepage"),
            license=joined("license"),
        )


def _plain(info: DatasetInfo) -> dict[str, Any]:
    kept = info.copy()
    kept.features = None
    return asdict(kept)
