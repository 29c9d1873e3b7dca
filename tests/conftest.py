"""What holds for every test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Read by gcsfs when it is imported: without it every call to a local GCS server first waits for a
# storage-layout request over TLS that no such server answers.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")

# Tests say what is right, not how fast it is: a busy machine fails none of them.
hypothesis.settings.register_profile("provender", deadline=None)
hypothesis.settings.load_profile("provender")


@pytest.fixture(scope="session")
def beam_python() -> str:
    """A Python that has Apache Beam: `make beam-env` sets one up."""
    own = Path(__file__).resolve().parents[1] / ".venv-beam" / "bin" / "python"
    python = os.environ.get("PROVENDER_TEST_BEAM_PYTHON") or str(own)
    if not Path(python).exists():
        pytest.skip("no Python with Apache Beam: `make beam-env`, or PROVENDER_TEST_BEAM_PYTHON")
    return python


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("mounting needs root; the limit on file sizes is tested instead")
    yield folder
    # Lazily: a process that is tested may still hold files open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
