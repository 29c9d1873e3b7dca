"""The register stage: finished shards become a published TFDS version.

All files of the version are laid out at once, `dataset_info.json` last; only then does the
catalog say that the version exists. Everything written is a function of the inputs, so a second
try after a crash meets its own files and goes on.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.load import load
from provender.errors import BuilderError
from provender.fingerprint import Tree, combine
from provender.stages import statistics
from provender.stages.site import Progress, Workplace
from provender.store import publish_directory

if TYPE_CHECKING:
    from provender.builders.facts import BuilderFacts
    from provender.statistics import Schema

KEY = "register"
MARKER = "dataset_info.json"
MANIFEST = ".provender/manifest.json"
INDEX_FOLDER = ".provender/index"
_PLACES = ("files", "statistics")
"""Keys of a shard's result that say where it was made; they are no part of what it is."""


def tree(facts: BuilderFacts, splits: Mapping[str, list[Mapping[str, Any]]], extra: Any) -> Tree:
    """The version's fingerprint: what it holds, not how it was made.

    Args:
        facts: the builder.
        splits: split name -> its shards' results, in order.
        extra: what else shapes the files (download size).
    """
    shards = {
        f"split {name}": combine(f"split {name}", {each["name"]: each["sha256"] for each in files})
        for name, files in splits.items()
    }
    info = {
        name: value for name, value in facts.info.items() if name not in ("moduleName", "version")
    }
    return combine(
        KEY,
        {
            "version": facts.version,
            "order of splits": list(splits),
            "features": facts.features,
            "description": info,
            "sizes": extra,
            **shards,
        },
    )


def folder(facts: BuilderFacts, *, trial: bool, limit: int | None) -> str:
    """Store path of a version: ``datasets/name[/config]/version``, trials apart from them."""
    if not trial:
        return f"datasets/{facts.ref}/{facts.version}"
    part = f"first-{limit}" if limit is not None else "all"
    return f"trials/{part}/{facts.ref}/{facts.version}"


