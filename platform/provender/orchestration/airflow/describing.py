"""The page of a dataset's DAG: what it builds, who owns it, how its versions are read."""

from __future__ import annotations

from provender.registry import DagSettings, DatasetEntry


def description(name: str, entry: DatasetEntry) -> str:
    """One line."""
    return f"Builds and publishes {wanted(name, entry)}; what has not changed is reused."


def wanted(name: str, entry: DatasetEntry) -> str:
    """What is built, as a reference."""
    text = f"{name}/{entry.config}" if entry.config else name
    return f"{text}:{entry.version}" if entry.version else text


def page(name: str, entry: DatasetEntry, said: DagSettings) -> str:
    """The page, Markdown."""
    rows = [
        ("builder", f"`{entry.builder}`" if entry.builder else "the one of that name"),
        ("config", entry.config),
        ("version", entry.version or "the builder's own"),
        ("manual files", f"`{entry.manual_dir}`" if entry.manual_dir else None),
        ("shards a split", entry.num_shards),
        ("checks", ", ".join(entry.checks.names) if entry.checks else None),
        ("owner", said.owner),
        ("waits for manual files", f"at most {said.manual_timeout}"),
    ]
    table = "\n".join(f"| {key} | {value} |" for key, value in rows if value)
    notes = f"\n{said.notes.strip()}\n" if said.notes else ""
    return f"""# {name}
{notes}
| | |
|---|---|
{table}

A task whose work is done already says so: its label ends in `[cached]`, and its *Task State Store* and
log say why it ran or did not. `publish` is skipped where the version was announced before, so nothing
that waits for the asset `provender://{name}` is woken for nothing.

```python
import provender

train = provender.load("{name}", split="train", batch_size=256, job="my-model")
```

`provender plan {name}` says what the next run would do, and why.
"""
