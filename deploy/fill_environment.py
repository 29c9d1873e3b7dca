"""Writes the secrets of docker-compose.yml that .env does not have yet, each at random.

    python deploy/fill_environment.py [.env]

What is there stays. The file is readable by its owner alone.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

TEMPLATE = Path(__file__).with_name("environment.template")
_LINE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)")


def _password() -> str:
    # Letters and digits only: these become parts of URLs.
    return secrets.token_hex(20)


def _fernet() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


_OTHERS: dict[str, Callable[[], str]] = {
    "AIRFLOW_FERNET_KEY": _fernet,
    # As long as a digest of SHA-512, with which Airflow signs: RFC 7518, section 3.2.
    "AIRFLOW_JWT_SECRET": lambda: secrets.token_hex(64),
    "PREFECT_AUTH": lambda: f"provender:{_password()}",
}


def wanted() -> list[str]:
    """The names that the template lists."""
    return [m[1] for m in map(_LINE.fullmatch, TEMPLATE.read_text().splitlines()) if m]


def read(path: Path) -> dict[str, str]:
    """The values that a file has."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {m[1]: m[2] for m in map(_LINE.fullmatch, lines) if m and m[2]}


def complete(path: Path) -> list[str]:
    """Adds what is missing to a file.

    Returns:
        The names that were added.
    """
    missing = [name for name in wanted() if name not in read(path)]
    if not missing:
        return []
    before = path.read_bytes() if path.exists() else b""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8") as file:
        if before and not before.endswith(b"\n"):
            file.write("\n")
        for name in missing:
            file.write(f"{name}={_OTHERS.get(name, _password)()}\n")
    path.chmod(0o600)
    return missing


def main() -> None:
    """Completes the file named on the command line, by default .env."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else ".env")
    added = complete(path)
    print(f"{path}: {', '.join(added) or 'nothing was missing'}")


if __name__ == "__main__":
    main()
