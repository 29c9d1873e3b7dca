"""A whole build by the calls of `provender.engine.staged`, as an orchestrator would make them.

`drive` is used in process; as a program it is one orchestrator's run, and says how it went as JSON:

    python staged_program.py '{"ref": ..., "store": ..., "run": ..., "options": {...}}'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from provender.engine import staged
from provender.engine.session import Options
from provender.settings import Settings, load_settings


@dataclass
class Driven:
    """What each call gave."""

    doc: staged.RunDoc
    outcomes: dict[str, staged.Outcome] = field(default_factory=dict)
    units: dict[str, list[staged.Unit]] = field(default_factory=dict)
    published: staged.Published | None = None

    @property
    def states(self) -> set[str]:
        return {each.state for each in self.outcomes.values()} - {staged.ABSENT}

    @property
    def ran(self) -> set[str]:
        return {key for key, each in self.outcomes.items() if each.state == staged.RAN}


def across(value: Any) -> Any:
    """The value as another process would receive it."""
    return type(value).from_json(json.loads(json.dumps(value.to_json())))


def drive(
    ref: str,
    settings: Settings,
    run: str = "1",
    limit: int = 64,
    after: Callable[[str, staged.RunDoc], None] = lambda *_: None,
    **options: Any,
) -> Driven:
    """Makes every call of a build; ``after`` is called with each one's name."""
    doc = across(
        staged.begin(ref, settings, Options(**options), orchestrator={"name": "test", "run": run})
    )
    done = Driven(doc)

    def note(outcomes: list[staged.Outcome]) -> None:
        done.outcomes |= {each.stage: across(each) for each in outcomes}

    for stage in ("manual", "download", "splits"):
        note([staged.run_stage(doc, stage, settings)])
        after(stage, doc)
    for stage in ("examples", "shards"):
        done.units[stage] = staged.pieces(doc, stage, settings, limit=limit)
        for unit in done.units[stage]:
            note(staged.run_pieces(doc, across(unit), settings))
        if stage == "examples":
            note(staged.collect(doc, settings))
        after(stage, doc)
    done.published = across(staged.register_version(doc, settings))
    assert staged.published(doc, settings) == done.published
    return done


def main() -> None:
    job = json.loads(sys.argv[1])
    settings = load_settings(store=job["store"])
    done = drive(job["ref"], settings, job["run"], **job.get("options", {}))
    assert done.published is not None
    heavy = sorted({"tensorflow", "tensorflow_datasets", "airflow", "prefect"} & set(sys.modules))
    said = {"states": sorted(done.states), "ran": sorted(done.ran), "heavy": heavy}
    print(json.dumps({**said, "published": done.published.to_json()}))


if __name__ == "__main__":
    main()
