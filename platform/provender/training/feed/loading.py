"""A version, as the pipelines that training reads."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError, StoreError
from provender.tensorflow_alone import import_tensorflow
from provender.training.contents import contents_of
from provender.training.feed.options import FeedOptions
from provender.training.feed.plan import Piece, for_host, pieces_of
from provender.training.heading import shard_files
from provender.training.splits import SplitLike, resolve_split

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord
    from provender.store import Store


def feed(
    store: Store,
    version: VersionRecord,
    split: SplitLike | Sequence[SplitLike] | None,
    options: FeedOptions,
    where: str = "",
    catalog: Catalog | None = None,
    home: Path | None = None,
) -> Any:
    """The `tf.data.Dataset` of a split, or one for each split.

    Args:
        store: where the version lies.
        version: the version.
        split: a split expression, a part of one, a list of them, or None for a dict of all splits.
        options: how.
        where: named in errors: what the user asked for.
        catalog: says what the shards are; without it the version's manifest does.
        home: of the project, which holds the shard cache.

    Returns:
        A dataset, a list of them for a list of splits, or a dict of them by split name.

    Raises:
        UnknownReference: an unknown split or column; the message says what there is.
        SplitError: a split expression that cannot be read or leaves the split.
        BuilderError: ``as_supervised`` without supervised keys.
        StoreError: files of a format that cannot be read here, or a route that does not fit.
    """
    # Before any module that imports it: a cold process is to get its first batch soon.
    import_tensorflow("tensorflow_datasets")
    from provender.training.feed.parsing import parser
    from provender.training.feed.pipeline import pipeline, supervised_structure
    from provender.training.feed.routes import router

    where = where or version.name
    supervised, columns = None, options.columns
    if options.as_supervised:
        supervised = supervised_structure(version.info["dataset_info"], where)
        columns = _supervised_columns(supervised, options, where)
    parse = parser(_features(store, version), columns, options.decoders, where)
    route = router(store, version, contents_of(store, version, catalog), options, home)

    def one(wanted: SplitLike) -> Any:
        return pipeline(plan(version, wanted, options, where), route, parse, options, supervised)

    if split is None:
        return {each.name: one(each.name) for each in version.splits}
    if isinstance(split, list | tuple):
        return [one(each) for each in split]
    return one(split)


def _supervised_columns(structure: Any, options: FeedOptions, where: str) -> Sequence[str] | None:
    """The features to parse for supervised examples: those that they hold.

    Raises:
        SettingsError: one of them is not among the columns asked for.
    """
    needed = dict.fromkeys(_names(structure))
    if options.columns is not None:
        for name in needed:
            if name not in options.columns:
                raise SettingsError(
                    f"as_supervised needs the feature {name!r}, which columns leaves out.",
                    where=where,
                    hint=f"Leave out columns, or give at least {list(needed)}.",
                )
    if options.columns is None and options.preprocess is None and options.decoders is None:
        return list(needed)
    return options.columns


def _names(structure: Any) -> Iterator[str]:
    """The feature names in the structure of a supervised example."""
    if isinstance(structure, str):
        yield structure
    else:
        inner = structure.values() if isinstance(structure, Mapping) else structure
        for each in inner:
            yield from _names(each)


def plan(
    version: VersionRecord, split: SplitLike, options: FeedOptions, where: str = ""
) -> tuple[Piece, ...]:
    """The records that a pipeline reads, in file order."""
    files = shard_files(version)
    lengths = {name: [count for _, count in each] for name, each in files.items()}
    slices = resolve_split(split, lengths, where=where or version.name)
    return for_host(pieces_of(slices, files), options.index, options.count, options.remainder)


def options_of(**options: Any) -> FeedOptions:
    """The options by name.

    Raises:
        SettingsError: there is no such option, or it cannot have its value.
    """
    known = [each.name for each in fields(FeedOptions)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise SettingsError(
                f"There is no option {name!r}.",
                hint=(f"Did you mean {near[0]!r}? " if near else "")
                + f"The options are {', '.join(known)}.",
            )
    return FeedOptions(**options)


def for_context(options: FeedOptions, context: Any) -> FeedOptions:
    """The options of one input pipeline of `tf.distribute`.

    Args:
        options: of all pipelines.
        context: a `tf.distribute.InputContext`, or anything with its two attributes.

    Raises:
        SettingsError: it is none.
    """
    try:
        index, count = context.input_pipeline_id, context.num_input_pipelines
    except AttributeError as error:
        raise SettingsError(
            f"input_context is {context!r}.", hint="It is a tf.distribute.InputContext."
        ) from error
    return replace(options, index=index, count=count)


def _features(store: Store, version: VersionRecord) -> Mapping[str, Any]:
    if version.features:
        return version.features
    try:
        document: dict[str, Any] = json.loads(store.read(f"{version.path}/features.json"))
    except FileNotFoundError as error:
        raise StoreError(
            f"{version.name} has no features.json.",
            where=store.path(version.path),
            hint=f"`provender verify {version.name}` says what is missing.",
        ) from error
    return document
