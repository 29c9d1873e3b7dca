"""``gc`` and ``leases``, and checks, as people run them."""

from __future__ import annotations

import json
import subprocess

import pytest

CHECKS = """
[datasets.tiny]
builder = "sets.py:Tiny"
[datasets.tiny.checks]
min_examples = 100
"""


def test_gc_lists_and_then_removes(project) -> None:
    project.run("build", "sets.py:Tiny", "--max-examples", "3")
    assert "nothing to remove" in project.run("gc").stdout
    listed = project.run("gc", "--grace", "0s").stdout
    assert "tiny:1.0.0 (trial)" in listed and "`provender gc --apply` removes them" in listed
    assert project.json("gc", "--grace", "0s")["applied"] is False
    done = project.run("gc", "--apply", "--grace", "0s").stdout
    assert "removed  version" in done and "freed." in done
    assert project.json("versions") == []
    assert project.json("gc", "--apply", "--grace", "0s")["items"] == []
    assert [each["kind"] for each in project.json("runs")].count("gc") == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--grace", "soon"), "no span of time"),
        (("--apply", "--dry-run"), "not both"),
        (("--keep", "0"), "1 or more"),
    ],
    ids=["span", "both", "keep"],
)
def test_gc_refuses_what_makes_no_sense(built, args, said) -> None:
    assert said in built.run("gc", *args, code=2).stderr


def test_leases_are_shown_while_they_are_held(project) -> None:
    project.run("build", "sets.py:Tiny")
    script = (
        "from provender.catalog import Catalog\n"
        "from provender.settings import load_settings\n"
        "catalog = Catalog.open(load_settings().catalog)\n"
        "version = catalog.versions()[0]\n"
        "lease = catalog.lease(version.id, 'an experiment', wait=30)\n"
        "print('held', flush=True)\n"
        "input()\n"
    )
    command = project.command()[:1]
    holder = subprocess.Popen(
        [*command, "-c", script], cwd=project.folder, env=project.environ, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert holder.stdout.readline() == "held\n"
        shown = project.run("leases").stdout
        assert "tiny:1.0.0" in shown and "an experiment" in shown
        [reader] = project.json("leases", "tiny")["readers"]
        assert (reader["version"], reader["purpose"], reader["pid"]) == (
            "tiny:1.0.0", "an experiment", holder.pid,
        )  # fmt: skip
        assert "an experiment" in project.run("show", "tiny").stdout
        project.run("retract", "tiny:1.0.0", "--reason", "old")
        kept = project.json("gc", "--apply", "--grace", "0s")["items"]
        assert not any(each["kind"] == "version" for each in kept)
    finally:
        holder.communicate("\n", timeout=60)
    assert "Nobody reads" in project.run("leases").stdout
    gone = project.json("gc", "--apply", "--grace", "0s")["items"]
    assert [each["state"] for each in gone if each["kind"] == "version"] == ["removed"]
    assert "files removed" in project.run("show", "tiny:1.0.0").stdout


def test_a_failed_check_blocks_and_is_overridden_with_a_reason(project) -> None:
    file = project.folder / "provender.toml"
    file.write_text(file.read_text() + CHECKS)
    done = project.run("build", "tiny", code=9)
    assert "The version has 25 examples, at least 100 are asked for." in done.stderr
    assert "--allow min_examples" in done.stderr
    assert json.loads(project.run("build", "tiny", "--json", code=9).stdout)["error"]["type"] == (
        "ChecksFailed"
    )
    assert (
        "without a reason" in project.run("build", "tiny", "--allow", "min_examples", code=2).stderr
    )
    why = project.run("why", "tiny").stdout
    assert "min_examples" in why and "failed" in why
    published = project.run(
        "build", "tiny", "--allow", "min_examples", "--reason", "a pilot"
    ).stdout
    assert "1 allowed" in published and "register" in published
    shown = project.run("show", "tiny").stdout
    assert "min_examples" in shown and "a pilot" in shown
    [check] = project.json("show", "tiny")["checks"]
    assert (check["state"], check["allow_reason"]) == ("allowed", "a pilot")
    assert project.json("build", "tiny")["outcome"] == "cached"
    assert [each["outcome"] for each in project.json("runs")][-1] == "blocked"
