"""``init`` and ``datasets``: a project, and the names that can be built in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.tables import Column
from provender.cli.units import time_text
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.catalog import DatasetRecord

_TEMPLATE = """\
# Settings of Provender. Options and PROVENDER_* environment variables win over this file.
# Relative paths are relative to this file.

# All bytes: a folder, or gs://bucket/prefix, or any other fsspec URL.
store = {store}

# All facts: a SQLite file, or postgresql+psycopg://user@host/database for a team.
{catalog}

# Local folder for what is worth keeping between runs but can be made again.
# home = "~/provender"

# Local folder for work in progress when the store is remote.
# scratch = "/mnt/fast/provender"

# Local folder of the transform cache (results of map, filter ...), and what it may hold.
# cache = "/mnt/fast/provender-cache"
# cache_limit = "50GiB"                # or "none"

# Files that people must provide; a dataset's own subfolder is looked at first.
# manual_dir = "manual"

# Worker processes; by default one a CPU.
# workers = 4

# Never touch the network.
# offline = true

# URL prefix -> where to look first.
# [mirrors]
# "https://example.org/data/" = "gs://our-mirror/data/"

# Names of your own: `provender build reviews` then works from anywhere in this project.
# [datasets.reviews]
# builder = "reviews.py:Reviews"        # or "package.module:Class", or a TFDS name
# config = "en"
# version = "1.0.0"
# num_shards = 16
# manual_dir = "manual/reviews"
# allow_empty = false
# key = "review_id"                     # tells the same example in two versions, for `diff`
# kwargs = {{ language = "en" }}

# What a version must be to be published (docs/statistics.md).
# [datasets.reviews.checks]
# min_examples = {{ train = 1000 }}
# label_balance = 0.1
# max_drift = 0.3
# no_empty = true
# function = "checks.py:my_check"
"""


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "init", "provender init --store gs://our-datasets/provender")(init)
    command(app, "datasets", "provender datasets --all")(datasets)


def init(
    call: Invocation,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a provender.toml that is there.")
    ] = False,
) -> None:
    """Write provender.toml here; make the store and the catalog."""
    from provender.catalog import Catalog
    from provender.settings import FILE_NAME, load_settings
    from provender.store import Store

    file = Path(call.config_file or FILE_NAME).absolute()
    if file.exists() and not force:
        raise SettingsError(
            f"{file.name} is there already.", where=str(file), hint="Overwrite it with --force."
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.part")
    part.write_text(_text(call.store_url or "data", call.catalog_url), encoding="utf-8")
    part.replace(file)
    settings = load_settings(file=file)
    store = Store.open(settings.store, scratch=str(settings.scratch))
    if (root := store.local()) is not None:
        root.mkdir(parents=True, exist_ok=True)
    else:
        store.exists("datasets")
    with Catalog.open(settings.catalog) as catalog:
        where = catalog.url
    if call.json:
        call.out.document({"file": file, "store": settings.store, "catalog": where})
    call.out.pairs([("wrote", str(file)), ("store", settings.store), ("catalog", where)])
    call.out.remark("Next: `provender build digits` builds a small dataset from nothing.")


def _text(store: str, catalog: str | None) -> str:
    setting = f"catalog = {_quoted(catalog)}" if catalog else '# catalog = "data/catalog.db"'
    return _TEMPLATE.format(store=_quoted(store), catalog=setting)


def _quoted(value: str) -> str:
    import json

    # A JSON string is a TOML basic string, but for the one control character that JSON allows.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def datasets(
    call: Invocation,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Also names that were never built: the project's, shipped, and TFDS's."
        ),
    ] = False,
) -> None:
    """List the datasets that have versions."""
    known = call.catalog.datasets()
    others = _unbuilt(call, {each.dataset for each in known}) if every else []
    if call.json:
        call.out.document([*({**_doc(each)} for each in known), *others])
        return
    rows = [
        (
            _name(each),
            each.latest or "",
            str(each.published),
            str(each.trial or ""),
            str(each.retracted or ""),
            time_text(each.created),
            "catalog",
        )
        for each in known
    ]
    rows += [(each["dataset"], "", "", "", "", "", each["source"]) for each in others]
    if not rows:
        call.out.remark("Nothing was built yet. `provender datasets --all` lists what can be.")
        return
    columns = [
        Column("dataset"),
        Column("latest"),
        Column("published", right=True),
        Column("trials", right=True),
        Column("retracted", right=True),
        Column("created (UTC)"),
        Column("known from"),
    ]
    call.out.table(columns, rows)


def _name(record: DatasetRecord) -> str:
    return f"{record.dataset}/{record.config}" if record.config else record.dataset


def _doc(record: DatasetRecord) -> dict[str, Any]:
    from provender.cli.documents import plain

    return {**plain(record), "source": "catalog"}


def _unbuilt(call: Invocation, built: set[str]) -> list[dict[str, Any]]:
    from provender.builders.spec import SHIPPED, registered_names

    sources = dict.fromkeys(registered_names(), "tfds")
    sources.update(dict.fromkeys(SHIPPED, "provender"))
    own = [name for name, entry in call.settings.datasets.items() if entry.builder]
    sources.update(dict.fromkeys(own, "project"))
    return [
        {"dataset": name, "source": source}
        for name, source in sorted(sources.items(), key=lambda each: (each[1] == "tfds", each[0]))
        if name not in built
    ]
