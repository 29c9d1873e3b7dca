"""What a job reads, noted in the catalog as `provender.load` notes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provender.settings import Settings


def note_reading(
    reference: str, split: str, index: int, count: int, settings: Settings | None
) -> None:
    """Notes that a job reads a version; does nothing without a job's name in PROVENDER_JOB.

    Args:
        reference: the version.
        split: a split expression.
        index: this input pipeline.
        count: of so many.
        settings: of the project; by default as provender.toml and the environment say.
    """
    job = os.environ.get("PROVENDER_JOB")
    if not job:
        return
    from provender.api import open_catalog
    from provender.refs import DatasetRef
    from provender.settings import load_settings
    from provender.training.diary import diary
    from provender.upkeep import find_version

    settings = settings or load_settings()
    version = find_version(open_catalog(settings), DatasetRef.parse(reference))
    facts = {"reference": reference, "pipeline": index, "pipelines": count}
    diary(settings.home, settings.catalog).opened(version.id, job, [split], facts)
