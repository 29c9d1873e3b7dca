"""The package as an Airflow provider: found, valid, and what it brings works."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from provender.errors import ChecksumMismatch, DownloadError, SettingsError
from provender.orchestration.airflow.provider import get_provider_info

ROOT = Path(__file__).parents[3]


def test_the_facts_are_as_airflow_wants_them(airflow: None) -> None:
    import airflow
    import jsonschema

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def _names(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [name for each in value.values() for name in _names(each)]
    if isinstance(value, list):
        return [name for each in value for name in _names(each)]
    return [value] if isinstance(value, str) and value.startswith("provender.") else []


def test_everything_that_is_named_exists(airflow: None) -> None:
    names = [each for each in _names(get_provider_info()) if each != "provender.toml"]
    assert len(names) == 4
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), attribute))


USE = """
from airflow.providers_manager import ProvidersManager
from airflow.sdk import Asset, task
from airflow.configuration import conf

print("provender" in ProvidersManager().providers, callable(task.provender_stage))
asset = Asset("provender://digits/")
convert = ProvidersManager().asset_to_openlineage_converters["provender"]
said = convert(asset, None)
print(asset.uri, said.namespace, said.name)
ProvidersManager().initialize_providers_configuration()
print(conf.get("provender", "catalog_conn_id"))
"""


def test_airflow_finds_it_by_its_entry_point(airflow: None, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["apache_airflow_provider"]
    info = tmp_path / "provender-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: provender\nVersion: 0.1.0\n")
    lines = "".join(f"{name} = {where}\n" for name, where in points.items())
    (info / "entry_points.txt").write_text(f"[apache_airflow_provider]\n{lines}")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", USE], capture_output=True, text=True, check=True, env=environ
    )
    said = [line for line in done.stdout.splitlines() if "DeprecatedImportWarning" not in line]
    assert said[-3:] == [
        "True True", "provender://digits provender digits", "provender_catalog"
    ]  # fmt: skip


@pytest.mark.parametrize("uri", ["provender://", "provender://a?b=c"])
def test_assets_name_a_dataset(airflow: None, uri: str) -> None:
    from urllib.parse import urlsplit

    from provender.orchestration.airflow.assets import sanitize_uri

    with pytest.raises(ValueError, match="name of a dataset"):
        sanitize_uri(urlsplit(uri))


def test_errors_that_would_come_again_end_the_retries(airflow: None) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from provender.orchestration.airflow.operators import stop

    busy = DownloadError("429", facts={"transient": True})
    assert stop(busy) is busy
    ended = stop(ChecksumMismatch("other bytes", where="http://x", hint="Look."))
    assert isinstance(ended, AirflowFailException)
    assert all(
        text in str(ended) for text in ("ChecksumMismatch", "other bytes", "http://x", "Look.")
    )


def test_connections_as_catalogs(airflow: None) -> None:
    from airflow.sdk import Connection

    from provender.orchestration.airflow.connection import url_of

    uris = {
        "postgres://ada:s%40crt@db:5433/provender?sslmode=require": "postgresql+psycopg://ada:s%40crt@db:5433/provender?sslmode=require",
        "sqlite:///tmp/x/catalog.db": "sqlite:////tmp/x/catalog.db",
    }
    for uri, url in uris.items():
        assert url_of(Connection.from_uri(uri, conn_id="c")) == url
    plain = Connection(conn_id="c", conn_type="sqlite", host="/tmp/x/catalog.db")
    assert url_of(plain) == "sqlite:////tmp/x/catalog.db"
    with pytest.raises(SettingsError, match="not in 'mysql'"):
        url_of(Connection(conn_id="c", conn_type="mysql"))
