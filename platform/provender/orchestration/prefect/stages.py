"""The stages as Prefect tasks. Each calls the engine once, and says how the stage stands.

Documents travel as JSON. A task's state is named ``Cached`` where all of its piece was found done,
with the reason as its message; Prefect's own cache and result store are not used.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from provender.engine import staged
from provender.engine.staged import ABSENT, ManualState, Outcome, RunDoc, Unit
from provender.errors import InputError
from provender.orchestration.prefect.children import call_of
from provender.orchestration.prefect.retrying import DELAYS, RETRIES, on_failure
from provender.orchestration.prefect.showing import Watcher

DOWNLOAD_TAG = "provender-download"
"""Tag of tasks that download: give it a concurrency limit to be gentle with servers."""

HEAVY_TAG = "provender-heavy"
"""Tag of tasks that encode examples or write shards."""

_LOOK_SECONDS = 15.0
_GROWING_SECONDS = 600.0
"""Longest time for which files that change are waited for, beyond what was asked for."""

_SHOWN = 3

Json = Mapping[str, Any]

_common: dict[str, Any] = {
    "cache_policy": NO_CACHE,
    "persist_result": False,
    "retries": RETRIES,
    "retry_delay_seconds": list(DELAYS),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": on_failure,
}


@task(name="check-manual", **_common)
def check_manual(doc: Json, minutes: float) -> Any:
    """Waits for files that people must put in place, then looks whether there is work at all.

    Args:
        doc: the run.
        minutes: how long to wait for the files.
    """
    logger = get_run_logger()
    run, deadline, said = RunDoc.from_json(doc), time.monotonic() + 60 * minutes, ""
    while not (state := staged.look_for_manual(run)).ready:
        late = time.monotonic() - deadline
        if state.missing and late >= 0:
            break  # the stage itself says what is missing, and how to get it
        if late >= _GROWING_SECONDS:
            raise _never_whole(run, state)
        if str(state) != said:
            said = str(state)
            logger.warning(said)
        time.sleep(_LOOK_SECONDS if state.missing else 1.0)
    return _stage(doc, "manual")


def _never_whole(run: RunDoc, state: ManualState) -> InputError:
    error = InputError(
        f"{', '.join(state.growing)} never stops changing.",
        where=state.folder,
        hint="Put a file there under another name, and rename it once it is whole.",
    )
    # No stage has failed that would tell the catalog.
    staged.end(run, "failed", error.message)
    return error


@task(name="download", tags=[DOWNLOAD_TAG], **_common)
def download(doc: Json) -> Any:
    """Fetches what the builder asks for."""
    return _stage(doc, "download")


@task(name="plan-splits", **_common)
def plan_splits(doc: Json) -> Any:
    """Captures the builder's splits."""
    return _stage(doc, "splits")


def _stage(doc: Json, stage: str) -> Any:
    watcher = Watcher(get_run_logger(), stage)
    outcome = staged.run_stage(RunDoc.from_json(doc), stage, tell=watcher)
    return state_of([outcome])


@task(name="encode-examples", task_run_name="encode {unit[label]}", tags=[HEAVY_TAG], **_common)
def encode_examples(doc: Json, unit: Json) -> Any:
    """Encodes one part of a split's examples, or several."""
    return _pieces(doc, unit)


@task(name="write-shards", task_run_name="write {unit[label]}", tags=[HEAVY_TAG], **_common)
def write_shards(doc: Json, unit: Json) -> Any:
    """Writes a range of shards."""
    return _pieces(doc, unit)


def _pieces(doc: Json, unit: Json) -> Any:
    run, piece = RunDoc.from_json(doc), Unit.from_json(unit)
    watcher = Watcher(get_run_logger(), f"{piece.stage} {piece.label}")
    return state_of(staged.run_pieces(run, piece, tell=watcher, call=call_of(run)))


@task(name="collect", **_common)
def collect(doc: Json) -> Any:
    """Joins the parts of every split."""
    watcher = Watcher(get_run_logger(), "collect")
    return state_of(staged.collect(RunDoc.from_json(doc), tell=watcher))


@task(name="register", **_common)
def register(doc: Json) -> Any:
    """Checks and publishes the version, and closes the run."""
    watcher = Watcher(get_run_logger(), "register")
    found = staged.register_version(RunDoc.from_json(doc), tell=watcher)
    name = "Completed" if found.outcome == "succeeded" else "Cached"
    return Completed(name=name, message=f"{found.name}: {found.outcome}", data=found.to_json())


def state_of(outcomes: Sequence[Outcome]) -> Any:
    """The state that a task ends in: its name is seen in Prefect's pages, its message says why.

    Args:
        outcomes: the stages of the task's piece.
    """
    found = [each for each in outcomes if each.state != ABSENT]
    cached = bool(found) and all(each.hit for each in found)
    message = _message(found) if found else outcomes[0].why[0] if outcomes else "nothing to do"
    name = "Cached" if cached or not found else "Completed"
    return Completed(name=name, message=message, data=[each.to_json() for each in outcomes])


def _message(outcomes: Sequence[Outcome]) -> str:
    why: dict[str, None] = {}
    for each in outcomes:
        waited = f"waited for {each.waited_for}; " if each.waited_for else ""
        why.setdefault(f"{each.state}: {waited}{'; '.join(each.why)}")
    first = list(why)[:_SHOWN]
    return " | ".join(first) + (f" | and {len(why) - _SHOWN} more" if len(why) > _SHOWN else "")


def outcomes(answer: Sequence[Json]) -> list[Outcome]:
    """What a finished task told, as values.

    Args:
        answer: the data of its state.
    """
    return [Outcome.from_json(each) for each in answer]
