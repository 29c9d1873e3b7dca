"""Questions to a large catalog: a million stage executions, three million edges, 100,000 versions.

    python benchmarks/catalog.py [--versions 100000] [--datasets 10000] [--runs 15]
                                 [--only sqlite|postgresql] [--keep FOLDER] [--json FILE]

A catalog is generated, loaded in bulk, and asked through the Python API, on SQLite and on
PostgreSQL. Every version has ten stage executions and thirty edges; it was made from two versions of
the generation before, of which there are fifty, so that a version of the last one has fifty steps
of ancestry behind it. The figures are milliseconds of warm queries, answers turned into Python values
included: the fastest, the median, and the processor time of this process (SQLite works in it,
PostgreSQL does not). On a busy machine the median tells of the others on it; the other two do not. A
plus sign marks the target where one was set.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from provender.catalog import Catalog
from provender.catalog.words import part
from provender.questions import Questions

GENERATIONS = 50
SHARDS = 6
STAGES = SHARDS + 4
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TARGETS = {"latest version": 5, "ancestry, 50 steps": 150, "search": 100}
TOPICS = (
    "reviews news speech birds street signs satellite tiles protein folds legal briefs code "
    "patches chess games weather radar medical notes product titles court rulings song lyrics"
).split()
LICENCES = ("CC-BY 4.0", "CC0 1.0", "Apache 2.0", "MIT", "ODbL 1.0", "research only")
FEATURES = ("text", "label", "image", "audio", "caption", "speaker", "boxes", "tokens", "score")

Row = tuple[Any, ...]
Table = tuple[str, str, Callable[[], Iterator[Row]]]


def identifier(kind: str, number: int) -> str:
    """32 hex digits that look random, so that indexes are as scattered as in life."""
    return hashlib.blake2b(f"{kind}{number}".encode(), digest_size=16).hexdigest()


class World:
    """Everything in the catalog, as a function of its size."""

    def __init__(self, versions: int, datasets: int) -> None:
        self.versions = versions
        self.datasets = min(datasets, versions)
        self.breadth = max(1, versions // GENERATIONS)

    def dataset_name(self, d: int) -> str:
        return f"{TOPICS[d % len(TOPICS)]}_{TOPICS[(d // 7) % len(TOPICS)]}_{d}"

    def number(self, v: int) -> str:
        return f"1.{v // self.datasets}.0"

    def when(self, v: int) -> datetime:
        return EPOCH + timedelta(seconds=200 * v)

    def upstream(self, v: int) -> list[int]:
        """Two versions of the generation before; neighbours share theirs, so that ways meet."""
        generation, place = divmod(v, self.breadth)
        if generation == 0:
            return []
        before = (generation - 1) * self.breadth
        return sorted({before + place, before + (place + v % 3) % self.breadth})

    def stage(self, v: int, s: int) -> str:
        return identifier("stage", v * STAGES + s)

    def keys(self) -> list[str]:
        shards = [f"shards/train/{i:05}" for i in range(SHARDS)]
        return ["download", "splits", "examples/train", *shards, "register"]

    # Rows of each table, in the order of its columns. ------------------------------------------

    def dataset_rows(self) -> Iterator[Row]:
        for d in range(self.datasets):
            yield identifier("dataset", d), self.dataset_name(d), "", self.when(d)

    def run_rows(self) -> Iterator[Row]:
        for v in range(self.versions):
            d = v % self.datasets
            yield (
                *(v + 1, identifier("run", v), "build", self.dataset_name(d), "", self.number(v)),
                *('{"workers":2}', "host~1", 7, "1", "ann", "succeeded", "{}", None),
                *(self.when(v), self.when(v) + timedelta(seconds=90)),
            )

    def version_rows(self) -> Iterator[Row]:
        features = json.dumps({name: {} for name in FEATURES})
        for v in range(self.versions):
            name = self.dataset_name(v % self.datasets)
            info = json.dumps({"dataset_info": {"description": f"About {name}."}})
            yield (
                *(identifier("version", v), identifier("dataset", v % self.datasets)),
                *(self.number(v), identifier("fingerprint", v), "published"),
                *(f"datasets/{name}/{self.number(v)}", f"/store/datasets/{name}/{self.number(v)}"),
                *(features, info, identifier("run", v), self.when(v)),
            )

    def split_rows(self) -> Iterator[Row]:
        for v in range(self.versions):
            for place, (split, examples) in enumerate((("train", 9000 + v % 97), ("test", 1000))):
                yield identifier("version", v), split, place, examples, examples * 100, 3, "{}"

    def stage_rows(self) -> Iterator[Row]:
        keys = self.keys()
        reason = '[{"kind":"first"}]'
        for v in range(self.versions):
            name, run = self.dataset_name(v % self.datasets), identifier("run", v)
            began = self.when(v)
            for s, key in enumerate(keys):
                yield (
                    *(v * STAGES + s + 1, self.stage(v, s), run, name, "", key),
                    *(key.partition("/")[0], identifier("stage fp", v * STAGES + s), "succeeded"),
                    *(reason, "{}", 1, "host~1", 7, "1", began, began + timedelta(seconds=8)),
                )

    def artifact_rows(self) -> Iterator[Row]:
        for v in range(self.versions):
            for s in range(SHARDS):
                yield identifier("artifact", v * SHARDS + s), 1_000_000, self.when(v)

    def output_rows(self) -> Iterator[Row]:
        for v in range(self.versions):
            for s in range(SHARDS):
                digest = identifier("artifact", v * SHARDS + s)
                yield self.stage(v, 3 + s), "shard", 0, digest, "building/x", "t", "shard", "{}"

    def edge_rows(self) -> Iterator[Row]:
        stages = range(3, 3 + SHARDS)
        for v in range(self.versions):
            id = identifier("version", v)
            ids = [self.stage(v, s) for s in range(STAGES)]
            download, splits, examples, register = ids[0], ids[1], ids[2], ids[-1]
            for each in ids:
                yield id, each, "", "version", "stage"
            for s in stages:
                yield ids[s], examples, "", "stage", "stage"
                digest = identifier("artifact", v * SHARDS + s - 3)
                yield register, ids[s], digest, "stage", "stage"
            for s in stages[:4]:
                yield ids[s], download, "", "stage", "stage"
            yield examples, splits, "", "stage", "stage"
            yield splits, download, "", "stage", "stage"
            for other in self.upstream(v):
                yield splits, identifier("version", other), "", "stage", "version"

    def alias_rows(self) -> Iterator[Row]:
        last = self.versions - self.datasets
        for v in range(max(0, last), self.versions):
            place = (identifier("dataset", v % self.datasets), "latest", identifier("version", v))
            yield *place, self.when(v), "ann"

    def history_rows(self) -> Iterator[Row]:
        for v in range(self.versions):
            place = (identifier("dataset", v % self.datasets), "latest", identifier("version", v))
            yield v + 1, *place, self.when(v), "ann", identifier("run", v)

    def reading_rows(self) -> Iterator[Row]:
        for v in range(self.versions):
            yield (
                *(v + 1, identifier("read", v), identifier("version", v), f"train-{v % 5000}"),
                *('["train"]', "host~1", "ann", "{}", self.when(v)),
            )

    def tag_rows(self) -> Iterator[Row]:
        for v in range(0, self.versions, 5):
            yield identifier("version", v), f"reviewed-{v % 50}", self.when(v), "ann"

    def part_rows(self) -> Iterator[Row]:
        seq = 0
        for d in range(self.datasets):
            newest = identifier("version", self.versions - self.datasets + d)
            for field, text in self.texts(d):
                made = part(field, text)
                if made is not None:
                    seq += 1
                    words = (made["digest"], made["text"], made["words"])
                    yield seq, identifier("dataset", d), field, *words, newest, EPOCH

    def texts(self, d: int) -> Iterator[tuple[str, str]]:
        pick = random.Random(d)
        name = self.dataset_name(d)
        yield "name", name
        yield "alias", "latest"
        yield "tag", f"reviewed-{d % 50}"
        for feature in pick.sample(FEATURES, 4):
            yield "feature", feature
        yield from (("split", "train"), ("split", "test"))
        yield "licence", pick.choice(LICENCES)
        yield "url", f"https://data{d % 40}.example.org/{name}.zip"
        yield "job", f"train-{d % 5000}"
        words = " ".join(pick.choices(TOPICS, k=40))
        yield "description", f"The {name} set, number {d}, for training and evaluation: {words}."

    def tables(self) -> list[Table]:
        return [
            ("dataset", "id, name, config, created_at", self.dataset_rows),
            (
                "run",
                "seq, id, kind, dataset, config, version, params, host, pid, process_start, "
                "user_name, outcome, summary, reused_version_id, started_at, finished_at",
                self.run_rows,
            ),
            (
                "version",
                "id, dataset_id, version, fingerprint, status, path, uri, features, info, run_id, "
                "created_at",
                self.version_rows,
            ),
            (
                "split_stat",
                "version_id, split, position, examples, bytes, shards, statistics",
                self.split_rows,
            ),
            (
                "stage_execution",
                "seq, id, run_id, dataset, config, key, stage, fingerprint, state, reason, result, "
                "attempts, host, pid, process_start, started_at, finished_at",
                self.stage_rows,
            ),
            ("artifact", "digest, size, first_seen_at", self.artifact_rows),
            (
                "stage_output",
                "stage_id, name, position, digest, uri, token, kind, facts",
                self.output_rows,
            ),
            ("lineage", "child_id, parent_id, via, child_kind, parent_kind", self.edge_rows),
            ("alias", "dataset_id, name, version_id, set_at, set_by", self.alias_rows),
            (
                "alias_history",
                'seq, dataset_id, name, version_id, at, "by", run_id',
                self.history_rows,
            ),
            (
                "consumption",
                "seq, id, version_id, job, splits, host, user_name, facts, started_at",
                self.reading_rows,
            ),
            ("tag", "version_id, name, set_at, set_by", self.tag_rows),
            (
                "search_part",
                "seq, dataset_id, field, digest, text, words, version_id, noted_at",
                self.part_rows,
            ),
        ]


# Loading. ---------------------------------------------------------------------------------------


def load_sqlite(world: World, path: Path) -> tuple[float, int]:
    """Rows through ``executemany`` in one transaction, indexes dropped and made again after it.

    Returns:
        (seconds, rows).
    """
    Catalog.open(path).close()
    started = time.monotonic()
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA synchronous=OFF")
    conn.execute("PRAGMA foreign_keys=OFF")
    conn.execute("BEGIN")
    made = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN {}"
    indexes = conn.execute(made.format("('index', 'trigger')")).fetchall()
    for kind, name, _ in indexes:
        conn.execute(f"DROP {kind} {name}")
    rows = 0
    for table, columns, generate in world.tables():
        marks = ", ".join("?" * (columns.count(",") + 1))
        statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"
        rows += conn.executemany(statement, map(_sqlite_row, generate())).rowcount
    for _, _, statement in indexes:
        conn.execute(statement)
    conn.execute("INSERT INTO search_index(search_index) VALUES ('rebuild')")
    conn.execute("COMMIT")
    conn.execute("ANALYZE")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()
    return time.monotonic() - started, rows


def _sqlite_row(row: Row) -> Row:
    return tuple(f"{v:%Y-%m-%d %H:%M:%S.%f}" if isinstance(v, datetime) else v for v in row)


def load_postgresql(world: World, url: str) -> tuple[float, int]:
    """Rows through COPY in one transaction, indexes dropped and made again after it.

    Returns:
        (seconds, rows).
    """
    import psycopg

    Catalog.open(url).close()
    started = time.monotonic()
    rows = 0
    with psycopg.connect(url.replace("+psycopg", "")) as conn:
        indexes = conn.execute(
            "SELECT i.indexname, i.indexdef FROM pg_indexes i WHERE i.schemaname = 'public' AND "
            "NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conname = i.indexname)"
        ).fetchall()
        for name, _ in indexes:
            conn.execute(f'DROP INDEX "{name}"')
        for table, columns, generate in world.tables():
            with conn.cursor().copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                for row in generate():
                    copy.write_row(row)
                    rows += 1
        for _, statement in indexes:
            conn.execute(statement)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")
    return time.monotonic() - started, rows


# Asking. ----------------------------------------------------------------------------------------


def questions(world: World, ask: Questions) -> dict[str, Callable[[], Any]]:
    """Name -> question; those of one target share the name up to the comma."""
    d = world.datasets // 3
    name = world.dataset_name(d)
    last = world.versions - world.datasets + d
    deep = identifier("version", world.versions - world.breadth // 2 - 1)
    middle = identifier("version", world.versions // 2)
    run = identifier("run", last)
    noon = world.when(last) - timedelta(hours=1)
    return {
        "latest version": lambda: ask.version(name),
        "version by number": lambda: ask.version(f"{name}:{world.number(last)}"),
        "version by alias": lambda: ask.version(f"{name}@latest"),
        "as of": lambda: ask.as_of(f"{name}@latest", noon),
        "datasets, a page of 100": lambda: ask.datasets(limit=100),
        "versions, the newest 100": lambda: ask.versions(limit=100),
        "versions, of one dataset": lambda: ask.versions(name),
        "ancestry, 50 steps": lambda: ask.lineage(deep, "up", 50),
        "ancestry, all of it": lambda: ask.lineage(deep, "up"),
        "ancestry, 2 steps": lambda: ask.lineage(deep, "up", 2),
        "descendants, 10 steps": lambda: ask.lineage(middle, "down", 10),
        "search, a rare word": lambda: ask.search(name),
        "search, a common word": lambda: ask.search("training"),
        "search, a beginning": lambda: ask.search("sat"),
        "search, two common words": lambda: ask.search("train test"),
        "search, common and rare": lambda: ask.search(f"training chess {d}"),
        "search, nothing": lambda: ask.search("zebrafish"),
        "consumers": lambda: ask.consumers(identifier("version", world.versions - 1)),
        "consumed by": lambda: ask.consumed_by("train-77"),
        "a run with its stages": lambda: ask.run(run),
        "why, of one dataset": lambda: ask.why(name),
        "runs, the newest 100": lambda: ask.runs(limit=100),
        "SQL, v_versions of a dataset": lambda: ask.sql(
            f"SELECT * FROM v_versions WHERE dataset = '{name}'"
        ),
        "SQL, v_lineage of a version": lambda: ask.sql(
            f"SELECT * FROM v_lineage WHERE child_id = '{deep}'"
        ),
    }


def timed(question: Callable[[], Any], runs: int) -> dict[str, float]:
    """Milliseconds of warm runs: fastest, median, processor; and how much the answer holds."""
    answer = question()
    laps, cpu = [], []
    for _ in range(runs):
        began, worked = time.perf_counter(), time.process_time()
        answer = question()
        cpu.append((time.process_time() - worked) * 1000)
        laps.append((time.perf_counter() - began) * 1000)
    held = getattr(answer, "nodes", getattr(answer, "rows", answer))
    return {
        "fastest": min(laps),
        "median": statistics.median(laps),
        "cpu": statistics.median(cpu),
        "found": len(held) if hasattr(held, "__len__") else 1,
    }


def measure(world: World, catalog: Catalog, runs: int) -> dict[str, dict[str, float]]:
    asked = questions(world, Questions(catalog))
    asked["all figures, for monitoring"] = catalog.figures
    return {name: timed(each, runs) for name, each in asked.items()}


@contextlib.contextmanager
def databases(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, str]]:
    found = {}
    with contextlib.ExitStack() as stack:
        if options.only != "postgresql":
            found["sqlite"] = str(folder / "catalog.db")
        if options.only != "sqlite":
            found["postgresql"] = stack.enter_context(_server()).new_database()
        yield found


def _server() -> Any:
    """The PostgreSQL that the tests use."""
    place = Path(__file__).resolve().parents[1] / "tests" / "catalog" / "pg_server.py"
    spec = importlib.util.spec_from_file_location("pg_server", place)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.start()


def size_of(catalog: Catalog, url: str) -> int:
    if "://" not in url:
        return Path(url).stat().st_size
    return int(catalog.sql("SELECT pg_database_size(current_database())").rows[0][0])


def report(world: World, results: dict[str, Any]) -> None:
    print(
        f"{world.versions:,} versions of {world.datasets:,} datasets, "
        f"{world.versions * STAGES:,} stage executions\n"
    )
    for backend, each in results.items():
        loaded = f"{each['rows']:,} rows in {each['seconds']:.0f} s" if each["rows"] else "before"
        print(
            f"{backend}: {each['edges']:,} edges, {each['parts']:,} searchable texts, "
            f"{each['bytes'] / 1e6:,.0f} MB; loaded: {loaded}"
        )
    names = list(next(iter(results.values()))["questions"])
    titles = "".join(f"{b + ': fastest median cpu':>36}" for b in results)
    print(f"\n{'milliseconds':<30}{titles}")
    for name in names:
        cells = ""
        for each in results.values():
            lap = each["questions"][name]
            cells += f"{lap['fastest']:>20.1f}{lap['median']:>8.1f}{lap['cpu']:>8.1f}"
        size = next(iter(results.values()))["questions"][name]["found"]
        target = next((v for k, v in TARGETS.items() if name.startswith(k)), None)
        wanted = f"  + under {target}" if target else ""
        print(f"{name:<30}{cells}  {size:>6,} found{wanted}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--versions", type=int, default=100_000)
    parser.add_argument("--datasets", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--keep", help="leave the SQLite catalog there, or use the one that is")
    parser.add_argument("--json", help="write the figures there, too")
    options = parser.parse_args()
    world = World(options.versions, options.datasets)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="catalog-") as place:
        folder = Path(options.keep or place)
        folder.mkdir(parents=True, exist_ok=True)
        with databases(options, folder) as found:
            for backend, url in found.items():
                if "://" in url:
                    seconds, rows = load_postgresql(world, url)
                elif Path(url).exists():
                    seconds, rows = 0.0, 0
                else:
                    seconds, rows = load_sqlite(world, Path(url))
                with Catalog.open(url) as catalog:
                    counts = catalog.sql(
                        "SELECT (SELECT count(*) FROM lineage), (SELECT count(*) FROM search_part)"
                    ).rows[0]
                    results[backend] = {
                        "seconds": seconds,
                        "rows": rows,
                        "edges": counts[0],
                        "parts": counts[1],
                        "bytes": size_of(catalog, url),
                        "questions": measure(world, catalog, options.runs),
                    }
    report(world, results)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
