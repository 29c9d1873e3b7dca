"""Operators that show what a stage did: its label, its reasons, its lineage.

`provender_stage` is ``@task.provender_stage``: its function returns outcomes of
`provender.engine.staged`, or a `Told`, and the task shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
from airflow.sdk.bases.sensor import BaseSensorOperator, PokeReturnValue
from airflow.sdk.definitions.context import context_merge
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRuntimeError,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from provender.engine import staged
from provender.errors import ProvenderError
from provender.orchestration.airflow import asking
from provender.orchestration.airflow.connection import settings_for
from provender.orchestration.airflow.names import orchestrator
from provender.orchestration.airflow.telling import Told, as_told, lines, storage, titled, watcher
from provender.orchestration.retrying import worth_a_retry

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator

LABEL = "provender_label"
"""Context key that ``map_index_template="{{ provender_label }}"`` shows."""

STORE_KEY = "provender"
"""Key of what the storage tab shows."""


class _Telling:
    """What both operators share: telling, and the lineage of what was done."""

    told: Told | None = None
    log: Any

    def tell(self, context: Context, told: Told) -> None:
        """Shows what was done."""
        self.told = told
        context[LABEL] = told.title  # type: ignore[literal-required]
        for line in lines(told.outcomes):
            self.log.info("%s", line)
        if told.outcomes:
            store(context, storage(told))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage | None:
        """What the stages read and wrote, for OpenLineage; None where nothing is known."""
        if self.told is None or self.told.run is None or self.told.settings is None:
            return None
        from provender.orchestration.airflow.lineage import lineage_of

        return lineage_of(self.told)


def store(context: Context, doc: dict[str, Any]) -> None:
    """Keeps a document in the task's storage tab, where this Airflow has one."""
    kept: Any = context.get("task_state_store")
    if kept is not None:
        kept.set(STORE_KEY, doc)


def stop(error: Exception) -> Exception:
    """The error to raise: as it is where another try may help, else one that ends the retries."""
    if isinstance(error, (AirflowException, AirflowRuntimeError)) or worth_a_retry(error):
        return error
    return AirflowFailException(f"{type(error).__name__}: {error}")


class ProvenderStageOperator(_Telling, DecoratedOperator):
    """Runs a function that makes a call of `provender.engine.staged`."""

    custom_operator_name = "@task.provender_stage"

    def execute(self, context: Context) -> Any:
        """Calls the function, and shows what it says.

        Returns:
            What later tasks receive.

        Raises:
            AirflowFailException: it failed, and would fail again.
            Exception: it failed, and another try may help.
        """
        context_merge(context, self.op_kwargs)
        unit = self.op_kwargs.get("unit")
        if isinstance(unit, dict) and "label" in unit:
            run = self.op_kwargs.get("run") or {}
            label = titled(str(run.get("dataset", "")), unit["label"])
            context[LABEL] = label  # type: ignore[literal-required]
        try:
            said = self.python_callable(*self.op_args, **self.determine_kwargs(context))
        except Exception as error:
            if (raised := stop(error)) is error:
                raise
            raise raised from error
        told = as_told(said)
        self.tell(context, told)
        return told.value


def provender_stage(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Makes a task of a function that returns `Outcome`s or a `Told`: ``@task.provender_stage``.

    A mapped task shows its label and state with ``map_index_template="{{ provender_label }}"``.

    Args:
        python_callable: the function.
        **kwargs: arguments of the operator.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        decorated_operator_class=ProvenderStageOperator,
        **kwargs,
    )


class ManualFilesSensor(_Telling, BaseSensorOperator):
    """Opens the run, and waits until all files are there that people must provide.

    It holds no slot while it waits. It comes first in every build: it refuses what would break the
    promise of a version number, and notes a run with nothing to do.

    Args:
        dataset: name in the registry.
        settings: path of provender.toml, or None.
        partition: the piece of time that a run builds, e.g. ``day``; None for a dataset that is not
            cut by time.
        **kwargs: arguments of a sensor.
    """

    template_fields: Sequence[str] = ("dataset",)

    def __init__(
        self, *, dataset: str, settings: str | None, partition: str | None = None, **kwargs: Any
    ) -> None:
        kwargs.setdefault("mode", "reschedule")
        super().__init__(**kwargs)
        self.dataset = dataset
        self.settings = settings
        self.partition = partition

    def poke(self, context: Context) -> PokeReturnValue | bool:
        """Looks once.

        Raises:
            AirflowSkipException: a dry run told what it would do.
            AirflowFailException: the build is refused.
        """
        params = dict(context["params"])
        try:
            settings = settings_for(self.settings, self.dataset)
            ref, options = asking.of(self.dataset, params, self._piece(context))
            if params.get("dry_run"):
                self._preview(context, ref, settings, options)
            run = context["dag_run"]
            ids = orchestrator(run.dag_id, run.run_id)
            note = params.get("note")
            doc = staged.begin(ref, settings, options, orchestrator=ids, note=note)
            state = staged.look_for_manual(doc, settings)
            if not state.ready:
                self.log.info("%s", state)
                store(context, {"state": "waiting", **state.to_json()})
                return False
            outcome = staged.run_stage(doc, "manual", settings, tell=watcher(self.log))
        except ProvenderError as error:
            raise stop(error) from error
        self.tell(context, Told((outcome,), doc.to_json(), "manual", doc, settings))
        return PokeReturnValue(is_done=True, xcom_value=doc.to_json())

    def _piece(self, context: Context) -> str | None:
        if self.partition is None:
            return None
        run = context["dag_run"]
        asked = context["params"].get("partition")
        return asking.piece(self.partition, asked, run.data_interval_start, run.run_after)

    def _preview(self, context: Context, ref: Any, settings: Any, options: Any) -> None:
        rows = asking.preview(ref, settings, options)
        self.log.info("A dry run: nothing is done.\n%s", "\n".join(asking.table(rows)))
        store(context, {"state": "dry run", "stages": rows[:100]})
        raise AirflowSkipException("A dry run: the log shows what a build would do.")

    def execute(self, context: Context) -> Any:
        """Looks until all is there or the time is up.

        Raises:
            AirflowSensorTimeout: it is up; the error names what is still missing.
        """
        try:
            return super().execute(context)
        except AirflowSensorTimeout as error:
            raise AirflowSensorTimeout(self._given_up(context)) from error

    def _given_up(self, context: Context) -> str:
        limit = timedelta(seconds=self.timeout)
        message = f"The files of {self.dataset} did not come within {limit}."
        with suppress(ProvenderError):
            settings = settings_for(self.settings, self.dataset)
            ref, options = asking.of(self.dataset, dict(context["params"]), self._piece(context))
            run = context["dag_run"]
            ids = orchestrator(run.dag_id, run.run_id)
            doc = staged.begin(ref, settings, options, orchestrator=ids)
            message = f"{message}\n{staged.look_for_manual(doc, settings)}"
            staged.end(doc, "failed", message, settings)
        return message
