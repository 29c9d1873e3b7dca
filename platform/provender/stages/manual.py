"""The manual stage: files that people must put in place are there, and are what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import InputError
from provender.fingerprint import Tree, combine
from provender.stages.site import Progress, Workplace

if TYPE_CHECKING:
    from provender.builders.download import DigestMemory
    from provender.builders.facts import BuilderFacts

KEY = "manual"


def look(facts: BuilderFacts, manual_dir: str | None, digests: DigestMemory) -> dict[str, Any]:
    """Finds the manual files and their content.

    Args:
        facts: the builder; it must need manual files.
        manual_dir: where they should be.
        digests: remembers the content of files that have not changed since.

    Returns:
        Relative path -> ``{"sha256", "size"}``.

    Raises:
        ManualFilesMissing: names all that is missing, with full paths.
    """
    from provender.builders.download import check_manual

    need = facts.manual or {}
    found = check_manual(
        Path(manual_dir) if manual_dir else None,
        need["files"],
        dataset=facts.ref,
        instructions=need["instructions"],
        digests=digests,
    )
    return {
        each.name: {"sha256": each.sha256 or digests.digest(each.path).sha256, "size": each.size}
        for each in found
    }


def tree(facts: BuilderFacts, files: Mapping[str, Any]) -> Tree:
    """The stage's fingerprint: what is asked for and what lies there."""
    need = facts.manual or {}
    return combine(
        KEY,
        {
            "instructions": need["instructions"],
            "declared files": need["files"],
            "check": facts.code_of_check or "none",
            **{f"file {name}": each["sha256"] for name, each in files.items()},
        },
    )


def run(work: Workplace, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Lets the builder look inside the files (`check_manual`), where it can.

    Returns:
        The files, as `look` found them.

    Raises:
        InputError: the builder's own check found something wrong.
    """
    check = getattr(type(work.loaded.builder), "check_manual", None)
    problems = check(work.roots["manual"]) if check else []
    if problems:
        raise InputError(
            f"The manual files of {work.site.dataset} are not what the builder reads: "
            + " ".join(problems),
            where=str(work.roots["manual"]),
            hint=type(work.loaded.builder).MANUAL_DOWNLOAD_INSTRUCTIONS,
            facts={"problems": list(problems)},
        )
    return {"files": dict(args["files"])}
