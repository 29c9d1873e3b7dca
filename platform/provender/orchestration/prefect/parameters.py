"""The parameters of the flows, with the descriptions that Prefect's form shows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Dataset = Annotated[
    str,
    Field(
        min_length=1,
        description="What to build: a name of provender.toml, a shipped or TFDS name, or "
        "file.py:Class, with /config and :version where wanted.",
        examples=["digits", "xsum:1.1.0"],
    ),
]
ManualDir = Annotated[
    str | None,
    Field(description="Folder of files that people must provide, as the workers see it."),
]
WaitMinutes = Annotated[
    float, Field(ge=0, description="Minutes to wait for files that people must provide.")
]
Stages = Annotated[
    list[Literal["all", "manual", "download", "splits", "examples", "shards", "register"]] | None,
    Field(description="Stages to run although nothing changed."),
]
Workers = Annotated[
    int | None, Field(ge=1, description="Parts that each split is cut into for encoding.")
]
Shards = Annotated[
    int | None, Field(ge=1, description="Shards of each split; by default TFDS's own rule.")
]
Most = Annotated[
    int | None, Field(ge=1, description="Stop each split after so many examples; a trial.")
]
Trial = Annotated[bool, Field(description="Build without taking the version number.")]
DryRun = Annotated[bool, Field(description="Only say what would be done, and why.")]
Allowed = Annotated[
    list[str] | None, Field(description="Checks that may fail, such as max_drift:train/label.")
]
Reason = Annotated[str | None, Field(description="Why they may; kept with the version.")]
ConfigFile = Annotated[
    str | None,
    Field(description="The provender.toml, as the workers see it; by default the nearest one."),
]
Tasks = Annotated[int, Field(ge=1, le=1000, description="Most tasks that a stage is spread over.")]
Only = Annotated[
    list[str] | None, Field(description="Names of provender.toml; by default all of them.")
]
Apply = Annotated[bool, Field(description="Remove what is listed; else only list it.")]
GraceDays = Annotated[float, Field(ge=0, description="Keep what is younger, in days.")]
Keep = Annotated[
    int | None,
    Field(
        ge=1,
        description="Also retract and remove published versions beyond the newest so many of "
        "their dataset that have no alias and that nobody reads.",
    ),
]
