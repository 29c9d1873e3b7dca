from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

from tests.cli.conftest import Project

FORBIDDEN = (
    "tensorflow", "tensorflow_datasets", "numpy", "pandas", "fsspec", "pyarrow", "alembic", "httpx",
    "rich", "sqlalchemy.orm", "pydantic",
)  # fmt: skip


def test_plain_output_is_lines_without_control_codes(first_build: tuple[Project, str]) -> None:
    project, said = first_build
    assert "\x1b" not in said
    assert "\r" not in said
    lines = [line.split() for line in said.splitlines()]
    assert ["start", "download", "never", "run", "before"] in lines
    assert any(line[:2] == ["ran", "examples/train"] and "20" in line for line in lines)
    # The parts of a split are told as one.
    assert sum(line[:2] == ["start", "examples/train"] for line in lines) == 1
    assert ["shards/train/00000..00002", "3", "ran", "never", "run", "before"] in lines
    assert "tiny:1.0.0  published" in said
    assert f"path   {project.folder / 'data/datasets/tiny/1.0.0'}" in said
    assert "25 examples (train 20, test 5)" in said


def test_json_output_is_one_document_whatever_the_builder_prints(project: Project) -> None:
    done = project.run("build", "sets.py:Tiny", "--json")
    doc = json.loads(done.stdout)
    assert doc["outcome"] == "succeeded"
    assert doc["splits"] == {"train": 20, "test": 5}
    assert "noise on standard output" in done.stderr
    # And quiet prints the path alone, so that a script can use it.
    assert project.run("build", "tiny", "--quiet").stdout.strip() == doc["path"]


def test_a_build_with_nothing_to_do_loads_nothing_heavy(built: Project) -> None:
    program = (
        "import atexit, sys\nfrom provender.cli import main\n"
        "sys.argv = ['provender', 'build', 'tiny']\n"
        f"atexit.register(lambda: print([m for m in {FORBIDDEN} if m in sys.modules], file=sys.stderr))\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=built.folder, env=built.environ, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stdout
    assert "shards/train/00000..00002  3 hits" in done.stdout
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_plan_and_build_print_the_same_table(built: Project) -> None:
    plan = built.run("plan", "tiny").stdout
    table = plan[plan.index("stage ") : plan.index("Nothing to do")].strip()
    assert table in built.run("build", "tiny").stdout
    each = built.run("plan", "tiny", "--verbose").stdout
    assert "shards/train/00001" in each
    assert ".." not in each
    doc = built.json("plan", "tiny")
    assert doc["done"] is True
    assert [step["state"] for step in doc["steps"]] == ["hit"] * len(doc["steps"])


def test_terminal_output_moves_and_ends_with_the_same_summary(project: Project) -> None:
    code, text = _on_terminal(project, "build", "sets.py:Tiny")
    assert code == 0
    assert "\x1b[2K" in text, "no moving display"
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert re.search(r"ran\s+examples/train\s+━+\s+20 examples", shown)
    assert re.search(r"examples/train\s+ran\s+never run before", shown)
    assert "tiny:1.0.0  published" in shown
    code, text = _on_terminal(project, "build", "tiny")
    assert code == 0
    assert "\x1b[2K" not in text, "a build with nothing to do needs no moving display"
    assert "\x1b[32mhit" in text


def _on_terminal(project: Project, *args: str) -> tuple[int, str]:
    """Runs the program on a pseudo terminal of 100 columns."""
    parent, child = pty.openpty()
    environ = {**project.environ, "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        project.command(*args), cwd=project.folder, env=environ,
        stdin=subprocess.DEVNULL, stdout=child, stderr=child,
    )  # fmt: skip
    os.close(child)
    found = b""
    while True:
        ready, _, _ = select.select([parent], [], [], 120)
        assert ready, "the program hangs"
        try:
            data = os.read(parent, 65536)
        except OSError:  # Linux says so when the other end is closed.
            break
        if not data:
            break
        found += data
    os.close(parent)
    return process.wait(), found.decode(errors="replace")


def test_an_interrupt_says_that_pieces_are_kept(project: Project) -> None:
    process = subprocess.Popen(
        project.command("build", "sets.py:Slow"), cwd=project.folder, env=project.environ,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    for line in process.stdout:
        if line.startswith("start     examples"):
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Finished pieces are kept" in said
    assert "Traceback" not in said
    assert project.json("runs")[0]["outcome"] == "interrupted"


def test_changed_code_is_explained_and_refused(built: Project) -> None:
    refused = built.run("build", "changed.py:Tiny", "--num-shards", "3", code=5)
    assert "_generate_examples" in refused.stderr
    assert "retract tiny:1.0.0" in refused.stderr
    planned = built.json("plan", "changed.py:Tiny", code=5)
    assert planned["conflict"]["type"] == "ConflictError"
    told = built.json("why", "changed.py:Tiny")
    assert told["about"] == "plan"
    assert "_generate_examples" in " ".join(told["stages"][0]["why"])
    assert "hit" not in {stage["state"] for stage in told["stages"]}
    known = built.json("why", "changed.py:Tiny", "download")
    assert [stage["state"] for stage in known["stages"]] == ["hit"]
