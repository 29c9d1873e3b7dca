"""A backfill that Airflow runs: asked for and followed through its public API.

Airflow keeps the state, so this process may end at any moment: asked for again, it finds the backfill
that is at work and follows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from provender.errors import ProvenderError, SettingsError, UnknownReference
from provender.orchestration.airflow.names import dag_id
from provender.orchestration.backfill.address import (
    PASSWORD,
    TOKEN,
    USER,
    Address,
    Login,
    refuses_token,
)
from provender.orchestration.backfill.planning import (
    BROKEN,
    BUILT,
    COMPLETED,
    FAILED,
    LEFT,
    RUNNING,
    WAITING,
    Backfill,
    Piece,
)
from provender.partitions import parse_partition, partition_of

_LOOK_SECONDS = 2.0
_TRIES = 10
_PAGE = 100
_STATES = {"queued": WAITING, "running": RUNNING, "success": BUILT, "failed": BROKEN}

Tell = Callable[[Piece], None]


class AirflowBackfill:
    """One backfill of a dataset's DAG.

    Args:
        address: of Airflow.
        plan: what was asked for; something of it waits. Of the span of what waits, Airflow runs every date that has no run
            yet, or that the plan's way of reprocessing asks for.
        parallel: most runs at the same time.
        tell: is told of every change.
    """

    def __init__(self, address: Address, plan: Backfill, parallel: int, tell: Tell) -> None:
        self._address = address
        self._plan = plan
        self._parallel = parallel
        self._tell = tell
        self._dag = dag_id(plan.dataset)
        todo = plan.todo
        self._first = parse_partition(todo[0].name, plan.grain).start
        # A schedule of the dataset's own begins its intervals anywhere in a piece.
        self._last = parse_partition(todo[-1].name, plan.grain).stop - timedelta(seconds=1)

    def run(self) -> list[Piece]:
        """Asks for it, or finds it at work, and follows it to its end.

        Returns:
            How each piece that waited ended, in the plan's order.

        Raises:
            UnknownReference: Airflow has no such DAG.
            SettingsError: Airflow does not let one in.
            ProvenderError: Airflow cannot be reached, or refuses.
        """
        with self._client() as client:
            self._check_runs(client)
            backfill = self._active(client) or self._create(client)
            seen: dict[str, Piece] = {}
            while True:
                now = self._get(client, f"/backfills/{backfill}")
                for piece in self._pieces(client, now):
                    if seen.get(piece.name) != piece:
                        seen[piece.name] = piece
                        self._tell(piece)
                if now["completed_at"] is not None:
                    return [seen[each.name] for each in self._plan.todo]
                time.sleep(_LOOK_SECONDS)

    @contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        address = self._address
        try:
            with httpx.Client(
                base_url=f"{address.url}/api/v2", auth=Login(address), timeout=60
            ) as client:
                yield client
        except httpx.HTTPError as error:
            raise ProvenderError(
                f"Airflow does not answer: {error}",
                where=address.url,
                hint="A backfill that is at work goes on there; ask again to follow it.",
            ) from error

    def _check_runs(self, client: httpx.Client) -> None:
        if self._get(client, f"/dags/{self._dag}")["is_paused"]:
            raise ProvenderError(
                f"{self._dag} is paused in Airflow: nothing of it would run.",
                where=self._address.url,
                hint=f"`airflow dags unpause {self._dag}`, or the switch on its page.",
            )

    def _active(self, client: httpx.Client) -> int | None:
        """The backfill of this DAG that is at work, whoever began it; Airflow allows one."""
        found = self._get(client, "/backfills", dag_id=self._dag, order_by="-id")["backfills"]
        for each in found:
            if each["completed_at"] is None:
                if not self._is_within(_time(each["from_date"]), _time(each["to_date"])):
                    raise ProvenderError(
                        f"Airflow is at work on another backfill of {self._plan.dataset}: "
                        f"{each['from_date']} to {each['to_date']}.",
                        where=self._address.url,
                        hint="Wait for it, or cancel it in Airflow.",
                    )
                return int(each["id"])
        return None

    def _is_within(self, first: datetime, last: datetime) -> bool:
        """Whether all that waits lies in pieces of another span."""
        grain = self._plan.grain
        begins, ends = partition_of(self._first, grain), partition_of(self._last, grain)
        return partition_of(first, grain) <= begins and ends <= partition_of(last, grain)

    def _create(self, client: httpx.Client) -> int:
        asked = {
            "dag_id": self._dag,
            "from_date": self._first.isoformat(),
            "to_date": self._last.isoformat(),
            "reprocess_behavior": self._plan.reprocess,
            "max_active_runs": self._parallel,
        }
        answer = client.post("/backfills", json=asked)
        for _ in range(_TRIES - 1):
            # Its scheduler holds the database's lock, or somebody has asked for it meanwhile.
            if answer.status_code not in (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.CONFLICT):
                break
            time.sleep(_LOOK_SECONDS)
            if begun := self._active(client):
                return begun
            answer = client.post("/backfills", json=asked)
        return int(self._checked(answer)["id"])

    def _pieces(self, client: httpx.Client, backfill: Mapping[str, Any]) -> Iterator[Piece]:
        """The pieces as they stand, from the runs of their dates."""
        runs = self._runs(client)
        ended = backfill["completed_at"] is not None
        for piece in self._plan.todo:
            if run := runs.get(piece.name):
                yield _of_run(piece, run, _time(backfill["created_at"]))
            elif parse_partition(piece.name, self._plan.grain).stop > datetime.now(UTC):
                yield piece.now(LEFT, "it is not over yet")
            elif ended:
                yield piece.now(LEFT, "Airflow made no run for it")
            else:
                why = "the backfill is paused in Airflow" if backfill["is_paused"] else "not begun"
                yield piece.now(WAITING, why)

    def _runs(self, client: httpx.Client) -> dict[str, dict[str, Any]]:
        """Piece name -> its newest run that the schedule or a backfill made."""
        found: dict[str, dict[str, Any]] = {}
        offset = 0
        while True:
            page: Sequence[dict[str, Any]] = self._get(
                client,
                f"/dags/{self._dag}/dagRuns",
                logical_date_gte=self._first.isoformat(),
                logical_date_lte=self._last.isoformat(),
                run_type=["scheduled", "backfill"],
                order_by="logical_date",
                limit=_PAGE,
                offset=offset,
            )["dag_runs"]
            for each in page:
                start = _time(each["data_interval_start"])
                found[partition_of(start, self._plan.grain).name] = each
            if len(page) < _PAGE:
                return found
            offset += _PAGE

    def _get(self, client: httpx.Client, path: str, **query: Any) -> Any:
        return self._checked(client.get(path, params=query))

    def _checked(self, answer: httpx.Response) -> Any:
        if answer.is_success:
            return answer.json()
        try:
            said = answer.json().get("detail", answer.text)
        except ValueError:
            said = answer.text[:300]
        where = self._address.url
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise UnknownReference(
                f"Airflow has no DAG {self._dag}.",
                where=where,
                hint="Is the dataset in the registry that Airflow reads? `airflow dags list` shows.",
            )
        if refuses_token(answer):
            message = "Airflow does not accept the token."
            hint = f"Set a new {TOKEN}, or {USER} and {PASSWORD}."
            raise SettingsError(message, where=where, hint=hint)
        if answer.status_code == httpx.codes.FORBIDDEN:
            message = f"Airflow does not let {self._address.user or 'this user'} do that: {said}"
            raise SettingsError(message, where=where, hint="Ask for a role that may run DAGs.")
        raise ProvenderError(
            f"Airflow refuses ({answer.status_code}): {said}",
            where=where,
            hint="A dataset is filled in by Airflow where its table has `partition` and "
            "[datasets.NAME.airflow] is enabled, up to the last piece that is over.",
        )


def _of_run(piece: Piece, run: Mapping[str, Any], asked: datetime) -> Piece:
    """A piece as its run stands.

    Args:
        piece: as the plan has it.
        run: as Airflow tells of it.
        asked: when the backfill was asked for.
    """
    state = _STATES.get(run["state"], WAITING)
    begun, end = _maybe(run["start_date"]), _maybe(run["end_date"])
    queued = _maybe(run["queued_at"])
    if end is not None and queued is not None and queued < asked:
        # It ended before, and this way of reprocessing leaves it as it is.
        again = FAILED if state == BROKEN else COMPLETED
        why = f"Airflow's run {run['dag_run_id']} {run['state']} before; --reprocess {again} runs it again"
        return piece.now(LEFT, why)
    seconds = (end - begun).total_seconds() if begun and end else 0.0
    return piece.now(state, f"Airflow's run {run['dag_run_id']}", seconds=round(seconds, 1))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _maybe(text: str | None) -> datetime | None:
    return _time(text) if text else None
