from __future__ import annotations

import subprocess

import pytest
from tests.cli.conftest import Project


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_every_shell(shell: str, project: Project) -> None:
    environ = {**project.environ, "_PROVENDER_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        project.command(), cwd=project.folder, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "_PROVENDER_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("typed", "offered"), [("ti", ["tiny"]), ("tiny:", ["tiny:1.0.0"]), ("tiny@", ["tiny@latest"])]
)
def test_references_complete_from_the_catalog(
    typed: str, offered: list[str], built: Project
) -> None:
    environ = {
        **built.environ,
        "_PROVENDER_COMPLETE": "complete_bash",
        "COMP_WORDS": f"provender show {typed}",
        "COMP_CWORD": "2",
    }
    program = (
        "import sys\nfrom provender.cli import main\n"
        "try:\n    main()\nfinally:\n    print('tensorflow_datasets' in sys.modules, file=sys.stderr)"
    )
    command = [*built.command()[:2], program]
    done = subprocess.run(command, cwd=built.folder, env=environ, capture_output=True, text=True)
    assert done.stdout.split() == offered
    assert done.stderr.strip().endswith("False")
