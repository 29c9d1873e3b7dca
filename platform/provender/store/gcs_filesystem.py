"""gcsfs as a transport for Google Cloud Storage's JSON API: credentials, retries, connections.

Imported for ``gs://`` stores only; importing gcsfs costs most of a second.
"""

# Paths are plain strings here: pathlib costs more than the system call, and URLs are no Paths.
# ruff: noqa: PTH111

from __future__ import annotations

import asyncio
import http.client
import io
import os
import random
import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from provender.errors import StoreError

EMULATOR = "STORAGE_EMULATOR_HOST"
_HNS = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"
if os.environ.get(EMULATOR):
    # With it, every bucket operation first asks over TLS gRPC, which an emulator never answers.
    os.environ.setdefault(_HNS, "false")

import aiohttp  # noqa: E402
import fsspec.asyn  # noqa: E402
import fsspec.config  # noqa: E402
import google.auth.exceptions  # noqa: E402
from gcsfs.core import GCSFileSystem  # noqa: E402
from gcsfs.retry import HttpError, validate_response  # noqa: E402
from multidict import CIMultiDictProxy  # noqa: E402

RETRIABLE = {408, 429, 500, 502, 503, 504}
"""Status codes of refusals that may pass."""
_LONGEST_WAIT = 60.0
_METADATA_HOST = "169.254.169.254"
_METADATA_SECONDS = 1.0
# The last one: a sandboxed pod cannot see the product name.
_ON_GOOGLE = ("GCE_METADATA_HOST", "K_SERVICE", "KUBERNETES_SERVICE_HOST")
_PRODUCT_NAME = "/sys/class/dmi/id/product_name"
_CUTS = (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError)


class Answer(NamedTuple):
    """What the service answered."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and after how many seconds, a refused or cut request is sent again.

    The wait doubles from `first` to `ceiling` and is then drawn from its upper half, so that
    many workers do not come back together. A ``Retry-After`` header wins if it asks for longer.
    """

    attempts: int = 7
    first: float = 0.25
    ceiling: float = 16.0

    def wait(self, attempt: int, retry_after: str | None = None) -> float:
        """Seconds to wait after attempt number `attempt` (from 0) has failed."""
        drawn = min(self.ceiling, self.first * 2**attempt) * random.uniform(0.5, 1.0)  # noqa: S311
        if retry_after and retry_after.isdigit():
            return min(_LONGEST_WAIT, max(drawn, float(retry_after)))
        return drawn


class Filesystem(GCSFileSystem):
    """`GCSFileSystem` that heeds Retry-After, also retries timeouts, and logs no expected refusal."""

    retry: ClassVar[Retry] = Retry()

    async def _request(
        self,
        method: str,
        path: str,
        *args: str,
        headers: dict[str, str] | None = None,
        json: Any = None,
        data: bytes | None = None,
        attempts: int | None = None,
        **params: Any,
    ) -> Any:
        """One call of the JSON API, sent again while it fails for reasons that may pass.

        Args:
            method: HTTP method.
            path: below the API's root, with ``{}`` for each of `args`, or a whole URL.
            args: path components to quote.
            headers: extra headers.
            json: body as a JSON document.
            data: body as bytes.
            attempts: how often to try; 1 for requests that must not be repeated blindly.
            params: query parameters; None values vanish.
        """
        for name in ("cache_type", "cache_source"):  # gcsfs's own telemetry
            params.pop(name, None)
        last = (attempts or self.retry.attempts) - 1
        for attempt in range(last + 1):
            retry_after = None
            try:
                await self._set_session()
                async with self.session.request(
                    method=method,
                    url=self._format_path(path, args),
                    params=self._get_params(params),
                    json=json,
                    headers=self._get_headers(headers),
                    data=io.BytesIO(data) if data else None,  # a file: bytes make aiohttp warn
                    timeout=self.requests_timeout,
                ) as answer:
                    body = await answer.read()
                    if answer.status not in RETRIABLE:
                        validate_response(answer.status, body, path, args)
                        return answer.status, answer.headers, answer.request_info, body
                    retry_after = answer.headers.get("Retry-After")
                    raise refusal(answer.status, body)
            except Exception as exc:
                if attempt == last or not is_transient(exc):
                    raise
            await asyncio.sleep(self.retry.wait(attempt, retry_after))
        raise AssertionError  # the last attempt returned or raised

    def request(self, method: str, path: str, *args: str, **kwargs: Any) -> Answer:
        """`_request` from synchronous code; see there."""
        status, headers, _, body = fsspec.asyn.sync(
            self.loop, self._request, method, path, *args, **kwargs
        )
        return Answer(status, headers, body)


