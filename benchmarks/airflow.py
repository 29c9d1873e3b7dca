"""What Airflow adds to a build, and what Provender adds to Airflow.

Parse: seconds of CPU to make and serialize the DAGs of 100 datasets, beside 100 DAGs with as many plain
Python tasks. Run: a fully cached run of a dataset of 20 stages by `dag.test`, beside a DAG with the
same tasks that only pass JSON along, and beside `provender build` with nothing to do. CPU seconds of
one process on SQLite; medians. A scheduler adds its own half second a task to both DAGs alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BUILDER = '''
import tensorflow_datasets as tfds


class Lines(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Lines."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(2000), "test": self._generate_examples(200)}

    def _generate_examples(self, count):
        for number in range(count):
            yield number, {"text": f"line {number}"}
'''

PLAIN = '''
import pendulum
from airflow.sdk import DAG, task

NAMES = ("check", "download", "plan", "encode", "join", "write", "register", "publish")

def dag(number):
    """As many tasks as a dataset's DAG, mapped as its are, that only pass JSON along."""
    with DAG(f"plain_{number}", schedule=None, start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
             auto_register=False) as made:
        def step(given=None, unit=None):
            return given

        def units(given=None, count=0):
            return [{"label": str(i)} for i in range(count)]

        first = task(step, task_id="check")()
        fetched = task(step, task_id="download")(first)
        planned = task(units, task_id="plan")(fetched, count=2)
        encoded = task(step, task_id="encode").partial(given=1).expand(unit=planned)
        joined = task(units, task_id="join")(encoded, count=14)
        written = task(step, task_id="write").partial(given=1).expand(unit=joined)
        last = task(step, task_id="publish")(task(step, task_id="register")(first))
        written >> last
    return made
'''

MEASURE = (
    PLAIN
    + """
import json, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
what, dags, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def seconds(work):
    started = time.process_time()
    work()
    return time.process_time() - started

def serialize(made):
    from airflow.serialization.serialized_objects import DagSerialization
    for each in made:
        DagSerialization.serialize_dag(each)

import airflow.serialization.serialized_objects
from provender.orchestration.airflow.factory import build
if what == "parse":
    ours, plain = lambda: list(build(dags).dags.values()), lambda: [dag(i) for i in range(count)]
    ours(), plain()
    print(json.dumps([
        [seconds(ours), seconds(lambda: serialize(ours())), seconds(plain), seconds(lambda: serialize(plain()))]
        for _ in range(3)
    ]))
else:
    made = build(dags).dags["provender_lines"] if what == "ours" else dag(0)
    tasks = len(made.test().get_task_instances())
    print(json.dumps([tasks, *(seconds(made.test) for _ in range(3))]))
"""
)


def measured(what: str, dags: Path, count: int, environ: dict[str, str]) -> list:
    """What one measuring process says."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, what, str(dags), str(count)],
        cwd=environ["HOME"], env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("[")][-1])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=100)
    count = parser.parse_args().datasets
    source = Path(__file__).resolve().parents[1] / "dags" / "provender.py"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        many = "".join(f'[datasets.set{i}]\nbuilder = "b.py:B"\n' for i in range(count))
        one = 'workers = 1\n[datasets.lines]\nbuilder = "b.py:Lines"\nnum_shards = 7\n'
        for place, text in (("many", many), ("one", one)):
            (folder / place / "dags").mkdir(parents=True)
            (folder / place / "dags" / "provender.py").write_text(source.read_text())
            (folder / place / "b.py").write_text(BUILDER)
            (folder / place / "provender.toml").write_text(f'store = "store"\n{text}')
        environ = {
            **os.environ,
            "HOME": name,
            "AIRFLOW_HOME": f"{name}/airflow",
            "AIRFLOW__CORE__DAGS_FOLDER": f"{name}/one/dags",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__OPENLINEAGE__DISABLED": "True",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        }
        # A DAG that is not in the folder has no run.
        (folder / "one" / "dags" / "plain.py").write_text(
            f"# airflow dag\n{PLAIN}\nplain = dag(0)\n"
        )
        migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
        subprocess.run(migrate, cwd=name, env=environ, check=True, capture_output=True)
        rows = measured("parse", folder / "many" / "dags" / "provender.py", count, environ)
        ours, ours_written, plain, plain_written = (
            statistics.median(r) for r in zip(*rows, strict=True)
        )
        print(f"parse of {count} datasets, CPU s           Provender  plain tasks  ratio")
        print(
            f"  made                              {ours:10.2f}  {plain:11.2f}  {ours / plain:5.2f}"
        )
        print(
            f"  made and serialized               {ours_written:10.2f}  {plain_written:11.2f}"
            f"  {ours_written / plain_written:5.2f}"
        )
        dag_file = folder / "one" / "dags" / "provender.py"
        tasks, *spent = measured("ours", dag_file, 1, environ)
        plain_tasks, *plain_spent = measured("plain", dag_file, 1, environ)
        cached, passing = statistics.median(spent), statistics.median(plain_spent)
        build = _build(folder / "one", environ)
        print("\na run with nothing to do, 20 stages        CPU s")
        print(
            f"  dag.test, Provender's tasks       {cached:10.2f}   {tasks / cached:.0f} tasks a CPU second"
        )
        print(
            f"  dag.test, tasks that pass JSON    {passing:10.2f}   {plain_tasks / passing:.0f} tasks"
            f" a CPU second, ratio {cached / passing:.2f}"
        )
        print(
            f"  provender build                   {build:10.2f}   one process, its start included"
        )


def _build(folder: Path, environ: dict[str, str]) -> float:
    """CPU seconds of `provender build` with nothing to do, its start included."""
    found = []
    for _ in range(3):
        before = os.times()
        subprocess.run(
            [sys.executable, "-c", "from provender.cli import main; main()", "build", "lines"],
            cwd=folder, env=environ, check=True, capture_output=True,
        )  # fmt: skip
        after = os.times()
        spent = after.children_user + after.children_system
        found.append(spent - before.children_user - before.children_system)
    return statistics.median(found)


if __name__ == "__main__":
    main()
