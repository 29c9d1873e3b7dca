"""A backfill that Airflow runs: asked for and followed through its public API.

Airflow keeps the state, so this process may end at any moment: asked for again, it finds the backfill
that is at work and follows it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from provender.errors import ProvenderError, SettingsError, UnknownReference
from provender.orchestration.airflow.names import dag_id
from provender.orchestration.backfill.planning import (
    BROKEN,
    BUILT,
    CACHED,
    LEFT,
    RUNNING,
    WAITING,
    Backfill,
    Piece,
)
from provender.partitions import parse_partition, partition_of

URL, USER, PASSWORD, TOKEN = (
    "AIRFLOW_API_URL", "AIRFLOW_API_USER", "AIRFLOW_API_PASSWORD", "AIRFLOW_API_TOKEN",
)  # fmt: skip
"""Environment variables: where Airflow is, and who asks."""

_LOOK_SECONDS = 2.0
_PAGE = 100
_STATES = {"queued": WAITING, "running": RUNNING, "success": BUILT, "failed": BROKEN}

Tell = Callable[[Piece], None]


@dataclass(frozen=True)
class Address:
    """Where Airflow's API is, and as whom it is asked.

    Attributes:
        url: e.g. ``http://127.0.0.1:8080``.
        user: name, or None with a token.
        password: of that user.
        token: a JWT, or None.
    """

    url: str
    user: str | None = None
    password: str | None = None
    token: str | None = None

    def __repr__(self) -> str:
        return f"Address({self.url!r}, user={self.user!r})"

    @classmethod
    def of_environment(cls, url: str | None = None) -> Address:
        """As the environment says.

        Raises:
            SettingsError: it does not.
        """
        told = url or os.environ.get(URL)
        if not told:
            raise SettingsError(
                "Nothing says where Airflow is.",
                where="--airflow-url",
                hint=f"--airflow-url http://127.0.0.1:8080, or {URL}.",
            )
        token, user = os.environ.get(TOKEN), os.environ.get(USER)
        if not token and not user:
            raise SettingsError(
                "Nothing says who asks Airflow.",
                where=USER,
                hint=f"Set {USER} and {PASSWORD}, or {TOKEN}.",
            )
        return cls(told.rstrip("/"), user, os.environ.get(PASSWORD), token)


class AirflowBackfill:
    """One backfill of a dataset's DAG.

    Args:
        address: of Airflow.
        plan: what was asked for; Airflow decides itself which dates have a run already.
        parallel: most runs at the same time.
        tell: is told of every change.
    """

    def __init__(self, address: Address, plan: Backfill, parallel: int, tell: Tell) -> None:
        self._address = address
        self._plan = plan
        self._parallel = parallel
        self._tell = tell
        self._dag = dag_id(plan.dataset)

    def run(self) -> list[Piece]:
        """Asks for it, or finds it at work, and follows it to its end.

        Returns:
            How each piece ended, in the plan's order.

        Raises:
            UnknownReference: Airflow has no such DAG.
            ProvenderError: Airflow cannot be reached, or refuses.
        """
        with self._client() as client:
            backfill = self._active(client) or self._create(client)
            seen: dict[str, Piece] = {}
            while True:
                ended = self._get(client, f"/backfills/{backfill}")["completed_at"] is not None
                for piece in self._pieces(client, backfill, ended):
                    if seen.get(piece.name) != piece:
                        seen[piece.name] = piece
                        self._tell(piece)
                if ended:
                    return [seen[each.name] for each in self._plan.pieces]
                time.sleep(_LOOK_SECONDS)

    @contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        address = self._address
        try:
            with httpx.Client(base_url=f"{address.url}/api/v2", timeout=60) as client:
                token = address.token or self._token(client)
                client.headers["Authorization"] = f"Bearer {token}"
                yield client
        except httpx.HTTPError as error:
            raise ProvenderError(
                f"Airflow does not answer: {error}",
                where=address.url,
                hint="The backfill goes on there; ask again to follow it.",
            ) from error

    def _token(self, client: httpx.Client) -> str:
        address = self._address
        answer = client.post(
            f"{address.url}/auth/token",
            json={"username": address.user, "password": address.password},
        )
        if answer.status_code not in (200, 201):
            raise SettingsError(
                f"Airflow does not let {address.user} in.",
                where=address.url,
                hint=f"Check {PASSWORD}.",
            )
        return str(answer.json()["access_token"])

    def _active(self, client: httpx.Client) -> int | None:
        """The backfill of this DAG that is at work, whoever began it; Airflow allows one."""
        found = self._get(client, "/backfills", dag_id=self._dag)["backfills"]
        first, last = self._dates()
        for each in found:
            if each["completed_at"] is None:
                if (_time(each["from_date"]), _time(each["to_date"])) != (first, last):
                    raise ProvenderError(
                        f"Airflow is at work on another backfill of {self._plan.dataset}: "
                        f"{each['from_date']} to {each['to_date']}.",
                        where=self._address.url,
                        hint="Wait for it, or cancel it in Airflow.",
                    )
                return int(each["id"])
        return None

    def _create(self, client: httpx.Client) -> int:
        first, last = self._dates()
        answer = client.post(
            "/backfills",
            json={
                "dag_id": self._dag,
                "from_date": first.isoformat(),
                "to_date": last.isoformat(),
                "reprocess_behavior": self._plan.reprocess,
                "max_active_runs": self._parallel,
            },
        )
        return int(self._checked(answer)["id"])

    def _dates(self) -> tuple[datetime, datetime]:
        first, last = self._plan.pieces[0], self._plan.pieces[-1]
        grain = self._plan.grain
        return parse_partition(first.name, grain).start, parse_partition(last.name, grain).start

    def _pieces(self, client: httpx.Client, backfill: int, ended: bool) -> Iterator[Piece]:
        """The pieces as they stand, from the runs of their dates."""
        runs = self._runs(client)
        for piece in self._plan.pieces:
            run = runs.get(piece.name)
            if run is None:
                why = "Airflow made no run for it" if ended else "not begun"
                yield piece.now(LEFT if ended else WAITING, why)
                continue
            yield self._of_run(piece, run)

    def _of_run(self, piece: Piece, run: dict[str, Any]) -> Piece:
        state = _STATES.get(run["state"], WAITING)
        name = run["dag_run_id"]
        if state == BUILT and piece.state == CACHED:
            state = CACHED
        begun, end = _maybe(run.get("start_date")), _maybe(run.get("end_date"))
        seconds = (end - begun).total_seconds() if begun and end else 0.0
        return piece.now(state, f"Airflow's run {name}", seconds=round(seconds, 1))

    def _runs(self, client: httpx.Client) -> dict[str, dict[str, Any]]:
        """Piece name -> its newest run."""
        first, last = self._dates()
        found: dict[str, dict[str, Any]] = {}
        offset = 0
        while True:
            page: Sequence[dict[str, Any]] = self._get(
                client,
                f"/dags/{self._dag}/dagRuns",
                logical_date_gte=first.isoformat(),
                logical_date_lte=last.isoformat(),
                order_by="run_after",
                limit=_PAGE,
                offset=offset,
            )["dag_runs"]
            for each in page:
                if each["data_interval_start"]:
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
        if answer.status_code == 404:
            raise UnknownReference(
                f"Airflow has no DAG {self._dag}.",
                where=self._address.url,
                hint="Is the dataset in the registry that Airflow reads? `airflow dags list` shows.",
            )
        raise ProvenderError(
            f"Airflow refuses ({answer.status_code}): {said}",
            where=self._address.url,
            hint="A dataset is filled in by Airflow where its table has `partition` and "
            "[datasets.NAME.airflow] is enabled.",
        )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _maybe(text: str | None) -> datetime | None:
    return _time(text) if text else None
