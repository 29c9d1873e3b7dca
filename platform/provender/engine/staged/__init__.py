"""A build driven from outside, stage by stage, each call in a process of its own.

What `provender.engine.build` does in one process, an orchestrator does by these calls, in this order:

    doc = begin(ref, settings, options, orchestrator={...})     opens the run
    look_for_manual(doc)                                        may be asked again and again
    run_stage(doc, "manual")                                    refuses conflicts, notes a no-op
    run_stage(doc, "download"); run_stage(doc, "splits")
    for unit in pieces(doc, "examples"): run_pieces(doc, unit)  in any order, at the same time
    collect(doc)
    for unit in pieces(doc, "shards"): run_pieces(doc, unit)    in any order, at the same time
    register_version(doc)                                       checks, publishes, closes the run
    published(doc)                                              what stands, and whether it changed

`RunDoc`, `Unit`, `Outcome` and `Published` have `to_json` and `from_json`; none holds a password.
"""

from __future__ import annotations

from provender.engine.staged.documents import (
    ABSENT,
    CACHED,
    RAN,
    REUSED,
    Outcome,
    Published,
    RunDoc,
    Unit,
    state_of,
)
from provender.engine.staged.manual import SETTLED, ManualState, look_for_manual
from provender.engine.staged.running import begin, workplace
from provender.engine.staged.tasks import (
    LIMIT,
    collect,
    end,
    execution_of,
    find_execution,
    pieces,
    plan_of,
    published,
    register_version,
    run_pieces,
    run_stage,
)

__all__ = [
    "ABSENT",
    "CACHED",
    "LIMIT",
    "RAN",
    "REUSED",
    "SETTLED",
    "ManualState",
    "Outcome",
    "Published",
    "RunDoc",
    "Unit",
    "begin",
    "collect",
    "end",
    "execution_of",
    "find_execution",
    "look_for_manual",
    "pieces",
    "plan_of",
    "published",
    "register_version",
    "run_pieces",
    "run_stage",
    "state_of",
    "workplace",
]
