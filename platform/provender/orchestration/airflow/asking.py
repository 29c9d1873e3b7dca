"""What a run is asked for: the form that Airflow shows, and what its answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from provender.engine.session import Options
from provender.partitions import parse_partition, partition_of, pattern
from provender.refs import DatasetRef
from provender.settings import Settings

STAGES = ("manual", "download", "splits", "examples", "shards", "register")
_WHOLE = "prepare"
"""The one stage of a builder that cannot be taken apart."""


def of(
    dataset: str, params: Mapping[str, Any], config: str | None = None
) -> tuple[DatasetRef, Options]:
    """The reference and options that the form's answers mean.

    Args:
        dataset: name in the registry.
        params: the answers, by name; what is missing or empty means the usual.
        config: the piece of time to build, see `piece`; None for what the registry says.

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
    return DatasetRef(dataset).with_(config=config, version=params.get("version") or None), options


def piece(grain: str, asked: str | None, begins: datetime | None, run_after: datetime) -> str:
    """The piece of time that a run builds.

    Args:
        grain: how the dataset is cut.
        asked: the form's answer, which comes first.
        begins: when the run's data interval begins; a run by hand may have none. The piece is the
            one that this moment lies in.
        run_after: when the run was due. Without an interval it builds the last piece that was whole.

    Raises:
        SettingsError: the answer names no such piece; the hint says what comes near.
    """
    if asked:
        return parse_partition(asked, grain, where="partition").name
    if begins is not None:
        return partition_of(begins, grain).name
    return partition_of(run_after, grain).previous().name


def form(manual_dir: str | None, workers: int | None, grain: str | None = None) -> dict[str, Any]:
    """The parameters of a dataset's DAG, as Airflow's form shows them.

    Args:
        manual_dir: the dataset's own folder of manual files, if it has one.
        workers: the project's number of workers, if it says one.
        grain: how the dataset is cut by time, or None.
    """
    from airflow.sdk import Param

    return {
        **(_piece_field(grain) if grain else {}),
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


def _piece_field(grain: str) -> dict[str, Any]:
    from airflow.sdk import Param

    example = partition_of(datetime(2026, 11, 30), grain)
    return {
        "partition": Param(
            None,
            type=["null", "string"],
            pattern=pattern(grain),
            # A refusal shows the title beside the pattern, and not the description.
            title=f"{grain.capitalize()}, such as {example}",
            description="What to build; empty for what the run's data interval begins in, or "
            f"else the last {grain} that is over. UTC.",
        )
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
