"""The configuration that every data loader's is a subclass of."""

from __future__ import annotations

import dataclasses

from provender.nlp.config.base import Config
from provender.nlp.config.packing import PackingConfig


@dataclasses.dataclass
class DataConfig(Config):
    """What is read, by whom, and how.

    Exactly one of ``input_path``, ``tfds_name`` and ``version`` says what is read. A dict in any
    of them, source by name, is a mixture, and ``weights`` says in what proportion.

    Attributes:
        input_path: a file, a glob (``*`` and ``?``), several by commas, a list of those, or a dict
            of those by name. Any fsspec address.
        tfds_name: a TFDS builder's name, or a dict of them by name.
        version: a published version (``name:1.0.0``, ``name@alias``), or a dict of them by name.
        tfds_split: split expression of ``tfds_name`` or ``version``.
        global_batch_size: examples a step, over all replicas.
        is_training: whether the data is shuffled and repeated; None means no.
        drop_remainder: whether a last, smaller batch is left out.
        shuffle_buffer_size: records in the shuffle buffer.
        cache: keep decoded, parsed and filtered examples in memory.
        cycle_length: files read in turns; None lets tf.data choose.
        block_length: consecutive records of each file when files are read in turns.
        ram_budget: GiB that tf.data may use for buffers; None is its own rule, half of the host's.
        deterministic: whether the order may not depend on timing; None leaves tf.data's default.
        sharding: whether the input pipelines of a job share the data out among them.
        enable_tf_data_service: read through a tf.data service; its address must be given.
        tf_data_service_address: ``grpc://host:port`` of the dispatcher.
        tf_data_service_job_name: begins the name of the job in the service.
        tf_data_service_run: a number that all processes of one run, and no other run, have; ends
            the name of the job where several processes share it. By default each process draws a
            number.
        tfds_data_dir: where TFDS keeps its data sets.
        tfds_as_supervised: ``(input, target)`` pairs, as the TFDS builder says.
        tfds_skip_decoding_feature: features, by commas, that TFDS leaves encoded.
        enable_shared_tf_data_service_between_parallel_trainers: several trainers read one job.
        apply_tf_data_service_before_batching: the service hands out examples, not batches; only
            with the option above.
        trainer_id: this trainer, where several read one job.
        seed: of every shuffle; None shuffles records anew in each run. Hosts read disjoint files
            either way.
        prefetch_buffer_size: batches prepared ahead; None or 0 lets tf.data choose.
        autotune_algorithm: name in `tf.data.experimental.AutotuneAlgorithm`.
        weights: source name -> how often it is read; they need not add up to 1.
        stop_on_empty_dataset: whether a mixture ends with the first source that does.
        deterministic_mixing: sources in fixed turns by weight; otherwise drawn at random by
            ``seed``.
        packing: how several short examples share one row; None means each has its own. See
            `provender.nlp.packing`.
        global_shuffle: an exact, resumable order over all records instead of a shuffle buffer. See
            `provender.nlp.order`.
        version_route: how the files of ``version`` are reached: ``auto``, ``cache``, ``stream`` or
            ``native``, see `provender.training.feed.routes`.
    """

    input_path: str | list[str] | dict[str, str | list[str]] = ""
    tfds_name: str | dict[str, str] = ""
    tfds_split: str = ""
    global_batch_size: int = 0
    is_training: bool | None = None
    drop_remainder: bool = True
    shuffle_buffer_size: int = 100
    cache: bool = False
    cycle_length: int | None = None
    block_length: int = 1
    ram_budget: int | None = None
    deterministic: bool | None = None
    sharding: bool = True
    enable_tf_data_service: bool = False
    tf_data_service_address: str | None = None
    tf_data_service_job_name: str | None = None
    tf_data_service_run: int | None = None
    tfds_data_dir: str = ""
    tfds_as_supervised: bool = False
    tfds_skip_decoding_feature: str = ""
    enable_shared_tf_data_service_between_parallel_trainers: bool = False
    apply_tf_data_service_before_batching: bool = False
    trainer_id: str | None = None
    seed: int | None = None
    prefetch_buffer_size: int | None = None
    autotune_algorithm: str | None = None
    version: str | dict[str, str] = ""
    version_route: str = "auto"
    weights: dict[str, float] | None = None
    stop_on_empty_dataset: bool = True
    deterministic_mixing: bool = True
    packing: PackingConfig | None = None
    global_shuffle: bool = False
