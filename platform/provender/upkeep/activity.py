"""Who is at work now, and what was left running by processes that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from provender.catalog import Owner, is_dead, this_process
from provender.upkeep.findings import Finding, Problem

if TYPE_CHECKING:
    from provender.catalog import Catalog, ClaimRecord

_STAGE = "stage/"
_BUILD = "build/"
_RUNNING = "SELECT id FROM run WHERE outcome = 'running' ORDER BY id"
_CLAIMED = "SELECT key FROM lease ORDER BY key"
_MOST_ROWS = 10_000
_CLAIM_SECONDS = 600.0
"""Long enough to remove a large folder; a doctor that is killed blocks nobody for longer."""


@dataclass(frozen=True)
class Activity:
    """The claims that live processes hold, on any host.

    Attributes:
        claims: not expired, and not of a process known to be dead.
    """

    claims: tuple[ClaimRecord, ...]

    @classmethod
    def now(cls, catalog: Catalog) -> Activity:
        """What is held at this moment."""
        return cls(tuple(catalog.claims()))

    @cached_property
    def stages(self) -> frozenset[str]:
        """Fingerprints of the stages that run."""
        return frozenset(
            each.key.removeprefix(_STAGE) for each in self.claims if each.key.startswith(_STAGE)
        )

    @cached_property
    def builds(self) -> frozenset[str]:
        """``name[/config]:version`` of the builds that run."""
        return frozenset(
            each.key.removeprefix(_BUILD) for each in self.claims if each.key.startswith(_BUILD)
        )

    @property
    def idle(self) -> bool:
        """Whether nobody works on anything."""
        return not (self.stages or self.builds)


@contextmanager
def held(catalog: Catalog, keys: Iterable[str]) -> Iterator[bool]:
    """Claims keys for the doctor, so that no build begins what is being removed.

    Yields:
        Whether all of them could be had; False where a live process holds one.
    """
    owner = this_process("doctor")
    mine: list[str] = []
    try:
        wanted = list(keys)
        for key in wanted:
            if catalog.acquire(key, owner, _CLAIM_SECONDS) is None:
                break
            mine.append(key)
        yield len(mine) == len(wanted)
    finally:
        for key in mine:
            catalog.release(key, owner)


def stage_key(fingerprint: str) -> str:
    """The claim on a stage."""
    return _STAGE + fingerprint


def build_key(version_name: str) -> str:
    """The claim on a build of ``name[/config]:version``."""
    return _BUILD + version_name


def dead_work(catalog: Catalog) -> Iterator[Problem]:
    """Runs and stages that are shown as running, and claims, of processes that are gone."""

    def bury() -> bool:
        catalog.bury_dead()
        return True

    for stage in catalog.stages(state="running", limit=None):
        if is_dead(Owner(stage.host, stage.pid, stage.process_start)):
            what = f"{stage.dataset}: {stage.key} is shown as running; process {stage.pid} is gone"
            hint = "`provender doctor --fix` closes it; the next build goes on from what is done."
            yield Problem(Finding("dead_stage", what, stage.id, hint=hint), bury)
    for run in map(catalog.run, _column(catalog, _RUNNING)):
        if is_dead(Owner(run.host, run.pid, run.process_start)):
            what = f"{run.kind} of {run.dataset} is shown as running; process {run.pid} is gone"
            yield Problem(
                Finding("dead_run", what, run.id, hint="`provender doctor --fix` closes it."), bury
            )
    for key in _column(catalog, _CLAIMED):
        holder = catalog.holder(key)
        if holder is not None and not _is_live(catalog, key):
            yield _dead_claim(catalog, holder)


def _column(catalog: Catalog, statement: str) -> list[str]:
    return [str(row[0]) for row in catalog.sql(statement, limit=_MOST_ROWS).rows]


def _is_live(catalog: Catalog, key: str) -> bool:
    return any(each.key == key for each in catalog.claims(key))


def _dead_claim(catalog: Catalog, claim: ClaimRecord) -> Problem:
    def release() -> bool:
        return not _is_live(catalog, claim.key) and catalog.release(claim.key, claim.owner)

    what = f"a claim that {claim.owner} can no longer use"
    hint = "Harmless: whoever needs it takes it over."
    return Problem(Finding("dead_claim", what, claim.key, hint=hint), release)
