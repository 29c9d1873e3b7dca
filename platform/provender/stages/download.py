"""The download stage: every URL that `_split_generators` asks for is fetched and recorded."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from provender.builders.capture import capture
from provender.builders.load import SHARDS
from provender.errors import BuilderError, DownloadError, ProvenderError
from provender.fingerprint import Tree, combine
from provender.stages.site import Progress, Workplace

if TYPE_CHECKING:
    from provender.builders.download import DownloadManager
    from provender.builders.facts import BuilderFacts

KEY = "download"


def tree(facts: BuilderFacts, plan_method: str, manual: Mapping[str, Any] | None) -> Tree:
    """The stage's fingerprint: the code that names the URLs and all that it can read."""
    return combine(
        KEY,
        {
            "code": facts.code[plan_method],
            "setting": facts.setting,
            "registered checksums": facts.checksums,
            **{f"manual file {name}": each["sha256"] for name, each in (manual or {}).items()},
        },
    )


def run(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Calls the planning method with a download manager that fetches.

    Args:
        work: the place of work.
        args: ``register`` and ``force`` of the download manager, ``recorded``: earlier records.
        progress: told the bytes of all URLs together.

    Returns:
        ``records`` (of `DownloadRecord`), and ``bytes`` in all.

    Raises:
        BuilderError: a feature cannot be stored (found before anything is fetched), or planning
            raised.
        DownloadError: a URL cannot be had.
    """
    from provender.builders.download import DownloadManager
    from provender.records import check_features

    check_features(work.loaded.builder.info.features)
    tell = _Sum(progress)
    recorded = DownloadManager.records_from_json(args.get("recorded") or [])
    with work.download_manager(
        recorded=recorded,
        online=True,
        register=bool(args.get("register")),
        force=bool(args.get("force")),
        progress=tell,
    ) as manager:
        plan(work, manager)
        registered = work.checksums
        records = [
            {**each.to_json(), "pinned": registered.get(each.url) is not None}
            for each in manager.records
        ]
    return {"records": records, "bytes": sum(each["size"] for each in records)}


def plan(work: Workplace, manager: DownloadManager) -> dict[str, Any]:
    """Runs the builder's planning method.

    Returns:
        Split name -> captured call, or, for a ShardBasedBuilder, its list of shard iterators.

    Raises:
        ProvenderError: as the download manager raised it.
        BuilderError: the method raised anything else.
    """
    builder = work.loaded.builder
    try:
        if work.loaded.kind == SHARDS:
            found = builder._shard_iterators_per_split(manager)
            return {str(name): list(each) for name, each in found.items()}
        return dict(capture(builder, manager, work.planning_pipeline()))
    except ProvenderError:
        raise
    except Exception as error:
        raise BuilderError(
            f"Planning the splits raised {type(error).__name__}: {error}",
            where=f"{type(builder).__module__}.{type(builder).__name__}",
            facts={"traceback": traceback_of(error)},
        ) from error


def traceback_of(error: BaseException) -> str:
    """The traceback as text, for an error's facts."""
    import traceback

    return "".join(traceback.format_exception(error))


def changed_upstream(records: list[dict[str, Any]], known: dict[str, Any]) -> list[dict[str, Any]]:
    """Asks each unpinned URL, cheaply, whether it still names what was fetched.

    Args:
        records: the stage's recorded ``records``.
        known: URL -> identity asked earlier in this process; filled here.

    Returns:
        One reason a URL that changed. A URL that cannot be reached counts as unchanged: what
        was fetched is still there.
    """
    ask = [r for r in records if not r["pinned"] and r["identity_token"] and r["url"] not in known]

    def identity(record: dict[str, Any]) -> str | None:
        from provender.builders.download import probe

        try:
            found = probe(record["url"], timeout=10.0)
        except DownloadError:
            return None
        return found.token if found else None

    if ask:
        with ThreadPoolExecutor(min(8, len(ask))) as pool:
            for record, token in zip(ask, pool.map(identity, ask), strict=True):
                known[record["url"]] = token
    return [
        {
            "kind": "upstream",
            "path": [f"download {r['url']}"],
            "old": r["identity_token"],
            "new": known[r["url"]],
        }
        for r in records
        if known.get(r["url"]) and known[r["url"]] != r["identity_token"]
    ]


class _Sum:
    """Adds up the progress of parallel downloads."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._done: dict[str, tuple[int, int | None]] = {}

    def __call__(self, url: str, done: int, total: int | None) -> None:
        with self._lock:
            self._done[url] = (done, total)
            sizes = [each for _, each in self._done.values()]
            self._progress(
                {
                    "done": sum(each for each, _ in self._done.values()),
                    "total": None if None in sizes else sum(each or 0 for each in sizes),
                    "unit": "bytes",
                    "what": url.rsplit("/", 1)[-1],
                }
            )
