"""`InputReader`: what a configuration means as a `tf.data` pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.reader.batching import batches, examples
from provender.nlp.reader.checks import check_params
from provender.nlp.reader.mixtures import combiner
from provender.nlp.reader.parsing import Parsing
from provender.nlp.reader.service import DataService
from provender.nlp.reader.sources import SINGLE, sources_of
from provender.nlp.reader.tuning import with_options

if TYPE_CHECKING:
    from provender.nlp.order import IndexedSource
    from provender.settings import Settings

Dataset = Any
Function = Callable[..., Any]


class InputReader:
    """Reads what a `DataConfig` names, in this order::

        source -> shuffle (training, not cached) -> decode -> combine -> sample -> parse -> filter
        -> cache -> repeat -> shuffle (cached only) -> batch -> postprocess -> data service
        -> options -> prefetch

    Shuffling and decoding are done for each source of a mixture before they are combined.

    With `features` in place of a `decoder_fn`, and no function that has to see single examples
    (`sample_fn`, `parser_fn` without `batch_parser_fn`, `filter_fn`, `transform_and_batch_fn`),
    records are batched first and a whole batch is parsed at once, for a fraction of the CPU time.
    What comes out is the same.

    Args:
        params: the configuration.
        dataset_fn: file name -> dataset of its records; None reads TFRecord files.
        decoder_fn: record -> decoded example.
        combine_fn: dict of datasets by source name -> one dataset; None mixes by
            ``params.weights``.
        sample_fn: dataset of decoded examples -> dataset.
        parser_fn: decoded example -> example.
        filter_fn: example -> whether it is kept.
        transform_and_batch_fn: (dataset of examples, input context) -> dataset of batches.
        postprocess_fn: batch -> batch.
        features: name -> `tf.io.FixedLenFeature`, `VarLenFeature` ...: how records are decoded.
            Examples of ``tfds_name`` come decoded. A record without what they declare is an error
            that names its file.
        batch_parser_fn: parses a decoded batch; gives for each row what `parser_fn` gives. Either
            is called, whichever suits.
        pack_fn: (dataset of parsed buffers of ``params.packing.buffer_size`` examples, rows of a
            batch) -> dataset of batches of packed rows; called where ``params.packing`` is set.
        settings: of the project, for ``params.version``; by default as provender.toml and the
            environment say.

    Raises:
        SettingsError: the configuration contradicts itself (a ValueError, too).
        NoMatch: a path or pattern stands for no file (a ValueError, too).
        UnknownReference: ``version`` names none.
    """

    def __init__(
        self,
        params: DataConfig,
        dataset_fn: Function | None = None,
        decoder_fn: Function | None = None,
        combine_fn: Function | None = None,
        sample_fn: Function | None = None,
        parser_fn: Function | None = None,
        filter_fn: Function | None = None,
        transform_and_batch_fn: Function | None = None,
        postprocess_fn: Function | None = None,
        *,
        features: Mapping[str, Any] | None = None,
        batch_parser_fn: Function | None = None,
        pack_fn: Function | None = None,
        settings: Settings | None = None,
    ) -> None:
        check_params(
            params,
            has_combine_fn=combine_fn is not None,
            has_pack_fn=pack_fn is not None,
            transforms=transform_and_batch_fn is not None,
        )
        self._service = DataService.of(params)
        if self._service.address is not None:
            # Every worker reads all of the data: with a seed, all of them in the same order.
            params = params.replace(seed=None)
        self._params = params
        self._sources = sources_of(
            params, self._service, dataset_fn, settings, combine_fn is not None
        )
        self._combine = combine_fn or combiner(params)
        self._parsing = Parsing(
            decoder_fn,
            features,
            sample_fn,
            parser_fn,
            batch_parser_fn,
            filter_fn,
            transform_and_batch_fn,
            postprocess_fn,
            pack_fn,
            decoded=bool(params.tfds_name),
            places=[each.places() for each in self._sources.values()],
        )

    def read(self, input_context: Any = None, dataset: Any = None) -> Dataset:
        """The batches of one input pipeline.

        Args:
            input_context: a `tf.distribute.InputContext`: which pipeline this is, of how many.
            dataset: records to read instead of the configured source; for a mixture a dict of
                datasets by name.

        Returns:
            A `tf.data.Dataset` of batches.

        Raises:
            SettingsError: the batch size cannot be divided among the replicas.
        """
        params = self._params
        if dataset is None:
            sources = {name: each.read(input_context) for name, each in self._sources.items()}
        else:
            sources = self._given(dataset)
        combine = None if SINGLE in sources else self._combine
        data = examples(sources, params, self._parsing, combine)
        if params.apply_tf_data_service_before_batching:
            data = self._service.apply(data, input_context)
        counts = None
        if dataset is None and SINGLE in self._sources:
            counts = self._sources[SINGLE].counts(input_context)
        data = batches(data, params, self._parsing, input_context, counts)
        if not params.apply_tf_data_service_before_batching:
            data = self._service.apply(data, input_context)
        return with_options(data, params)

    def decode(self, records: Any) -> Any:
        """Decodes records by `features`, for a `transform_and_batch_fn` that is given them as read.

        Args:
            records: serialized examples, string ``[rows]`` or ``[]``.

        Returns:
            Feature name -> tensor, as `tf.io.parse_example` gives it.

        Raises:
            tf.errors.InvalidArgumentError: when the graph runs, a record does not hold what is
                declared; names its file, what was found and what is expected.
        """
        return self._parsing.examples(records)

    def _given(self, dataset: Any) -> dict[str, Dataset]:
        """What the caller reads itself, shuffled as a source of ours would be."""
        params = self._params
        named = dict(dataset) if isinstance(dataset, Mapping) else {SINGLE: dataset}
        if not params.is_training or params.cache:
            return named
        return {
            name: each.shuffle(params.shuffle_buffer_size, seed=params.seed)
            for name, each in named.items()
        }

    @property
    def indexed(self) -> IndexedSource:
        """The global order that ``params.global_shuffle`` asks for: its state and its report.

        Raises:
            SettingsError: ``global_shuffle`` is not set.
        """
        source = self._sources.get(SINGLE)
        found: IndexedSource | None = getattr(source, "indexed", None)
        if found is None:
            raise SettingsError(
                "Only a global order has a position that can be saved.",
                where="global_shuffle",
                hint="Set global_shuffle: true.",
            )
        parsing = self._parsing
        uneven = {
            "sample_fn": parsing.sample_fn,
            "filter_fn": parsing.filter_fn,
            "transform_and_batch_fn": parsing.transform_and_batch_fn,
            "packing": self._params.packing,
        }
        found.uneven = tuple(name for name, given in uneven.items() if given is not None)
        return found
