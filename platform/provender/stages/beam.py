"""The examples stage of a builder that generates with Apache Beam.

One pipeline a split. Examples are encoded and given their place in the split's order; shards are
equal ranges of that order, as TFDS cuts them for Beam; each is sorted and written, with its offset
index and statistics, by whichever Beam worker it falls to. The result says where the shards lie.
A piece stage a shard then gives them their names: how many of the ranges hold anything is known only
at the end.

This module is imported without Beam; what runs inside a pipeline is in `beam_steps`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from provender.builders.capture import is_beam
from provender.errors import BuilderError, ProvenderError, SettingsError
from provender.fingerprint import Tree, combine
from provender.stages import examples, shards
from provender.stages.download import traceback_of
from provender.stages.site import Progress, Workplace

if TYPE_CHECKING:
    from provender.builders.facts import BuilderFacts

FOLDER = "building/beam"
ERROR = "error.json"
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Exit)): (.+)$", re.MULTILINE)


def tree(
    facts: BuilderFacts,
    split: str,
    about: Mapping[str, Any],
    inputs: Tree,
    plan_method: str,
    max_examples: int | None,
    num_shards: int | None,
) -> Tree:
    """The stage's fingerprint: as of a generator, and the number of shards, which are cut here.

    Args:
        facts: the builder.
        split: split name.
        about: the splits stage's description of this split.
        inputs: all bytes from outside.
        plan_method: the planning method.
        max_examples: limit of examples, or None.
        num_shards: shards asked for, or None for the TFDS policy.
    """
    whole = examples.tree(facts, split, about, inputs, plan_method, max_examples)
    parts: dict[str, Any] = {"examples": whole, "cut": "ranges of the order"}
    if about["function"] not in facts.code:
        parts["code of all generators"] = combine("code", dict(facts.code))
    if num_shards is not None:
        parts["shards"] = num_shards
    return combine(examples.key(split), parts)


def rel(fingerprint: str) -> str:
    """Store path of the folder that a split's pipeline writes to."""
    return f"{FOLDER}/{fingerprint}"


def imported() -> Any:
    """The module apache_beam.

    Raises:
        SettingsError: this Python has none.
    """
    try:
        import apache_beam
    except ImportError as error:
        raise SettingsError(
            f"{sys.executable} has no Apache Beam.",
            where="--engine beam",
            hint="Name a Python that has it and Provender: --beam-python, or `python` under [beam] "
            "in provender.toml. docs/beam.md makes one.",
        ) from error
    return apache_beam


@contextmanager
def _quiet() -> Iterator[None]:
    """Beam says, as a warning, which clouds it has no client for when it looks at its options."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def planning_pipeline() -> Any:
    """A pipeline that is never run."""
    with _quiet():
        return imported().Pipeline()


def run_survey(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Looks at the builder in this Python; see `provender.builders.facts.survey`."""
    from pathlib import Path

    from provender.builders.facts import survey

    imported()
    return survey(work.site.spec, Path(work.site.checksums))