def run(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Writes the metadata and publishes the directory.

    Args:
        work: the place of work.
        args: ``fingerprint``, ``target`` (store path), ``splits``: name -> shard results,
            ``download_size``, ``lineage`` (inputs, for the manifest), ``framed`` (whether a
            split's size counts record framing, as TFDS does for ShardBasedBuilder),
            ``statistics``: name -> where those of its pieces are kept; or ``files`` of the
            prepare stage.
        progress: told the bytes published.

    Returns:
        ``target``; ``files``: name -> ``{size, token, sha256}``; ``features`` and ``info`` as JSON.
    """
    files: dict[str, str | bytes] = {}
    if "files" in args:
        files = {name: each["rel"] for name, each in args["files"].items()}
        metadata = {n: work.store.read(str(files[n])) for n in ("features.json", MARKER)}
        digests = {name: each["sha256"] for name, each in args["files"].items()}
    else:
        small = small_files(work, args)
        metadata = small
        files = dict(small)
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in small.items()}
        for shards in args["splits"].values():
            for shard in shards:
                data, index = shard["files"]
                files[shard["name"]] = data
                files[index_name(shard["name"])] = index
                digests[index_name(shard["name"])] = shard["index_sha256"]
    published = publish_directory(
        work.store,
        files,
        args["target"],
        marker=MARKER,
        staging_rel=f"building/publish/{args['fingerprint']}",
        progress=lambda done, total: progress({"done": done, "total": total, "unit": "bytes"}),
    )
    _default_config(work, args["target"])
    return {
        "target": args["target"],
        "files": {
            name: {"size": each.size, "token": each.token, "sha256": digests.get(name)}
            for name, each in published.identities.items()
        },
        "features": json.loads(metadata["features.json"]),
        "info": json.loads(metadata[MARKER]),
    }


def index_name(shard: str) -> str:
    """Name, in a version's folder, of a shard's offset index."""
    return f"{INDEX_FOLDER}/{shard}.offsets"


def small_files(
    work: Workplace, args: Mapping[str, Any], known: Mapping[str, bytes] | None = None
) -> dict[str, bytes]:
    """All files of a version but its shards and their indexes: TFDS's own, and ours.

    Args:
        work: the place of work.
        args: as `run` is given them.
        known: the statistics as they were published, by file name; empty where the version was
            published without. None where it is not published yet.
    """
    metadata = write_metadata(work, args)
    metadata |= _statistics(work, args) if known is None else known
    return {**metadata, MANIFEST: _manifest(args, metadata)}


def run_metadata(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """`small_files` as an operation.

    Args:
        work: the place of work.
        args: as of `run`, and ``known``: the published statistics by file name, in base64.
        progress: not told anything.

    Returns:
        ``files``: name -> content in base64.
    """
    known = {name: base64.b64decode(data) for name, data in args["known"].items()}
    files = small_files(work, args, known)
    return {"files": {name: base64.b64encode(data).decode() for name, data in files.items()}}


def _statistics(work: Workplace, args: Mapping[str, Any]) -> dict[str, bytes]:
    """The file of statistics; none where they cannot be had, or where equal shards lie without."""
    target, store = args["target"], work.store
    if store.stat(f"{target}/{MARKER}") is not None:
        # A build that died after publishing, or a catalog that was lost, finds its own files. What
        # was published before there were statistics stays as it is.
        try:
            return {statistics.FILE: store.read(f"{target}/{statistics.FILE}")}
        except FileNotFoundError:
            return {}

    def schema() -> Schema:
        return statistics.schema_of(work.loaded.builder.info.features)

    try:
        found = {
            name: statistics.of_split(
                store,
                (args.get("statistics") or {}).get(name, ()),
                [each["files"][0] for each in shards],
                schema,
            )
            for name, shards in args["splits"].items()
        }
    except Exception as error:  # noqa: BLE001 - figures are no reason to lose a build
        statistics.told(work.site.dataset, error)
        return {}
    return {statistics.FILE: statistics.document(found)}


def write_metadata(work: Workplace, args: Mapping[str, Any]) -> dict[str, bytes]:
    """dataset_info.json, features.json and what else TFDS writes beside the shards.

    Returns:
        File name -> content.
    """
    from tensorflow_datasets import core

    builder = load(work.site.spec).builder
    info = builder.info
    with tempfile.TemporaryDirectory(prefix="provender-info-") as place:
        splits = []
        for name, shards in args["splits"].items():
            size = "size" if args["framed"] else "bytes"
            splits.append(
                core.SplitInfo(
                    name=name,
                    shard_lengths=[each["examples"] for each in shards],
                    num_bytes=sum(each[size] for each in shards),
                    filename_template=core.ShardedFileTemplate(
                        dataset_name=builder.name,
                        data_dir=core.Path(place) if hasattr(core, "Path") else Path(place),
                        split=name,
                        filetype_suffix="tfrecord",
                    ),
                )
            )
        try:
            info.set_file_format("tfrecord", override=True)
            info.set_splits(core.splits.SplitDict(splits))
            info.download_size = args["download_size"]
            info.write_to_directory(place)
        except Exception as error:
            raise BuilderError(
                f"Writing the version's metadata raised {type(error).__name__}: {error}",
                where=work.site.dataset,
            ) from error
        root = Path(place)
        return {
            str(each.relative_to(root)): each.read_bytes()
            for each in sorted(root.rglob("*"))
            if each.is_file()
        }


def _manifest(args: Mapping[str, Any], metadata: Mapping[str, bytes]) -> bytes:
    """What Provender knows of the version, beside what TFDS keeps: digests and lineage."""
    doc = {
        "format": 1,
        "fingerprint": args["fingerprint"],
        "splits": {
            name: [{k: v for k, v in each.items() if k not in _PLACES} for each in shards]
            for name, shards in args["splits"].items()
        },
        "metadata": {n: hashlib.sha256(data).hexdigest() for n, data in metadata.items()},
        "lineage": args["lineage"],
    }
    return json.dumps(doc, indent=1, sort_keys=True).encode()


def _default_config(work: Workplace, target: str) -> None:
    """Writes `.config/metadata.json`, which TFDS reads to find a dataset's default config."""
    cls = type(work.loaded.builder)
    if not cls.BUILDER_CONFIGS:
        return
    rel = f"{target.rsplit('/', 2)[0]}/.config/metadata.json"
    default = cls.DEFAULT_BUILDER_CONFIG_NAME or cls.BUILDER_CONFIGS[0].name
    data = json.dumps({"default_config_name": default}).encode()
    if not work.store.exists(rel) or work.store.read(rel) != data:
        work.store.write(rel, data)
