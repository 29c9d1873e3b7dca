"""The shards stage: one TFRecord file, with its digest and offset index.

For generators a shard gathers its byte ranges from the sorted runs. A ShardBasedBuilder's shard
is the output of one of its iterators, in the order it comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.steps import Serialized
from provender.errors import BuilderError, SplitError
from provender.fingerprint import Tree, combine
from provender.records.shards import shard_bounds, shard_count, shard_name
from provender.stages import download, examples, steps
from provender.stages.site import Progress, Workplace

if TYPE_CHECKING:
    from provender.builders.facts import BuilderFacts
    from provender.records import Encoder, ShardFile

INDEX_SUFFIX = ".offsets"
_SHOWN = 200
_SECONDS = 0.5
_LOOKS = 64
"""Examples between looks at the clock."""


def key(split: str, shard: int) -> str:
    """The stage key of one shard; without the count, so that a changed count can be explained."""
    return f"shards/{split}/{shard:05d}"


def count(result: Mapping[str, Any], requested: int | None) -> int:
    """How many shards a split gets: as asked for, else by the TFDS policy.

    Args:
        result: the examples stage's result.
        requested: shards asked for, or None.
    """
    return shard_count(result["bytes"], result["examples"], requested) if result["examples"] else 1


def tree(name: str, content: str, shard: int, shards: int) -> Tree:
    """A shard's fingerprint: what the split holds and which slice of it this is.

    Args:
        name: file name.
        content: digest of the split's examples.
        shard: shard number.
        shards: shards of the split.
    """
    parts = {"content of the split": content, "shard": shard, "shards": shards, "name": name}
    return combine(f"shard {name}", parts)


def iterator_tree(
    facts: BuilderFacts,
    plan_method: str,
    inputs: Tree,
    name: str,
    shard: int,
    shards: int,
    max_examples: int | None,
    made: Mapping[str, str],
) -> Tree:
    """A ShardBasedBuilder's shard's fingerprint: the code, its inputs and which iterator.

    Args:
        facts: the builder.
        plan_method: the planning method.
        inputs: all bytes from outside.
        name: file name.
        shard: shard number.
        shards: shards of the split.
        max_examples: limit of examples, or None.
        made: step -> digest of what it left.
    """
    parts: dict[str, Any] = {
        "code": facts.code[plan_method],
        "setting": facts.setting,
        "features": facts.features,
        "inputs": inputs,
        "shard": shard,
        "shards": shards,
        "name": name,
        "encoding": examples.ENCODING,
        **{f"content of {steps.key(step)}": digest for step, digest in made.items()},
    }
    if max_examples is not None:
        parts["max_examples"] = max_examples
    return combine(f"shard {name}", parts)


def rel(fingerprint: str, name: str) -> str:
    """Store path of a shard under construction."""
    return f"building/shards/{fingerprint}/{name}"


def run(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Writes one shard of a generator's split.

    Args:
        work: the place of work.
        args: ``fingerprint``, ``name``, ``shard``, ``shards``; ``examples``: the examples
            stage's result, and ``examples_fingerprint``.
        progress: not told anything: examples are gathered at the speed of the disk.

    Returns:
        What `_deliver` says of the file.
    """
    from provender.records import write_shard
    from provender.records.sequence import write_records

    result, path = args["examples"], _local(work, args)
    if not result["examples"]:
        return _deliver(work, args, path, write_records((), path, index_path=_index(path)))
    start, end = shard_bounds(result["examples"], args["shards"])[args["shard"]]
    order = examples.order_of(work, result, args["examples_fingerprint"])
    written = write_shard(order, start, end, path, index_path=_index(path))
    return _deliver(work, args, path, written)


