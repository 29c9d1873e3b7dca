"""The documented SQL views: the part of the schema that people may build upon.

Tables may change with any release; a view keeps its columns, and their meaning, until a release
note says otherwise. The migrations create them; a test holds this page against the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VIEWS: Final[Mapping[str, Mapping[str, str]]] = {
    "v_versions": {
        "dataset": "dataset name",
        "config": "builder config, empty for the default",
        "version": "number, x.y.z",
        "status": "published, trial, retracted or replaced",
        "aliases": "comma-separated aliases that point here, or NULL",
        "splits": "number of splits",
        "examples": "examples over all splits",
        "bytes": "size of all shard files",
        "shards": "number of shard files",
        "path": "folder relative to the store",
        "uri": "folder, absolute",
        "fingerprint": "digest of everything the version was made from",
        "created_at": "when it was registered, UTC",
        "retracted_at": "when it was retracted or replaced, UTC",
        "retracted_by": "who retracted it",
        "retract_reason": "why",
        "successor_id": "version to use instead",
        "run_id": "run that made it",
        "version_id": "id",
    },
    "v_lineage": {
        "child_kind": "version or stage",
        "child_id": "what was made",
        "child_name": "xsum:1.0.0, or xsum:shards/train/00003",
        "parent_kind": "version, stage or artifact",
        "parent_id": "what it was made from",
        "parent_name": "as child_name; the digest for an artifact from outside",
        "via": "digest of what was handed over, or NULL",
    },
    "v_stage_runs": {
        "dataset": "dataset name",
        "config": "builder config",
        "key": "which stage, e.g. shards/train/00003",
        "stage": "kind of stage: the key up to its first slash",
        "state": "running, succeeded, cached, failed, skipped or waiting",
        "seconds": "wall time, NULL while it runs",
        "attempts": "how often it was tried",
        "outputs": "number of artifacts it made",
        "bytes": "size of those artifacts",
        "error": "message of what ended it, or NULL",
        "host": "where it ran",
        "pid": "process that ran it",
        "started_at": "UTC",
        "finished_at": "UTC",
        "fingerprint": "digest of everything it depends on",
        "run_id": "run that asked for it",
        "stage_id": "id",
    },
    "v_cache_hits": {
        "run_id": "run that found something ready",
        "run_kind": "what the run was, e.g. build",
        "dataset": "dataset name",
        "config": "builder config",
        "key": "stage that was reused; NULL where a whole version was found ready",
        "seconds_saved": "wall time of the execution that was reused, NULL for a version",
        "hit_at": "UTC",
        "stage_id": "execution that was reused, or NULL",
        "version_id": "version that was found ready, or NULL",
        "produced_by": "run that had done the work",
    },
    "v_consumption": {
        "job": "who read",
        "dataset": "dataset name",
        "config": "builder config",
        "version": "number",
        "status": "status of that version today",
        "splits": "JSON list of the splits read",
        "host": "where the job ran",
        "user_name": "as whom",
        "started_at": "UTC",
        "facts": "JSON the job left",
        "version_id": "version that was read",
        "consumption_id": "id",
    },
}
