"""The client's side of the tf.data service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig

_EPOCHS = "parallel_epochs"
"""Each worker reads all of the data, in an order of its own."""


@dataclass(frozen=True)
class DataService:
    """How batches come from a tf.data service.

    Attributes:
        address: of the dispatcher; None where the pipeline runs in this process.
        job_name: of the job in the service.
        shared: whether several trainers read the job, each all of it.
        trainer_id: this trainer among them.
        round_robin: whether the consumers of a step get neighbouring batches.
    """

    address: str | None = None
    job_name: str | None = None
    shared: bool = False
    trainer_id: str | None = None
    round_robin: bool = False

    @classmethod
    def of(cls, params: DataConfig) -> DataService:
        """The service that a configuration asks for.

        Raises:
            SettingsError: it is switched on without an address, shared and round-robin, shared
                without a trainer's name, or processes cannot agree on the job.
        """
        if not params.enable_tf_data_service:
            return cls()
        if not params.tf_data_service_address:
            raise SettingsError(
                "enable_tf_data_service is set, but there is no tf_data_service_address.",
                where="tf_data_service_address",
                hint='Give the dispatcher, such as "grpc://10.0.0.2:5050", or switch the service '
                "off. Without it every host would read all of the data.",
            )
        shared = params.enable_shared_tf_data_service_between_parallel_trainers
        round_robin = bool(getattr(params, "enable_round_robin_tf_data_service", False))
        if shared and round_robin:
            raise SettingsError(
                "Shared tf.data service does not support round-robin.",
                where="enable_round_robin_tf_data_service",
                hint="Switch off one of the two.",
            )
        if shared and not params.trainer_id:
            raise SettingsError(
                "Trainers that share a job need names, and trainer_id is not set.",
                where="trainer_id",
                hint="Give each trainer a name of its own.",
            )
        return cls(
            params.tf_data_service_address,
            _job_name(params, shared, round_robin),
            shared,
            params.trainer_id,
            round_robin,
        )

    def apply(self, dataset: Any, input_context: Any) -> Any:
        """The dataset, run by the service's workers; as it is without a service or a context."""
        if self.address is None or input_context is None:
            return dataset
        if self.round_robin:
            return self._in_turns(dataset, input_context)
        return dataset.apply(self._distribute())

    def _distribute(self) -> Any:
        import tensorflow as tf

        service = tf.data.experimental.service
        if self.shared:
            return service.distribute(
                processing_mode=service.ShardingPolicy.OFF,
                service=self.address,
                job_name=self.job_name,
                cross_trainer_cache=service.CrossTrainerCache(trainer_id=self.trainer_id),
            )
        return service.distribute(
            processing_mode=_EPOCHS, service=self.address, job_name=self.job_name
        )

    def _in_turns(self, dataset: Any, context: Any) -> Any:
        """Consumer c of n gets batch c of each n: so the replicas of a step get neighbours."""
        import tensorflow as tf

        replicas = context.num_replicas_in_sync // context.num_input_pipelines
        if not replicas:
            raise SettingsError(
                f"{context.num_replicas_in_sync} replicas cannot be fed by "
                f"{context.num_input_pipelines} input pipelines in turns.",
                where="enable_round_robin_tf_data_service",
                hint="Give every pipeline a replica, or switch round-robin off.",
            )
        first = context.input_pipeline_id * replicas
        consumers = context.num_input_pipelines * replicas
        service = tf.data.experimental.service
        # Not registered by each consumer: its function is a graph, in which the dataset's options
        # cannot be read, and in which `deterministic=False` takes hold of the service's own map, so
        # that a step gets batches of two lengths. And under one name by all hosts: rounds of two
        # datasets would wait for each other without end.
        known = service.register_dataset(self.address, dataset, dataset_id=self.job_name)

        def consumer(number: Any) -> Any:
            return service.from_dataset_id(
                processing_mode=_EPOCHS,
                service=self.address,
                dataset_id=known,
                element_spec=dataset.element_spec,
                job_name=self.job_name,
                consumer_index=first + number,
                num_consumers=consumers,
            )

        return tf.data.Dataset.range(replicas).interleave(
            consumer, cycle_length=replicas, num_parallel_calls=replicas, deterministic=True
        )


def _job_name(params: DataConfig, shared: bool, round_robin: bool) -> str | None:
    from provender.nlp.service.naming import RUN_VARIABLE, job_name

    environ = dict(os.environ)
    if params.tf_data_service_run is not None:
        environ[RUN_VARIABLE] = str(params.tf_data_service_run)
    return job_name(
        params.tf_data_service_job_name,
        params.global_batch_size,
        shared=shared,
        round_robin=round_robin,
        environ=environ,
    )