def run_iterator(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Writes one shard of a ShardBasedBuilder.

    Args:
        work: the place of work.
        args: ``fingerprint``, ``name``, ``split``, ``shard``, ``shards``, ``records``,
            ``max_examples``, ``made``: where the builder's steps lie.
        progress: told the examples so far.

    Returns:
        What `_deliver` says of the file, and ``statistics``: where in the store its are kept.
    """
    from provender.builders.download import DownloadManager
    from provender.records import check_features, compile_encoder
    from provender.records.sequence import write_records
    from provender.stages import statistics

    builder = work.afresh().builder
    features = builder.info.features
    check_features(features)
    if args["made"]:
        steps.tell(builder, work, args["made"])
    recorded = DownloadManager.records_from_json(args["records"])
    with work.download_manager(recorded=recorded, online=False) as manager:
        iterators = download.plan(work, manager).get(args["split"], [])
    if len(iterators) != args["shards"]:
        raise SplitError(
            f"Split {args['split']!r} was planned with {args['shards']} shards, "
            f"now there are {len(iterators)}.",
            where=f"split {args['split']}",
            hint="_shard_iterators_per_split must return the same shards for the same files.",
        )
    encode = compile_encoder(features)
    path = _local(work, args)
    where = f"split {args['split']}, shard {args['shard']}"
    pairs = examples.bounded(iterators[args["shard"]](), args["max_examples"])
    watching = statistics.Watching(statistics.schema_of(features), args["shard"])
    payloads = watching.through(_encoded(pairs, features, encode, where))
    written = write_records(_told(payloads, progress), path, index_path=_index(path))
    found = watching.collection
    if watching.error is not None:
        statistics.told(args["name"], watching.error)
    kept = statistics.keep(work.store, found.to_bytes() if found else None)
    return {**_deliver(work, args, path, written), "statistics": kept}


def _told(payloads: Iterable[bytes], progress: Progress) -> Iterator[bytes]:
    """The records; tells how many there were, twice a second at most."""
    count, last = 0, time.monotonic()
    for count, payload in enumerate(payloads, 1):
        yield payload
        if not count % _LOOKS and time.monotonic() - last > _SECONDS:
            last = time.monotonic()
            progress({"done": count, "total": None, "unit": "examples"})
    progress({"done": count, "total": count, "unit": "examples"})


def _encoded(pairs: Any, features: Any, encode: Encoder, where: str) -> Iterator[bytes]:
    """Encodes an iterator's examples, naming the last good key if it breaks."""
    last: Any = None
    checked = False
    try:
        for each, example in pairs:
            if type(example) is Serialized:
                if not checked:
                    _check(example, features, encode, where)
                    checked = True
                yield example
            else:
                yield encode(example)
            last = each
    except BuilderError:
        raise
    except Exception as error:
        raise BuilderError(
            f"Generating examples raised {type(error).__name__}: {error}",
            where=f"{where}, after key {last!r}",
            facts={"last_good_key": repr(last), "traceback": download.traceback_of(error)},
        ) from error


def _check(record: bytes, features: Any, encode: Encoder, where: str) -> None:
    """Refuses a record that the features would not make of its example."""
    from provender.training.rows import decoder_of

    found = encode(decoder_of(features.to_json(), None, where)(record))
    if found != record:
        raise BuilderError(
            "A serialized record is not what the features make of its example.",
            where=where,
            hint="Names, kinds and lengths must be the features', and entries in the order of their "
            "names, as SerializeToString(deterministic=True) has them.",
            facts={"record": record[:_SHOWN].hex(), "expected": found[:_SHOWN].hex()},
        )


def _local(work: Workplace, args: Mapping[str, Any]) -> Path:
    path = work.building / "shards" / args["fingerprint"] / args["name"]
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _index(path: Path) -> Path:
    return path.with_name(path.name + INDEX_SUFFIX)


def _deliver(
    work: Workplace, args: Mapping[str, Any], path: Path, written: ShardFile
) -> dict[str, Any]:
    """Brings a finished shard and its index into the store.

    Returns:
        ``name, size, sha256, crc32c, examples, bytes`` of the shard, ``index_sha256``, and
        ``files``: the store paths of both files.
    """
    files = [rel(args["fingerprint"], each.name) for each in (path, _index(path))]
    if not work.store.is_local:
        for each, target in zip((path, _index(path)), files, strict=True):
            work.store.put(str(each), target)
            each.unlink()
        with suppress(OSError):
            path.parent.rmdir()
    return {
        "name": written.name,
        "size": written.size,
        "sha256": written.sha256,
        "crc32c": written.crc32c,
        "examples": written.examples,
        "bytes": written.payload_bytes,
        "index_sha256": written.index_sha256,
        "files": files,
    }


def file_name(facts: BuilderFacts, split: str, shard: int, shards: int) -> str:
    """The TFDS file name of a shard."""
    return shard_name(facts.name, split, shard, shards)
