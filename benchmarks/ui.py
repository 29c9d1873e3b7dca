"""The web pages over a large catalog: a million stage executions, 100,000 versions.

    python benchmarks/ui.py [--versions 100000] [--datasets 10000] [--runs 15]
                            [--only sqlite|postgresql] [--catalog URL] [--json FILE]

The catalog is the one of `catalog.py`; ``--catalog`` takes one that is loaded
already (``catalog.py --keep`` leaves a SQLite file). The
pages are asked for over HTTP from a server in this process, warm, one after the other; a figure is
the median (and the slowest) in milliseconds until the last byte was there, rendering and transport
included. A plus sign marks the target: 300 ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

import catalog as large
from provender.store import Store
from provender.ui import create_app
from provender.ui.opening import open_read_only

TARGET = 300


def addresses(world: large.World) -> dict[str, str]:
    """Page -> path."""
    d = world.datasets // 3
    name = world.dataset_name(d)
    last = world.versions - world.datasets + d
    id = large.identifier
    deep = id("version", world.versions - world.breadth // 2 - 1)
    before = id("version", last - world.datasets if last >= world.datasets else last)
    middle = id("version", world.versions // 2)
    run, stage = id("run", last), world.stage(last, 4)
    pages = world.datasets // 50
    return {
        "datasets, first page": "/",
        "datasets, last page": f"/?page={max(1, pages)}",
        "a dataset": f"/datasets/{name}",
        "a version": f"/versions/{id('version', last)}",
        "its files": f"/versions/{id('version', last)}/files",
        "its readers": f"/versions/{id('version', last)}/consumers",
        "lineage, up 3": f"/lineage/{deep}?depth=3",
        "lineage, up 12": f"/lineage/{deep}?depth=12",
        "lineage, up 50": f"/lineage/{deep}?depth=50",
        "lineage, both 5": f"/lineage/{middle}?direction=both&depth=5",
        "lineage, down 12": f"/lineage/{middle}?direction=down&depth=12",
        "runs": "/runs",
        "runs, page 200": "/runs?page=200",
        "runs of a dataset": f"/runs?dataset={name}",
        "a run": f"/runs/{run}",
        "a stage": f"/stages/{stage}",
        "difference": f"/diff?a={before}&b={id('version', last)}",
        "search, rare": f"/search?q={name}",
        "search, common": "/search?q=training",
        "search, nothing": "/search?q=zebrafish",
        "jobs": "/jobs",
        "a job": "/jobs?name=train-77",
        "no such dataset": f"/datasets/{name}x",
        "API: datasets": "/api/datasets",
        "API: a version": f"/api/versions/{id('version', last)}",
        "API: lineage, up 12": f"/api/lineage/{deep}?depth=12",
    }


@contextmanager
def server(url: str, folder: Path) -> Iterator[str]:
    """The application on a free port of this process."""
    app = create_app(open_read_only(url), store=Store.open(str(folder)))
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join()


def measure(base: str, world: large.World, runs: int) -> dict[str, tuple[float, float, int, int]]:
    """Page -> (median ms, slowest ms, bytes, status)."""
    found = {}
    with httpx.Client(base_url=base, timeout=120) as client:
        for name, path in addresses(world).items():
            laps = []
            for _ in range(runs + 1):
                began = time.perf_counter()
                answer = client.get(path)
                laps.append((time.perf_counter() - began) * 1000)
            assert answer.status_code == (404 if name.startswith("no such") else 200), (
                path,
                answer,
            )
            found[name] = (
                statistics.median(laps[1:]),
                max(laps[1:]),
                len(answer.content),
                answer.status_code,
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--versions", type=int, default=100_000)
    parser.add_argument("--datasets", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--catalog", help="a catalog that `catalog.py` loaded: file or URL")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    world = large.World(options.versions, options.datasets)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.catalog:
            kind = "postgresql" if options.catalog.startswith("postgresql") else "sqlite"
            with server(options.catalog, folder) as base:
                results[kind] = measure(base, world, options.runs)
        else:
            with large.databases(options, folder) as urls:
                for kind, url in urls.items():
                    if kind == "sqlite":
                        large.load_sqlite(world, Path(url))
                    else:
                        large.load_postgresql(world, url)
                    with server(url, folder) as base:
                        results[kind] = measure(base, world, options.runs)
    kinds = list(results)
    print(f"{options.versions:,} versions, {options.versions * large.STAGES:,} stage executions")
    print(
        f"{'page':<24}"
        + "".join(f"{kind + ', ms':>18}{'slowest':>9}" for kind in kinds)
        + "     KiB"
    )
    for page in results[kinds[0]]:
        cells = ""
        for kind in kinds:
            median, slowest, _, _ = results[kind][page]
            cells += f"{median:>16.1f} {'+' if median < TARGET else '!'}{slowest:>9.1f}"
        print(f"{page:<24}{cells}{results[kinds[0]][page][2] / 1024:>8.0f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
