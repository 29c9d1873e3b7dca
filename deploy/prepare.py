"""What must be there before the servers of docker-compose.yml start; saying it twice is once.

The catalog's and Airflow's schemas, Airflow's password file, the development store's bucket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path


def run(*command: str) -> None:
    """Runs a command; what it says is seen, and its failure ends this program."""
    print("$", *command, flush=True)
    if code := subprocess.run(command).returncode:
        sys.exit(f"{' '.join(command)} failed with code {code}: nothing starts before it succeeds.")


def write_passwords() -> None:
    """The one account of Airflow's simple login, readable by this user alone."""
    path = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}, file)


def make_bucket() -> None:
    """The bucket of the development server; a real gs:// store has its own already."""
    server, store = os.environ.get("STORAGE_EMULATOR_HOST"), os.environ["PROVENDER_STORE"]
    if not server or not store.startswith("gs://"):
        return
    bucket = urllib.parse.urlsplit(store).netloc
    request = urllib.request.Request(
        f"{server}/storage/v1/b?project=provender",
        data=json.dumps({"name": bucket}).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    try:
        urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
    print(f"bucket {bucket} is there", flush=True)


def main() -> None:
    """Prepares everything."""
    make_bucket()
    run("provender", "db", "upgrade")
    write_passwords()
    run("airflow", "db", "migrate")


if __name__ == "__main__":
    main()
