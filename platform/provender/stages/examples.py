"""The examples stage: a split's examples, generated, encoded and sorted into runs.

A split is worked on in parts. Each part replays the whole generator and encodes only its own
chunks, which is right for every generator: many number their examples as they go, so handing
each part other inputs would change keys. The stage itself joins the parts: it finds duplicate
keys from the runs' indexes, before any shard is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.capture import Call, examples_of, is_beam, needs_beam
from provender.builders.capture import run as call_for_real
from provender.errors import BuilderError, SplitError
from provender.fingerprint import Tree, combine
from provender.stages import download
from provender.stages.site import Progress, Workplace

if TYPE_CHECKING:
    from provender.builders.facts import BuilderFacts
    from provender.records import Order
    from provender.statistics import Schema

ENCODING = 1
"""Revision of how examples become record bytes and in which order; part of every fingerprint."""


def key(split: str) -> str:
    """The stage key of a split."""
    return f"examples/{split}"


def part_key(split: str, part: int, parts: int) -> str:
    """The stage key of one part of a split."""
    return f"{key(split)}/{part_name(part, parts)}"


def part_name(part: int, parts: int) -> str:
    """The last piece of a part's stage key."""
    return f"part-{part}-of-{parts}"


def tree(
    facts: BuilderFacts,
    split: str,
    about: Mapping[str, Any],
    inputs: Tree,
    plan_method: str,
    max_examples: int | None,
) -> Tree:
    """The stage's fingerprint; it does not depend on the number of parts.

    Args:
        facts: the builder.
        split: split name; it salts the order of examples.
        about: the splits stage's description of this split.
        inputs: all bytes from outside; counted only where the arguments do not name them.
        plan_method: the planning method; counted where it runs again to generate.
        max_examples: limit of examples, or None.
    """
    function = about["function"]
    known = facts.code.get(function) if function else None
    parts: dict[str, Any] = {
        "code": known or facts.code[plan_method],
        "setting": facts.setting,
        "features": facts.features,
        "split": split,
        "in generator order": facts.in_order,
        "encoding": ENCODING,
    }
    if about["arguments"] is not None:
        parts["arguments"] = Tree.from_json(about["arguments"])
    if about["replay"]:
        parts["planning code"] = facts.code[plan_method]
        parts["inputs"] = inputs
    if max_examples is not None:
        parts["max_examples"] = max_examples
    return combine(key(split), parts)


def part_tree(whole: Tree, part: int, parts: int) -> Tree:
    """The fingerprint of one part."""
    return combine(f"part {part} of {parts}", {"examples": whole, "part": part, "parts": parts})


def runs_dir(work: Workplace, fingerprint: str, parts: int) -> Path:
    """Local folder of a split's runs."""
    return work.building / "examples" / fingerprint / f"parts-{parts}"


def parts_begun(work: Workplace, fingerprint: str) -> int | None:
    """The number of parts that an unfinished build of this split was cut into, if any."""
    return max(cuts(work, fingerprint), default=None)


def cuts(work: Workplace, fingerprint: str) -> list[int]:
    """Every number of parts that this split was cut into here, the largest first."""
    folder = work.building / "examples" / fingerprint
    if not folder.is_dir():
        return []
    found = [int(each.name.removeprefix("parts-")) for each in folder.glob("parts-*")]
    return sorted(found, reverse=True)


