"""Where records come from: files, TFDS, published versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from provender.nlp.config import DataConfig
from provender.nlp.reader.even import Counts
from provender.nlp.reader.mismatch import Places
from provender.nlp.reader.service import DataService

if TYPE_CHECKING:
    from provender.settings import Settings

SINGLE = ""
"""Name of a source that has none."""


class Source(Protocol):
    """Something that records come from."""

    def read(self, input_context: Any) -> Any:
        """The records of one input pipeline: shared out, shuffled and repeated as configured."""
        ...

    def counts(self, input_context: Any) -> Counts | None:
        """Records of this host and of others, in an evaluation that leaves none out.

        None where they are not counted, or there is one host.
        """
        ...

    def places(self) -> Places:
        """Where its records are, to find one of them again."""
        ...


def sources_of(
    params: DataConfig,
    service: DataService,
    dataset_fn: Callable[..., Any] | None,
    settings: Settings | None,
    has_combine_fn: bool = False,
) -> dict[str, Source]:
    """The sources of a configuration by name; a single one is named `SINGLE`.

    Args:
        params: the configuration.
        service: whether its workers read, and not this process.
        dataset_fn: file name -> dataset of records; None for TFRecord files.
        settings: of the project.
        has_combine_fn: whether the caller combines the sources of a mixture itself.

    Raises:
        NoMatch, UnknownReference: a source is not there.
    """
    if params.global_shuffle:
        from provender.nlp.reader.global_source import GlobalSource

        functions = {"dataset_fn": dataset_fn is not None, "combine_fn": has_combine_fn}
        return {SINGLE: GlobalSource(params, settings, functions)}
    from provender.nlp.paths import matching
    from provender.nlp.reader.files import FileSource

    if params.input_path:
        return {
            name: FileSource(matching(each), params, service, dataset_fn, settings)
            for name, each in _named(params.input_path).items()
        }
    if params.tfds_name:
        from provender.nlp.reader.tfds_source import TfdsSource

        names = _named(params.tfds_name)
        return {name: TfdsSource(each, params, service) for name, each in names.items()}
    from provender.nlp.reader.version_source import VersionSource

    references = _named(params.version)
    return {
        name: VersionSource(each, params, service, settings) for name, each in references.items()
    }


def _named(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {SINGLE: value}
