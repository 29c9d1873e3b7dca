"""What a run is asked for: the form that Airflow shows, and what its answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provender.engine.session import Options
from provender.refs import DatasetRef
from provender.settings import Settings

STAGES = ("manual", "download", "splits", "examples", "shards", "register")
_WHOLE = "prepare"
"""The one stage of a builder that cannot be taken apart."""


def of(dataset: str, params: Mapping[str, Any]) -> tuple[DatasetRef, Options]:
    """The reference and options that the form's answers mean.

    Args:
        dataset: name in the registry.
        params: the answers, by name; what is missing or empty means the usual.

    Raises:
        SettingsError: an answer makes no sense.
    """
    first = params.get("force_from")
    force = STAGES[STAGES.index(first) :] if first else ()
    if "splits" in force:
        force = (*force, _WHOLE)
    options = Options(
        workers=params.get("workers") or None,
        manual_dir=params.get("manual_dir") or None,
        force=force,
    )
    return DatasetRef(dataset).with_(version=params.get("version") or None), options


def form(manual_dir: str | None, workers: int | None) -> dict[str, Any]:
    """The parameters of a dataset's DAG, as Airflow's form shows them.

    Args:
        manual_dir: the dataset's own folder of manual files, if it has one.
        workers: the project's number of workers, if it says one.
    """
    from airflow.sdk import Param

    return {
        "version": Param(
            None,
            type=["null", "string"],
            pattern=r"^\d+\.\d+\.\d+$",
            title="Version",
            description="The number to build; empty for the builder's own.",
        ),
        "manual_dir": Param(
            None,
            type=["null", "string"],
            title="Folder of manual files",
            description=f"Empty for {manual_dir or 'the folder that provender.toml names'}.",
        ),
        "force_from": Param(
            None,
            type=["null", "string"],
            enum=[None, *STAGES],
            title="Run again from",
            description="This stage and those after it run although nothing changed.",
        ),
        "workers": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Parts of a split",
            description="Tasks that encode one split at the same time; empty for "
            f"{workers or 'the number of processors'}.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only tell, in the log of check_manual, what would be done and why.",
        ),
        "note": Param(
            None,
            type=["null", "string"],
            title="Note",
            description="Why this run, for whoever looks at it later.",
        ),
    }


def preview(ref: DatasetRef, settings: Settings, options: Options) -> list[dict[str, Any]]:
    """What a build would do: one row a stage, with ``stage``, ``state`` and ``why``.

    Raises:
        ManualFilesMissing: files that people must provide are not there.
    """
    from provender.engine.decide import decide
    from provender.engine.session import open_session

    session = open_session(ref, settings, options)
    with session.catalog:
        plan = decide(session)
    rows = [step.to_json() for step in plan.steps]
    shown = [{key: row[key] for key in ("stage", "state", "why")} for row in rows]
    if plan.conflict is not None:
        shown.append({"stage": "refused", "state": "conflict", "why": [plan.conflict.message]})
    return shown


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as lines of text."""
    width = max((len(row["stage"]) for row in rows), default=0)
    return [f"{row['stage']:{width}}  {row['state']:4}  {'; '.join(row['why'])}" for row in rows]