def run_part(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Generates, encodes and sorts one part.

    Args:
        work: the place of work.
        args: ``split``, ``about`` (from the splits stage), ``plan`` (store path or None),
            ``records`` and ``manual`` (for a replay), ``part``, ``parts``, ``fingerprint`` of
            the split's stage, ``in_order``, ``max_examples``.
        progress: told the examples encoded so far.

    Returns:
        A `PartResult` as JSON, and its ``directory``'s files with their sizes.
    """
    from provender.records import KeyHasher, RunWriter, check_features, compile_encoder
    from provender.stages.statistics import schema_of, summarizer

    features = work.afresh().builder.info.features
    check_features(features)
    writer = RunWriter(
        runs_dir(work, args["fingerprint"], args["parts"]),
        args["part"],
        args["parts"],
        hasher=KeyHasher(args["split"], in_order=args["in_order"]),
        encode=compile_encoder(features),
        max_examples=args["max_examples"],
        summarize=summarizer(schema_of(features)),
    )
    result = writer.write_part(
        _generate(work, args),
        on_progress=lambda count, size: progress(
            {"done": count, "total": None, "unit": "examples", "bytes": size}
        ),
    )
    return result.to_json()


def generated(work: Workplace, args: Mapping[str, Any], pipeline: Any = None) -> Any:
    """What the builder's generator method gives for a split; nothing of it has run yet.

    Args:
        work: the place of work.
        args: as of `run_part`.
        pipeline: a Beam pipeline, for a builder that generates with Beam.
    """
    from provender.builders.arguments import decode
    from provender.builders.download import DownloadManager

    builder, about = work.loaded.builder, args["about"]
    if about["replay"]:
        recorded = DownloadManager.records_from_json(args["records"])
        manager = work.download_manager(recorded=recorded, online=False)
        return examples_of(builder, manager, args["split"], pipeline)
    encoded = json.loads(work.store.read(args["plan"]))[args["split"]]
    _bring_back(work, args, encoded)
    found = decode(encoded, work.roots)
    call = Call(about["function"], tuple(found["args"]), found["kwargs"])
    return call_for_real(builder, call, pipeline)


def _generate(work: Workplace, args: Mapping[str, Any]) -> Iterable[tuple[Any, Any]]:
    about, where = args["about"], type(work.loaded.builder).__name__
    try:
        found = generated(work, args)
    except ImportError as error:
        if "apache_beam" in str(error):
            raise needs_beam(where) from error
        raise
    if is_beam(found):
        raise needs_beam(where)
    if not isinstance(found, Iterable):
        raise BuilderError(
            f"{about['function']} returned {type(found).__name__} instead of (key, example) pairs.",
            where=f"split {args['split']}",
            hint="Make it a generator: `yield key, example`.",
        )
    return found


def _bring_back(work: Workplace, args: Mapping[str, Any], encoded: Any) -> None:
    """Plans once more where a download or unpacked archive that the arguments name is not here.

    The plan may come from another machine, or from before the scratch folder was cleared. Paths
    follow from content, so planning on the recorded downloads puts the files where they were.
    """
    from provender.builders.arguments import rooted_paths
    from provender.builders.download import DownloadManager

    if all(path.exists() for path in rooted_paths(encoded, work.roots)):
        return
    recorded = DownloadManager.records_from_json(args["records"])
    with work.download_manager(recorded=recorded, online=False) as manager:
        download.plan(work, manager)


def refuse_empty(split: str) -> None:
    """Raises the error for a split without examples.

    Raises:
        SplitError: always.
    """
    raise SplitError(
        f"Split {split!r} has no examples.",
        where=f"split {split}",
        hint="Mend the generator, or allow it with --allow-empty (allow_empty in provender.toml).",
    )


def bounded(examples: Iterable[tuple[Any, Any]], limit: int | None) -> Iterable[tuple[Any, Any]]:
    """The first examples of an iterator, or all of them."""
    return examples if limit is None else islice(examples, limit)


def run_order(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Joins a split's parts: totals, content digest, duplicate keys, order of the examples.

    Args:
        work: the place of work.
        args: ``split``, ``fingerprint``, ``parts`` (list of `PartResult` as JSON),
            ``allow_empty``.
        progress: not told anything; this reads indexes only.

    Returns:
        ``examples``, ``bytes`` (payload), ``digest`` of the content, ``parts``,
        ``files``: name -> size of all that shards are cut from, ``statistics``: where in the store
        those of the split are kept.

    Raises:
        DuplicateKeyError: two examples share a key; both are shown.
        SplitError: there is no example, and empty splits are not allowed.
    """
    from provender.records import PartResult, plan_order, split_digest
    from provender.stages import statistics

    results = [PartResult.from_json(each) for each in args["parts"]]
    examples = sum(each.examples for each in results)
    if not examples and not args["allow_empty"]:
        refuse_empty(args["split"])
    folder = runs_dir(work, args["fingerprint"], len(results))
    if examples:
        plan_order(folder, results)
    found = statistics.of_runs(folder, results, lambda: _schema(work))
    files = {
        f"{r.name}{end}": size
        for p in results
        for r in p.runs
        for end, (size, _) in r.files.items()
    }
    files |= {each.name: each.stat().st_size for each in folder.glob("order.*")}
    return {
        "examples": examples,
        "bytes": sum(each.payload_bytes for each in results),
        "digest": split_digest(results),
        "parts": len(results),
        "files": files,
        "statistics": statistics.keep(work.store, found),
    }


def _schema(work: Workplace) -> Schema:
    from provender.stages.statistics import schema_of

    return schema_of(work.loaded.builder.info.features)


def order_of(work: Workplace, result: Mapping[str, Any], fingerprint: str) -> Order:
    """The order of a finished split's examples, on this machine."""
    from provender.records import Order

    return Order.load(runs_dir(work, fingerprint, result["parts"]))
