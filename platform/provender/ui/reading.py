"""Everything the pages read, in the portions in which they show it.

The one module of the pages that knows the catalog and the store. Each method costs a bounded
number of queries and returns a bounded number of rows.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from provender.catalog import (
    AliasChange,
    Catalog,
    LineageEdge,
    LineageNode,
    RunRecord,
    StageRecord,
    VersionRecord,
)
from provender.catalog.records import CheckRecord, LeaseRecord
from provender.errors import SettingsError, UnknownReference
from provender.questions import (
    DatasetSummary,
    Input,
    Questions,
    Reading,
    RunDetails,
    SearchHit,
    StageRun,
    VersionDetails,
    VersionSummary,
)
from provender.store import Store
from provender.training.contents import FileFacts, contents_of
from provender.ui.examples import ExamplePage, ExampleReader

if TYPE_CHECKING:
    from provender.questions.diff import ExampleDiff, VersionDiff

T = TypeVar("T")
Direction = Literal["up", "down", "both"]

ROWS = 50
"""Rows of a list on one page."""
STAGES = 150
"""Stages of a run on one page."""
FILES = 200
"""Files of a version on one page."""
EXAMPLES = 12
"""Examples on one page."""
NODES = 400
"""Nodes of a lineage beyond which no further steps are read for one picture."""
CHECKS = 100
"""Checks of a version that are shown."""
LEASES = 50
"""Leases on a version that are shown."""
BESIDE = 100
"""Neighbours of an execution that are named on its page."""
COMPARED_BYTES = 96 << 20
"""Two versions of more bytes together are not read for a comparison."""
LAST_PAGE = 100_000
"""Pages have numbers up to that."""
_NEAR = 5
_PATIENCE = 2.0
_COMPARED = 5_000


@dataclass(frozen=True)
class Page(Generic[T]):
    """A portion of a list.

    Attributes:
        items: what is on it.
        number: which one, from 1.
        more: whether there is a next one.
    """

    items: Sequence[T]
    number: int = 1
    more: bool = False

    @classmethod
    def cut(cls, found: Sequence[T], number: int, rows: int) -> Page[T]:
        """A page of rows of which one more than it shows was asked for."""
        return cls(found[:rows], number, more=len(found) > rows)

    @classmethod
    def of(cls, all_items: Sequence[T], number: int, rows: int) -> Page[T]:
        """A page of a list that is there as a whole."""
        start = (number - 1) * rows
        return cls.cut(all_items[start : start + rows + 1], number, rows)


@dataclass(frozen=True)
class Graph:
    """A piece of the lineage.

    Attributes:
        start: the node it was asked for.
        nodes: all nodes, the start first.
        edges: between them.
        cut: number of nodes after which reading stopped; 0 where it did not.
    """

    start: LineageNode
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    cut: int = 0


class Library:
    """What the pages read. Safe to share between threads.

    Args:
        catalog: the catalog; only ever read.
        store: where versions lie.
    """

    def __init__(self, catalog: Catalog, store: Store) -> None:
        self._ask = Questions(catalog)
        self._catalog = catalog
        self._store = store
        self._examples = ExampleReader(store)
        self._comparing = threading.Lock()

    @property
    def catalog(self) -> Catalog:
        """The catalog itself, for pages that are added to these."""
        return self._catalog

    # Datasets and versions

    def datasets(self, number: int) -> Page[DatasetSummary]:
        """Datasets by name."""
        found = self._catalog.dataset_summaries(limit=ROWS + 1, offset=(number - 1) * ROWS)
        return Page.cut(found, number, ROWS)

    def dataset(self, name: str, config: str) -> DatasetSummary:
        """One dataset.

        Raises:
            UnknownReference: there is none; ``facts["near"]`` has names like it.
        """
        found = self._catalog.dataset_summaries(name, config=config, limit=1)
        if found:
            return found[0]
        configs = self.configs(name)
        if configs:
            known = [f"{name}/{each}" if each else name for each in configs]
            raise unknown(f"{name} has no config {config!r}.", f"{name}/{config}", known)
        names = self._catalog.dataset_names()
        raise unknown(f"There is no dataset {name!r}.", name, names)

    def configs(self, name: str) -> list[str]:
        """The configs of a dataset."""
        return self._catalog.configs(name)

    def versions(self, name: str, config: str, number: int) -> Page[VersionSummary]:
        """Versions of a dataset, newest first, the replaced trials too."""
        found = self._catalog.version_summaries(
            name, config=config, limit=ROWS + 1, offset=(number - 1) * ROWS
        )
        return Page.cut(found, number, ROWS)

    def newest(self, count: int) -> list[VersionSummary]:
        """The newest versions of all datasets."""
        return self._catalog.version_summaries(limit=count)

    def moves(self, name: str, config: str, count: int) -> list[AliasChange]:
        """The last moves of a dataset's aliases, newest first."""
        return self._catalog.alias_history(name, config)[:count]

    def version(self, id: str) -> VersionRecord:
        """One version, by its id.

        Raises:
            UnknownReference: there is none.
        """
        return self._catalog.version_by_id(id)

    def find(self, text: str) -> str:
        """The id of the version that a reference or an id means; retracted ones too.

        Raises:
            UnknownReference: none; the message and ``facts`` say what there is.
        """
        return self._ask.version(text.strip()).id

    def summary(self, id: str) -> VersionSummary:
        """A version as lists show it."""
        return self._ask.version(id).summary

    def details(self, id: str) -> VersionDetails:
        """A version in full.

        Raises:
            UnknownReference: there is none with that id.
        """
        return self._ask.version(self.version(id).id)

    def successor(self, version: VersionRecord) -> VersionSummary | None:
        """The version to use instead, or None."""
        if version.successor_id is None:
            return None
        return self._catalog.summaries_by_id([version.successor_id]).get(version.successor_id)

    def before(self, version: VersionRecord) -> VersionSummary | None:
        """The published version of the same dataset that came before this one, or None."""
        found = self._catalog.version_summaries(
            version.dataset,
            config=version.config,
            include=("published",),
            until=version.created,
            limit=1,
        )
        return found[0] if found else None

    def tags(self, version_id: str) -> list[str]:
        """The tags of a version."""
        return [each.tag for each in self._catalog.tags(version_id=version_id, limit=100)]

    def files(self, version: VersionRecord, number: int) -> tuple[Page[FileFacts], int]:
        """The files of a version, and how many there are in all."""
        found = list(contents_of(self._store, version, self._catalog).values())
        return Page.of(found, number, FILES), len(found)

    def statistics(self, version_id: str) -> dict[str, dict[str, Any]]:
        """Split name -> statistics; splits without any are left out."""
        found = self._catalog.statistics(version_id)
        return {split: document for split, document in found.items() if document}

    def examples(
        self, version: VersionRecord, split: str, first: int, count: int = EXAMPLES
    ) -> ExamplePage:
        """Some examples of a split.

        Raises:
            ProvenderError: they cannot be read.
        """
        shards = self._catalog.shards(version.id)
        return self._examples.page(version, shards, split, first, count)

    def image(
        self, version: VersionRecord, split: str, number: int, feature: str, item: int
    ) -> tuple[bytes, str]:
        """An image of an example, and its media type."""
        shards = self._catalog.shards(version.id)
        return self._examples.image(version, shards, split, number, feature, item)

    # Where it came from, who reads it

    def inputs(self, version_id: str, count: int) -> tuple[Page[Input], list[LineageNode]]:
        """What a version was made from: files from outside, and other versions.

        Both as far as its own stages took them in; those versions have inputs of their own.
        """
        near = self._catalog.lineage(version_id, "up", 2)
        own = {edge.parent for edge in near.edges if edge.child == version_id}
        found: dict[tuple[str, str], Input] = {}
        for node in near.nodes:
            kind = node.name.rpartition(":")[2]
            if node.kind == "stage" and node.id in own and kind in ("manual", "download"):
                for each in _inputs_of(self._catalog.stage(node.id)):
                    found.setdefault((each.name, each.digest), each)
        versions = [node for node in near.nodes[1:] if node.kind == "version"]
        return Page.cut(list(found.values()), 1, count), versions[:count]

    def readings(
        self,
        number: int,
        *,
        version_id: str | None = None,
        job: str | None = None,
        rows: int | None = None,
    ) -> Page[Reading]:
        """Reads on record, newest first.

        Raises:
            UnknownReference: a job was asked for that never read anything.
        """
        rows = rows or ROWS
        start = (number - 1) * rows
        found = self._catalog.readings(version_id=version_id, job=job, limit=rows + 1, offset=start)
        if job is not None and not found:
            self._ask.consumed_by(job, limit=1)
        return Page.cut(found, number, rows)

    def lineage(self, id: str, direction: Direction, depth: int) -> Graph:
        """The lineage around a node, at most so many steps away.

        Raises:
            UnknownReference: the catalog knows nothing of that id.
        """
        ways: tuple[Literal["up", "down"], ...] = ("up", "down")
        nodes: dict[str, LineageNode] = {}
        edges: dict[tuple[str, str], LineageEdge] = {}
        cut = 0
        start: LineageNode | None = None
        for way in ways:
            if direction in (way, "both"):
                found = self._catalog.lineage(id, way, depth, enough=NODES)
                cut = cut or (0 if found.whole else len(found.nodes))
                start = start or found.nodes[0]
                nodes.update({node.id: node for node in found.nodes})
                edges.update({(edge.child, edge.parent): edge for edge in found.edges})
        assert start is not None
        return Graph(start, tuple(nodes.values()), tuple(edges.values()), cut)

    # What was done

    def runs(self, number: int, dataset: str | None, config: str | None) -> Page[RunRecord]:
        """Runs, newest first."""
        start = (number - 1) * ROWS
        found = self._catalog.runs(dataset, ROWS + 1, config=config, offset=start)
        return Page.cut(found, number, ROWS)

    def run(self, id: str) -> RunRecord:
        """One run, by its id or the first digits of it."""
        return self._catalog.run(id)

    def run_details(self, id: str) -> RunDetails:
        """One run with all its stages.

        Raises:
            UnknownReference: there is none, or several ids begin so.
        """
        return self._ask.run(id)

    def run_or_none(self, id: str | None) -> RunRecord | None:
        """A run, or None where there is none on record."""
        if id is None:
            return None
        try:
            return self._catalog.run(id)
        except UnknownReference:
            return None

    def checks(self, version: VersionRecord) -> list[CheckRecord]:
        """What checks found when the version was about to be published."""
        if version.run_id is None:
            return []
        found = self._catalog.checks(run_id=version.run_id, limit=CHECKS)
        return [each for each in found if each.version == version.version]

    def leases(self, version_id: str) -> list[LeaseRecord]:
        """Who needs the files of a version right now."""
        return self._catalog.leases(version_id)[:LEASES]

    def beside(self, stage_id: str) -> tuple[list[LineageNode], list[LineageNode]]:
        """What an execution was made from, and what was made from it, one step away."""
        up = self._catalog.lineage(stage_id, "up", 1).nodes[1:]
        down = self._catalog.lineage(stage_id, "down", 1).nodes[1:]
        return list(up[:BESIDE]), list(down[:BESIDE])

    def why(self, stage_id: str) -> StageRun:
        """One execution with its reasons as sentences."""
        return self._ask.why(stage_id)[0]

    def stage(self, id: str) -> StageRecord:
        """One execution, by its id or the first digits of it."""
        return self._catalog.stage(id)

    def search(self, words: str, count: int) -> Page[SearchHit]:
        """Datasets that have all the words, best first."""
        found = self._ask.search(words, limit=count)
        return Page(found, 1, found.more)

    def diff(self, before: VersionRecord, after: VersionRecord) -> VersionDiff:
        """What differs between two versions, by what is on record of them."""
        from provender.questions.diff import diff

        return diff(self._catalog, self._store, before, after)

    def can_compare(self, before: VersionRecord, after: VersionRecord) -> bool:
        """Whether two versions are small enough to be read while a visitor waits."""
        return before.bytes + after.bytes <= COMPARED_BYTES

    def diff_examples(
        self, before: VersionRecord, after: VersionRecord, key: str | None
    ) -> ExampleDiff | None:
        """How the examples of two versions differ; one comparison at a time.

        Args:
            before: the older one, usually.
            after: the newer one.
            key: feature that tells which examples are the same one.

        Raises:
            SettingsError: the versions are too large, or another comparison runs.
            ProvenderError: they cannot be read.
        """
        from provender.questions.diff import diff

        command = f"provender diff {before.name} {after.name} --examples"
        if not self.can_compare(before, after):
            message = "These versions are too large to compare while you wait."
            raise SettingsError(message, hint=f"`{command}` does it in bounded memory.")
        if not self._comparing.acquire(timeout=_PATIENCE):
            message = "Another comparison runs on this server."
            raise SettingsError(message, hint="Try again in a while.")
        try:
            found = diff(self._catalog, self._store, before, after, examples=True, key=key)
        finally:
            self._comparing.release()
        return found.examples

    def near_datasets(self, text: str) -> list[str]:
        """Names of datasets that look like a text."""
        return near(text, self._catalog.dataset_names())

    @property
    def where(self) -> str:
        """Where the catalog is, secrets masked."""
        return self._catalog.url

    def close(self) -> None:
        """Closes the connections."""
        self._catalog.close()


def _inputs_of(stage: StageRecord) -> Iterator[Input]:
    for each in stage.outputs:
        yield Input(stage.stage, each.name, each.digest, each.size)
    files = stage.result.get("files") if stage.stage == "manual" else None
    for name, about in (files or {}).items():
        yield Input("manual", name, str(about.get("sha256", "")), int(about.get("size", 0)))


def near(text: str, names: Sequence[str]) -> list[str]:
    """Names like a text; of very many only those that begin like it are compared."""
    text = text[:200]
    if len(names) > _COMPARED:
        names = [each for each in names if each[:2].lower() == text[:2].lower()][:_COMPARED]
    short = [each for each in names if len(each) <= 200]
    return difflib.get_close_matches(text, short, _NEAR, 0.6)


def unknown(message: str, asked: str, names: Sequence[str]) -> UnknownReference:
    """The error for a name that is not there."""
    like = near(asked, names)
    shown = ", ".join(each[:80] for each in names[:8])
    rest = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    hint = f"There are: {shown}{rest}." if names else "The catalog holds no dataset yet."
    return UnknownReference(message, where=asked[:400], hint=hint, facts={"near": like})
