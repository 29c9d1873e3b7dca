"""Published versions and builders by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provender.data.loading.named import Named
from provender.errors import SettingsError, UnknownReference
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord
    from provender.data.sources.options import ReadOptions
    from provender.settings import Settings


def parsed(path: Any, name: str | None) -> DatasetRef | None:
    """The reference that a text is, or None where it is none.

    Args:
        path: what was given.
        name: name of a config.
    """
    if not isinstance(path, str):
        return None
    try:
        return DatasetRef.parse(path).with_(config=name)
    except UnknownReference:
        if path.rpartition(":")[0].endswith(".py"):
            raise
        return None


def find(ref: DatasetRef, settings: Settings, options: ReadOptions, *, streaming: bool) -> Named:
    """The sources of a reference: those of the published version, or of the builder.

    Args:
        ref: the reference.
        settings: the project's settings.
        options: how files are read.
        streaming: run an unprepared builder as a stream instead of building a version.

    Raises:
        UnknownReference: there is neither, or the version was retracted.
    """
    from provender.engine.session import open_catalog
    from provender.upkeep import find_version

    catalog = open_catalog(settings)
    try:
        version = find_version(catalog, ref)
    except UnknownReference as error:
        if ref.alias or "version_id" in error.facts:  # an alias or a retracted version: no builder
            raise
        return _built(ref, settings, options, catalog, error, streaming=streaming)
    return _published(version, settings, options, catalog)


def _published(
    version: VersionRecord, settings: Settings, options: ReadOptions, catalog: Catalog
) -> Named:
    from provender.data.sources.version import VersionSource, split_names
    from provender.store import Store
    from provender.training.leasing import reading

    reading(settings.catalog, version.id, "load_dataset")
    store = Store.open(settings.store, scratch=str(settings.scratch))
    sources = {
        split: VersionSource.open(store, version, split, catalog=catalog, options=options)
        for split in split_names(version)
    }
    return Named(version.name, sources, version, exact=True)


def _built(
    ref: DatasetRef,
    settings: Settings,
    options: ReadOptions,
    catalog: Catalog,
    unpublished: UnknownReference,
    *,
    streaming: bool,
) -> Named:
    from provender.builders.spec import spec_of
    from provender.engine.build import build
    from provender.engine.session import Options, open_session, remembered_specs

    try:
        spec = spec_of(ref, settings, remembered_specs(catalog, ref.name))
    except UnknownReference as error:
        raise _neither(ref, unpublished, error) from error
    session = open_session(spec, settings, Options(), catalog=catalog)
    if not streaming:
        return _published(build(session).version, settings, options, catalog)
    for name, asked in (("on_error", options.on_error != "raise"), ("cache", options.cache)):
        if asked:
            raise SettingsError(
                f"{name}= is for data that is published, and {ref} is not.",
                where=name,
                hint=f"Leave it out, or build a version first: `provender build {ref}`.",
            )
    from provender.data.sources.builder import BuilderProgram, BuilderSource

    program = BuilderProgram(session.work.site)
    sources = {split: BuilderSource(program, split) for split in program.splits}
    return Named(program.name, sources, exact=True)


def _neither(
    ref: DatasetRef, unpublished: UnknownReference, unknown: UnknownReference
) -> UnknownReference:
    hints = [each.hint for each in (unpublished, unknown) if each.hint]
    return UnknownReference(
        f"There is no published version {ref} and no builder of that name.",
        where=str(ref),
        hint=" ".join(dict.fromkeys(hints)),
        facts={**unpublished.facts, **unknown.facts},
    )
