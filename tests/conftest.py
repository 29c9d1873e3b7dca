"""What holds for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Read by gcsfs when it is imported: without it every call to a local GCS server first waits for a
# storage-layout request over TLS that no such server answers.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


@pytest.fixture(scope="session")
def beam_python() -> str:
    """A Python that has Apache Beam: `make beam-env` sets one up."""
    own = Path(__file__).resolve().parents[1] / ".venv-beam" / "bin" / "python"
    python = os.environ.get("PROVENDER_TEST_BEAM_PYTHON") or str(own)
    if not Path(python).exists():
        pytest.skip("no Python with Apache Beam: `make beam-env`, or PROVENDER_TEST_BEAM_PYTHON")
    return python
