"""One build's live parts: settings, catalog, store, and the builder as facts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.facts import PLAN_METHOD, BuilderFacts, facts_of
from provender.builders.spec import BuilderSpec, spec_of
from provender.catalog import Catalog
from provender.engine.arguments import resolve
from provender.errors import SettingsError
from provender.refs import DatasetRef
from provender.settings import BeamSettings, Settings
from provender.stages.site import Site, Workplace
from provender.store import Store

if TYPE_CHECKING:
    from provender.builders.download import DigestMemory


ENGINES = ("local", "dask", "beam")


@dataclass(frozen=True)
class Options:
    """What one `plan` or `build` was asked for.

    Attributes:
        workers: local worker processes, or None for the settings' number.
        num_shards: shards per split, or None for the TFDS policy.
        max_examples: stop each split after so many; makes the build a trial.
        trial: build without publishing a version number.
        force: stage keys (or their beginnings) to run although nothing changed.
        manual_dir: folder of manual files.
        register_checksums: accept and record the checksums of what is downloaded.
        allow_empty: publish splits without examples.
        offline: never touch the network.
        engine: where pieces of work run: ``local`` worker processes, a ``dask`` cluster, or
            ``beam`` pipelines, for builders that generate with Apache Beam.
        address: of the Dask scheduler, ``tcp://host:8786``.
        beam_python: the Python that has Apache Beam, or None for the settings' one.
        beam_runner: Beam's runner, or None for the settings' one.
        beam_option: Beam's pipeline options, ``name=value``; they come before the settings'.
        allow: checks that may fail: ``max_drift``, ``max_drift:train``, ``max_drift:train/label``.
        reason: why they may.
    """

    workers: int | None = None
    num_shards: int | None = None
    max_examples: int | None = None
    trial: bool = False
    force: tuple[str, ...] = ()
    manual_dir: str | None = None
    register_checksums: bool = False
    allow_empty: bool = False
    offline: bool = False
    engine: str = "local"
    address: str | None = None
    beam_python: str | None = None
    beam_runner: str | None = None
    beam_option: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    reason: str | None = None

    def __post_init__(self) -> None:
        for name in ("allow", "beam_option"):
            object.__setattr__(self, name, tuple(getattr(self, name) or ()))
        if self.allow and not (self.reason or "").strip():
            raise SettingsError(
                "A check is not overridden without a reason.",
                where="--allow",
                hint='Say why: --reason "…". Whoever looks at the version reads it.',
            )
        if self.reason and not self.allow:
            raise SettingsError(
                "A reason is given, but no check is to be overridden.",
                where="--reason",
                hint="Name it: --allow max_drift",
            )
        if self.engine not in ENGINES:
            near = difflib.get_close_matches(self.engine, ENGINES, 1)
            raise SettingsError(
                f"There is no engine {self.engine!r}.",
                where="--engine",
                hint=f"Did you mean {near[0]}?" if near else f"There are: {', '.join(ENGINES)}.",
            )
        if (self.address is not None) != (self.engine == "dask"):
            raise SettingsError(
                "The dask engine and the address of its scheduler go together.",
                where="--engine, --address",
                hint="--engine dask --address tcp://host:8786",
            )
        of_beam = self.beam_python or self.beam_runner or self.beam_option
        if of_beam and self.engine != "beam":
            raise SettingsError(
                "Options of Beam are given, but the engine is another one.",
                where="--beam-python, --beam-runner, --beam-option",
                hint="--engine beam",
            )
        for name in ("workers", "num_shards", "max_examples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsError(
                    f"{name} must be 1 or more, got {value}.",
                    where=f"--{name.replace('_', '-')}",
                )

    @property
    def is_trial(self) -> bool:
        """Whether the result takes no version number for itself."""
        return self.trial or self.max_examples is not None

    def to_json(self) -> dict[str, Any]:
        """The options that were given, JSON-ready, for the run's record."""
        doc = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("force", "allow", "beam_option"):
            doc[name] = list(doc[name])
        if self.engine == "local":
            del doc["engine"]
        return {name: value for name, value in doc.items() if value not in (None, False, [])}


