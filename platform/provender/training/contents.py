"""Which files a version is made of, and what is known of each.

Two records say so: the catalog, and the manifest that lies in the version itself
(``.provender/manifest.json``, written by `provender.stages.register`). The manifest travels with
the files, so a version can be read and copied without its catalog.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provender.errors import DamageError
from provender.store import Store

if TYPE_CHECKING:
    from provender.catalog import Catalog, ShardRecord, VersionRecord

MARKER = "dataset_info.json"
MANIFEST = ".provender/manifest.json"
INDEX_FOLDER = ".provender/index"
INDEX_SUFFIX = ".offsets"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What was recorded of one file of a version.

    Attributes:
        name: path within the version's folder.
        size: bytes.
        sha256: content digest, 64 hex digits; None where none was recorded.
        crc32c: 8 hex digits, shards only.
        token: the store's identity of the published file; empty where not recorded.
        split: split name, shards only.
        examples: number of records, shards only.
    """

    name: str
    size: int
    sha256: str | None
    crc32c: str | None = None
    token: str = ""
    split: str | None = None
    examples: int | None = None


def index_name(shard: str) -> str:
    """Name, in a version's folder, of a shard's offset index."""
    return f"{INDEX_FOLDER}/{shard}{INDEX_SUFFIX}"


def contents_of(
    store: Store, version: VersionRecord, catalog: Catalog | None = None
) -> dict[str, FileFacts]:
    """The files of a version, the marker last.

    Args:
        store: where the version lies; read only where no catalog is given.
        version: the version.
        catalog: says what the shards are; without it the version's manifest does.

    Returns:
        Name within the version's folder -> what was recorded.

    Raises:
        DamageError: without a catalog: the manifest is missing or not what was published.
    """
    facts = {
        name: FileFacts(name, each["size"], each.get("sha256"), token=each.get("token", ""))
        for name, each in version.info.get("files", {}).items()
    }
    if catalog is not None:
        facts.update(_catalog_shards(catalog.shards(version.id)))
    elif MANIFEST in facts:
        facts.update(shards_of(read_manifest(store, version)))
    last = facts.pop(MARKER, None)
    return facts | ({MARKER: last} if last else {})


def _catalog_shards(records: Iterable[ShardRecord]) -> dict[str, FileFacts]:
    return {
        each.name: FileFacts(
            each.name, each.size, each.sha256, each.crc32c, each.token, each.split, each.examples
        )
        for each in records
    }


def shards_of(manifest: Mapping[str, Any]) -> dict[str, FileFacts]:
    """The shards that a manifest names, by file name, in file order."""
    return {
        each["name"]: FileFacts(
            each["name"],
            each["size"],
            each["sha256"],
            each["crc32c"],
            split=split,
            examples=each["examples"],
        )
        for split, shards in manifest["splits"].items()
        for each in shards
    }


def read_manifest(store: Store, version: VersionRecord) -> dict[str, Any]:
    """The manifest of a version, proven by the digest that the version's record holds.

    Raises:
        DamageError: it is missing, or not what was published.
    """
    rel = f"{version.path}/{MANIFEST}"
    wanted = version.info.get("files", {}).get(MANIFEST, {}).get("sha256")
    try:
        data = store.read(rel)
    except FileNotFoundError as error:
        raise _damaged(store, version, "is missing") from error
    if wanted and hashlib.sha256(data).hexdigest() != wanted:
        raise _damaged(store, version, "is not what was published")
    doc: dict[str, Any] = json.loads(data)
    return doc


def _damaged(store: Store, version: VersionRecord, what: str) -> DamageError:
    return DamageError(
        f"The manifest of {version.name} {what}.",
        where=store.path(f"{version.path}/{MANIFEST}"),
        hint=f"`provender build {version.name}` puts it back.",
    )
