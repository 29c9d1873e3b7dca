"""Types of the flows' parameters: what Prefect's form offers, and what it refuses.

Their descriptions are those of the flows' docstrings, which is where Prefect looks for them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Dataset = Annotated[str, Field(min_length=1, examples=["digits", "xsum:1.1.0"])]
Minutes = Annotated[float, Field(ge=0)]
Days = Annotated[float, Field(ge=0)]
Count = Annotated[int | None, Field(ge=1)]
Tasks = Annotated[int, Field(ge=1, le=1000)]
Stages = list[Literal["all", "manual", "download", "splits", "examples", "shards", "register"]]
