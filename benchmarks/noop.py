"""A rerun with nothing to do: a dataset of 20 stages, built again through the console command.

    python benchmarks/noop.py [--runs 10] [--json]

Shows wall and processor seconds (median), how many modules were imported and which heavy packages
are among them, and what the rerun added to the catalog; and the same for ``provender --help``.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from build import PROVENDER, TEXTS, cost_of

SHARDS = 16
STAGES = SHARDS + 4  # download, splits, examples, shards, register
HEAVY = (
    "tensorflow tensorflow_datasets numpy pandas pyarrow alembic gcsfs httpx pydantic rich typer "
    "sqlalchemy psycopg aiohttp"
).split()

COUNT_MODULES = """
import atexit, json, os, sys

def say():
    with open(os.environ["MODULES"], "w") as file:
        json.dump(sorted(sys.modules), file)

atexit.register(say)
from provender.cli import main
main()
"""


def command(*args: str) -> list[str]:
    """The console command of this environment, or the same through the interpreter."""
    script = Path(sys.executable).with_name("provender")
    if script.exists():
        return [str(script), *args]
    return [sys.executable, "-c", "from provender.cli import main; main()", *args]


def timed(args: list[str], runs: int, environ: dict[str, str]) -> dict[str, float]:
    """Median wall and processor seconds of a command that must end well."""
    walls, cpus = [], []
    for _ in range(runs):
        started = time.monotonic()
        process = subprocess.Popen(args, stdout=subprocess.DEVNULL, env=environ)
        _, status, usage = os.wait4(process.pid, 0)
        walls.append(time.monotonic() - started)
        cpus.append(usage.ru_utime + usage.ru_stime)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{args} ended with {process.returncode}")
    return {"wall": statistics.median(walls), "cpu": statistics.median(cpus), "best": min(walls)}


def modules(args: list[str], environ: dict[str, str], place: Path) -> list[str]:
    """The modules that a command has imported when it ends."""
    file = place / "modules.json"
    subprocess.run(
        [sys.executable, "-c", COUNT_MODULES, *args],
        env={**environ, "MODULES": str(file)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return list(json.loads(file.read_text()))


def rows(catalog: Path) -> dict[str, int]:
    """Table -> number of rows."""
    with sqlite3.connect(catalog) as db:
        names = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {n: db.execute(f'SELECT count(*) FROM "{n}"').fetchone()[0] for n in names}


def measure(runs: int) -> dict[str, Any]:
    """Builds once, then again and again."""
    with tempfile.TemporaryDirectory(prefix="provender-bench-") as folder:
        home = Path(folder)
        file = home / "bench_noop.py"
        file.write_text(TEXTS.format(count=5_000))
        (home / "provender.toml").write_text(
            f'store = "store"\n[datasets.bench_text]\nbuilder = "{file}:BenchText"\n'
            f"num_shards = {SHARDS}\n"
        )
        cost_of(PROVENDER, f"{file}:BenchText", str(home), "1")
        environ = {
            **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            "HOME": str(home),
        }
        build = ["build", "bench_text", "--config-file", str(home / "provender.toml")]
        subprocess.run(command(*build), env=environ, stdout=subprocess.DEVNULL, check=True)
        catalog = home / "store/catalog.db"
        before = rows(catalog)
        found = timed(command(*build), runs, environ)
        after = rows(catalog)
        added = {n: (after[n] - before[n]) / runs for n in after if after[n] != before[n]}
        with sqlite3.connect(catalog) as db:
            (shards,) = db.execute("SELECT count(*) FROM shard").fetchone()
        result: dict[str, Any] = {"stages": shards + STAGES - SHARDS, "rows_added": added}
        for name, args, times in (
            ("build", build, found),
            ("--help", ["--help"], timed(command("--help"), runs, environ)),
        ):
            loaded = modules(args, environ, home)
            tops = {each.partition(".")[0] for each in loaded}
            heavy = sorted(tops & set(HEAVY))
            result[name] = {**times, "modules": len(loaded), "heavy": heavy}
        return result


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(args.runs)
    if args.json:
        print(json.dumps(found))
        return
    print(f"{found['stages']} stages; median of {args.runs}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':20}{'wall s':>8}{'best':>7}{'CPU s':>7}{'modules':>9}  heavy packages")
    for name in ("build", "--help"):
        row = found[name]
        print(
            f"provender {name:10}{row['wall']:8.2f}{row['best']:7.2f}{row['cpu']:7.2f}"
            f"{row['modules']:9}  {', '.join(row['heavy']) or 'none'}"
        )
    added = ", ".join(f"{table} {count:g}" for table, count in found["rows_added"].items())
    print(f"catalog rows that one rerun adds: {added or 'none'}")


if __name__ == "__main__":
    main()
