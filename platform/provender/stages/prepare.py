"""The prepare stage: a builder that writes its files itself (`_download_and_prepare`).

Such a builder cannot be taken apart; it is one stage, and what it leaves in its folder is the
version.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import BuilderError, ProvenderError
from provender.fingerprint import Tree, combine
from provender.stages.download import traceback_of
from provender.stages.site import Progress, Workplace

if TYPE_CHECKING:
    from provender.builders.facts import BuilderFacts

KEY = "prepare"
METHOD = "_download_and_prepare"


def tree(facts: BuilderFacts, manual: Mapping[str, Any] | None) -> Tree:
    """The stage's fingerprint: the method and all that it reaches."""
    return combine(
        KEY,
        {
            "code": facts.code[METHOD],
            "setting": facts.setting,
            "features": facts.features,
            "description": dict(facts.info),
            "version": facts.version,
            "registered checksums": facts.checksums,
            **{f"manual file {name}": each["sha256"] for name, each in (manual or {}).items()},
        },
    )


def version_tree(facts: BuilderFacts, result: Mapping[str, Any], extra: Any) -> Tree:
    """The version's fingerprint: the files that the builder left."""
    files = {name: each["sha256"] for name, each in result["files"].items()}
    return combine(
        "register",
        {
            "version": facts.version,
            "features": facts.features,
            "sizes": extra,
            "files": combine("files", files),
        },
    )


def run(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Lets the builder prepare itself in a folder of its own.

    Args:
        work: the place of work.
        args: ``fingerprint``, ``recorded`` downloads, ``max_examples``.
        progress: told downloaded bytes.

    Returns:
        ``files``: name -> ``{size, sha256, rel}``; ``splits``: name -> counts; ``records``.

    Raises:
        BuilderError: a method of the contract is missing, or the builder raised.
    """
    import tensorflow_datasets as tfds

    from provender.builders.download import DownloadManager
    from provender.builders.load import load

    folder = work.building / "prepared" / args["fingerprint"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    builder = load(work.site.spec).builder
    builder._data_dir = str(folder)
    recorded = DownloadManager.records_from_json(args.get("recorded") or [])
    try:
        with work.download_manager(recorded=recorded, online=True) as manager:
            config = tfds.download.DownloadConfig(max_examples_per_split=args["max_examples"])
            builder._download_and_prepare(manager, config)
            builder.info.download_size = manager.downloaded_size
            builder.info.write_to_directory(str(folder))
            records = [{**each.to_json(), "pinned": True} for each in manager.records]
    except ProvenderError:
        raise
    except NotImplementedError as error:
        raise BuilderError(
            f"{type(builder).__name__} does not implement {error or METHOD}.",
            where=work.site.dataset,
            hint="A builder of this kind needs _info, _download_and_prepare and _as_dataset.",
        ) from error
    except Exception as error:
        raise BuilderError(
            f"{METHOD} raised {type(error).__name__}: {error}",
            where=work.site.dataset,
            facts={"traceback": traceback_of(error)},
        ) from error
    return {
        "files": _deliver(work, folder, args["fingerprint"]),
        "splits": {
            str(name): {"examples": split.num_examples, "bytes": split.num_bytes}
            for name, split in builder.info.splits.items()
        },
        "records": records,
        "bytes": sum(each["size"] for each in records),
    }


def _deliver(work: Workplace, folder: Path, fingerprint: str) -> dict[str, Any]:
    found = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = str(path.relative_to(folder))
        rel = f"building/prepared/{fingerprint}/{name}"
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        found[name] = {"size": path.stat().st_size, "sha256": sha256, "rel": rel}
        if not work.store.is_local:
            work.store.put(str(path), rel)
    if not work.store.is_local:
        shutil.rmtree(folder)
    return found