def is_transient(exc: BaseException) -> bool:
    """Whether a request that ended so may succeed when it is sent again."""
    if isinstance(exc, HttpError):
        return exc.code in RETRIABLE
    return isinstance(exc, _CUTS)


def refusal(status: int, body: bytes) -> HttpError:
    """The error for a status that may pass, with what the service says."""
    text = body[:500].decode("utf-8", errors="replace")
    return HttpError({"code": status, "message": text or "the service is busy"})


def connect(where: str) -> Filesystem:
    """The file system for ``gs://`` with the credentials of this process.

    Args:
        where: the store's URL, for messages.

    Raises:
        StoreError: there are no credentials, or they cannot be read.
    """
    options: dict[str, Any] = {
        "use_listings_cache": False,
        "skip_instance_cache": True,
        "requests_timeout": aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60),
    }
    token = credentials_source(where)
    if token is not None:
        options["token"] = token
    if token == "anon":  # noqa: S105 - gcsfs's name for "no credentials"
        options["project"] = "emulator"
    try:
        return Filesystem(**options)
    except (google.auth.exceptions.GoogleAuthError, ValueError, OSError) as exc:
        message = f"the Google Cloud credentials cannot be used: {exc}"
        raise StoreError(message, where=where, hint=_CREDENTIALS_HINT) from exc


_CREDENTIALS_HINT = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key "
    "file, or FSSPEC_GS_TOKEN=anon for public buckets"
)


def credentials_source(where: str) -> str | None:
    """Decides where credentials come from, within three seconds.

    In this order: an emulator (none needed); fsspec's configuration for gs (``FSSPEC_GS_TOKEN``),
    which is then left to gcsfs; ``GOOGLE_APPLICATION_CREDENTIALS``; gcloud's
    application-default file; the metadata server, if this machine looks like one of Google's and it
    answers. Asking it blindly, as gcsfs would, takes half a minute where there is none.

    Returns:
        gcsfs's ``token``, or None to leave the choice to fsspec's configuration.

    Raises:
        StoreError: none of them is there; names all.
    """
    if os.environ.get(EMULATOR):
        return "anon"
    configured = fsspec.config.conf
    if any("token" in configured.get(scheme, {}) for scheme in ("gs", "gcs")):
        return None
    key_file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if key_file and not os.path.exists(key_file):
        message = f"GOOGLE_APPLICATION_CREDENTIALS names a file that is not there: {key_file}"
        raise StoreError(message, where=where, hint=_CREDENTIALS_HINT)
    if key_file or os.path.exists(_gcloud_file()):
        return "google_default"
    machine = "this is no machine of Google Cloud"
    if _on_google():
        host = os.environ.get("GCE_METADATA_HOST") or _METADATA_HOST
        if metadata_answers(host):
            return "google_default"
        machine = f"the metadata server at {host} does not answer"
    message = (
        "there are no Google Cloud credentials: GOOGLE_APPLICATION_CREDENTIALS is not set, "
        f"{_gcloud_file()} does not exist, and {machine}"
    )
    raise StoreError(message, where=where, hint=_CREDENTIALS_HINT)


def metadata_answers(host: str) -> bool:
    """Whether a metadata server answers soon; google.auth would ask it for half a minute.

    Where there is one it takes milliseconds, but for the first moments of a pod: so it is asked
    three times. In a thread, since looking up a name has no timeout.

    Args:
        host: ``host`` or ``host:port``.
    """
    found = threading.Event()

    def ask() -> None:
        for _ in range(3):
            before = time.monotonic()
            connection = http.client.HTTPConnection(host, timeout=_METADATA_SECONDS)
            try:
                connection.request("GET", "/", headers={"Metadata-Flavor": "Google"})
                if connection.getresponse().headers.get("Metadata-Flavor") == "Google":
                    found.set()
                    return
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(max(0.0, before + _METADATA_SECONDS - time.monotonic()))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    deadline = time.monotonic() + 3 * _METADATA_SECONDS
    while thread.is_alive() and time.monotonic() < deadline and not found.is_set():
        found.wait(0.05)
    return found.is_set()


def _gcloud_file() -> str:
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")
    return os.path.join(folder, "application_default_credentials.json")


def _on_google() -> bool:
    """Whether there may be a metadata server with credentials here."""
    if os.environ.get("NO_GCE_CHECK", "").lower() == "true":
        return False
    if any(os.environ.get(name) for name in _ON_GOOGLE):
        return True
    try:
        with open(_PRODUCT_NAME, encoding="utf-8") as file:
            return file.read().startswith("Google")
    except OSError:
        return False
