"""The page of a dataset's DAG: what it builds, who owns it, how its versions are read."""

from __future__ import annotations

from datetime import datetime

from provender.orchestration.airflow.names import CHANGES
from provender.partitions import partition_of
from provender.registry import DagSettings, DatasetEntry


def description(name: str, entry: DatasetEntry) -> str:
    """One line."""
    return f"Builds and publishes {wanted(name, entry)}; what has not changed is reused."


def wanted(name: str, entry: DatasetEntry) -> str:
    """What is built, as a reference."""
    config = f"<{entry.partition}>" if entry.partition else entry.config
    text = f"{name}/{config}" if config else name
    return f"{text}:{entry.version}" if entry.version else text


def page(name: str, entry: DatasetEntry, said: DagSettings) -> str:
    """The page, Markdown."""
    rows = [
        ("builder", f"`{entry.builder}`" if entry.builder else "the one of that name"),
        ("config", entry.config),
        ("cut by", entry.partition),
        ("version", entry.version or "the builder's own"),
        ("manual files", f"`{entry.manual_dir}`" if entry.manual_dir else None),
        ("shards a split", entry.num_shards),
        ("checks", ", ".join(entry.checks.names) if entry.checks else None),
        ("owner", said.owner),
        ("waits for manual files", f"at most {said.manual_timeout}"),
    ]
    table = "\n".join(f"| {key} | {value} |" for key, value in rows if value)
    piece = _piece(name, entry.partition)
    notes = f"\n{said.notes.strip()}\n" if said.notes else ""
    example = f"/{_example(entry.partition)}" if entry.partition else ""
    return f"""# {name}
{notes}
| | |
|---|---|
{table}

A task whose work is done already says so: its label ends in `[cached]`, and its *Task State Store* and
log say why it ran or did not. `publish` is skipped where the version was announced before, so nothing
that waits for the asset `provender://{name}` is woken for nothing.
{piece}
```python
import provender

train = provender.load("{name}{example}", split="train", batch_size=256, job="my-model")
```

`provender plan {name}` says what the next run would do, and why.
"""


def _piece(name: str, grain: str | None) -> str:
    if grain is None:
        return ""
    return f"""
A run builds one {grain}: the one that its data interval begins in, or the one that the form asks for. A
span of time is built by a backfill, from Airflow's pages, `airflow backfill create` or
`provender backfill {name} --via airflow`. The asset `provender://{name}/{CHANGES}` has an event for each {grain}.
"""


def _example(grain: str) -> str:
    return partition_of(datetime(2026, 11, 30), grain).name
