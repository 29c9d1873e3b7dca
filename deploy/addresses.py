"""Where the services of docker-compose.yml answer, and which secret of .env opens each."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_SERVICES = (
    ("Airflow", "AIRFLOW_PORT", 8080, "admin, AIRFLOW_ADMIN_PASSWORD"),
    ("Prefect", "PREFECT_PORT", 4200, "PREFECT_AUTH"),
    ("the catalog's pages", "PROVENDER_UI_PORT", 8420, "PROVENDER_UI_TOKEN"),
)
_PORT = re.compile(r"([A-Z_]+_PORT)=(\d+)")


def addresses(path: Path) -> list[str]:
    """A line a service; ports are those of the environment, then of the file, then the usual ones."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    ports = {m[1]: m[2] for m in map(_PORT.fullmatch, lines) if m}
    return [
        f"{name:<20} http://127.0.0.1:{os.environ.get(port) or ports.get(port, usual)}/  ({secret})"
        for name, port, usual, secret in _SERVICES
    ]


def main() -> None:
    """Prints them, and where the secrets are."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else ".env")
    print("\n".join(addresses(path)))
    print(f"The secrets named in brackets are in {path}.")


if __name__ == "__main__":
    main()