@dataclass
class Session:
    """Everything that planning and building one dataset needs.

    Attributes:
        settings: the project's settings.
        options: what was asked for.
        catalog: the open catalog.
        facts: the builder, as data.
        work: store and builder of this process.
        upstream: URL -> identity asked for in this process, so that each is asked once.
        forced: stage keys that `Options.force` has already rerun.
        parents: ids of executions and versions that the version is made from besides its own
            stages, e.g. of the transforms that made the rows.
        sources: of these, the published versions that the builder reads.
    """

    settings: Settings
    options: Options
    catalog: Catalog
    facts: BuilderFacts
    work: Workplace
    upstream: dict[str, Any] = field(default_factory=dict)
    forced: set[str] = field(default_factory=set)
    parents: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def plan_method(self) -> str:
        """The builder's planning method."""
        return PLAN_METHOD[self.facts.kind]

    @property
    def with_beam(self) -> bool:
        """Whether the builder generates with Apache Beam."""
        return self.options.engine == "beam"

    @property
    def beam(self) -> BeamSettings:
        """How Beam runs: as the options say, else as the project does."""
        return beam_of(self.settings, self.options)

    @property
    def offline(self) -> bool:
        """Whether the network is out of bounds."""
        return self.options.offline or self.settings.offline

    @property
    def workers(self) -> int:
        """Local worker processes."""
        return self.options.workers or self.settings.workers

    @property
    def num_shards(self) -> int | None:
        """Shards per split asked for by option or project, or None."""
        entry = self.settings.datasets.get(self.facts.name)
        return self.options.num_shards or (entry.num_shards if entry else None)

    @property
    def allow_empty(self) -> bool:
        """Whether a split without examples may be published."""
        entry = self.settings.datasets.get(self.facts.name)
        return self.options.allow_empty or bool(entry and entry.allow_empty)

    @cached_property
    def digests(self) -> DigestMemory:
        """Content digests of local files, remembered while the files are unchanged."""
        from provender.builders.download import DigestMemory

        return DigestMemory(self.settings.home / "digests")

    def sha256(self, path: Path) -> str:
        """Content digest of a local file, from memory while it is unchanged."""
        return str(self.digests.digest(path).sha256)


def open_catalog(settings: Settings) -> Catalog:
    """Opens the catalog, made on first use."""
    return Catalog.open(settings.catalog)


def open_session(
    ref: DatasetRef | BuilderSpec,
    settings: Settings,
    options: Options,
    *,
    catalog: Catalog | None = None,
    store: Store | None = None,
) -> Session:
    """Opens all that a plan or build of one dataset needs.

    Args:
        ref: what to build, as a person named it or as a spec.
        settings: the project's settings.
        options: what was asked for.
        catalog: an open catalog to use.
        store: an open store to use.

    Raises:
        UnknownReference: there is no such builder, config or version.
        CatalogError, StoreError: either cannot be reached.
    """
    catalog = catalog or open_catalog(settings)
    if isinstance(ref, BuilderSpec):
        spec = ref
    else:
        spec = spec_of(ref, settings, remembered_specs(catalog, ref.name))
    checksums = (settings.path.parent if settings.path else settings.home) / "checksums"
    beam = beam_of(settings, options) if options.engine == "beam" else None
    site = Site(
        store=settings.store,
        scratch=str(settings.scratch),
        manual_dir=None,
        spec=spec,
        dataset="",
        checksums=str(checksums),
        mirrors=settings.mirrors,
        offline=options.offline or settings.offline,
        beam=beam.of_pipelines() if beam else None,
    )
    look, python = None, beam.python if beam else None
    if python is not None:
        from provender.engine.beam_pool import survey_elsewhere

        look = partial(survey_elsewhere, site, python)
    facts = facts_of(spec, settings.home / "facts", checksums, look, python)
    site = replace(
        site,
        manual_dir=manual_dir(facts, settings, options),
        spec=facts.spec,
        dataset=facts.name,
    )
    session = Session(settings, options, catalog, facts, Workplace(site, store))
    if facts.arguments:
        resolve(session)
    return session


def beam_of(settings: Settings, options: Options) -> BeamSettings:
    """How Beam runs: as the options say, else as the project does.

    Raises:
        SettingsError: an option is not ``name=value``.
    """
    given = {}
    for each in options.beam_option:
        name, equals, value = each.lstrip("-").partition("=")
        if not equals or not name:
            raise SettingsError(
                f"{each!r} is no option of Beam's.",
                where="--beam-option",
                hint="--beam-option direct_num_workers=2",
            )
        given[name] = value
    known = settings.beam
    return BeamSettings(
        python=options.beam_python or known.python,
        runner=options.beam_runner or known.runner,
        options={**known.options, **given},
    )


def manual_dir(facts: BuilderFacts, settings: Settings, options: Options) -> str | None:
    """Where a dataset's manual files are: as told, else ``<manual_dir>/<name>``, else the folder.

    A dataset's own subfolder comes first because two datasets may want files of one name.
    """
    if not facts.manual:
        return None
    if options.manual_dir:
        return str(Path(options.manual_dir).expanduser().absolute())
    entry = settings.datasets.get(facts.name)
    if entry and entry.manual_dir:
        return entry.manual_dir
    own = settings.manual_dir / facts.name
    return str(own if own.is_dir() else settings.manual_dir)


def remembered_specs(catalog: Catalog, name: str) -> Mapping[str, BuilderSpec]:
    """The builder that built a dataset before, if it did: ``{name: spec}`` or empty."""
    if not name:
        return {}
    for version in catalog.versions(name):
        if spec := version.info.get("spec"):
            known = BuilderSpec.from_json(spec)
            return {name: BuilderSpec(known.source, kwargs=known.kwargs, name=known.name)}
    return {}
