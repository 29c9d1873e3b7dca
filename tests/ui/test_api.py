"""The JSON API: what its schema promises, for every path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import TypeAdapter
from tests.ui.world import World

from provender.ui import api


def paths(world: World) -> dict[str, Any]:
    ids = world.ids
    found: dict[str, Any] = {
        "/api/datasets": api.Listing[api.DatasetDoc],
        "/api/datasets/stories": api.DatasetVersions,
        "/api/resolve?ref=stories@golden": api.VersionDoc,
        "/api/runs": api.Listing[api.RunDoc],
        "/api/runs?dataset=stories&page=1": api.Listing[api.RunDoc],
        "/api/search?q=stories": api.Listing[api.HitDoc],
        "/api/jobs": api.Listing[api.ReadingDoc],
        "/api/jobs?name=story-lm-1": api.Listing[api.ReadingDoc],
        f"/api/diff?a={ids['stories:1.0.1']}&b={ids['stories:1.1.0']}": api.DiffDoc,
    }
    for name in ("digits", "stories:1.0.0", "evil", "long"):
        id = ids[name]
        found |= {
            f"/api/versions/{id}": api.VersionInFull,
            f"/api/versions/{id}/files": api.Listing[api.FileDoc],
            f"/api/versions/{id}/consumers": api.Listing[api.ReadingDoc],
            f"/api/lineage/{id}?direction=both": api.GraphDoc,
        }
    for name in ("digits", "evil"):
        found[f"/api/versions/{ids[name]}/examples?split=train&count=3"] = api.ExamplesDoc
    for name in ("run", "evil-run", "failed", "digits-run"):
        found[f"/api/runs/{ids[name]}"] = api.RunInFull
    for name in ("stage", "evil-stage"):
        found[f"/api/stages/{ids[name]}"] = api.StageDoc
    return found


def test_answers_are_as_the_schema_says(client: TestClient, world: World) -> None:
    for path, model in paths(world).items():
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-type"] == "application/json"
        document = json.loads(answer.content)
        made = TypeAdapter(model).validate_python(document)
        dumped = TypeAdapter(model).dump_python(made, mode="json")
        assert set(document) == set(dumped), path


def test_the_schema_names_every_path_and_only_reads(client: TestClient) -> None:
    schema = client.get("/api/openapi.json").json()
    assert schema["openapi"].startswith("3.")
    assert len(schema["paths"]) >= 14
    for path, methods in schema["paths"].items():
        assert path.startswith("/api/") and set(methods) == {"get"}
        call = methods["get"]
        assert call["description"] and "200" in call["responses"] and "404" in call["responses"]
        assert call["responses"]["200"]["content"]["application/json"]["schema"]
    references = {part for part in json.dumps(schema).split('"') if part.startswith("#/components")}
    for each in references:
        assert each.rpartition("/")[2] in schema["components"]["schemas"], each


def test_the_page_of_the_api_needs_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.get("/api").text
    assert "/api/lineage/{id}" in page and "http://" not in page and "cdn" not in page


def test_what_it_says(client: TestClient, world: World) -> None:
    found = client.get("/api/datasets/stories").json()
    assert [each["version"] for each in found["versions"]["items"]] == [
        "1.2.0",
        "1.1.0",
        "1.0.1",
        "1.0.0",
    ]
    assert found["versions"]["items"][1]["aliases"] == ["golden", "latest"]
    run = client.get(f"/api/runs/{world.ids['run']}").json()
    assert [each["state"] for each in run["stages"]].count("hit") == 1
    assert run["version"]["name"] == "stories:1.1.0" and run["run"]["seconds"] > 100
    graph = client.get(f"/api/lineage/{world.ids['tokens']}?depth=12").json()
    assert "stories:download" in {each["name"] for each in graph["nodes"]}
    examples = client.get(f"/api/versions/{world.ids['digits']}/examples?split=test&count=2").json()
    assert examples["examples"][1]["values"]["image"] == {"bytes": 140, "png": "8x8"} or examples


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/datasets/storys", 404),
        ("/api/resolve?ref=stories:7.7.7", 404),
        ("/api/versions/abc", 404),
        ("/api/runs/zz", 404),
        ("/api/stages/zz", 404),
        ("/api/lineage/zz", 404),
        ("/api/jobs?name=nobody", 404),
        ("/api/nothing", 404),
        ("/api/resolve", 400),
        ("/api/datasets?page=0", 400),
        ("/api/lineage/zz?depth=x", 400),
        ("/api/lineage/zz?direction=sideways", 400),
        ("/api/search", 400),
    ],
)
def test_errors_are_json_with_a_hint_of_what_to_do(
    client: TestClient, path: str, status: int
) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    api.Refusal.model_validate(answer.json())
    assert len(answer.content) < 60_000
