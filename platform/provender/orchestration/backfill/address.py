"""Where Airflow's API is, and how one is let in."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass

import httpx

from provender.errors import SettingsError

URL, USER, PASSWORD, TOKEN = (
    "AIRFLOW_API_URL", "AIRFLOW_API_USER", "AIRFLOW_API_PASSWORD", "AIRFLOW_API_TOKEN",
)  # fmt: skip
"""Environment variables: where Airflow is, and who asks."""


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


def refuses_token(answer: httpx.Response) -> bool:
    """Whether an answer says that the token is none or has expired, not that its user may not."""
    if answer.status_code == httpx.codes.FORBIDDEN:
        return "JWT" in answer.text
    return answer.status_code == httpx.codes.UNAUTHORIZED


class Login(httpx.Auth):
    """A token with every request; a new one where it is refused and a password is known."""

    requires_response_body = True

    def __init__(self, address: Address) -> None:
        self._address = address
        self._token = address.token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """As httpx asks for it.

        Raises:
            SettingsError: the password is wrong.
        """
        address = self._address
        fresh = self._token is None
        if fresh:
            self._token = self._read((yield self._question()))
        request.headers["Authorization"] = f"Bearer {self._token}"
        answer = yield request
        if refuses_token(answer) and address.user and not fresh:
            self._token = self._read((yield self._question()))
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _question(self) -> httpx.Request:
        address = self._address
        told = {"username": address.user, "password": address.password}
        return httpx.Request("POST", f"{address.url}/auth/token", json=told)

    def _read(self, answer: httpx.Response) -> str:
        if answer.is_success:
            return str(answer.json()["access_token"])
        raise SettingsError(
            f"Airflow does not let {self._address.user} in ({answer.status_code}).",
            where=self._address.url,
            hint=f"Check {USER} and {PASSWORD}.",
        )
