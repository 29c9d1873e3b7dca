"""The Python face of planning and building."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.spec import BuilderSpec, spec_of
from provender.catalog import VersionRecord
from provender.engine.build import Built
from provender.engine.build import build as run_build
from provender.engine.decide import decide
from provender.engine.execute import Tell
from provender.engine.plan import Plan
from provender.engine.session import Options, Session, open_catalog, open_session, remembered_specs
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings
from provender.store import Store
from provender.training.diary import diary
from provender.training.leasing import reading
from provender.training.splits import SplitLike, spelled

if TYPE_CHECKING:
    from provender.training.random_access import DataSource


def _session(
    name: str, settings: Settings | None, kwargs: Mapping[str, Any] | None, options: Options
) -> Session:
    settings = settings or load_settings()
    ref = DatasetRef.parse(name)
    catalog = open_catalog(settings)
    spec = spec_of(ref, settings, remembered_specs(catalog, ref.name))
    return open_session(spec.with_(None, None, kwargs), settings, options, catalog=catalog)


def plan(name: str, *, settings: Settings | None = None, **options: Any) -> Plan:
    """Says what a build would do, and why; changes nothing.

    Args:
        name: a dataset reference, see `provender.refs`.
        settings: the project's settings; by default as provender.toml and the environment say.
        **options: fields of `provender.engine.session.Options`.

    Returns:
        The plan, one step a stage.
    """
    return decide(_session(name, settings, None, Options(**options)))


def build(
    name: str, *, settings: Settings | None = None, tell: Tell | None = None, **options: Any
) -> Built:
    """Builds a version; a build with nothing to do costs next to nothing.

    Args:
        name: a dataset reference, see `provender.refs`.
        settings: the project's settings; by default as provender.toml and the environment say.
        tell: is told what happens, see `provender.engine.build`.
        **options: fields of `provender.engine.session.Options`.

    Returns:
        The version and what was done for it.
    """
    session = _session(name, settings, None, Options(**options))
    return run_build(session, tell) if tell else run_build(session)


def builder(
    name: str,
    *,
    config: str | None = None,
    version: str | None = None,
    settings: Settings | None = None,
    manual_dir: str | None = None,
    **kwargs: Any,
) -> Builder:
    """A dataset builder with the TFDS interface, prepared by Provender's engine.

    Args:
        name: a dataset reference, see `provender.refs`.
        config: builder config name.
        version: version number.
        settings: the project's settings; by default as provender.toml and the environment say.
        manual_dir: folder of manual files.
        **kwargs: keyword arguments for the builder's constructor.

    Returns:
        The builder; nothing is prepared yet.
    """
    settings = settings or load_settings()
    ref = DatasetRef.parse(name).with_(config=config, version=version)
    catalog = open_catalog(settings)
    spec = spec_of(ref, settings, remembered_specs(catalog, ref.name)).with_(None, None, kwargs)
    return Builder(spec, settings, manual_dir)


def load(
    ref: str,
    *,
    split: SplitLike | None = None,
    batch_size: int | None = None,
    input_context: Any = None,
    job: str | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> Any:
    """Reads a published version as `tf.data`, parsed in whole batches.

    No builder code is needed: ``features.json`` says what is stored. Examples come in file order
    unless a shuffle is asked for, so every host and every run sees the same data.

    Args:
        ref: a version, see `provender.refs`: ``xsum:1.1.0``, ``xsum@golden``, or ``xsum`` for the
            newest.
        split: an expression such as ``train[10%:20%]+test[:500]``, a part made by
            `provender.even_splits`, a split object of TFDS, a list of those, or None for a dict
            with every split.
        batch_size: examples a batch of this pipeline; None gives single examples.
        input_context: a `tf.distribute.InputContext`: this pipeline gets its share of the
            examples, each with the same number of steps.
        job: name of what reads, for the catalog ("what was this model trained on"); by default
            the environment's PROVENDER_JOB. Recording never delays reading, and waits for a
            catalog that is away.
        settings: the project's settings; by default as provender.toml and the environment say.
        **options: fields of `provender.training.feed.options.FeedOptions`.

    Returns:
        A `tf.data.Dataset`, a list of them for a list of splits, or a dict of them by split name.

    Raises:
        UnknownReference: no such version, split or feature; a retracted version says who took it
            back, when, why and what replaces it.
        SettingsError: an option that does not exist or cannot have its value.
    """
    from provender.training.feed.loading import feed, for_context, options_of
    from provender.upkeep import find_version

    settings = settings or load_settings()
    wanted = options_of(batch_size=batch_size, **options)
    if input_context is not None:
        wanted = for_context(wanted, input_context)
    catalog = open_catalog(settings)
    version = find_version(catalog, DatasetRef.parse(ref))
    reading(settings.catalog, version.id, "load")
    store = Store.open(settings.store, scratch=str(settings.scratch))
    data = feed(store, version, split, wanted, ref, catalog, settings.home)
    if job := job or os.environ.get("PROVENDER_JOB"):
        splits = [each.name for each in version.splits] if split is None else _texts(split)
        facts = {"reference": ref, "pipeline": wanted.index, "pipelines": wanted.count}
        diary(settings.home, settings.catalog).opened(version.id, job, splits, facts)
    return data


def _texts(split: Any) -> list[str]:
    """A split, or each of several, as text."""
    each = split if isinstance(split, list | tuple) else [split]
    return [str(spelled(one)) for one in each]


def data_source(
    ref: str,
    *,
    split: SplitLike | None = None,
    columns: Sequence[str] | None = None,
    settings: Settings | None = None,
) -> DataSource | dict[str, DataSource]:
    """The examples of a published version by number, without TensorFlow.

    Args:
        ref: a version, see `provender.refs`.
        split: an expression, a part made by `provender.even_splits`, or None for a dict with
            every split.
        columns: top-level features wanted; None means all.
        settings: the project's settings; by default as provender.toml and the environment say.

    Returns:
        A sequence of examples as `tfds.data_source` gives them, or a dict of them by split name.

    Raises:
        UnknownReference: no such version, split or feature.
        SettingsError: images of 16 bits are wanted, and OpenCV is not installed.
    """
    from provender.training.random_access import open_source
    from provender.upkeep import find_version

    settings = settings or load_settings()
    catalog = open_catalog(settings)
    version = find_version(catalog, DatasetRef.parse(ref))
    reading(settings.catalog, version.id, "data_source")
    store = Store.open(settings.store, scratch=str(settings.scratch))
    return open_source(store, version, split, columns, catalog, settings.home)


class Builder:
    """The usual three lines of TFDS, through the engine.

    `info`, `download_and_prepare` and `as_dataset` mean what they mean in TFDS; every other
    attribute is that of the TFDS builder itself.
    """

    def __init__(self, spec: BuilderSpec, settings: Settings, manual_dir: str | None) -> None:
        self._spec = spec
        self._settings = settings
        self._manual_dir = manual_dir
        self._prepared: Any = None
        self._plain: Any = None
        self.version_record: VersionRecord | None = None

    @property
    def _builder(self) -> Any:
        if self._prepared is not None:
            return self._prepared
        if self._plain is None:
            from provender.builders.load import load

            self._plain = load(self._spec).builder
        return self._plain

    def download_and_prepare(
        self, *, max_examples: int | None = None, tell: Tell | None = None, **options: Any
    ) -> None:
        """Builds the version, unless it stands already.

        Args:
            max_examples: stop each split after so many; the result is a trial version.
            tell: is told what happens, see `provender.engine.build`.
            **options: fields of `provender.engine.session.Options`.
        """
        chosen = Options(manual_dir=self._manual_dir, max_examples=max_examples, **options)
        session = open_session(self._spec, self._settings, chosen)
        built = run_build(session, tell) if tell else run_build(session)
        self.version_record = built.version
        self._prepared = _readable(session, built.version)

    def as_dataset(self, *args: Any, **kwargs: Any) -> Any:
        """Reads splits as `tf.data.Dataset`, as `tfds.core.DatasetBuilder.as_dataset` does.

        Raises:
            AssertionError: nothing was prepared, as in TFDS.
        """
        return self._builder.as_dataset(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._builder, name)

    def __repr__(self) -> str:
        return f"Builder({self._spec.source!r})"


def _readable(session: Session, version: VersionRecord) -> Any:
    """The TFDS builder over a version's files; a remote version is first brought here.

    A builder with its own reader is made again over its files; any other is read from
    features.json and dataset_info.json alone.
    """
    from provender.builders.load import OPAQUE

    local = session.work.store.local(version.path)
    if local is None:
        local = _brought_here(session.work.store, session.settings, version)
    if session.facts.kind == OPAQUE:
        from provender.builders.load import load_class

        spec = session.facts.spec
        cls = load_class(spec.source)
        made = cls(config=spec.config, version=spec.version, **spec.kwargs)
        made._data_dir = str(local)
        made.info.read_from_directory(str(local))
        return made
    import tensorflow_datasets as tfds

    return tfds.builder_from_directory(str(local))


def _brought_here(store: Store, settings: Settings, version: VersionRecord) -> Path:
    from provender.training import pull

    folder = settings.home / "pulled" / version.fingerprint
    folder.mkdir(parents=True, exist_ok=True)
    report = pull(store, version, str(folder))
    return Path(report.dest)
