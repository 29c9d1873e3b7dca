"""The same DAG on two Celery workers: a Redis broker, and PostgreSQL for Airflow and the catalog."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from examples.airflow.local_airflow import free_port
from tests.catalog.pg_server import start
from tests.orchestration.airflow_e2e.driving import Driver, prepared

from provender.catalog import Catalog

REDIS = shutil.which("redis-server")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(REDIS is None, reason="no redis-server here: apt-get install redis-server"),
]
SECRET = "only-for-this-test"


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """A Redis on loopback with a password; gives its URL."""
    port = free_port(0)
    (folder / "redis.conf").write_text(
        f'bind 127.0.0.1\nport {port}\nrequirepass {SECRET}\nsave ""\ndir {folder}\n'
    )
    process = subprocess.Popen([str(REDIS), str(folder / "redis.conf")], stdout=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < ends and process.poll() is None
                time.sleep(0.1)
        yield f"redis://:{SECRET}@127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def connection(url: str) -> dict[str, Any]:
    """The catalog's URL as a connection of Airflow's, with a password."""
    parts = urlsplit(url)
    extra = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return {
        "connection_id": "provender_catalog",
        "conn_type": "postgres",
        "login": parts.username,
        "password": SECRET,
        "host": parts.hostname,
        "port": parts.port,
        "schema": parts.path.strip("/"),
        "extra": json.dumps(extra),
    }


def test_two_workers_build_one_dataset(tmp_path: Path) -> None:
    with broker(tmp_path) as redis, start() as postgres:
        own, catalog_url = postgres.new_database(), postgres.new_database()
        Catalog.open(catalog_url).close()
        more = {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": own,
            "AIRFLOW__CELERY__BROKER_URL": f"{redis}/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"{redis}/1",
        }
        with prepared(tmp_path / "project", more) as airflow:
            for name in ("first", "second"):
                worker = ["celery", "worker", "-q", "default", "-c", "2", "-H", name]
                airflow.start(name, [*worker, "--skip-serve-logs"])
            airflow.start("scheduler")
            airflow.wait("metadatabase", "scheduler")
            driver = Driver(airflow)
            driver.ask("POST", "/connections", connection(catalog_url))
            run_id = driver.trigger("provender_digits", workers=4)
            driver.ended("provender_digits", run_id)
            again = driver.trigger("provender_digits", workers=4)
            driver.ended("provender_digits", again)
            trained = driver.ended("train_digits")
            by_hand = driver.ended("train_digits", driver.trigger("train_digits"))
            # The pages find the catalog by the same connection.
            told = airflow.ask("GET", "/provender/api/datasets/digits", token=driver.token)
            assert told["dataset"]["name"] == "digits"
            logs = {path.name: path.read_text() for path in airflow.home.rglob("*.log")}
        done = [logs[f"{name}.log"].count("succeeded in") for name in ("first", "second")]
        assert min(done) > 1, f"both workers worked: {done}"
        with Catalog.open(catalog_url) as catalog:
            assert [run.outcome for run in catalog.runs("digits")] == ["cached", "succeeded"]
            for run in (trained, by_hand):
                read = catalog.readings(job=f"train_digits/{run}")
                assert {each.name for each in read} == {"digits:1.0.0"}
    assert SECRET not in "".join(logs.values())
