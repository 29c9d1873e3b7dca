from __future__ import annotations

import os
import subprocess

import pytest
from tests.cli.conftest import Project

from provender.cli.faults import user_frame
from provender.errors import BuilderError, DownloadError


def test_unknown_dataset(built: Project) -> None:
    done = built.run("build", "tinny", code=3)
    assert done.stdout == ""
    assert "error: There is no dataset 'tinny'." in done.stderr
    assert "where: tinny" in done.stderr
    assert "next:  Near: tiny" in done.stderr
    assert built.json("show", "tinny", code=3)["error"]["type"] == "UnknownReference"


def test_bad_settings(project: Project) -> None:
    (project.folder / "provender.toml").write_text('stor = "x"\n')
    done = project.run("versions", code=2)
    assert "Did you mean 'store'?" in done.stderr
    (project.folder / "provender.toml").unlink()
    doc = project.json("plan", "sets.py:Tiny", "--workers", "0", code=2)
    assert doc["error"]["where"] == "--workers"
    assert "not both" in project.run("--quiet", "versions", "--verbose", code=2).stderr


def test_a_command_line_that_cannot_be_read(project: Project) -> None:
    done = project.run("runs", "--limit", "none", code=2)
    assert "'none' is not a whole number of 1 or more" in done.stderr
    done = project.run("ui", "--port", "70000", code=2)
    assert "'70000' is not a whole number from 0 to 65535" in done.stderr
    doc = project.json("plan", code=2)
    assert doc["error"]["type"] == "UsageError"
    assert "REF" in doc["error"]["message"]


def test_manual_files_missing(project: Project) -> None:
    done = project.run("build", "sets.py:Manual", "--manual-dir", "here", code=4)
    assert str(project.folder / "here" / "data.csv") in done.stderr
    assert "Register at example.org" in done.stderr


def test_a_broken_builder_is_shown_where_it_broke(project: Project) -> None:
    done = project.run("build", "sets.py:Breaks", code=4)
    assert "no such column" in done.stderr
    line = next(
        i for i, text in enumerate((project.folder / "sets.py").read_text().splitlines(), 1)
        if "raise KeyError" in text
    )  # fmt: skip
    assert f"in:    {project.folder / 'sets.py'}:{line}, in _generate_examples" in done.stderr
    assert 'raise KeyError("no such column")' in done.stderr
    assert "Traceback" not in done.stderr


def test_nobody_reads_any_more(built: Project) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        built.command("versions"), cwd=built.folder, env=built.environ,
        stdout=write, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.parametrize("chained", [False, True])
def test_user_frame_is_the_last_one_outside_libraries(
    chained: bool, tmp_path: os.PathLike[str]
) -> None:
    file = f"{tmp_path}/mine.py"
    source = "import json\ndef rows():\n    return json.loads('{')\n"
    space: dict[str, object] = {}
    with open(file, "w") as out:
        out.write(source)
    exec(compile(source, file, "exec"), space)
    try:
        space["rows"]()  # type: ignore[operator]
    except ValueError as error:
        import traceback

        facts = {} if chained else {"traceback": "".join(traceback.format_exception(error))}
        broken = BuilderError("broke", facts=facts)
        broken.__cause__ = error if chained else None
    assert user_frame(broken) == [f"in:    {file}:3, in rows", "       return json.loads('{')"]
    assert user_frame(DownloadError("x", facts=broken.facts)) == []