def run(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Generates, encodes, sorts and writes a split in one Beam pipeline.

    Args:
        work: the place of work.
        args: as of `examples.run_part`, and ``num_shards``, ``allow_empty``.
        progress: not told anything: Beam tells when it is done.

    Returns:
        ``examples``, ``bytes`` (payload), ``digest`` of the content, ``requested`` shards,
        ``pieces``: of each shard what `shards` says of a file, where it lies, and where its
        statistics are kept.

    Raises:
        BuilderError: the builder's code raised, two examples share a key, or the builder yields
            examples itself.
        SplitError: there is no example, and empty splits are not allowed.
        SettingsError: an option or runner that Beam does not know.
    """
    beam = imported()
    from provender.records import check_features
    from provender.stages import beam_steps

    features = work.afresh().builder.info.features
    check_features(features)
    folder = rel(args["fingerprint"])
    work.store.remove_tree(folder)
    # Beam's own worker processes import the builder's module too.
    os.environ["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
    asked = work.site.beam or {}
    with _quiet():
        pipeline = beam.Pipeline(runner=_runner(asked), options=_options(asked))
    if (asked.get("runner") or "DirectRunner") == "DirectRunner":
        # Its worker processes warn of options that it gives them itself.
        logging.getLogger("apache_beam").setLevel(logging.ERROR)
    job = beam_steps.Job(
        store=work.store,
        folder=folder,
        split=args["split"],
        features=features,
        in_order=args["in_order"],
        requested=args["num_shards"],
        max_examples=args["max_examples"],
    )
    pairs = _pairs(work, args, pipeline)
    try:
        beam_steps.attach(job, pairs, pipeline)
        pipeline.run().wait_until_finish()
    except (Exception, SystemExit) as error:
        raise _as_ours(work, folder, args["split"], error) from error
    return _result(work, args, folder)


def _pairs(work: Workplace, args: Mapping[str, Any], pipeline: Any) -> Any:
    try:
        found = examples.generated(work, args, pipeline)
    except ProvenderError:
        raise
    except Exception as error:
        raise BuilderError(
            f"Making the pipeline raised {type(error).__name__}: {error}",
            where=f"split {args['split']}",
            facts={"traceback": traceback_of(error)},
        ) from error
    if not is_beam(found):
        raise BuilderError(
            f"{type(work.loaded.builder).__name__} gives a {type(found).__name__}, "
            "not a Beam transform.",
            where=f"split {args['split']}",
            hint="Build it without --engine beam.",
        )
    return found


def _runner(asked: Mapping[str, Any]) -> Any:
    from apache_beam.runners import create_runner

    name = asked.get("runner") or "DirectRunner"
    try:
        return create_runner(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise SettingsError(
            f"Beam cannot make a runner {name!r}: {error}",
            where="--beam-runner",
            hint="DirectRunner and DataflowRunner are what docs/beam.md describes.",
        ) from error


def _options(asked: Mapping[str, Any]) -> Any:
    """Beam's options, each one checked: Beam itself passes over what it does not know."""
    from apache_beam.options.pipeline_options import PipelineOptions

    wanted = dict(asked.get("options") or {})
    known = sorted(PipelineOptions([]).get_all_options())
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            raise SettingsError(
                f"Beam has no option {name!r}.",
                where="--beam-option",
                hint=f"Did you mean {' or '.join(near)}?"
                if near
                else "Its documentation lists them.",
            )
    flags = [
        f"--{name}" if value == "true" else f"--{name}={value}"
        for name, value in wanted.items()
        if value != "false"
    ]
    try:
        options = PipelineOptions(flags)
        options.get_all_options()
    except SystemExit as error:
        raise SettingsError(
            f"Beam does not take the options {' '.join(flags)}.", where="--beam-option"
        ) from error
    return options


def _as_ours(work: Workplace, folder: str, split: str, error: BaseException) -> ProvenderError:
    """The error that a step kept, else the last one that the runner's text names."""
    try:
        return ProvenderError.from_json(json.loads(work.store.read(f"{folder}/{ERROR}")))
    except FileNotFoundError:
        if isinstance(error, ProvenderError):
            return error
    named = _RAISED.findall(str(error))
    said = ": ".join(named[-1]) if named else f"{type(error).__name__}: {error}"
    return BuilderError(
        f"The Beam pipeline raised {said}",
        where=f"split {split}",
        facts={"traceback": traceback_of(error)},
    )


def _result(work: Workplace, args: Mapping[str, Any], folder: str) -> dict[str, Any]:
    pieces = [
        json.loads(work.store.read(each.rel))
        for each in work.store.list(folder)
        if each.name.endswith(".json") and each.name != ERROR
    ]
    if not pieces:
        if not args["allow_empty"]:
            examples.refuse_empty(args["split"])
        pieces = [_empty(work, folder)]
    # Names of digits in equal number: the store lists them in the order of the ranges.
    content = json.dumps([each["sha256"] for each in pieces])
    return {
        "examples": sum(each["examples"] for each in pieces),
        "bytes": sum(each["bytes"] for each in pieces),
        "digest": hashlib.sha256(content.encode()).hexdigest(),
        "requested": args["num_shards"],
        "pieces": pieces,
    }


def _empty(work: Workplace, folder: str) -> dict[str, Any]:
    from provender.stages.beam_steps import write_piece

    features = work.loaded.builder.info.features
    return write_piece(work.store, folder, 0, (), features)


def run_piece(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Gives one shard that a pipeline wrote its place and name among the split's shards.

    Args:
        work: the place of work.
        args: ``fingerprint``, ``name``, and ``piece`` of the examples stage's result.
        progress: not told anything.

    Returns:
        What the shards stage says of a file, and ``statistics``.
    """
    piece, name = args["piece"], args["name"]
    files = [shards.rel(args["fingerprint"], each) for each in (name, name + shards.INDEX_SUFFIX)]
    for source, target in zip(piece["files"], files, strict=True):
        work.store.copy(source, target)
    return {**piece, "name": name, "files": files}


def missing_piece(work: Workplace, args: Mapping[str, Any]) -> dict[str, Any] | None:
    """A reason if a shard that a pipeline wrote is gone, None if it is there."""
    found = work.store.stat_many(args["piece"]["files"])
    for file in args["piece"]["files"]:
        if found.get(file) is None:
            return {"kind": "missing", "what": file}
    return None
