"""`/metrics`, read by Prometheus's own parser, and `/health`, read by whoever starts the server."""

from __future__ import annotations

import builtins
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from tests.catalog import pg_server
from tests.ui.serving import served
from tests.ui.world import World

from provender.catalog import Catalog
from provender.store import Store
from provender.ui import create_app
from provender.ui.metrics import FRESH, SHARE, Meter

TOKEN = "a token that is long enough"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    """Name and labels -> value, of every line."""
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def one(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with pg_server.start() as server:
        yield server.new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    url = str(tmp_path / "catalog.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql")
    with Catalog.open(url) as opened:
        yield opened


def test_figures_of_either_database(catalog: Catalog, tmp_path: Path) -> None:
    run = catalog.begin_run("build", "toy", None, "1.0.0")
    stage = catalog.record_stage(run, "toy", None, "download", "fp", state="succeeded")
    catalog.record_stage(run, "toy", None, "shards/train/00000", "fp-2", state="failed")
    catalog.record_hits(run, [stage.id])
    app = create_app(catalog, store=Store.open(str(tmp_path)))
    answer = TestClient(app, base_url="http://127.0.0.1").get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = samples(answer.text)
    done = "provender_stage_executions_total"
    assert one(found, done, stage="download", state="succeeded") == 1
    assert one(found, done, stage="shards", state="failed") == 1
    assert one(found, "provender_misses_total") == 2
    assert one(found, "provender_hits_total", what="stage") == 1
    assert one(found, "provender_hits_total", what="version") == 0
    assert one(found, "provender_runs_running", kind="build") == 1
    began = one(found, "provender_oldest_running_run_timestamp_seconds", kind="build")
    assert began == pytest.approx(catalog.run(run).started.timestamp())
    kind = "sqlite" if "sqlite" in catalog.url else "postgresql"
    assert any(name == "provender_info" and ("database", kind) in labels for name, labels in found)


def test_every_family_is_documented_and_written(world: World, client: TestClient) -> None:
    text = client.get("/metrics").text
    families = list(text_string_to_metric_families(text))
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    for each in families:
        name = f"{each.name}_total" if each.type == "counter" else each.name
        assert each.name.startswith("provender_") and each.documentation
        assert f"`{name}`" in page or f"`{name}{{" in page, name
    found = samples(text)
    (versions,) = world.catalog.sql("SELECT count(*) FROM v_versions WHERE status='published'").rows
    assert one(found, "provender_versions", status="published") == versions[0]
    (written,) = world.catalog.sql("SELECT sum(size) FROM artifact").rows
    assert one(found, "provender_artifact_bytes_total") == written[0] > 0
    assert one(found, "provender_hits_total", what="version") >= 1
    assert "stories" not in text and "digits" not in text, "no dataset is a label"


def test_alerts_of_the_page_ask_for_what_there_is(client: TestClient) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    blocks = [
        yaml.safe_load(each) for each in re.findall(r"^```yaml\n(.*?)^```", page, re.S | re.M)
    ]
    (alerts,) = [each["groups"] for each in blocks if "groups" in each]
    rules = [rule for group in alerts for rule in group["rules"]]
    asked = {name for rule in rules for name in re.findall(r"provender_\w+", rule["expr"])}
    there = {
        f"{each.name}_total" if each.type == "counter" else each.name
        for each in text_string_to_metric_families(client.get("/metrics").text)
    }
    assert len(rules) >= 5 and asked and asked <= there


def test_who_may_read_them(visit: Callable[..., TestClient]) -> None:
    client = visit(token=TOKEN)
    assert client.get("/metrics").status_code == 401
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/metrics", headers=bearer).status_code == 200
    assert visit(authorize=lambda *_: False).get("/metrics").status_code == 403


def test_without_the_library(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ModuleNotFoundError(name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    answer = client.get("/metrics")
    assert answer.status_code == 501 and "provender[metrics]" in answer.text


# How often they are counted ----------------------------------------------------------------------


class Slow:
    """A catalog that takes its time, by a clock of its own."""

    url = "sqlite:///x"

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.counted = seconds, 0.0, 0

    def clock(self) -> float:
        return self.now

    def figures(self) -> int:
        self.now += self.seconds
        self.counted += 1
        return self.counted


@pytest.mark.parametrize("seconds", [0.001, 2.0])
def test_counting_takes_a_small_share_of_the_time(seconds: float) -> None:
    slow: Any = Slow(seconds)
    meter = Meter(slow.clock)
    assert meter.read(slow).figures == 1
    good_for = max(FRESH, SHARE * seconds)
    slow.now += good_for - 0.01
    assert meter.read(slow).figures == 1
    slow.now += 0.02
    assert meter.read(slow).figures == 2
    assert meter.read(slow).seconds == pytest.approx(seconds)


# The pulse ---------------------------------------------------------------------------------------


def test_health_is_open_to_all_and_says_nothing(visit: Callable[..., TestClient]) -> None:
    for client in (visit(), visit(token=TOKEN), visit(authorize=lambda *_: False)):
        answer = client.get("/health")
        assert answer.status_code == 200 and answer.json() == {"status": "ok"}
    guarded = visit(token=TOKEN)
    for path in ("/healthy", "/health/", "/health/../runs", "/Health"):
        assert guarded.get(path).status_code in (401, 404), path


def test_health_of_a_catalog_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVENDER_HOME", str(tmp_path))
    monkeypatch.setenv("PROVENDER_CATALOG", "postgresql+psycopg://u:s3cret@127.0.0.1:1/none")
    client = TestClient(create_app(), base_url="http://127.0.0.1")
    answer = client.get("/health")
    assert answer.status_code == 503 and answer.json() == {"status": "the catalog is away"}
    assert client.get("/metrics").status_code == 503


def test_health_notices_when_the_catalog_goes(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as catalog:
        client = TestClient(
            create_app(catalog, store=Store.open(str(tmp_path))), base_url="http://127.0.0.1"
        )
        assert client.get("/health").status_code == 200
        with sqlite3.connect(path) as conn:
            conn.execute("ALTER TABLE alembic_version RENAME TO gone")
        conn.close()
        assert client.get("/health").status_code == 503


def test_a_real_server(world: World) -> None:
    with served(world.home, environment={"PROVENDER_UI_TOKEN": TOKEN}) as said:
        assert httpx.get(said["url"] + "health").json() == {"status": "ok"}
        assert httpx.get(said["url"] + "metrics").status_code == 401
        bearer = {"authorization": f"Bearer {TOKEN}"}
        text = httpx.get(said["url"] + "metrics", headers=bearer).text
        assert one(samples(text), "provender_metrics_seconds") > 0
